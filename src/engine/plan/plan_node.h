// Plans for the node service: (volume, device, what the kernel has mounted, what is on the device) → actions.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/plan/actions.h"

namespace quarry::engine {

// What every node plan looks at. `device` is the active device of `record`. Paths of requests lead through no
// symbolic link (MountApi::Resolve), so that the mount table knows them.
struct NodeView {
  const Record& record;
  const dm::Device& device;
  const mount::MountTable& mounts;
  // Of the root of its file system, where that is mounted and the request names a group.
  std::optional<uint32_t> group = {};
  // The policy: a file system is checked before it is mounted for writing where it is not mounted yet.
  bool preen = false;
};

// What is mounted at `path`: nullptr if nothing, or not this volume's file system.
const mount::MountEntry* OurMountAt(const NodeView& view, const AbsolutePath& path);
// A place where all of this volume's file system is to be seen; nullptr if there is none.
const mount::MountEntry* WholeMount(const NodeView& view);
// Bind mounts of this device's node in `dev`, the file system that our /dev is: candidates that the caller
// proves by device number. A node of the same name or number that somebody made elsewhere is none.
std::vector<const mount::MountEntry*> NodeBinds(const mount::MountTable& mounts, const dm::Device& device,
                                                mount::DeviceNumber dev);

// A request with a mount group (VOLUME_MOUNT_GROUP) has all of the file system given to it, where that is
// mounted for writing. A volume belongs to one group at a time: while it is published elsewhere, publishing
// it with another one is kPrecondition, and staging leaves the group alone.

// Staging a volume for mounting. `content` is what libblkid found on the device.
// The file system grows to its volume's size, unless it is mounted read-only.
// Staged there already with the same options: nothing more than that; with others: kAlreadyExists.
// kPrecondition: something else is mounted there, or the device holds what we did not put there. kCorrupt: a
// once formatted device reads blank.
Result<Plan> PlanStage(const NodeView& view, const StageRequest& request, const mount::Content& content);

// Publishing a staged file system at a target. `several_targets`: whether a single-node volume may be at
// other targets of this node at the same time. kAlreadyExists: at this target already with other options.
Result<Plan> PlanPublishMount(const NodeView& view, const PublishRequest& request, bool several_targets);

// Publishing a file system that nobody stages: formatted if need be and mounted at the target itself, or
// bound there from a target where it is mounted already. `content` as for PlanStage; errors of both.
Result<Plan> PlanPublishUnstaged(const NodeView& view, const PublishRequest& request,
                                 const mount::Content& content, bool several_targets);

// Publishing the raw device. `published`: where its node is bound already, proven.
Result<Plan> PlanPublishBlock(const NodeView& view, const PublishRequest& request,
                              const std::vector<const mount::MountEntry*>& published, bool several_targets);

}  // namespace quarry::engine
