#include "ctl/holders_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lvm/names.h"
#include "tests/unit/engine/group_builder.h"

namespace quarry::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kA = "qaaaaaaaaaaaaaaaaaaaaaaaaaa";

VolumeHolders Held() {
  engine::GroupBuilder builder({100});
  builder.Linear(kA, 0, {Extents{0}, Extents{10}}, lvm::BuildTags(engine::ReadyTags(kA, "db", 10)));
  VolumeHolders held{.volume = builder.Build().records.at(0), .device = dm::Device{}, .holders = {}};
  held.device->minor = 3;
  return held;
}

std::string UserName(uint32_t uid) {
  return uid == 999 ? "postgres" : "";
}

TEST(HoldersPage, AnInactiveVolumeIsHeldByNothing) {
  VolumeHolders held = Held();
  held.device.reset();
  EXPECT_THAT(DrawHolders(held, &UserName), HasSubstr("'db', logical volume "));
  EXPECT_THAT(DrawHolders(held, &UserName), HasSubstr("nothing holds it, it is not active"));
  EXPECT_EQ(nlohmann::json::parse(HoldersJson(held, &UserName))["active"], false);
}

TEST(HoldersPage, AnUnusedVolumeIsHeldByNothing) {
  EXPECT_THAT(DrawHolders(Held(), &UserName), HasSubstr("/dev/dm-3: nothing holds it\n"));
}

TEST(HoldersPage, EveryHolderHasALine) {
  VolumeHolders held = Held();
  held.device->open_count = 2;
  held.holders.mounts = {
      {.device = "dm-3", .target = "/stage", .fs_type = "xfs", .read_only = true},
      {.device = "dm-3", .target = "/data", .fs_type = "xfs", .pid = 7, .process = "nginx"},
      {.device = "dm-3", .target = "/vol", .node = true}};
  held.holders.devices = {{"dm-5", "crypt", "dm-3"}};
  held.holders.swaps = {"/dev/dm-3"};
  held.holders.processes = {{.pid = 12,
                             .uid = 999,
                             .name = "postgres",
                             .command = "postgres -D /data",
                             .container = "container 0123456789ab",
                             .uses = {"works in /data"},
                             .more_uses = 4},
                            {.pid = 13, .uid = 5, .name = "sh", .uses = {"has /data/x open (fd 3)"}}};
  const std::string text = DrawHolders(held, &UserName);
  EXPECT_THAT(text, HasSubstr("open count 2:\n"));
  EXPECT_THAT(text, HasSubstr("  mount    dm-3 at /stage (xfs, read-only)\n"));
  EXPECT_THAT(text, HasSubstr("  mount    dm-3 at /data (xfs), in the mount namespace of pid 7 (nginx)\n"));
  EXPECT_THAT(text, HasSubstr("  mount    dm-3 at /vol (device node)\n"));
  EXPECT_THAT(text, HasSubstr("  device   dm-5 (crypt) on dm-3\n"));
  EXPECT_THAT(text, HasSubstr("  swap     /dev/dm-3\n"));
  EXPECT_THAT(text, HasSubstr("  process  pid 12 (postgres), user postgres, container 0123456789ab\n"
                              "             postgres -D /data\n           - works in /data\n"
                              "           - and 4 more\n"));
  EXPECT_THAT(text, HasSubstr("  process  pid 13 (sh), user 5\n           - has /data/x open (fd 3)\n"));
  EXPECT_THAT(text, Not(HasSubstr("Run quarryctl as root")));
  const auto page = nlohmann::json::parse(HoldersJson(held, &UserName));
  EXPECT_EQ(page["processes"][0]["user"], "postgres");
  EXPECT_EQ(page["mounts"][1]["pid"], 7);
  EXPECT_EQ(page["devices"][0]["holds"], "dm-3");
}

TEST(HoldersPage, AnUnexplainedOpenIsReported) {
  VolumeHolders held = Held();
  held.device->open_count = 1;
  EXPECT_THAT(DrawHolders(held, &UserName), HasSubstr("The kernel counts 1 open, but no process"));
}

TEST(HoldersPage, AnUnfinishedSearchIsReported) {
  VolumeHolders held = Held();
  held.holders.complete = false;
  held.device->open_count = 1;
  EXPECT_THAT(DrawHolders(held, &UserName), HasSubstr("not enough time"));
}

TEST(HoldersPage, ControlCharactersDoNotReachTheTerminal) {
  VolumeHolders held = Held();
  held.holders.processes = {{.pid = 12, .name = "a\x1b[2J", .uses = {"works in /x\ny"}}};
  EXPECT_THAT(DrawHolders(held, &UserName), HasSubstr("(a?[2J)"));
  EXPECT_THAT(DrawHolders(held, &UserName), HasSubstr("works in /x?y\n"));
}

}  // namespace
}  // namespace quarry::ctl
