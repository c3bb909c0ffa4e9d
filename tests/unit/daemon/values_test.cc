#include "daemon/settings/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ParseEndpoint, TakesAUnixSocketWithAnAbsolutePath) {
  EXPECT_EQ(ParseEndpoint("unix:///run/quarry/csi.sock")->str(), "/run/quarry/csi.sock");
  EXPECT_EQ(ParseEndpoint("unix:////run//csi.sock")->str(), "/run/csi.sock");
  const std::string longest = "/" + std::string(101, 'd') + ".sock";
  ASSERT_EQ(longest.size(), 107U);
  EXPECT_EQ(ParseEndpoint("unix://" + longest)->str(), longest);
}

TEST(ParseEndpoint, RefusesEverythingElse) {
  const std::pair<std::string, const char*> bad[] = {
      {"", "must be unix:///"},
      {"/run/csi.sock", "must be unix:///"},
      {"unix:/run/csi.sock", "must be unix:///"},
      {"unix://run/csi.sock", "must be unix:///"},
      {"tcp://0.0.0.0:10000", "must be unix:///"},
      {"unix:///run/csi", "must be a path that ends in <name>.sock"},
      {"unix:///run/.sock", "must be a path that ends in <name>.sock"},
      {"unix:///run/../csi.sock", "must not contain '.' or '..'"},
      {"unix:///" + std::string(102, 'd') + ".sock",
       "the path of a unix socket must be at most 107 bytes, is 108"},
  };
  for (const auto& [text, message] : bad) {
    const auto parsed = ParseEndpoint(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_THAT(parsed.error().message(), StartsWith(message));
  }
}

TEST(ParseMetricsAddress, TakesAPortOfAnAddressOrASocket) {
  const auto v4 = ParseMetricsAddress("127.0.0.1:9808");
  ASSERT_TRUE(v4.has_value());
  EXPECT_EQ(v4->host, "127.0.0.1");
  EXPECT_EQ(v4->port, 9808);
  EXPECT_FALSE(v4->socket.has_value());
  const auto v6 = ParseMetricsAddress("[::1]:1");
  ASSERT_TRUE(v6.has_value());
  EXPECT_EQ(v6->host, "::1");
  const auto socket = ParseMetricsAddress("unix:///run/quarry/metrics.sock");
  ASSERT_TRUE(socket.has_value());
  EXPECT_EQ(socket->socket->str(), "/run/quarry/metrics.sock");
}

TEST(ParseMetricsAddress, RefusesEverythingElse) {
  for (const char* text : {"", ":9808", "9808", "localhost:9808", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0",
                           "127.0.0.1:65536", "127.0.0.1:x", "::1:9808", "[127.0.0.1]:9808", "[::1]",
                           "unix:///run/metrics", "http://127.0.0.1:9808"}) {
    const auto parsed = ParseMetricsAddress(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(parsed.error().message(), StartsWith("must be "));
  }
}

Result<engine::PoolConfig> Pool(std::string_view text) {
  QUARRY_ASSIGN(const PoolDraft draft, ParsePoolText("--pool", text));
  return ParsePool(draft);
}

TEST(ParsePool, ReadsNameGroupAndReserve) {
  const auto plain = Pool("fast=vg-nvme.0");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->name, "fast");
  EXPECT_EQ(plain->group, "vg-nvme.0");
  EXPECT_EQ(plain->reserve, Bytes{0});
  EXPECT_EQ(Pool("fast=vg0,reserve=10G")->reserve, Bytes{10 * kGiB.value});
}

TEST(ParsePool, ReadsDisksAndShares) {
  const auto pool = Pool("fast=vg0,device=/dev/disk/by-id/a,device=/dev/b,share.raid1=40%,share.linear=25");
  ASSERT_TRUE(pool.has_value()) << pool.error().message();
  ASSERT_EQ(pool->devices.size(), 2U);
  EXPECT_EQ(pool->devices.front(), engine::DeviceRule{.path = "/dev/disk/by-id/a"});
  EXPECT_EQ(pool->shares.at(lvm::VolumeType::kRaid1), 40U);
  EXPECT_EQ(pool->shares.at(lvm::VolumeType::kLinear), 25U);
}

TEST(ParsePool, ReadsThinStores) {
  const auto pool =
      Pool("fast=vg0,store.db=500GiB type=raid1,store.a=1GiB type=striped stripes=3 chunk=1MiB");
  ASSERT_TRUE(pool.has_value()) << pool.error().message();
  ASSERT_EQ(pool->stores.size(), 2U);
  EXPECT_EQ(pool->stores[0].name, "a");
  EXPECT_EQ(pool->stores[0].geometry.data_legs(), 3U);
  EXPECT_EQ(pool->stores[0].chunk, kMiB);
  EXPECT_EQ(pool->stores[1].size, Bytes{500 * kGiB.value});
  EXPECT_EQ(pool->stores[1].geometry.type(), lvm::VolumeType::kRaid1);
  EXPECT_EQ(pool->stores[1].chunk, Bytes{128 * kKiB.value});
  for (const char* bad : {"store.=1GiB",
                          "store.a/b=1GiB",
                          "store.a=",
                          "store.a=0",
                          "store.a=1GiB  type=raid1",
                          "store.a=1GiB type=thin",
                          "store.a=1GiB type=raid1 type=raid1",
                          "store.a=1GiB erase=none",
                          "store.a=1GiB chunk=96KiB",
                          "store.a=1GiB chunk=2MiB",
                          "store.a=1GiB chunk",
                          "store.a=1GiB,store.a=2GiB",
                          "store.a=900T",
                          "store.a=2GiB max=1GiB",
                          "store.a=1GiB max",
                          "store.a=1GiB overcommit=0.5",
                          "store.a=1GiB overcommit=2x",
                          "store.a=1GiB overcommit=nan",
                          "store.a=1GiB warn=70%",
                          "store.a=1GiB overcommit=2 warn=70",
                          "store.a=1GiB overcommit=2 warn=95%",
                          "store.a=1GiB overcommit=2 grow=80%",
                          "store.a=1GiB overcommit=2 refuse=100%",
                          "store.a=1GiB overcommit=2 max=2GiB grow=60%",
                          "store.a=8TiB overcommit=3",
                          "store.a=1GiB max=2GiB max=3GiB"}) {
    const auto refused = Pool(std::string("fast=vg0,") + bad);
    ASSERT_FALSE(refused.has_value()) << bad;
    EXPECT_NE(refused.error().message().find("store"), std::string::npos) << refused.error().message();
  }
}

TEST(ParsePool, ReadsHowThinStoresGrow) {
  const auto pool = Pool(
      "fast=vg0,store.a=1GiB max=2GiB,store.b=1GiB overcommit=2.5 warn=50% refuse=99%,store.c=1GiB "
      "overcommit=3 max=4GiB grow=75%");
  ASSERT_TRUE(pool.has_value()) << pool.error().message();
  EXPECT_EQ(pool->stores[0].most, Bytes{2 * kGiB.value});
  EXPECT_EQ(pool->stores[0].overcommit, 100U);
  EXPECT_EQ(pool->stores[1].most, Bytes{});
  EXPECT_EQ(pool->stores[1].overcommit, 250U);
  EXPECT_EQ(pool->stores[1].warn, 50U);
  EXPECT_EQ(pool->stores[1].refuse, 99U);
  EXPECT_EQ(pool->stores[2].grow, 75U);
}

TEST(ParsePool, ReadsPatternsAndExclusions) {
  const auto pool =
      Pool("fast=vg0,device=/dev/disk/by-id/nvme-*,exclude=/dev/disk/by-id/nvme-X*,exclude=/dev/b");
  ASSERT_TRUE(pool.has_value()) << pool.error().message();
  EXPECT_FALSE(pool->devices.front().IsExplicit());
  ASSERT_EQ(pool->exclude.size(), 2U);
  EXPECT_EQ(pool->exclude.back().path, "/dev/b");
}

TEST(ParseRule, ReadsEveryCondition) {
  const auto rule = ParseRule({"devices[1]",
                               {{"path", "/dev/disk/by-path/pci-*"},
                                {"model", "INTEL*"},
                                {"serial", "PHLN?"},
                                {"transport", "nvme"},
                                {"min-size", "1TiB"},
                                {"max-size", "2TiB"},
                                {"rotational", "false"},
                                {"wipe-ok", "true"}}});
  ASSERT_TRUE(rule.has_value()) << rule.error().message();
  EXPECT_EQ(*rule, (engine::DeviceRule{"/dev/disk/by-path/pci-*", "INTEL*", "PHLN?", "nvme",
                                       Bytes{1024 * kGiB.value}, Bytes{2048 * kGiB.value}, false, true}));
}

TEST(ParseRule, NamesTheKeyThatIsWrong) {
  const std::pair<RuleDraft, const char*> bad[] = {
      {{"devices[1]", {}}, "devices[1]: must have at least one condition"},
      {{"devices[1]", {{"path", "sda"}}}, "devices[1]: must be an absolute path"},
      {{"devices[1]", {{"path", "/dev/nvme*"}}},
       "devices[1]: must be a pattern of links below /dev/disk/by-"},
      {{"devices[1]", {{"path", "sda"}, {"model", "x"}}}, "devices[1]: path: must be an absolute path"},
      {{"devices[2]", {{"modell", "x"}}}, "devices[2]: modell: unknown key; known: path, model"},
      {{"devices[1]", {{"wipe-ok", "true"}}}, "devices[1]: must have at least one condition"},
      {{"devices[1]", {{"model", "x"}, {"wipe-ok", "1"}}}, "devices[1]: wipe-ok: must be one of true, false"},
      {{"devices[2]", {{"model", ""}}}, "devices[2]: model: must not be empty"},
      {{"devices[2]", {{"transport", "pcie"}}}, "devices[2]: transport: must be one of nvme, "},
      {{"exclude[1]", {{"min-size", "1TB"}}}, "exclude[1]: min-size: must be a size"},
      {{"exclude[1]", {{"max-size", "0"}}}, "exclude[1]: max-size: must not be 0"},
      {{"exclude[1]", {{"rotational", "no"}}}, "exclude[1]: rotational: must be one of true, false"},
      {{"devices[3]", {{"min-size", "2G"}, {"max-size", "1G"}}}, "devices[3]: max-size: must not be below"},
  };
  for (const auto& [draft, message] : bad) {
    const auto parsed = ParseRule(draft);
    ASSERT_FALSE(parsed.has_value()) << message;
    EXPECT_THAT(parsed.error().message(), StartsWith(message));
    EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
  }
}

TEST(ParsePool, ReadsLimitsOfInlineVolumes) {
  EXPECT_FALSE(Pool("fast=vg0")->ephemeral.most.has_value());
  EXPECT_TRUE(Pool("fast=vg0")->ephemeral.attributes.contains("type"));
  EXPECT_FALSE(Pool("fast=vg0")->ephemeral.attributes.contains("mkfsoptions"));
  EXPECT_FALSE(Pool("fast=vg0")->ephemeral.attributes.contains("sync"));
  EXPECT_TRUE(Pool("fast=vg0,ephemeral-attributes=size sync")->ephemeral.attributes.contains("sync"));
  EXPECT_EQ(Pool("fast=vg0,ephemeral=off")->ephemeral.most, Bytes{0});
  const auto pool = Pool(
      "fast=vg0,ephemeral=20GiB,ephemeral-total=100GiB,ephemeral-max-count=50,ephemeral-attributes=size "
      "type");
  ASSERT_TRUE(pool.has_value()) << pool.error().message();
  EXPECT_EQ(pool->ephemeral.most, Bytes{20 * kGiB.value});
  EXPECT_EQ(pool->ephemeral.total, Bytes{100 * kGiB.value});
  EXPECT_EQ(pool->ephemeral.most_volumes, 50);
  EXPECT_EQ(pool->ephemeral.attributes, (std::set<std::string>{"size", "type"}));
  EXPECT_TRUE(Pool("fast=vg0,ephemeral-attributes=")->ephemeral.attributes.empty());
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"ephemeral=some", "--pool: ephemeral: must be a size"},
           {"ephemeral-total=0", "--pool: ephemeral-total: must be more than 0"},
           {"ephemeral-max-count=0", "--pool: ephemeral-max-count: must be more than 0"},
           {"ephemeral-attributes=size mkfsoptions",
            "--pool: ephemeral-attributes: must be words out of erase, "}}) {
    const auto refused = Pool("fast=vg0," + text);
    ASSERT_FALSE(refused.has_value()) << text;
    EXPECT_THAT(refused.error().message(), StartsWith(message));
  }
}

