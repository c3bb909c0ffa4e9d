// A plan is data: a list of actions. Each action can describe itself (Text) and execute itself (Commit), so a
// printed plan is exactly what runs. Most actions may be repeated: if the effect is there already, the result
// is OK. CreateLv, ExtendLv, CreateGroup and ScrubAction may not: after a failure the caller plans again,
// from what the group holds then.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/plan/device_copy.h"
#include "engine/world.h"

namespace quarry::engine {

// Reads the new layout back and compares it with the plan.
struct VerifyLayoutAction {
  std::string group, name;
  lvm::Placement placement;
  // The group's expected sequence number, if the history of the extents matters: another process that has
  // committed meanwhile may have owned some of the extents and freed them again. nullopt: the history does
  // not matter.
  std::optional<uint64_t> seqno = {};
  // The name of the volume that the LV will become. Another ready volume of this name is an error: a command
  // that was stuck in the kernel has made it meanwhile. Empty: not checked.
  std::string co_name = {};
  bool snapshot = false;  // the LV will become a snapshot, so the name is that of a snapshot
};
// What lvm::ActivateLvs does, after the steps that a volume needs before it may start.
struct ActivateAction {
  std::string group;
  std::vector<std::string> names;
  // Also activate RAID volumes from legs that may be older than the unreadable legs (stopped_array.h). An
  // administrator has decided this.
  bool accept_older = false;
};
// LVM runs only if the kernel has one of the devices `dm_uuids` and there are several, or if the list is
// empty. Afterwards the kernel has none of these devices.
struct DeactivateAction {
  std::string group, name;
  std::vector<std::string> dm_uuids = {};  // of the volume, its legs and their metadata
};
// `seqno`: the group's sequence number when the removal was proven safe; if it has changed, the action fails.
// 0: if other processes commit meanwhile, the group is read and checked again.
struct RemoveLvAction {
  std::string group;
  std::vector<std::string> names;
  uint64_t seqno = 0;
  bool thin = false;  // all of them are thin volumes
};
// Starts a thin store (start_store.h), or puts right a running one (PutRight). `name`: of its pool.
struct StartStoreAction {
  std::string group, name;
};
// Stops a thin store in which no volume is open (stop_store.h). `name`: of its pool. `seqno`: the group's
// sequence number when that was planned; if it has changed, the action fails.
struct StopStoreAction {
  std::string group, name;
  uint64_t seqno = 0;
};
// Fills `fresh`, which is active, with the repaired metadata of a stopped thin store, and proves that they
// say the same (stop_store.h). Neither is active afterwards. `name`: of the store's pool.
struct RemakeMetadataAction {
  std::string group, name, fresh;
  bool lvm_refused = false;  // as for JudgeMetadata
};
// Proves that the metadata of a store were exchanged: the volume `former` has those that the store had, with
// this LV UUID, and the store has others. `name`: of its pool.
struct ProveMetadataAction {
  std::string group, name;
  std::string former, former_uuid;
};
// Deletes from a store what LVM has removed from its text only, because it was killed before it told the
// kernel (pool_queue.h). `name`: of the store's pool, which the kernel has.
struct EndRemovalsAction {
  std::string group, name;
};
// Proves that the pool of a store has no device under the id that LVM gives next: LVM would take that device,
// and the bytes on it, for the new volume. Also that the store takes new volumes.
struct ProveNextDeviceAction {
  std::string group, name;
};
// Proves that nothing is mapped in a new thin volume. The store is in the kernel. `co_name` as for
// VerifyLayoutAction.
struct ProveBlankAction {
  std::string group, name;
  std::string co_name = {};
};
// A placeholder, and the volume or snapshot in the same store whose bytes it gets.
struct CutMember {
  std::string name;
  std::string origin, origin_uuid;
};
struct CutResult {
  uint64_t time = 0;          // of the cut: nanoseconds since 1970
  std::vector<Bytes> mapped;  // bytes that each member has in the store, in their order
};
// Gives all placeholders the bytes of their origins, at one instant (cut.h). `pool`: name of the store's
// pool.
struct CutAction {
  std::string group, pool;
  std::vector<CutMember> members;
  // The most bytes that the origins may have together. nullopt: any number.
  std::optional<Bytes> most_mapped = {};
  std::function<void(const CutResult&)> tell = {};  // called when all is proven
};
// Zeroes bytes of the data device of a thin store. `dm_uuid`: of that device.
struct ZeroStoreAction {
  std::string group, name, dm_uuid;  // `name`: of the volume that has these bytes alone
  std::vector<dm::OpenRange> ranges;
};
// Zeroes bytes of a thin volume that were mapped a moment ago, and gives the chunks back to the pool.
struct ZeroThinAction {
  std::string group, name, dm_uuid;
  std::string data_uuid;  // dm-uuid of the data device of the store
  Bytes offset, length;
};
// Reads the result of a repair back: no leg is on a missing disk or on the PV `left`, and no two legs share a
// disk.
struct VerifyLegsAction {
  std::string group, name;
  std::string left = {};  // uuid of the PV to be vacated; may be empty
};
// Reads the result of a move back: nothing lies on these extents any more.
struct VerifyLeftAction {
  std::string group, pv_uuid;
  std::vector<lvm::ExtentRange> ranges;
};
// Prepares a stopped RAID volume to start again (stopped_array.h). The volume must not be active.
struct ReviveAction {
  std::string group, name;
};
// Makes the kernel compare the legs of a volume. The scrub continues after the action.
struct ScrubAction {
  std::string group, name, dm_uuid;
  bool repair;  // and rewrite what differs
};
// Removes a Quarry device without a logical volume.
struct RemoveDeviceAction {
  std::string name, dm_uuid;
};
struct EraseAction {
  dm::EraseRange range;
  dm::EraseMethod method;
};
// Copies the bytes of one active volume to another. `from` and `to` are the logical volumes, for Text.
struct CopyAction {
  std::string group, from, to;
  DeviceCopy copy;
  std::function<void(Bytes)> tell;  // called with the bytes done so far
};
// Gives a copied file system a UUID of its own, if it can have one.
struct ChangeUuidAction {
  std::string fs_type, device;
};
struct MakeFilesystemAction {
  mount::MakeFilesystem spec;
};
// Runs fsck before the file system is mounted.
struct CheckFilesystemAction {
  std::string fs_type, device;
  // Called with the result unless the check failed; may be empty.
  std::function<void(const mount::CheckReport&)> tell = {};
};
struct MountAction {
  std::string device;
  AbsolutePath target;
  std::string fs_type;
  mount::MountOptions options;
};
// Sets the whole device read-only or writable, for every opener: a read-only bind mount of a device node does
// not prevent writes to the device.
struct SetReadOnlyAction {
  std::string dm_uuid;
  bool read_only;
};
struct MakeTargetAction {
  AbsolutePath path;
  bool directory;
  // Makes a file. If an empty directory is at the path, it is exchanged for a file, and the path is never
  // missing.
  bool replace_directory = false;
};
struct BindAction {
  std::string source;
  AbsolutePath target;
  mount::MountOptions options;
};
struct UnmountAction {
  AbsolutePath target;
};
struct RemoveTargetAction {
  AbsolutePath path;
};
struct GrowFilesystemAction {
  std::string fs_type, device;
  AbsolutePath mount_point;
  // Called with the error if the file system did not grow, and the plan continues. Empty: the error ends the
  // plan.
  std::function<void(const Error&)> tell = {};
};
struct GiveToGroupAction {
  AbsolutePath mount_point;
  uint32_t gid;
};
// An lvm::Change is itself an action. Three verbs need more than one command, and have actions of their own:
// ActivateAction, DeactivateAction, RemoveLvAction.
using Action =
    std::variant<lvm::Change, VerifyLayoutAction, ActivateAction, DeactivateAction, RemoveLvAction,
                 StartStoreAction, StopStoreAction, RemakeMetadataAction, ProveMetadataAction,
                 EndRemovalsAction, ProveNextDeviceAction, ProveBlankAction, CutAction, ZeroStoreAction,
                 ZeroThinAction, VerifyLegsAction, VerifyLeftAction, ReviveAction, ScrubAction,
                 RemoveDeviceAction, EraseAction, CopyAction, ChangeUuidAction, MakeFilesystemAction,
                 CheckFilesystemAction, MountAction, SetReadOnlyAction, MakeTargetAction, BindAction,
                 UnmountAction, RemoveTargetAction, GrowFilesystemAction, GiveToGroupAction>;

// The LVM change in the action, if it is of the type `Verb`; else nullptr.
template <typename Verb>
auto* Find(auto& action) {
  auto* const change = std::get_if<lvm::Change>(&action);
  return change == nullptr ? nullptr : std::get_if<Verb>(change);
}
template <typename Verb>
bool Is(const Action& action) {
  return Find<Verb>(action) != nullptr;
}

// One line for administrators: "create logical volume vg0/qabc…: raid1, 26 extents on /dev/a:0-26
// /dev/b:0-26".
std::string Text(const Action& action);
Status Commit(const Action& action, const World& world, const Call& call);

using Plan = std::vector<Action>;

// Runs the actions in order and stops at the first failure. The error names the action.
Status Execute(const Plan& plan, const World& world, const Call& call);

}  // namespace quarry::engine
