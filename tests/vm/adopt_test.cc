// Unmanaged logical volumes are listed, adopted, used and released, on real LVM. A volume that may not be
// adopted is refused by name, and not a byte of it changes.
#include <algorithm>
#include <filesystem>
#include <thread>

#include "tests/slrp/books.h"
#include "tests/slrp/provider.h"
#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;

constexpr char kMine[] = "/run/quarry-test/mnt/mine";  // where an administrator mounts

class Adopt : public VmTest {
 protected:
  bool StartsQuarryd() const override { return false; }
  void Serve() {
    QuarrydOptions options;
    options.pools = {"main=vg,foreign=list"};
    StartQuarryd(options);
  }

  static void Lvcreate(const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> argv = {
        "lvcreate", "-q", "-y", "-n", name, "--config", "global/thin_check_executable=\"\""};
    if (std::ranges::find(more, "-L") == more.end()) {
      argv.insert(argv.end(), {"-L", "64m"});
    }
    argv.insert(argv.end(), more.begin(), more.end());
    argv.emplace_back(kGroup);
    const Outcome made = Tool(argv);
    ASSERT_TRUE(made.ok()) << made.err;
  }
  static std::string Node(const std::string& name) { return std::string("/dev/") + kGroup + "/" + name; }
  static std::map<std::string, Lv> Lvs() { return group().Lvs().value_or(std::map<std::string, Lv>()); }

  static Outcome Ctl(std::vector<std::string> words) {
    words.insert(words.begin(), "quarryctl");
    words.insert(words.end(), {"--endpoint", kAdminEndpoint});
    return Tool(words);
  }
  // Adopts by quarryctl. Returns the volume as ListVolumes has it.
  v1::Volume MustAdopt(const std::string& name, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"adopt", std::string(kGroup) + "/" + name});
    const Outcome done = Ctl(std::move(more));
    EXPECT_TRUE(done.ok()) << done.err;
    if (!done.ok()) {
      return {};
    }
    EXPECT_THAT(done.out, HasSubstr(std::string("adopted ") + kGroup + "/" + name + " as volume main.f"));
    EXPECT_THAT(Lvs()[name].tags, Contains("quarry.ready"));
    const std::string id = Words(done.out.substr(done.out.find("main.f"))).front();
    return Find(id.substr(0, id.find(':')));
  }
  v1::Volume Find(const std::string& id) {
    const auto listed = client().List();
    EXPECT_OK(listed);
    for (const v1::Volume& volume : listed.value) {
      if (volume.volume_id() == id) {
        return volume;
      }
    }
    ADD_FAILURE() << "no volume '" << id << "' is listed";
    return {};
  }
  void ExpectRefused(const std::string& name, const std::string& words) {
    const Outcome done = Ctl({"adopt", std::string(kGroup) + "/" + name});
    EXPECT_EQ(done.status, 1) << done.out;
    EXPECT_THAT(done.err, HasSubstr(words));
    EXPECT_THAT(Lvs()[name].tags, IsEmpty());
  }
  static void Lvremove(const std::string& name) {
    const Outcome gone = Tool({"lvremove", "-q", "-y", std::string(kGroup) + "/" + name});
    EXPECT_TRUE(gone.ok()) << gone.err;
  }
  static void FillByHand(const std::string& name, uint64_t seed) {
    std::filesystem::create_directories(kMine);
    ASSERT_TRUE(Tool({"mkfs.ext4", "-q", Node(name)}).ok());
    ASSERT_TRUE(Tool({"mount", Node(name), kMine}).ok());
    ASSERT_OK(WritePattern(std::string(kMine) + "/data", seed, 8 << 20));
    ASSERT_TRUE(Tool({"umount", kMine}).ok());
  }
};

