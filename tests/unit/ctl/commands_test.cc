#include "ctl/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace quarry::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

engine::DeviceReport Disk(const std::string& node, bool member, bool wanted) {
  engine::DeviceReport report;
  report.disk.node = node;
  report.disk.model = "Model";
  report.disk.size = kGiB;
  report.pool = member || wanted ? "main" : "";
  report.rule = wanted ? "transport=nvme" : "";
  report.member = member;
  report.wanted = wanted;
  report.words = "words of " + node;
  return report;
}

TEST(DiskPlan, ListsDisksThatWouldJoinAndReasonsForTheRest) {
  const std::vector<engine::PoolConfig> pools = {{.name = "main", .group = "vg"}};
  const std::vector<engine::DeviceReport> disks = {Disk("/dev/a", true, false), Disk("/dev/b", false, true),
                                                   Disk("/dev/c", false, false)};
  const std::string text = DiskPlan(disks, pools, false);
  EXPECT_THAT(text, HasSubstr("/dev/b (Model , 1 GiB) would join volume group vg of pool 'main', by the rule "
                              "transport=nvme\n"));
  EXPECT_THAT(text, HasSubstr("/dev/c would not be used: words of /dev/c\n"));
  EXPECT_THAT(text, Not(HasSubstr("/dev/a")));
  const auto rows = nlohmann::json::parse(DiskPlan(disks, pools, true));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["volume_group"], "vg");
  EXPECT_THAT(DiskPlan({Disk("/dev/b", false, true)}, pools, false), HasSubstr("for a new volume group vg"));
  EXPECT_THAT(DiskPlan({}, pools, false), HasSubstr("no disk would be used"));
}

}  // namespace
}  // namespace quarry::ctl
