// Our volumes among the logical volumes of a snapshot. Everything else in the group is somebody else's and
// invisible.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/profile.h"
#include "engine/types.h"
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
  // Of the volume, its legs and their metadata.
  std::vector<std::string> DmUuids() const;
};

// Disks that are not as they should be, by their own word (disk_health.h): PV UUID → why.
struct WeakDisks {
  std::map<std::string, std::string> failing, worn;
  std::set<std::string>
      dropping;  // of the failing: those on which legs fail each time that they are taken back
  bool operator==(const WeakDisks&) const = default;
};

struct Catalog {
  lvm::Snapshot group;
  WeakDisks weak = {};          // as known when the catalog was made
  std::vector<Record> records;  // every state, ordered by id (by LV name while creating)
  std::vector<std::string>
      damaged;  // "LV name: why" of LVs that bear our tag, but not a whole set that parses
  // Legs of volumes of ours that are not there: what LVM, killed while it made or removed one, left of it. By
  // LV name.
  std::vector<std::string> stray_legs;

  // Ready volumes only; nullptr if there is none. By its id only a volume that is not ephemeral: nobody was
  // told the id of one that is. By a name any, since no two may have the same.
  const Record* ById(std::string_view id) const;
  const Record* ByName(std::string_view co_name) const;
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
