#include "ctl/holders_page.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ctl/json_text.h"

namespace quarry::ctl {
namespace {

using mount::DeviceHolders;

// Names of processes, files and mount points may contain anything, and a terminal acts on control characters.
std::string Clean(std::string text) {
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, '?');
  return text;
}

std::string Line(const mount::HoldingMount& mount) {
  const std::string how = mount.node ? "device node" : mount.fs_type + (mount.read_only ? ", read-only" : "");
  const std::string where = mount.pid == 0 ? ""
                                           : fmt::format(", in the mount namespace of pid {} ({})", mount.pid,
                                                         Clean(mount.process));
  return fmt::format("  mount    {} at {} ({}){}\n", mount.device, Clean(mount.target), how, where);
}

std::string Line(const mount::HoldingDevice& device) {
  return fmt::format("  device   {}{} on {}\n", device.device,
                     device.name.empty() ? "" : fmt::format(" ({})", Clean(device.name)), device.under);
}

std::string Lines(const mount::HoldingProcess& process, const UserName& user_name) {
  const std::string user = user_name(process.uid);
  std::string text = fmt::format("  process  pid {} ({}), user {}{}\n", process.pid, Clean(process.name),
                                 user.empty() ? std::to_string(process.uid) : user,
                                 process.container.empty() ? "" : ", " + Clean(process.container));
  if (!process.command.empty()) {
    text += fmt::format("             {}\n", Clean(process.command));
  }
  for (const std::string& use : process.uses) {
    text += fmt::format("           - {}\n", Clean(use));
  }
  if (process.more_uses > 0) {
    text += fmt::format("           - and {} more\n", process.more_uses);
  }
  return text;
}

std::string Headline(const VolumeHolders& held) {
  return fmt::format("{} ('{}', logical volume {}/{})", engine::InWords(held.volume),
                     held.volume.tags.co_name, held.volume.group->name, held.volume.lv->name);
}

// What explains an open device if the search found nothing.
std::string Unexplained(const dm::Device& device) {
  return fmt::format(
      "  The kernel counts {} open{}, but no process, mount or device that is visible here explains {}. Run "
      "quarryctl as root on the host itself, not in a container.\n",
      device.open_count, device.open_count == 1 ? "" : "s", device.open_count == 1 ? "it" : "them");
}

}  // namespace

std::string DrawHolders(const VolumeHolders& held, const UserName& user_name) {
  if (!held.device.has_value()) {
    return Clean(Headline(held)) + ": nothing holds it, it is not active\n";
  }
  const DeviceHolders& holders = held.holders;
  const std::string device = held.device->Node();
  if (holders.empty() && held.device->open_count == 0) {
    return fmt::format("{}, {}: nothing holds it\n", Clean(Headline(held)), device);
  }
  std::string text =
      fmt::format("{}, {}, open count {}:\n", Clean(Headline(held)), device, held.device->open_count);
  for (const auto& mount : holders.mounts) {
    text += Line(mount);
  }
  for (const auto& one : holders.devices) {
    text += Line(one);
  }
  for (const std::string& swap : holders.swaps) {
    text += fmt::format("  swap     {}\n", swap);
  }
  for (const auto& process : holders.processes) {
    text += Lines(process, user_name);
  }
  if (!holders.unseen_file_system.empty()) {
    text += fmt::format("  Its file system is in use ({}), although no visible process has a mount of it.\n",
                        holders.unseen_file_system);
  }
  if (holders.empty()) {
    text += Unexplained(*held.device);
  }
  if (!holders.complete) {
    text += "  There was not enough time to look at every process.\n";
  }
  return text;
}

std::string HoldersJson(const VolumeHolders& held, const UserName& user_name) {
  using nlohmann::json;
  json page = {{"volume_id", held.volume.tags.id},
               {"name", held.volume.tags.co_name},
               {"pool", held.volume.pool},
               {"volume_group", held.volume.group->name},
               {"logical_volume", held.volume.lv->name},
               {"active", held.device.has_value()},
               {"complete", held.holders.complete},
               {"mounts", json::array()},
               {"devices", json::array()},
               {"swaps", held.holders.swaps},
               {"processes", json::array()},
               {"unseen_file_system", held.holders.unseen_file_system}};
  if (held.device.has_value()) {
    page["device"] = held.device->Node();
    page["open_count"] = held.device->open_count;
  }
  for (const auto& mount : held.holders.mounts) {
    page["mounts"].push_back({{"device", mount.device},
                              {"mount_point", mount.target},
                              {"fs_type", mount.fs_type},
                              {"read_only", mount.read_only},
                              {"device_node", mount.node},
                              {"pid", mount.pid},
                              {"process", mount.process}});
  }
  for (const auto& device : held.holders.devices) {
    page["devices"].push_back({{"device", device.device}, {"name", device.name}, {"holds", device.under}});
  }
  for (const auto& process : held.holders.processes) {
    page["processes"].push_back({{"pid", process.pid},
                                 {"uid", process.uid},
                                 {"user", user_name(process.uid)},
                                 {"name", process.name},
                                 {"command", process.command},
                                 {"container", process.container},
                                 {"uses", process.uses},
                                 {"more_uses", process.more_uses}});
  }
  return JsonLine(page);
}

}  // namespace quarry::ctl
