#include "udev/sysfs_disks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include <fmt/format.h>

namespace quarry::udev {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSysfsSector = 512;  // the unit of "size", whatever the disk's sector size
// SCSI page 80h (unit serial number) begins with four bytes: device type, page code, and two of length. The
// serial number follows as text.
constexpr size_t kPageHeader = 4;

// Kernel names of devices that are made of something else, and our names for them.
constexpr auto kMadeUp = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"dm-", "dm"},
    {"md", "md"},
    {"loop", "loop"},
    {"zram", "zram"},
    {"ram", "ram"},
    {"nbd", "nbd"},
});

std::string Trimmed(std::string text) {
  const std::string_view blanks(" \t\n\r\0", 5);
  const size_t first = text.find_first_not_of(blanks);
  if (first == std::string::npos) {
    return "";
  }
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// A disk's text may contain any bytes.
std::string Plain(std::string text) {
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text;
}

// Empty if the file is absent or cannot be read: the kernel refuses to read the wwid of a SCSI disk that has
// none. An iterator over the stream would throw then.
std::string WholeFile(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Empty if the attribute is absent.
std::string Attribute(const fs::path& path) {
  return Plain(Trimmed(WholeFile(path)));
}

// A decimal number, or a counter of the kernel's SCSI layer: "0x1f".
std::optional<uint64_t> CounterIn(const fs::path& path) {
  const std::string text = Attribute(path);
  uint64_t value = 0;
  const bool hexadecimal = text.starts_with("0x");
  const auto [end, error] = std::from_chars(text.data() + (hexadecimal ? 2 : 0), text.data() + text.size(),
                                            value, hexadecimal ? 16 : 10);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// 0 if the attribute is absent.
uint64_t NumberIn(const fs::path& path) {
  return CounterIn(path).value_or(0);
}

DeviceNumber NumberOf(const std::string& text) {
  DeviceNumber number;
  const size_t colon = text.find(':');
  if (colon != std::string::npos) {
    std::from_chars(text.data(), text.data() + colon, number.major);
    std::from_chars(text.data() + colon + 1, text.data() + text.size(), number.minor);
  }
  return number;
}

std::vector<std::string> NamesIn(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> PartitionsOf(const fs::path& device) {
  std::vector<std::string> names = NamesIn(device);
  std::error_code error;
  std::erase_if(names,
                [&](const std::string& name) { return !fs::exists(device / name / "partition", error); });
  return names;
}

std::string SerialOf(const fs::path& device) {
  for (const char* place : {"serial", "device/serial"}) {
    if (std::string serial = Attribute(device / place); !serial.empty()) {
      return serial;
    }
  }
  const std::string page = WholeFile(device / "device/vpd_pg80");
  return page.size() > kPageHeader ? Plain(Trimmed(page.substr(kPageHeader))) : "";
}

std::string IdentityOf(const fs::path& device, const Disk& disk) {
  for (const char* place : {"wwid", "device/wwid", "dm/uuid"}) {
    if (std::string own = Attribute(device / place); !own.empty()) {
      return own;
    }
  }
  if (disk.serial.empty()) {
    return "";
  }
  return fmt::format("serial:{}{}{}", disk.model, disk.model.empty() ? "" : "_", disk.serial);
}

// The links below /dev/disk, by the node that they point to.
std::multimap<std::string, std::string> LinksBelow(const fs::path& dev) {
  std::multimap<std::string, std::string> links;
  for (const std::string& kind : NamesIn(dev / "disk")) {
    for (const std::string& name : NamesIn(dev / "disk" / kind)) {
      const fs::path link = dev / "disk" / kind / name;
      std::error_code error;
      const fs::path target = fs::read_symlink(link, error);
      if (!error) {
        links.emplace((link.parent_path() / target).lexically_normal(), link);
      }
    }
  }
  return links;
}

Disk ReadDisk(const fs::path& device, const std::string& dev) {
  Disk disk;
  disk.name = device.filename();
  disk.node = dev + "/" + disk.name;
  std::replace(disk.node.begin(), disk.node.end(), '!', '/');  // how sysfs spells subdirectories of /dev
  disk.number = NumberOf(Attribute(device / "dev"));
  disk.model = Attribute(device / "device/model");
  disk.serial = SerialOf(device);
  disk.identity = IdentityOf(device, disk);
  std::error_code error;
  const fs::path place = fs::canonical(device, error);
  disk.transport = TransportOf(disk.name, error ? device.string() : place.string());
  disk.made_up = std::any_of(kMadeUp.begin(), kMadeUp.end(),
                             [&](const auto& kind) { return kind.second == disk.transport; });
  disk.size = Bytes{NumberIn(device / "size") * kSysfsSector};
  disk.logical_block = Bytes{NumberIn(device / "queue/logical_block_size")};
  disk.physical_block = Bytes{NumberIn(device / "queue/physical_block_size")};
  disk.rotational = NumberIn(device / "queue/rotational") != 0;
  disk.read_only = NumberIn(device / "ro") != 0;
  disk.failed_commands = CounterIn(device / "device/ioerr_cnt");
  disk.holders = NamesIn(device / "holders");
  disk.partitions = PartitionsOf(device);
  return disk;
}

}  // namespace

const std::vector<std::string_view>& Transports() {
  static const std::vector<std::string_view> kAll = {"nvme", "sata", "scsi", "usb", "virtio", "mmc",  "dm",
                                                     "md",   "loop", "zram", "ram", "nbd",    "other"};
  return kAll;
}

// The path of a disk may show several transports (a USB bridge speaks SCSI, and so does libata). The disk's
// transport is the one that it is plugged into.
std::string TransportOf(const std::string& name, const std::string& device_path) {
  if (device_path.find("/nvme") != std::string::npos || name.starts_with("nvme")) {
    return "nvme";
  }
  for (const auto& [prefix, transport] : kMadeUp) {
    const bool numbered = name.size() > prefix.size() && name.starts_with(prefix) &&
                          name[prefix.size()] >= '0' && name[prefix.size()] <= '9';
    if (numbered) {
      return std::string(transport);
    }
  }
  constexpr auto kSigns = std::to_array<std::pair<std::string_view, std::string_view>>({
      {"/usb", "usb"},
      {"/ata", "sata"},
      {"/mmc_host/", "mmc"},
      {"/host", "scsi"},
      {"/virtio", "virtio"},
  });
  for (const auto& [sign, transport] : kSigns) {
    if (device_path.find(sign) != std::string::npos) {
      return std::string(transport);
    }
  }
  return "other";
}

bool IsPluggable(std::string_view name) {
  return std::none_of(kMadeUp.begin(), kMadeUp.end(),
                      [&](const auto& kind) { return name.starts_with(kind.first); });
}

Result<std::vector<Disk>> ReadDisks(const SysfsPlaces& places) {
  std::error_code error;
  if (!fs::is_directory(places.sysfs, error)) {
    return ErrnoError(fmt::format("listing {}", places.sysfs), error ? error.value() : ENOTDIR)
        .As(Code::kUnavailable);
  }
  const auto links = LinksBelow(places.dev);
  std::vector<Disk> disks;
  for (const std::string& name : NamesIn(places.sysfs)) {
    const fs::path device = fs::path(places.sysfs) / name;
    // Logical volumes come first in the check: there may be thousands.
    if (Attribute(device / "dm/uuid").starts_with("LVM-") || fs::exists(device / "partition", error) ||
        Attribute(device / "hidden") == "1") {
      continue;
    }
    Disk disk = ReadDisk(device, places.dev);
    if (disk.size.value == 0) {
      continue;
    }
    for (auto [link, end] = links.equal_range(disk.node); link != end; ++link) {
      disk.links.push_back(link->second);
    }
    std::sort(disk.links.begin(), disk.links.end());
    disks.push_back(std::move(disk));
  }
  return disks;
}

}  // namespace quarry::udev