TEST(ParsePool, ForeignVolumesAreHiddenUnlessConfigured) {
  EXPECT_FALSE(Pool("fast=vg0")->list_foreign);
  EXPECT_FALSE(Pool("fast=vg0,foreign=hide")->list_foreign);
  EXPECT_TRUE(Pool("fast=vg0,foreign=list")->list_foreign);
}

TEST(ParsePool, NamesTheSourceAndThePartThatIsWrong) {
  const std::pair<const char*, const char*> bad[] = {
      {"", "--pool: must be NAME=VG"},
      {"fast", "--pool: must be NAME=VG"},
      {"fast=vg0,", "--pool: must be NAME=VG"},
      {"fast=vg0,reserve", "--pool: must be NAME=VG"},
      {"=vg0", "--pool: name: must be"},
      {"-x=vg0", "--pool: name: must be"},
      {"fast=", "--pool: vg: must be the name of a volume group, is ''"},
      {"fast=/dev/vg0", "--pool: vg: must be the name of a volume group, is '/dev/vg0'"},
      {"fast=-vg", "--pool: vg: must be"},
      {"fast=..", "--pool: vg: must be"},
      {"fast=vg0,reserve=1X", "--pool: reserve: must be a size"},
      {"fast=vg0,device=sda", "--pool: device: must be an absolute path"},
      {"fast=vg0,device=/dev/sd*", "--pool: device: must be a pattern of links"},
      {"fast=vg0,exclude=", "--pool: exclude: must be an absolute path"},
      {"fast=vg0,share.raid9=1%", "--pool: share.raid9: "},
      {"fast=vg0,share.raid1=101%", "--pool: share.raid1: must be a percentage"},
      {"fast=vg0,share.raid1=%", "--pool: share.raid1: must be a percentage"},
      {"fast=vg0,share.raid1=60%,share.linear=50%", "--pool: the shares add up to 110%"},
      {"fast=vg0,foreign=show", "--pool: foreign: must be 'list' or 'hide'"},
      {"fast=vg0,size=1G",
       "--pool: unknown key 'size'; known: reserve, device, exclude, foreign, share.TYPE, store.NAME, "
       "ephemeral, "
       "ephemeral-total, ephemeral-max-count, ephemeral-attributes"},
  };
  for (const auto& [text, message] : bad) {
    const auto parsed = Pool(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_THAT(parsed.error().message(), StartsWith(message));
  }
}

engine::PoolConfig NamedPool(const std::string& name, const std::string& group) {
  engine::PoolConfig pool;
  pool.name = name;
  pool.group = group;
  return pool;
}

TEST(CheckPools, RefusesTheSameNameOrGroupTwice) {
  EXPECT_TRUE(CheckPools({NamedPool("a", "vg1"), NamedPool("b", "vg2")}).has_value());
  EXPECT_THAT(CheckPools({NamedPool("a", "vg1"), NamedPool("a", "vg2")}).error().message(),
              HasSubstr("'a' is configured twice"));
  EXPECT_THAT(CheckPools({NamedPool("a", "vg1"), NamedPool("b", "vg1")}).error().message(),
              HasSubstr("'a' and 'b' name the same volume group 'vg1'"));
}

}  // namespace
}  // namespace quarry::daemon
