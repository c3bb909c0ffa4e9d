// Which disks a pool is made of: rules as values, and whether a disk meets a rule. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "udev/udev_api.h"

namespace quarry::engine {

// Every condition that is set must hold. At least one is set.
struct DeviceRule {
  // The disk's device node or one of its links. Text with '*', '?' or '[' is a pattern for fnmatch(3), and
  // matches links below /dev/disk only: the kernel's names change from boot to boot.
  std::string path;
  std::string model, serial;  // fnmatch(3) patterns, case-sensitive; empty: any
  std::string transport;      // one of udev::Transports(); empty: any
  Bytes min_size, max_size;   // 0: no limit; both inclusive
  std::optional<bool> rotational;
  // Not a condition. True: a disk that libblkid calls blank joins even if it does not read as zeroes.
  bool wipe_ok = false;

  // True if the rule is a path without pattern and nothing else: it names one disk, where other rules
  // describe a class of disks.
  bool IsExplicit() const;
  // The rule as an administrator writes it: "/dev/disk/by-id/x", "model=INTEL*, min-size=1 TiB".
  std::string Text() const;
  bool operator==(const DeviceRule&) const = default;
};

// Whether the text contains a character that fnmatch(3) treats as a pattern.
bool IsPattern(const std::string& text);

struct RuleMatch {
  bool meets = false;
  std::string but;  // how the size fails to match, if all else matches; otherwise empty
};
// A virtual disk (dm, md, loop …) meets a rule only if the rule names its transport or is explicit.
RuleMatch Match(const DeviceRule& rule, const udev::Disk& disk);

}  // namespace quarry::engine
