// The effect of LVM's commands on thin pools, as pure changes of a group. Part of FakeLvm.
#pragma once

#include <functional>
#include <string>

#include "lvm/lvm_api.h"
#include "tests/fakes/fake_lvm_alloc.h"

namespace quarry::fakes {

// Where lvconvert leaves the tags of the data volume.
enum class PoolTags {
  kStayOnData,  // lvm2 2.03.16
  kMoveToPool,  // lvm2 2.03.31
};

bool IsThinPool(const lvm::LogicalVolume& lv);
bool IsThin(const lvm::LogicalVolume& lv);
// The hidden data or metadata volume of the pool; nullptr if `pool` is not a thin pool.
lvm::LogicalVolume* PoolData(lvm::VolumeGroup& group, const lvm::LogicalVolume& pool);
lvm::LogicalVolume* PoolMetadata(lvm::VolumeGroup& group, const lvm::LogicalVolume& pool);
// Whether `part` is data or metadata of the pool, or a leg of either.
bool IsPartOfPool(const lvm::LogicalVolume& part, const std::string& pool);
// The pool that has this hidden volume as its data or metadata; nullptr if there is none.
const lvm::LogicalVolume* PoolOf(const lvm::VolumeGroup& group, const std::string& part);
// Whether the kernel has the pool: it is active, or a volume in it is.
bool IsInKernel(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool);
// The thin volumes of the pool.
uint64_t VolumesIn(const lvm::VolumeGroup& group, const std::string& pool);

Status MakePool(lvm::VolumeGroup& group, const lvm::MakeThinPool& verb, PoolTags tags,
                const std::function<std::string()>& new_uuid);
Status AddThin(lvm::VolumeGroup& group, const lvm::CreateThinLv& verb,
               const std::function<std::string()>& new_uuid);
// LVM removes the volume from the text first, in a commit of its own, and then tells the pool, which may
// fail.
Status RemoveThin(lvm::VolumeGroup& group, const lvm::LogicalVolume& lv);

// The names change, and what LVM hides; uuids, tags and extents stay.
Status SwapMetadata(lvm::VolumeGroup& group, const lvm::SwapPoolMetadata& verb);

Error RefusedAsPartial(const lvm::VolumeGroup& group, const std::string& name);
// Whether LVM refuses to activate the volume, which is not thin, because of missing disks.
bool LacksDisks(const lvm::LogicalVolume& lv);
// For a pool or a thin volume. LVM has no degraded activation of these. With `degraded` it would put errors
// in the place of everything that is missing; here that is a mistake of the caller unless it is RAID.
Status MayActivatePool(lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, bool degraded = false);
// For the data or metadata of a pool, and any other volume: neither activated nor deactivated alone while the
// kernel has the pool.
Status MaySwitchAlone(const lvm::VolumeGroup& group, const std::string& name);
// lvchange changes nothing about the metadata of a pool, although it does about its data.
Status IsNoPoolMetadata(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv);
// Whether the kernel has the volume. LVM changes the legs of a pool's part only if the pool is active, not if
// the part is active alone.
bool IsInUseByKernel(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv);

// After its data has grown.
void FitToData(lvm::VolumeGroup& group, lvm::LogicalVolume& pool);
// A pool has all its parts active exactly while the kernel has the pool. Call after a pool or a thin volume
// became active or inactive.
void SettlePool(lvm::VolumeGroup& group, const std::string& pool);

}  // namespace quarry::fakes
