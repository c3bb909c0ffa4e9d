#include "ctl/replies.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace quarry::ctl {
namespace {

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
  EXPECT_EQ(health.size(), 10U) << "a field of the message is not shown";
  EXPECT_TRUE(rows[1]["health"].is_null()) << "nothing is known of it";
  EXPECT_EQ(rows[2]["reason"], "not blank, holds ext4");
  EXPECT_EQ(rows[0].size(), 20U) << "a field of the message is not shown";
}

}  // namespace
}  // namespace quarry::ctl
