#include "ctl/replies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::ctl {
namespace {

namespace pb = ::quarry::admin::v1;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ProgressBar, IsFullAtTheEndOnly) {
  EXPECT_EQ(ProgressBar(0, 10), "[          ]");
  EXPECT_EQ(ProgressBar(50, 10), "[#####     ]");
  EXPECT_EQ(ProgressBar(99, 10), "[######### ]");
  EXPECT_EQ(ProgressBar(100, 10), "[##########]");
  EXPECT_EQ(ProgressBar(4000, 4), "[####]");
}

TEST(StatusPage, ShowsProblemsAndProgress) {
  pb::GetStatusResponse status;
  auto& pool = *status.add_pools();
  pool.set_name("main");
  pool.set_volume_group("vg");
  pool.set_size_bytes(int64_t{8} << 30);
  pool.set_free_bytes(int64_t{3} << 30);
  pool.set_erase_pending_bytes(int64_t{1} << 30);
  auto& there = *pool.add_disks();
  there.set_device("/nowhere/nvme0n1");
  there.set_state("ok");
  auto& gone = *pool.add_disks();
  gone.set_pv_uuid("uuid-of-the-lost");
  gone.set_state("missing");
  auto& failing = *pool.add_disks();
  failing.set_state("failing");
  failing.set_detail("it takes no more writes");
  auto& rebuilt = *pool.add_volumes();
  rebuilt.set_name("database");
  rebuilt.set_volume_id("main.qa");
  rebuilt.set_type("raid1");
  rebuilt.set_condition("repairing");
  rebuilt.set_detail("a leg is being rebuilt");
  rebuilt.set_percent(50);
  auto& well = *pool.add_volumes();
  well.set_name("cache");
  well.set_condition("healthy");
  well.set_detail("being checked");
  const std::string page = StatusPage(status);
  EXPECT_THAT(page, HasSubstr("pool main (volume group vg): 3 GiB of 8 GiB free, 1 GiB being erased"));
  EXPECT_THAT(page,
              AllOf(HasSubstr("/nowhere/nvme0n1"), HasSubstr("missing"), HasSubstr("uuid-of-the-lost")));
  EXPECT_THAT(page, AllOf(HasSubstr("disk    failing"), HasSubstr("          it takes no more writes\n")));
  EXPECT_THAT(page, AllOf(HasSubstr("repairing database"), HasSubstr("[##########          ] 50 %"),
                          HasSubstr("a leg is being rebuilt")));
  EXPECT_THAT(page, HasSubstr("          being checked\n"));
}

TEST(StatusPage, ShowsTheReasonForAPoolThatCannotBeRead) {
  pb::GetStatusResponse status;
  auto& pool = *status.add_pools();
  pool.set_name("main");
  pool.set_volume_group("vg");
  pool.set_problem("no such group");
  EXPECT_EQ(StatusPage(status), "pool main (volume group vg): no such group\n");
}

}  // namespace
}  // namespace quarry::ctl
