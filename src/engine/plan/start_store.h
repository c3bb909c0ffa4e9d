// Starts thin stores. Every step that lets LVM change a thin volume or a pool starts the store before: LVM
// would start the pool by itself, and with it RAID arrays whose legs nobody has looked at
// (raid/stopped_array.h).
#pragma once

#include <string>
#include <string_view>

#include "base/call.h"
#include "base/result.h"
#include "dm/thin_api.h"
#include "engine/world.h"
#include "lvm/snapshot.h"

namespace quarry::engine {

// What a start needs of the store, by LVM's text alone: the pool zeroes new chunks, and its parts belong to
// it alone, so that no command of LVM is at work on them. kPrecondition; kUnavailable: this ends by itself.
Status CheckStore(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool);

// Makes the kernel have the store whose pool is `pool`, which must be in `group`. OK at once if it has.
// Removes devices of its parts that a killed LVM left, looks at the superblocks of all its legs, and gives
// back the metadata snapshot that a killed quarryd left. The pool itself stays active: LVM removes volumes of
// a pool that lacks disks only then. The caller has the group's turn.
//
// kUnavailable: too many disks are missing. kPrecondition: what stands in the way of a start (FindDoubt), or
// of the pool being a sound store.
// `accept_older`: as of ActivateAction, for both parts.
Status StartStore(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, const World& world,
                  const Call& call, bool accept_older = false);

// The status of a store that the kernel has and that takes new volumes and gives up old ones. kUnavailable:
// it is not in the kernel. kPrecondition: the kernel has made it read-only, or it has failed; the message has
// the remedy.
Result<dm::ThinPoolStatus> HealthyPool(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                                       dm::DmApi& dm);

// The highest device id in this pool that LVM's text has; 0: it has none. LVM gives the next one to a new
// volume (lib/metadata/thin_manip.c, get_free_thin_pool_device_id).
uint32_t HighestThinId(const lvm::VolumeGroup& group, std::string_view pool);

// A metadata snapshot of the pool, reserved from Begin() on. There is at most one for each pool: the caller
// has the group's turn.
class MetadataHold {
 public:
  // kUnavailable: the kernel does not have the metadata; or another program has reserved a snapshot, as
  // somebody does who reads the metadata with the tools of dm-thin. One that a killed quarryd has left is
  // released by the start of the next one. kPrecondition: `pool` is no thin pool. Errors of
  // DmApi::SendToPool.
  static Result<MetadataHold> Begin(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                                    dm::DmApi& dm);
  MetadataHold(MetadataHold&& other) noexcept
      : dm_(other.dm_), uuid_(std::move(other.uuid_)), device_(std::move(other.device_)), root_(other.root_) {
    other.dm_ = nullptr;
  }
  MetadataHold& operator=(MetadataHold&&) = delete;
  ~MetadataHold();

  // The path of the device with the metadata, for PoolReaderApi.
  const std::string& device() const { return device_; }

  // That what was read is true: the snapshot was there all the time. kUnavailable: another program has
  // released it, and the kernel may have written to the blocks that were read.
  Status Check() const;

 private:
  MetadataHold(dm::DmApi& dm, std::string uuid, std::string device)
      : dm_(&dm), uuid_(std::move(uuid)), device_(std::move(device)) {}
  dm::DmApi* dm_;
  std::string uuid_, device_;
  uint64_t root_ = 0;  // the block with the snapshot's superblock
};

// Releases the metadata snapshot of the pool with this UUID, which is in the block `root`: of this process,
// or of an earlier one. If that fails, as while the pool is suspended, the next Begin() tries it again. Takes
// a second at most, and waits for disks.
void ReleaseMetadata(dm::DmApi& dm, const std::string& uuid, uint64_t root);

// The bytes that a thin volume of the pool has, in whole chunks. kCorrupt: the pool has no device for it.
Result<Bytes> MappedBytes(const MetadataHold& hold, const lvm::VolumeGroup& group,
                          const lvm::LogicalVolume& lv, const World& world, const Call& call);

}  // namespace quarry::engine
