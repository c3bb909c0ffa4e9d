// Which disks a pool is made of: rules as values, and whether a disk meets one. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "udev/udev_api.h"

namespace quarry::engine {

// Every condition that is set must hold. At least one is.
struct DeviceRule {
  // The disk's node or one of its links. With '*', '?' or '[' it is a pattern as of fnmatch(3), of links
  // below /dev/disk only: names of the kernel change from boot to boot.
  std::string path;
  std::string model, serial;  // patterns of the same kind; upper and lower case differ. Empty: any
  std::string transport;      // one of udev::Transports(); empty: any
  Bytes min_size, max_size;   // 0: no limit; both inclusive
  std::optional<bool> rotational;
  // No condition: whether a disk that libblkid calls blank is taken also if it does not read as zeroes.
  bool wipe_ok = false;

  // Nothing but a path that is no pattern: it says "this one", where the others say "such as these".
  bool IsExplicit() const;
  // As an administrator would know it again: "/dev/disk/by-id/x", "model=INTEL*, min-size=1 TiB".
  std::string Text() const;
  bool operator==(const DeviceRule&) const = default;
};

// Whether it holds what fnmatch(3) takes for more than itself.
bool IsPattern(const std::string& text);

struct RuleMatch {
  bool meets = false;
  std::string but;  // it would, but for its size: in words
};
// A made-up disk (dm, md, loop …) meets only a rule that names its transport, or just this device.
RuleMatch Match(const DeviceRule& rule, const udev::Disk& disk);

}  // namespace quarry::engine
