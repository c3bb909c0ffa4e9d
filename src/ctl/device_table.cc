#include "ctl/device_table.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "ctl/json_text.h"

namespace quarry::ctl {
namespace {

namespace pb = ::quarry::admin::v1;
using Device = pb::ListDevicesResponse::Device;

// '+' in a pool, '*' to be taken, '-' not used.
char SignOf(const Device& device) {
  return device.member() ? '+' : device.wanted() ? '*' : '-';
}

std::string Draw(const Device& device, size_t path_width) {
  const std::string size = HumanBytes(Bytes{static_cast<uint64_t>(device.size_bytes())});
  std::string text =
      fmt::format("{} {:<{}}  {:>11}  {:<7}  {}\n", SignOf(device), device.path(), path_width, size,
                  device.transport(), device.identity().empty() ? "(no identity)" : device.identity());
  text += fmt::format("      {}", device.reason());
  if (!device.holds().empty() && device.holds() != "nothing" &&
      device.reason().find(device.holds()) == std::string::npos) {
    text += fmt::format("; holds {}", device.holds());
  }
  return text +
         (device.rule().empty() ? "\n" : fmt::format("  [pool '{}': {}]\n", device.pool(), device.rule()));
}

template <typename Words>
nlohmann::json List(const Words& words) {
  return nlohmann::json(std::vector<std::string>(words.begin(), words.end()));
}

// Null: the disk was not polled, or reports nothing.
nlohmann::json HealthOf(const Device& device) {
  if (!device.has_health()) {
    return nullptr;
  }
  const pb::DiskHealth& health = device.health();
  return {{"critical_warning", health.critical_warning()},
          {"available_spare_percent", health.available_spare_percent()},
          {"spare_threshold_percent", health.spare_threshold_percent()},
          {"percentage_used", health.percentage_used()},
          {"temperature_celsius", health.temperature_celsius()},
          {"media_errors", health.media_errors()},
          {"unsafe_shutdowns", health.unsafe_shutdowns()},
          {"deallocated_is_zero", health.deallocated_is_zero()},
          {"write_granularity_bytes", health.write_granularity_bytes()},
          {"discard_granularity_bytes", health.discard_granularity_bytes()}};
}

}  // namespace

std::string DrawDevices(const pb::ListDevicesResponse& devices) {
  size_t width = 0;
  for (const Device& device : devices.devices()) {
    width = std::max(width, device.path().size());
  }
  std::string text;
  for (const Device& device : devices.devices()) {
    text += Draw(device, width);
  }
  return text + "+ in a pool   * to be taken   - not used\n";
}

std::string DevicesJson(const pb::ListDevicesResponse& devices) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Device& device : devices.devices()) {
    rows.push_back({{"path", device.path()},
                    {"identity", device.identity()},
                    {"model", device.model()},
                    {"serial", device.serial()},
                    {"transport", device.transport()},
                    {"size_bytes", device.size_bytes()},
                    {"rotational", device.rotational()},
                    {"logical_block_bytes", device.logical_block_bytes()},
                    {"physical_block_bytes", device.physical_block_bytes()},
                    {"links", List(device.links())},
                    {"partitions", List(device.partitions())},
                    {"holders", List(device.holders())},
                    {"pv_uuid", device.pv_uuid()},
                    {"holds", device.holds()},
                    {"pool", device.pool()},
                    {"rule", device.rule()},
                    {"member", device.member()},
                    {"wanted", device.wanted()},
                    {"reason", device.reason()},
                    {"health", HealthOf(device)}});
    if (device.has_failed_commands()) {
      rows.back()["failed_commands"] = device.failed_commands();
    }
  }
  return JsonLine(rows);
}

}  // namespace quarry::ctl
