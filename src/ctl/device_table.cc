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
    rows.push_back(AsJson(device));
    if (!device.has_health()) {
      rows.back()["health"] = nullptr;  // the disk was not polled, or reports nothing
    }
  }
  return JsonLine(rows);
}

}  // namespace quarry::ctl
