// A plan is data: a list of actions, each of which can say what it does (Text) and do it (Commit). What is
// shown is what is done. Every action may be repeated: what is done already is OK.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/world.h"

namespace quarry::engine {

struct CreateLvAction {
  lvm::CreateLv spec;
};
struct ExtendLvAction {
  lvm::ExtendLv spec;
};
// Reads back what LVM made and compares it with the plan.
struct VerifyLayoutAction {
  std::string group, name;
  lvm::Placement placement;
  // What the group's sequence number must be, if the extents' past counts: who has committed meanwhile may
  // have had some of them, and given them up again. nullopt: it does not count.
  std::optional<uint64_t> seqno = {};
};
struct RetagAction {
  std::string group, name;
  std::vector<std::string> add, remove;
};
struct ActivateAction {
  std::string group;
  std::vector<std::string> names;
  // Raid volumes also from legs that may be older than those that cannot be asked (stopped_array.h): a person
  // has said so.
  bool accept_older = false;
};
// LVM is started only if the kernel has one of `dm_uuids`, or if these are not given. It leaves none of them.
struct DeactivateAction {
  std::string group, name;
  std::vector<std::string> dm_uuids = {};  // of the volume and all that it is made of
};
// `seqno`: the state of the group that they were proven of. Without it their names are all that was decided,
// and what others commit meanwhile only has it looked at them anew.
struct RemoveLvAction {
  std::string group;
  std::vector<std::string> names;
  uint64_t seqno = 0;
};
// For disks that are back, or sound again.
struct RefreshAction {
  std::string group;
  std::vector<std::string> names;
};
// New legs in place of lost ones.
struct RepairAction {
  lvm::RepairLv spec;
};
// Reads back what a repair made: no leg is lost any more, or on the PV that is to be left, and no two share a
// disk.
struct VerifyLegsAction {
  std::string group, name;
  std::string left = {};  // uuid of a PV; may be empty
};
struct MoveExtentsAction {
  lvm::MoveExtents spec;
};
// Reads back what a move made: nothing lies there any more.
struct VerifyLeftAction {
  std::string group, pv_uuid;
  std::vector<lvm::ExtentRange> ranges;
};
// What is on its way off this PV goes back to where it was.
struct AbortMoveAction {
  std::string group, device;
};
struct ChangePvAction {
  lvm::PvChange change;
};
struct RemovePvAction {
  std::string group, device;
};
// Lets a raid volume that has stopped start again (stopped_array.h). It must not be active.
struct ReviveAction {
  std::string group, name;
};
// Has the kernel compare the legs of a volume, which goes on by itself.
struct ScrubAction {
  std::string group, name, dm_uuid;
  bool repair;  // and write anew what differs
};
struct LimitRecoveryAction {
  std::string group;
  std::vector<std::string> names;
  Bytes rate;
};
struct RestorePvAction {
  std::string group, device;
};
struct DropMissingPvsAction {
  std::string group;
};
// A device of ours that no logical volume stands behind.
struct RemoveDeviceAction {
  std::string name, dm_uuid;
};
struct EraseAction {
  dm::EraseRange range;
  dm::EraseMethod method;
};
struct MakeFilesystemAction {
  mount::MakeFilesystem spec;
};
// Before it is mounted.
struct CheckFilesystemAction {
  std::string fs_type, device;
  // Told what came of it, if it was not refused; may be empty.
  std::function<void(const mount::CheckReport&)> tell = {};
};
struct MountAction {
  std::string device;
  AbsolutePath target;
  std::string fs_type;
  mount::MountOptions options;
};
// The whole device, for every opener: a bind mount that is read-only does not keep anybody from writing to
// the device.
struct SetReadOnlyAction {
  std::string dm_uuid;
  bool read_only;
};
struct MakeTargetAction {
  AbsolutePath path;
  bool directory;
  // A file, but an empty directory may be in its place: it is exchanged for one, and the path never missing.
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
  // Told why it did not grow, and the plan goes on; empty: that ends the plan.
  std::function<void(const Error&)> tell = {};
};
struct GiveToGroupAction {
  AbsolutePath mount_point;
  uint32_t gid;
};
// Of a disk that is proven blank and nobody's.
struct AddPvAction {
  lvm::AddPv spec;
};

using Action =
    std::variant<CreateLvAction, ExtendLvAction, VerifyLayoutAction, RetagAction, ActivateAction,
                 DeactivateAction, RemoveLvAction, RemoveDeviceAction, EraseAction, MakeFilesystemAction,
                 CheckFilesystemAction, MountAction, SetReadOnlyAction, MakeTargetAction, BindAction,
                 UnmountAction, RemoveTargetAction, GrowFilesystemAction, GiveToGroupAction, RefreshAction,
                 RepairAction, VerifyLegsAction, RestorePvAction, DropMissingPvsAction, AddPvAction,
                 MoveExtentsAction, VerifyLeftAction, AbortMoveAction, ChangePvAction, RemovePvAction,
                 ReviveAction, ScrubAction, LimitRecoveryAction>;

// One line for people: "create logical volume vg0/qabc…: raid1, 26 extents on /dev/a:0-26 /dev/b:0-26".
std::string Text(const Action& action);
Status Commit(const Action& action, const World& world, const Call& call);

using Plan = std::vector<Action>;

// Runs the actions in order and stops at the first failure, whose error tells which action it was.
Status Execute(const Plan& plan, const World& world, const Call& call);

}  // namespace quarry::engine
