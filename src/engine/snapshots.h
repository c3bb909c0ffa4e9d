// Snapshots of volumes. A snapshot is a full copy on disks of its own, so it survives its volume, and the
// volume is as fast as before. Every call is idempotent, as those of Volumes are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/model/volume.h"
#include "engine/model/volume_requests.h"

namespace quarry::engine {

struct SnapshotResult {
  VolumeSnapshot snapshot;
  bool created = false;  // false: it already existed
};

// What a list of snapshots shows. Empty texts: any.
struct SnapshotFilter {
  std::string id;
  std::string source;  // id of the volume
};

struct SnapshotList {
  std::vector<VolumeSnapshot> snapshots;
  std::string next_token;  // empty: the list is complete
};

struct Parts;  // calls/parts.h

// All methods may be called from any thread.
class Snapshots {
 public:
  // `parts` must outlive this object.
  explicit Snapshots(Parts& parts) : parts_(parts) {}

  // Returns when the snapshot is whole. Copying goes on when `call` ends; until it is done, this call returns
  // kUnavailable and how far it is, and the volume is neither used, grown nor deleted. kPrecondition: the
  // volume is in use. kAlreadyExists: another volume's snapshot has this name. kNotFound: no such volume.
  Result<SnapshotResult> Create(const SnapshotRequest& request, const Call& call);
  // True: it is deleted now; its bytes are erased as those of a volume. False: it did not exist. kBusy: a
  // volume is being made from it.
  Result<bool> Delete(const std::string& id, const Call& call);
  // Whole snapshots only. max_entries 0: all. kStaleToken: this quarryd did not issue the token.
  // kUnavailable while a pool cannot be read.
  Result<SnapshotList> List(const SnapshotFilter& filter, uint32_t max_entries, const std::string& token,
                            const Call& call);
  // kNotFound: no snapshot has this id. kPrecondition: the id names another node.
  Result<VolumeSnapshot> Get(const std::string& id, const Call& call);

 private:
  Parts& parts_;
};

}  // namespace quarry::engine