TEST_F(Adopt, AnAdoptedFileSystemKeepsItsDataThroughGrowthAndRelease) {
  Lvcreate("data", {"--type", "raid1", "--addtag", "theirs"});
  FillByHand("data", 1);
  Serve();
  const v1::Volume volume = MustAdopt("data", {"--name", "mine"});
  EXPECT_EQ(volume.capacity_bytes(), 64 * kMi);
  EXPECT_THAT(Ctl({"adopt", "vg/data"}).out, HasSubstr("already"));

  const std::string staging = StagingPath("v");
  const std::string target = TargetPath("v");
  ASSERT_OK(client().Stage(volume, staging, MountCapability("ext4")));
  ASSERT_OK(client().Publish(volume, staging, target, MountCapability("ext4")));
  EXPECT_OK(CheckPattern(target + "/data", 1, 8 << 20));
  const Outcome in_use = Ctl({"release", volume.volume_id()});
  EXPECT_EQ(in_use.status, 1);
  EXPECT_THAT(in_use.err, HasSubstr("is in use: mounted at"));
  const auto grown = client().Expand(volume.volume_id(), 96 * kMi);
  ASSERT_OK(grown);
  ASSERT_OK(client().NodeExpand(volume.volume_id(), target, staging, 96 * kMi));
  ASSERT_OK(WritePattern(target + "/more", 2, 60 << 20));
  KillAndRestart();
  ASSERT_OK(client().Unpublish(volume.volume_id(), target));
  ASSERT_OK(client().Unstage(volume.volume_id(), staging));

  ASSERT_TRUE(Ctl({"release", volume.volume_id(), "--dry-run"}).ok());
  EXPECT_THAT(Lvs()["data"].tags, Contains("quarry.ready"));
  const Outcome released = Ctl({"release", volume.volume_id()});
  EXPECT_TRUE(released.ok()) << released.err;
  EXPECT_THAT(released.out, HasSubstr("logical volume vg/data is inactive"));
  EXPECT_THAT(Lvs()["data"].tags, testing::ElementsAre("theirs"));
  EXPECT_TRUE(Ctl({"release", volume.volume_id()}).ok()) << "again";
  ASSERT_TRUE(Tool({"lvchange", "-ay", "vg/data"}).ok());
  ASSERT_TRUE(Tool({"mount", "-o", "ro", Node("data"), kMine}).ok());
  EXPECT_OK(CheckPattern(std::string(kMine) + "/data", 1, 8 << 20));
  EXPECT_OK(CheckPattern(std::string(kMine) + "/more", 2, 60 << 20));
  EXPECT_THAT(Ctl({"adopt", "vg/data"}).err, HasSubstr(std::string("is in use: mounted at ") + kMine));
  ASSERT_TRUE(Tool({"umount", kMine}).ok());

  const v1::Volume again = MustAdopt("data");
  EXPECT_EQ(again.volume_id(), volume.volume_id());
  ASSERT_OK(client().Delete(again.volume_id()));
}

TEST_F(Adopt, BlankVolumesAreFormattedAndRawVolumesAreNot) {
  Lvcreate("blank");
  Lvcreate("raw", {"--type", "striped", "-i", "2", "-I", "16k"});
  ASSERT_OK(WritePattern(Node("raw"), 3, 1 << 20));
  Serve();
  const v1::Volume blank = MustAdopt("blank", {"--fs", "ext4"});
  const std::string staging = StagingPath("b");
  ASSERT_OK(client().Stage(blank, staging, MountCapability("ext4")));
  ASSERT_OK(client().Unstage(blank.volume_id(), staging));
  const v1::Volume raw = MustAdopt("raw");
  EXPECT_TRUE(
      Fails(client().Stage(raw, staging, MountCapability("ext4")), grpc::StatusCode::FAILED_PRECONDITION));
  const std::string target = TargetPath("r");
  ASSERT_OK(client().Stage(raw, staging, BlockCapability()));
  ASSERT_OK(client().Publish(raw, staging, target, BlockCapability()));
  EXPECT_OK(CheckPattern(target, 3, 1 << 20));
  const Outcome published = Ctl({"release", raw.volume_id()});
  EXPECT_EQ(published.status, 1);
  EXPECT_THAT(published.err, HasSubstr("published as a raw device"));
  ASSERT_OK(client().Unpublish(raw.volume_id(), target));
  ASSERT_OK(client().Unstage(raw.volume_id(), staging));
  ASSERT_OK(client().Delete(blank.volume_id()));
  ASSERT_OK(client().Delete(raw.volume_id()));
}

