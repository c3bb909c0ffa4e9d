// Mounts of this node's own, for servers without an orchestrator. A volume has at most one. Tags of its
// logical volume keep the path and the options, so that each start of quarryd mounts it again.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/path.h"
#include "base/result.h"
#include "engine/model/volume_requests.h"

namespace quarry::engine {

struct MountRequest {
  std::string id;
  // nullopt: where it is to be mounted already, with the options of that time; `flags` is then empty.
  std::optional<AbsolutePath> path = {};
  std::vector<std::string> flags = {};  // as of a capability (Capability::mount_flags), also "ro"
};

struct MountResult {
  std::string path;
  bool changed = false;  // false: it was mounted there before, and kept
  dev_t device = 0;      // the volume's; st_dev of its files, except for btrfs
};

struct UnmountResult {
  std::string path;      // empty: it was to be mounted nowhere
  bool changed = false;  // false: it was not mounted, and not kept
};

// What MountKept has done in earlier calls of this process.
struct KeptMounts {
  // Ids that need no mount any more. So a repeated call does not mount again what somebody has unmounted.
  std::set<std::string> done;
  std::set<std::string> failed;  // ids
};

struct Parts;  // calls/parts.h

// All methods may be called from any thread.
class Mounts {
 public:
  // `parts` must outlive this object. A volume of another realm: the error of CheckRealm
  // (model/catalog.h), and MountKept omits it.
  explicit Mounts(Parts& parts, Realm realm = Realm::kVolumes) : parts_(parts), realm_(realm) {}

  // Mounts the volume, and then keeps path and options for later starts; the path without symbolic links.
  // Makes the file system if the volume has none, and the last directory of the path if it does not exist.
  // mkfs goes on when `call` ends: the result is then kUnavailable, and a repeated call waits. kNotFound: no
  // such volume. kPrecondition: it is in use elsewhere, something is mounted at the path or below it, a
  // directory of the path is missing, or `path` is nullopt and nothing is kept. kAlreadyExists: the path is
  // kept for another volume, or it is mounted with other options.
  Result<MountResult> Mount(const MountRequest& request, const Call& call);

  // Unmounts the volume at the path that is kept for it, and forgets the path. `path`: for a volume without a
  // kept path, which a killed Mount may leave behind. The directory stays. kPrecondition: the volume is
  // mounted, but at other paths, or something else is mounted over it. Errors of umount2(2): the path is in
  // use.
  Result<UnmountResult> Unmount(const std::string& id, const std::optional<AbsolutePath>& path,
                                const Call& call);

  // For a start: mounts the volumes of the pool where they are kept, a parent directory before those below
  // it, and those that failed last time after the others. One failure does not stop the others; the error
  // tells all. `past`: of the calls before, for the same pool.
  Status MountKept(const std::string& pool, KeptMounts& past, const Call& call);

 private:
  Parts& parts_;
  const Realm realm_;
};

}  // namespace quarry::engine
