#include "ctl/replies.h"

#include <algorithm>
#include <filesystem>

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

std::string Human(int64_t bytes) {
  return HumanBytes(Bytes{static_cast<uint64_t>(std::max<int64_t>(bytes, 0))});
}

std::string Headline(const pb::GetStatusResponse::Pool& pool) {
  if (!pool.problem().empty()) {
    return fmt::format("pool {} (volume group {}): {}\n", pool.name(), pool.volume_group(), pool.problem());
  }
  const std::string erasing = pool.erase_pending_bytes() == 0
                                  ? ""
                                  : fmt::format(", {} being erased", Human(pool.erase_pending_bytes()));
  const std::string zeroed =
      pool.zeroed_bytes() == 0 ? "" : fmt::format(" ({} zeroed)", Human(pool.zeroed_bytes()));
  const std::string zeroing =
      pool.zeroing_bytes() == 0 ? "" : fmt::format(", {} being zeroed", Human(pool.zeroing_bytes()));
  return fmt::format("pool {} (volume group {}): {} of {} free{}{}{}\n", pool.name(), pool.volume_group(),
                     Human(pool.free_bytes()), Human(pool.size_bytes()), zeroed, zeroing, erasing);
}

std::string Line(const pb::GetStatusResponse::Disk& disk) {
  const std::string line = fmt::format("  disk    {:<9} {:<18} {:>10}, {:>10} free   {}\n", disk.state(),
                                       DeviceName(disk.device()), Human(disk.size_bytes()),
                                       Human(disk.free_bytes()), disk.pv_uuid());
  const bool both = disk.leaving() && disk.state() == "failing";
  return disk.detail().empty()
             ? line
             : fmt::format("{}          {}{}\n", line, disk.detail(), both ? "; it is being vacated" : "");
}

std::string Line(const pb::GetStatusResponse::Volume& volume) {
  const bool snapshot = !volume.snapshot_of().empty();
  std::string line = fmt::format("  {}{:<{}} {:<18} {:>10}  {:<8} {}\n", snapshot ? "snapshot " : "volume  ",
                                 volume.condition(), snapshot ? 8 : 9, volume.name(),
                                 Human(volume.capacity_bytes()), volume.type(), volume.volume_id());
  if (snapshot) {
    line += fmt::format("          of volume {}\n", volume.snapshot_of());
  }
  if (volume.has_percent()) {
    line += fmt::format("          {} {} %\n", ProgressBar(volume.percent()), volume.percent());
  }
  if (!volume.detail().empty()) {
    line += fmt::format("          {}\n", volume.detail());
  }
  return line;
}

std::string Line(const pb::ThinStore& store) {
  std::string line = fmt::format("  store   {:<9} {:<18} {:>10}, {:>10} free   {}\n", store.mode(),
                                 store.name(), Human(store.size_bytes()), Human(store.free_bytes()),
                                 store.store_id().empty() ? "-" : store.store_id());
  for (const std::string* const words : {&store.problem(), &store.detail()}) {
    line += words->empty() ? "" : fmt::format("          {}\n", *words);
  }
  return line;
}

}  // namespace

std::string DeviceName(const std::string& device) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(device, error);
  return device.empty() ? "-" : error ? device : real.string();
}

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

std::string ProgressBar(uint32_t percent, size_t width) {
  const size_t full = width * std::min<uint32_t>(percent, 100) / 100;
  return fmt::format("[{}{}]", std::string(full, '#'), std::string(width - full, ' '));
}

std::string StatusPage(const pb::GetStatusResponse& status) {
  std::string page;
  for (const auto& pool : status.pools()) {
    page += Headline(pool);
    for (const auto& disk : pool.disks()) {
      page += Line(disk);
    }
    for (const auto& store : pool.stores()) {
      page += Line(store);
    }
    for (const auto& volume : pool.volumes()) {
      page += Line(volume);
    }
  }
  return page;
}

}  // namespace quarry::ctl
