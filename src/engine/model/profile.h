// Volume parameters, parsed once: the strings of a StorageClass or a Mesos profile become a Profile here and
// nowhere else. Keys and values are those of docs/configuration.md.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/model/types.h"
#include "lvm/layout.h"

namespace quarry::engine {

enum class ErasePolicy { kZero, kDiscard, kNone };
std::string_view EraseName(ErasePolicy policy);

struct Profile {
  std::string pool;
  lvm::Geometry geometry;
  ErasePolicy erase = ErasePolicy::kZero;
  bool skip_sync = false;  // a permission: used only over extents known to be zero
  std::string mkfs_options;
  // Of a recorded profile: parameters that a later build knows and this one does not.
  std::map<std::string, std::string> unknown = {};

  // kInvalidArgument naming the parameter, for unknown keys too. Keys under "csi.storage.k8s.io/" are the
  // caller's own and ignored. Does not check that the pool exists.
  static Result<Profile> Parse(const Parameters& parameters, std::string_view default_pool);

  // Every parameter with its value, defaults filled in, one "key=value" a line, keys sorted: equal text,
  // equal profile. Builds that know more parameters write more lines: texts of different builds are compared
  // by Difference() only.
  std::string Canonical() const;
  // Parameters that are missing have their defaults, those that this build does not know are kept. kCorrupt
  // if one that it knows has a value that it does not.
  static Result<Profile> FromCanonical(std::string_view text);
};

// "parameter 'type' is raid1, was raid5": the first difference in meaning between a recorded canonical text
// and what is asked for; nullopt if there is none. Parameters that this build does not know make none: nobody
// asks it for such.
std::optional<std::string> Difference(std::string_view existing, const Profile& requested);

}  // namespace quarry::engine