TEST_F(Adopt, UnadoptableVolumesAreRefusedByName) {
  Lvcreate("luks", {"-L", "16m"});
  // A LUKS1 header as far as libblkid reads it: magic, version.
  ASSERT_TRUE(Sh("printf 'LUKS\\272\\276\\000\\001' | dd of=/dev/vg/luks conv=notrunc status=none").ok());
  Lvcreate("swap", {"-L", "16m"});
  ASSERT_TRUE(Tool({"mkswap", Node("swap")}).ok());
  // A DOS table of one partition: at its place type 83, from 2048, 2048 sectors; and the signature.
  Lvcreate("table", {"-L", "16m"});
  ASSERT_TRUE(
      Sh("printf '\\000\\000\\000\\000\\203\\000\\000\\000\\000\\010\\000\\000\\000\\010\\000\\000' | "
         "dd of=/dev/vg/table bs=1 seek=446 conv=notrunc status=none; "
         "printf '\\125\\252' | dd of=/dev/vg/table bs=1 seek=510 conv=notrunc status=none")
          .ok());
  Lvcreate("mounted", {"-L", "16m"});
  std::filesystem::create_directories(kMine);
  ASSERT_TRUE(Tool({"mkfs.ext4", "-q", Node("mounted")}).ok());
  ASSERT_TRUE(Tool({"mount", Node("mounted"), kMine}).ok());
  Lvcreate("origin", {"-L", "16m"});
  const Outcome snapshot = Tool({"lvcreate", "-q", "-y", "-s", "-L", "8m", "-n", "snap", "vg/origin"});
  ASSERT_TRUE(snapshot.ok()) << snapshot.err;
  Lvcreate("tpool", {"--type", "thin-pool", "-L", "32m"});
  const Outcome thin = Tool({"lvcreate", "-q", "-y", "-V", "32m", "-n", "thin", "--thinpool", "vg/tpool",
                             "--config", "global/thin_check_executable=\"\""});
  ASSERT_TRUE(thin.ok()) << thin.err;
  Serve();
  ExpectRefused("luks", "vg/luks holds crypto_LUKS");
  ExpectRefused("swap", "vg/swap holds swap");
  ExpectRefused("table", "vg/table holds dos");
  ExpectRefused("mounted", std::string("vg/mounted is in use: mounted at ") + kMine);
  ExpectRefused("origin", "vg/origin is a pool, or the origin or a snapshot");
  ExpectRefused("snap", "vg/snap is a pool, or the origin or a snapshot");
  ExpectRefused("tpool", "vg/tpool is a pool, or the origin");
  ExpectRefused("thin", "vg/thin is of type thin, which Quarry does not serve");
  ExpectRefused("tpool_tdata", "has no logical volume 'tpool_tdata'");
  EXPECT_EQ(Ctl({"adopt", "vg9/x"}).status, 1);
  EXPECT_EQ(Ctl({"adopt", "vg"}).status, 2) << "the command names no logical volume";

  // Independent volumes are listed. Pools, origins, snapshots and hidden volumes are not.
  const auto listed = client().List();
  ASSERT_OK(listed);
  EXPECT_EQ(listed.value.size(), 5U) << "luks, swap, table, mounted, thin";
  for (const v1::Volume& volume : listed.value) {
    EXPECT_TRUE(Fails(client().Delete(volume.volume_id()), grpc::StatusCode::FAILED_PRECONDITION,
                      "quarryctl adopt vg/"));
  }
  ASSERT_TRUE(Tool({"umount", kMine}).ok());
  for (const char* name : {"thin", "tpool", "snap", "origin", "mounted", "table", "swap", "luks"}) {
    Lvremove(name);
  }
}

TEST_F(Adopt, CsilvmVolumesAreAdoptedInBulk) {
  Lvcreate("csilv1a", {"-L", "16m", "--addtag", "VN.disk-1"});
  Lvcreate("csilv2b", {"-L", "16m", "--addtag", "VN+Y2Fmw6k"});
  Lvcreate("csilv3c", {"-L", "16m", "--addtag", "VN.disk-3"});
  Lvcreate("other", {"-L", "16m"});
  std::filesystem::create_directories(kMine);
  ASSERT_TRUE(Tool({"mkfs.ext4", "-q", Node("csilv3c")}).ok());
  ASSERT_TRUE(Tool({"mount", Node("csilv3c"), kMine}).ok());
  Serve();
  const Outcome dry = Ctl({"adopt", "--csilvm", "vg", "--dry-run"});
  EXPECT_EQ(dry.status, 1);
  EXPECT_THAT(dry.out, HasSubstr("2 of csilvm's volumes could be adopted, 1 refused"));
  EXPECT_THAT(Lvs()["csilv1a"].tags, testing::ElementsAre("VN.disk-1"));
  const Outcome done = Ctl({"adopt", "--csilvm", "vg"});
  EXPECT_EQ(done.status, 1);
  EXPECT_THAT(done.out, HasSubstr("2 of csilvm's volumes adopted, 1 refused"));
  EXPECT_THAT(done.out, HasSubstr("refused vg/csilv3c: logical volume vg/csilv3c is in use"));
  EXPECT_THAT(Lvs()["csilv2b"].tags, IsSupersetOf({"VN+Y2Fmw6k", "quarry.name=caf+C3+A9"}));
  ASSERT_TRUE(Tool({"umount", kMine}).ok());
  const Outcome rest = Ctl({"adopt", "--csilvm", "vg"});
  EXPECT_TRUE(rest.ok()) << rest.out << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("1 of csilvm's volumes adopted, 0 refused"));
  EXPECT_THAT(Lvs()["csilv3c"].tags, Contains("quarry.formatted=ext4"));
  EXPECT_THAT(Lvs()["other"].tags, IsEmpty());
  size_t deleted = 0;
  const auto listed = client().List();
  ASSERT_OK(listed);
  for (const v1::Volume& volume : listed.value) {
    deleted += client().Delete(volume.volume_id()).ok() ? 1 : 0;
  }
  EXPECT_EQ(deleted, 3U) << "the fourth volume is unmanaged";
  Lvremove("other");
}

