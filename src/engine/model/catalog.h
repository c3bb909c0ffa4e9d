// The volumes among the logical volumes of a snapshot. All other LVs of the group are unmanaged and not in
// the catalog.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/model/profile.h"
#include "engine/model/volume.h"
#include "engine/model/volume_requests.h"
#include "lvm/names.h"
#include "lvm/snapshot.h"

namespace quarry::engine {

// What a volume is made for: a raw device, a file system, or either.
enum class Access { kBlock, kMount, kAny };
std::string_view AccessName(Access access);  // "block", "mount", "any": the text of the tag
// nullopt: another text.
std::optional<Access> ParseAccess(std::string_view text);

// Device-mapper's UUID of the device of `lv`, which may be a part of a thin store.
std::string DmUuidOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv);
// Device-mapper UUIDs of the volume, its legs and their metadata. Other devices below the volume are left
// out: a pvmove belongs to the command that started it.
std::vector<std::string> DmUuids(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv);

// A managed LV, of a volume or a snapshot, with its parsed tags. It keeps its snapshot alive. The constructor
// parses tags.access and tags.profile, so these two texts are not changed afterwards.
struct Record {
  Record(std::string p, lvm::Snapshot g, const lvm::LogicalVolume* l, lvm::VolumeTags t);

  std::string pool;
  lvm::Snapshot group;
  const lvm::LogicalVolume* lv;  // in *group
  lvm::VolumeTags tags;
  std::optional<Access> access;  // of tags.access; nullopt: not written yet, or unknown to this build
  // Of tags.profile: the default profile if it is empty, kCorrupt if this build cannot read it. A volume
  // whose profile cannot be read is still a volume; each caller decides what it can do without the profile.
  Result<Profile> profile;

  std::string DmUuid() const { return engine::DmUuidOf(*group, *lv); }
  std::vector<std::string> DmUuids() const { return engine::DmUuids(*group, *lv); }
};

// Whether the record is data or metadata of a thin store (Catalog::parts).
inline bool IsPart(const Record& record) {
  return record.lv != nullptr && record.lv->hidden;
}
// What LVM activates and refreshes for this record: the volume, or the store of which it is a part.
std::string ActiveName(const Record& record);
// The records of data and metadata of the thin store whose pool this is. Empty: it is none, or a part is of
// an unknown layout.
std::vector<Record> RecordsOfParts(const std::string& pool, const lvm::Snapshot& group,
                                   const lvm::LogicalVolume& lv);
// The geometry of a part, whatever legs it lacks. nullopt: Quarry makes none like it.
std::optional<lvm::Geometry> GeometryOfPart(const lvm::LogicalVolume& part);

// Whether the volume was deleted, and its bytes are not erased yet. Also true of an unfinished copy
// (Catalog::copying).
inline bool IsErasing(const Record& record) {
  return record.tags.state == lvm::VolumeState::kErasing;
}

// Unhealthy disks (failing_disks.h): PV UUID → why.
struct UnhealthyDisks {
  std::map<std::string, std::string> failing, worn;
  std::set<std::string> dropping;  // of the failing disks: legs there fail each time they are taken back
  bool operator==(const UnhealthyDisks&) const = default;
};

// A leg that LVM took out of a managed RAID volume and did not remove, because LVM was killed in between. It
// may be the last good copy of its data.
struct TakenOut {
  std::string volume;                            // name of its logical volume, which exists
  std::vector<const lvm::LogicalVolume*> parts;  // the leg, if it exists, and its metadata
};

// A logical volume with Quarry tags that this build cannot read: a newer build made it, or someone changed
// its tags. Quarry does not change it.
struct Unreadable {
  const lvm::LogicalVolume* lv = nullptr;  // in the catalog's group
  std::string why;
};

// A thin store: a thin pool that this program made.
struct Store {
  const lvm::LogicalVolume* lv = nullptr;    // the thin pool, in the catalog's group
  const lvm::LogicalVolume* data = nullptr;  // its hidden volumes
  const lvm::LogicalVolume* metadata = nullptr;
  lvm::VolumeTags tags;

  const std::string& name() const { return tags.co_name; }
  Bytes chunk() const { return lv->segments.front().chunk_size; }
};

struct Catalog {
  lvm::Snapshot group;
  UnhealthyDisks weak = {};  // as of the moment the catalog was made
  // Names of LVs that hold free space while it is zeroed. At most one of them exists. Creates and growths
  // that need the space get it.
  std::deque<std::string> free_zeroing = {};
  // Names of LVs that are being filled with copies of volumes (calls/copy.cc). They carry the tags of deleted
  // volumes, so that a crash leaves no copied byte behind, but this process does not erase them.
  std::set<std::string> copying = {};
  std::vector<Record> records;  // every state, ordered by id (by LV name while creating)
  std::vector<Unreadable> unreadable = {};
  std::vector<Store> stores = {};  // by name
  // The data and metadata of each store, as if they were volumes: what happens to the legs of a volume
  // happens to theirs. They are in no other list, and no caller sees them. See IsPart().
  std::vector<Record> parts = {};
  // Names of legs whose volume does not exist. LVM left them when it was killed while it made or removed the
  // volume.
  std::vector<std::string> stray_legs;
  std::vector<TakenOut> taken_out = {};
  // Names of LVs that are named like a leg that LVM took out, without proof that they are one.
  std::vector<std::string> unproven_legs = {};

