// Plans for the node service: (volume, stack, what the kernel has mounted, what is on the device) → actions.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/model/stack.h"
#include "engine/model/volume_requests.h"
#include "engine/plan/actions.h"

namespace quarry::engine {

// The input of every node plan. `stack` is the stack of `record`. Paths of requests contain no
// symbolic link (MountApi::Resolve), so they match the paths in the mount table.
struct NodeView {
  const Record& record;
  const Stack& stack;
  const mount::MountTable& mounts;
  // Group of the file system's root, if the file system is mounted and the request names a group.
  std::optional<uint32_t> group = {};
  // The setting fsck: check a file system that is mounted nowhere before it is mounted for writing.
  bool preen = false;
  // A target at which the volume is published raw; empty: none. Needed before a device is mounted.
  std::string raw_target = {};
};

// The mount of this volume's file system at `path`; nullptr if there is none, or if something else is mounted
// there.
const mount::MountEntry* OurMountAt(const NodeView& view, const AbsolutePath& path);
// A mount that shows this volume's whole file system; nullptr if there is none.
const mount::MountEntry* WholeMount(const NodeView& view);
// Bind mounts of this device's node in `dev`, the file system of our /dev. They are candidates: the caller
// proves them by device number. A node with the same name or number in another file system does not count.
std::vector<const mount::MountEntry*> NodeBinds(const mount::MountTable& mounts, const dm::Device& device,
                                                mount::DeviceNumber dev);

// Mount groups (VOLUME_MOUNT_GROUP): if the request names a group and the file system is mounted for writing,
// the whole file system is given to that group. A volume belongs to one group at a time. While the volume is
// published elsewhere, publishing it with another group gives kPrecondition, and staging does not change the
// group.

// Stages a volume for mounting. `content` is what libblkid found on the device. The file system grows to its
// volume's size, unless it is mounted read-only. If the volume is already staged there with the same options,
// only this growth is planned; with other options the result is kAlreadyExists. kPrecondition: something else
// is mounted there, the device holds content that Quarry did not put there, or it is published raw. (A
// raw device that is published read-only may be mounted read-only.) kCorrupt: a device that was
// formatted once reads blank.
Result<Plan> PlanStage(const NodeView& view, const StageRequest& request, const mount::Content& content);

// Publishes a staged file system at a target. `several_targets`: whether a single-node volume may be at
// several targets of this node at the same time. kAlreadyExists: the volume is already at this target with
// other options.
Result<Plan> PlanPublishMount(const NodeView& view, const PublishRequest& request, bool several_targets);

// Publishes a file system that the caller does not stage. It is formatted if necessary and mounted at the
// target itself. If it is already mounted at another target, it is bound from there. `content` as for
// PlanStage; errors of PlanStage and PlanPublishMount.
Result<Plan> PlanPublishUnstaged(const NodeView& view, const PublishRequest& request,
                                 const mount::Content& content, bool several_targets);

// Publishes the top device of the stack raw. `published`: the proven bind mounts of its node. kPrecondition:
// it is mounted, or the device would have to become read-only or writable and is published elsewhere. (A
// device that is read-only may be published so beside a mount.)
Result<Plan> PlanPublishBlock(const NodeView& view, const PublishRequest& request,
                              const std::vector<const mount::MountEntry*>& published, bool several_targets);

}  // namespace quarry::engine
