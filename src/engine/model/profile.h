// Volume parameters, parsed once: only here do the strings of a StorageClass or a Mesos profile become a
// Profile. Keys and values are those of docs/configuration.md.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/model/volume_requests.h"
#include "lvm/geometry.h"

namespace quarry::engine {

enum class ErasePolicy { kZero, kDiscard, kNone };
std::string_view EraseName(ErasePolicy policy);

struct Profile {
  std::string pool;
  // type=thin: the volume is in a thin store of the pool, and its bytes have the store's layout. `geometry`
  // is then that of a linear volume, whose sizes it has. `store`: the store's name; empty in a request that
  // names none.
  bool thin = false;
  std::string store = {};
  lvm::Geometry geometry;
  ErasePolicy erase = ErasePolicy::kZero;
  bool skip_sync = false;  // a permission: used only on extents known to be zeroed
  std::string mkfs_options;
  // A permission for copies and snapshots, which is never recorded: a source that is in use is copied from a
  // temporary copy-on-write store of its size.
  bool copy_in_use = false;
  // Parameters in a recorded profile that a later build knows and this build does not.
  std::map<std::string, std::string> unknown = {};

  // "thin", or the name of the geometry's type: the value of the parameter `type`.
  std::string_view TypeName() const { return thin ? kThinType : lvm::TypeName(geometry.type()); }
  static constexpr std::string_view kThinType = "thin";

  // kInvalidArgument names the parameter; unknown keys give it too. Keys under "csi.storage.k8s.io/" are the
  // caller's own and are ignored. Does not check that the pool exists.
  static Result<Profile> Parse(const Parameters& parameters, std::string_view default_pool);

  // The parameters of something that is made from a volume with the profile `base`: what is missing is as in
  // `base`. But with a type, nothing else of the geometry is. Errors as Parse.
  static Result<Profile> ParseOver(const Parameters& parameters, const Profile& base);

  // Every parameter with its value, defaults filled in, one "key=value" a line, keys sorted. Equal texts mean
  // equal profiles. Builds that know more parameters write more lines, so only Difference() may compare texts
  // of different builds.
  std::string Canonical() const;
  // Missing parameters get their defaults; parameters that this build does not know are kept. kCorrupt if a
  // known parameter has an unknown value.
  static Result<Profile> FromCanonical(std::string_view text);
};

// "parameter 'type' is raid1, was raid5": the first difference in meaning between a recorded canonical text
// and a request; nullopt if there is none. Parameters that this build does not know are no difference,
// because no caller can ask this build for them.
std::optional<std::string> Difference(std::string_view existing, const Profile& requested);

}  // namespace quarry::engine
