// Group snapshots: snapshots of several volumes in one thin store, cut at one instant of all their writes.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/model/volume.h"
#include "engine/model/volume_requests.h"

namespace quarry::engine {

struct GroupSnapshotRequest {
  std::string name;
  std::vector<std::string> sources;  // ids of volumes
  Parameters parameters = {};        // as for a snapshot
};

struct GroupSnapshot {
  std::string id;
  std::vector<VolumeSnapshot> members;  // never empty; in the order of their ids
  bool whole = true;                    // false: members are gone, as after a deletion that was cut off
};

struct Parts;  // calls/parts.h

// Idempotent, as the calls of Snapshots are. All methods may be called from any thread.
class GroupSnapshots {
 public:
  // How many volumes one group can have: a cut of 32 held writers up for about as long as 20 of one.
  static constexpr size_t kMost = 32;

  // `parts` must outlive this object.
  explicit GroupSnapshots(Parts& parts) : parts_(parts) {}

  // Whether there is a thin store, or the configuration wants one.
  bool AreOffered() const;

  // Cuts all volumes, which may be in use, at one instant. After a failure no member is left, after a crash
  // either: the first member becomes ready last, and a member without it is not there. kInvalidArgument: no
  // volume, or one of them twice, or a type other than thin. kPrecondition: the volumes are not in one thin
  // store, or are more than kMost. kAlreadyExists: a group of this name has other volumes. kNoSpace: the
  // store has no room for all of them.
  Result<GroupSnapshot> Create(const GroupSnapshotRequest& request, const Call& call);
  // Deletes all members. True: there were any. `members`, if not empty, must name each of them
  // (kInvalidArgument); it may name members that are gone. kBusy: a volume is being made of one of them.
  Result<bool> Delete(const std::string& id, const std::vector<std::string>& members, const Call& call);
  // kNotFound: no such group. kInvalidArgument: `members` is not empty, and not what the group has.
  Result<GroupSnapshot> Get(const std::string& id, const std::vector<std::string>& members, const Call& call);

 private:
  Parts& parts_;
};

}  // namespace quarry::engine