  // These return ready volumes only, or nullptr. ById does not return inline volumes, because no caller ever
  // got their ids. ByName returns them, because no two volumes may have the same name.
  const Record* ById(std::string_view id) const;
  const Record* ByName(std::string_view co_name) const;
  // The store in which this thin volume is; nullptr: in none of Quarry's.
  const Store* StoreOf(const lvm::LogicalVolume& lv) const;
  // The store of which this record is data or metadata; nullptr: of none.
  const Store* StoreOfPart(const Record& record) const;
  // The same for snapshots, which have names of their own: a volume may have the same.
  const Record* SnapshotById(std::string_view id) const;
  const Record* SnapshotByName(std::string_view co_name) const;
  // The ready volume, inline or not, or the ready snapshot, whose logical volume has this uuid.
  const Record* ByUuid(std::string_view lv_uuid) const;
  // kPrecondition (id) or kAlreadyExists (name) if an unreadable logical volume has this id or name. The
  // error names the logical volume.
  Status CheckReadableId(std::string_view id) const;
  Status CheckReadableName(std::string_view co_name) const;
};

// `pool` becomes the pool name of the records. `last`: an earlier catalog of the pool. The tags of an LV are
// not parsed again if the LV had the same tags there; parsing those of a thousand volumes takes 4 ms.
Catalog ReadCatalog(const std::string& pool, const lvm::Snapshot& group, const Catalog* last = nullptr);

// Id of the group snapshot whose first member to be named, its leader, is this snapshot; and the way back.
// The leader becomes ready last and is deleted last, so the group exists exactly as long as the leader.
std::string GroupIdOf(std::string_view leader);
std::string LeaderOf(std::string_view group);
// Whether the record is a member of a group that was not finished: its leader is there and not ready. Such a
// member is no snapshot for any caller. If the leader is not there at all, an administrator has removed it,
// and the other members are snapshots as any.
bool IsUnfinished(const Catalog& catalog, const Record& record);
// A snapshot that callers see.
bool IsWholeSnapshot(const Catalog& catalog, const Record& record);

// Whether it lies in a thin pool. Also of a thin volume that is not complete, whose tags do not say it yet.
inline bool IsInPool(const Record& record) {
  return !record.lv->pool.empty();
}

// Whether it is a snapshot in a thin store, in whatever state.
inline bool IsThinSnapshot(const Record& record) {
  return record.tags.thin && record.tags.snapshot;
}

// The part of a record that callers see: immutable facts and the size.
Volume Describe(const Record& record);
VolumeSnapshot DescribeSnapshot(const Record& record);
// "volume x", "snapshot x", or the logical volume if it is not complete: for messages.
std::string InWords(const Record& record);
// The least size of a volume that is made from this volume or snapshot, and the bytes that it gets from it.
Bytes LeastSize(const Record& record);
Bytes ContentLength(const Record& record);

// OK if the record is of this realm. kPrecondition for a bucket; the error names the command that is for it.
// kNotFound for a volume that is no bucket.
Status CheckRealm(const Record& record, Realm realm);

// What a volume is made for, in words: "mount ext4", "block".
std::string UseText(std::string_view access, std::string_view fs_type);

// nullopt if the record is the volume that `request` describes. Otherwise the difference as text
// ("capacity_range: …").
std::optional<std::string> Incompatibility(const Record& record, const Profile& profile,
                                           const CreateRequest& request);

// The result of a set of capabilities: the access that a volume is made for, and its file system.
struct AccessPlan {
  Access access = Access::kMount;
  std::string fs_type;  // empty for block
};
// kInvalidArgument naming the capability: a multi-node mode, an unknown file system, two file systems at
// once.
Result<AccessPlan> PlanAccess(const std::vector<Capability>& capabilities);

// OK if `record` can be used with `capability`; else kPrecondition with the reason.
Status CheckAccess(const Record& record, const Capability& capability);

// OK if the volume is by itself: its extents are its own, nothing is stacked on it, nothing moves it
// (lvm/ownership.h). The caller asks this of the snapshot on which it plans a change, before it changes
// anything. kPrecondition names the volume, what stands on it, and the remedy. kUnavailable: the obstacle
// ends by itself. For a thin volume: it is in a sound store of Quarry's, and nothing stands on it. For a part
// of a store: nothing but the store stands on it.
Status CheckAlone(const Record& record);
// The same for an LV without a record, which must have extents of its own. `what` names the LV in the error.
Status CheckAlone(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const std::string& what);

}  // namespace quarry::engine
