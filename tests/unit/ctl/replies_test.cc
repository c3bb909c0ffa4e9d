#include "ctl/replies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace quarry::ctl {
namespace {

namespace pb = ::quarry::admin::v1;
using ::testing::AllOf;
using ::testing::HasSubstr;

quarry::admin::v1::ListDevicesResponse ThreeDisks() {
  quarry::admin::v1::ListDevicesResponse devices;
  auto& member = *devices.add_devices();
  member.set_path("/dev/nvme10n1");
  member.set_identity("eui.1");
  member.set_transport("nvme");
  member.set_size_bytes(int64_t{1} << 40);
  member.set_holds("LVM physical volume of vg");
  member.set_pool("p");
  member.set_rule("transport=nvme");
  member.set_member(true);
  member.set_reason("in pool 'p'");
  auto& health = *member.mutable_health();
  health.set_critical_warning(4);
  health.set_available_spare_percent(90);
  health.set_percentage_used(120);
  health.set_temperature_celsius(-3);
  health.set_write_granularity_bytes(4096);
  member.add_links("/dev/disk/by-id/nvme-eui.1");
  auto& wanted = *devices.add_devices();
  wanted.set_path("/dev/sda");
  wanted.set_transport("sata");
  wanted.set_holds("nothing");
  wanted.set_pool("p");
  wanted.set_rule("model=*");
  wanted.set_wanted(true);
  wanted.set_reason("blank and unused: for pool 'p'");
  auto& left = *devices.add_devices();
  left.set_path("/dev/sdb");
  left.set_transport("usb");
  left.set_holds("ext4");
  left.set_reason("not blank, holds ext4");
  return devices;
}

TEST(DeviceTable, DescribesEachDiskAndWhyItIsOrIsNotInAPool) {
  EXPECT_EQ(DrawDevices(ThreeDisks()),
            "+ /dev/nvme10n1        1 TiB  nvme     eui.1\n"
            "      in pool 'p'; holds LVM physical volume of vg  [pool 'p': transport=nvme]\n"
            "* /dev/sda               0 B  sata     (no identity)\n"
            "      blank and unused: for pool 'p'  [pool 'p': model=*]\n"
            "- /dev/sdb               0 B  usb      (no identity)\n"
            "      not blank, holds ext4\n"
            "+ in a pool   * to be taken   - not used\n");
}

TEST(DeviceTable, TheJsonDocumentHasAllThatIsKnown) {
  const auto rows = nlohmann::json::parse(DevicesJson(ThreeDisks()));
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0]["size_bytes"], int64_t{1} << 40);
  EXPECT_EQ(rows[0]["links"][0], "/dev/disk/by-id/nvme-eui.1");
  EXPECT_EQ(rows[0]["member"], true);
  EXPECT_EQ(rows[1]["wanted"], true);
  const nlohmann::json& health = rows[0]["health"];
  EXPECT_EQ(health["critical_warning"], 4);
  EXPECT_EQ(health["available_spare_percent"], 90);
  EXPECT_EQ(health["percentage_used"], 120);
  EXPECT_EQ(health["temperature_celsius"], -3);
  EXPECT_EQ(health["write_granularity_bytes"], 4096);
  EXPECT_EQ(health.size(), 12U) << "a field of the message is not shown";
  EXPECT_TRUE(rows[1]["health"].is_null()) << "nothing is known of it";
  EXPECT_EQ(rows[2]["reason"], "not blank, holds ext4");
  EXPECT_EQ(rows[0].size(), 20U) << "a field of the message is not shown";
}

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
  pool.set_zeroed_bytes(int64_t{2} << 30);
  pool.set_zeroing_bytes(int64_t{1} << 29);
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
  EXPECT_THAT(page, HasSubstr("pool main (volume group vg): 3 GiB of 8 GiB free (2 GiB zeroed), 512 MiB "
                              "being zeroed, 1 GiB being erased"));
  EXPECT_THAT(page,
              AllOf(HasSubstr("/nowhere/nvme0n1"), HasSubstr("missing"), HasSubstr("uuid-of-the-lost")));
  EXPECT_THAT(page, AllOf(HasSubstr("disk    failing"), HasSubstr("          it takes no more writes\n")));
  EXPECT_THAT(page, AllOf(HasSubstr("repairing database"), HasSubstr("[##########          ] 50 %"),
                          HasSubstr("a leg is being rebuilt")));
  EXPECT_THAT(page, HasSubstr("          being checked\n"));
}

TEST(StatusPage, ShowsThinStores) {
  pb::GetStatusResponse status;
  auto& pool = *status.add_pools();
  auto& store = *pool.add_stores();
  store.set_name("fast");
  store.set_mode("rw");
  store.set_size_bytes(int64_t{8} << 30);
  store.set_free_bytes(int64_t{3} << 30);
  store.set_store_id("main.qf");
  store.set_detail("data: being checked");
  auto& unmade = *pool.add_stores();
  unmade.set_name("vast");
  unmade.set_mode("not-made");
  unmade.set_problem("no room");
  const std::string page = StatusPage(status);
  EXPECT_THAT(page, HasSubstr("  store   rw        fast                    8 GiB,      3 GiB free   main.qf\n"
                              "          data: being checked\n"));
  EXPECT_THAT(page, HasSubstr("  store   not-made  vast "));
  EXPECT_THAT(page, HasSubstr("\n          no room\n"));
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