// An agent of every generation sees the same disk before and after the adoption, and can use it afterwards.
TEST_F(Adopt, AnAgentSeesTheSameDiskBeforeAndAfterAdoption) {
  Lvcreate("data");
  FillByHand("data", 7);
  Serve();
  std::vector<slrp::Listed> before;
  for (const slrp::Api api : {slrp::Api::kV0_1, slrp::Api::kV0, slrp::Api::kV1}) {
    const auto plugin = slrp::Connect(kSocket, api, seconds(120));
    const auto listed = plugin->List();
    ASSERT_TRUE(listed.ok()) << slrp::Words(listed.status);
    ASSERT_EQ(listed.value.volumes.size(), 1U);
    before.push_back(listed.value.volumes.front());
    const auto valid = plugin->Validate(before.back(), {.block = false, .fs_type = "ext4"}, {});
    EXPECT_TRUE(valid.ok()) << slrp::Words(valid.status);
    EXPECT_FALSE(valid.value.confirmed) << "an unmanaged volume is not confirmed";
    EXPECT_EQ(plugin->Delete(before.back().id).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    const auto refused =
        plugin->Publish(before.back(), "", TargetPath("no"), {.block = false, .fs_type = "ext4"});
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION) << slrp::Words(refused);
  }
  const v1::Volume adopted = MustAdopt("data");
  for (const slrp::Generation& generation : slrp::kGenerations) {
    slrp::ProviderOptions options;
    options.generation = generation;
    options.socket = kSocket;
    options.mount_root = "/run/quarry-test/mnt/mesos-" + std::string(generation.name);
    options.prefix = "mesos-" + std::string(generation.name);
    auto text = slrp::ReadFile("/opt/quarry/extra/profiles.json");
    ASSERT_OK(text);
    auto profiles = slrp::ParseProfiles(*text);
    ASSERT_OK(profiles);
    options.profiles = *profiles;
    options.time_scale = 20;
    slrp::Books books;
    slrp::Report report;
    slrp::Provider provider(options, books, report);
    ASSERT_TRUE(provider.Start(false)) << report.Text();
    const std::vector<slrp::Listed> there = provider.PreExisting();
    ASSERT_EQ(there.size(), 1U) << generation.name;
    EXPECT_THAT(before, Contains(there.front())) << "the disk is listed exactly as before";
    EXPECT_TRUE(provider.AdoptDisk(there.front(), "linear-ext4-v1")) << report.Text();
    EXPECT_TRUE(provider.PublishDisk(adopted.volume_id())) << report.Text();
    bool looked_at = false;
    for (const std::string& target : Lines(Tool({"findmnt", "-rn", "-o", "TARGET"}).out)) {
      if (target.starts_with(options.mount_root)) {
        EXPECT_OK(CheckPattern(target + "/data", 7, 8 << 20));
        looked_at = true;
      }
    }
    EXPECT_TRUE(looked_at) << generation.name;
    EXPECT_TRUE(provider.Reconcile()) << report.Text();
    EXPECT_TRUE(provider.UnpublishDisk(adopted.volume_id())) << report.Text();
    if (generation.name == slrp::kGenerations.back().name) {
      EXPECT_TRUE(provider.DestroyDisk(adopted.volume_id())) << report.Text();
    }
    EXPECT_TRUE(report.violations().empty()) << generation.name << ": " << report.Text();
  }
}

TEST_F(Adopt, AKillDuringAdoptionLeavesNothingHalfDone) {
  Serve();
  for (const int pause : {100, 700}) {
    Lvcreate("data");
    FillByHand("data", 9);
    ASSERT_TRUE(Tool({"lvchange", "-an", "vg/data"}).ok());
    ASSERT_TRUE(
        Sh("quarryctl adopt vg/data --endpoint " + std::string(kAdminEndpoint) + " >/dev/null 2>&1 &").ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    KillAndRestart();
    const Outcome done = Ctl({"adopt", "vg/data"});
    ASSERT_TRUE(done.ok()) << done.err;
    const auto listed = client().List();
    ASSERT_EQ(listed.value.size(), 1U);
    const v1::Volume volume = listed.value.front();
    const std::string staging = StagingPath("k");
    ASSERT_OK(client().Stage(volume, staging, MountCapability("ext4")));
    EXPECT_OK(CheckPattern(staging + "/data", 9, 8 << 20));
    ASSERT_OK(client().Unstage(volume.volume_id(), staging));
    ASSERT_OK(client().Delete(volume.volume_id()));
    ASSERT_TRUE(ComesBackEmpty());
  }
}

}  // namespace
}  // namespace quarry::vm
