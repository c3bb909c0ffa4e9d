// What an SLRP checkpoints about its disks, so that it knows them after a restart or a reboot.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/result.h"
#include "tests/slrp/plugin.h"

namespace quarry::slrp {

struct Disk {
  std::string name;  // of the operation that made it; empty for a pre-existing disk
  std::string profile;
  Listed volume;  // the requested size, and CreateVolume's context
  bool published = false;
};

// Not thread-safe.
struct Books {
  std::map<std::string, Disk> disks;    // by volume id
  std::map<std::string, Disk> pending;  // operations without an outcome yet, by name; no id
  std::set<std::string> destroyed;      // ids that must not be listed again

  Status Save(const std::string& path) const;
  static Result<Books> Load(const std::string& path);
};

}  // namespace quarry::slrp
