// Our volumes among the logical volumes of a snapshot. Everything else in the group is somebody else's and
// invisible.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/model/profile.h"
#include "engine/model/types.h"
#include "lvm/names.h"
#include "lvm/snapshot.h"

namespace quarry::engine {

// One of our LVs with what its tags say. Keeps its snapshot alive.
struct Record {
  std::string pool;
  lvm::Snapshot group;
  const lvm::LogicalVolume* lv = nullptr;  // in *group
  lvm::VolumeTags tags;

  std::string DmUuid() const { return lvm::DmUuid(group->uuid, lv->uuid); }
  // Of the volume, its legs and their metadata. Not of what else may be below it: a pvmove is its owner's.
  std::vector<std::string> DmUuids() const;
};

// Disks that are not as they should be, by their own word (failing_disks.h): PV UUID → why.
struct UnhealthyDisks {
  std::map<std::string, std::string> failing, worn;
  std::set<std::string>
      dropping;  // of the failing: those on which legs fail each time that they are taken back
  bool operator==(const UnhealthyDisks&) const = default;
};

// A leg that LVM took out of a raid volume of ours, and was killed before it removed it. It may be the last
// good copy of what is on it.
struct TakenOut {
  std::string volume;                            // name of its logical volume, which there is
  std::vector<const lvm::LogicalVolume*> parts;  // the leg, if it is there, and its metadata
};

// A logical volume that bears our tag, but not a whole set that this build can read: a newer build has made
// it, or somebody has changed its tags. It is left alone.
struct Unreadable {
  const lvm::LogicalVolume* lv = nullptr;  // in the catalog's group
  std::string why;
};

struct Catalog {
  lvm::Snapshot group;
  UnhealthyDisks weak = {};     // as known when the catalog was made
  std::vector<Record> records;  // every state, ordered by id (by LV name while creating)
  std::vector<Unreadable> unreadable = {};
  // Legs of volumes of ours that are not there: what LVM, killed while it made or removed one, left of it. By
  // LV name.
  std::vector<std::string> stray_legs;
  std::vector<TakenOut> taken_out = {};
  // LVs that are called like such a leg, but not proven to be one. By name.
  std::vector<std::string> unproven_legs = {};

  // Ready volumes only; nullptr if there is none. By its id only a volume that is not ephemeral: nobody was
  // told the id of one that is. By a name any, since no two may have the same.
  const Record* ById(std::string_view id) const;
  const Record* ByName(std::string_view co_name) const;
  // The ready volume, ephemeral or not, whose logical volume has this uuid.
  const Record* ByUuid(std::string_view lv_uuid) const;
  // kPrecondition, or kAlreadyExists, naming the logical volume that bears this id, or name, and cannot be
  // read.
  Status CheckReadableId(std::string_view id) const;
  Status CheckReadableName(std::string_view co_name) const;
};

// `pool` is the name the records get.
Catalog ReadCatalog(const std::string& pool, const lvm::Snapshot& group);

// What a caller may see of a record: immutable facts and the size.
Volume Describe(const Record& record);

// Same volume as `request` asks for? nullopt if so, else the difference in words ("capacity_range: …").
std::optional<std::string> Incompatibility(const Record& record, const Profile& profile,
                                           const CreateRequest& request);

// What a set of capabilities comes to: which access a volume is made for, and with which file system.
struct AccessPlan {
  std::string access;   // "block", "mount" or "any"
  std::string fs_type;  // empty for block
};
// kInvalidArgument naming the capability: a multi-node mode, an unknown file system, two file systems at
// once.
Result<AccessPlan> PlanAccess(const std::vector<Capability>& capabilities);

// Whether `record` can be used through `capability`; kPrecondition saying why not.
Status CheckAccess(const Record& record, const Capability& capability);

bool IsMultiNode(AccessMode mode);

}  // namespace quarry::engine
