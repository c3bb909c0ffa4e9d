// FakeDm follows FakeLvm: what LVM activates and removes, the kernel has and loses.
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "lvm/names.h"
#include "lvm/ownership.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_lvm_model.h"

namespace quarry::fakes {
namespace {

using lvm::LogicalVolume;
using lvm::PhysicalVolume;
using lvm::VolumeGroup;

// Where the LV is on the PV's device, legs included.
std::vector<std::pair<Bytes, Bytes>> MappedOn(const VolumeGroup& group, const LogicalVolume& lv,
                                              const PhysicalVolume& pv) {
  std::vector<std::pair<Bytes, Bytes>> out;
  for (const lvm::PhysicalRange& own : lvm::PhysicalExtents(group, lv)) {
    if (own.pv_uuid == pv.uuid) {
      out.emplace_back(pv.pe_start + ToBytes(own.range.first, group.extent_size),
                       ToBytes(own.range.count, group.extent_size));
    }
  }
  return out;
}

std::string UuidOf(const VolumeGroup& group, const LogicalVolume& lv) {
  return lvm::DmUuid(group.uuid, lv.uuid);
}

// The pool, with the devices of its parts.
void AddPool(FakeDm& dm, const VolumeGroup& group, const LogicalVolume& pool) {
  const lvm::PoolParts parts = *lvm::PartsOfPool(group, pool);
  for (const LogicalVolume* const part : {parts.data, parts.metadata}) {
    dm.AddDevice(lvm::DmUuidOfPart(UuidOf(group, *part), part->name), lvm::DmName(group.name, part->name),
                 part->size);
  }
  const Bytes chunk = pool.segments.front().chunk_size;
  dm.AddThinPool(UuidOf(group, pool), lvm::DmName(group.name, pool.name), chunk,
                 parts.data->size.value / chunk.value);
  dm.SetThinMetadata(UuidOf(group, pool),
                     lvm::DmUuidOfPart(UuidOf(group, *parts.metadata), parts.metadata->name));
}

void Activate(FakeDm& dm, const VolumeGroup& group, const LogicalVolume& lv) {
  if (IsThinPool(lv)) {
    AddPool(dm, group, lv);
    return;
  }
  if (IsThin(lv)) {
    const LogicalVolume& pool = *group.FindLv(lv.pool);
    AddPool(dm, group, pool);
    (void)dm.AddThin(UuidOf(group, lv), lvm::DmName(group.name, lv.name), UuidOf(group, pool),
                     lv.segments.front().thin_volume->device_id, lv.size);
    return;
  }
  const std::string uuid = lvm::DmUuidOfPart(UuidOf(group, lv), lv.name);
  dm.AddDevice(uuid, lvm::DmName(group.name, lv.name), lv.size);
  for (const PhysicalVolume& pv : group.pvs) {
    dm.SetMappings(uuid, pv.device, MappedOn(group, lv, pv));
  }
}

Status Deactivate(FakeDm& dm, const VolumeGroup& group, const LogicalVolume& lv) {
  const auto parts = lvm::PartsOfPool(group, lv);
  if (!parts.has_value()) {
    return dm.RemoveDevice(lvm::DmUuidOfPart(UuidOf(group, lv), lv.name));
  }
  QUARRY_TRY(dm.RemoveDevice(lvm::DmUuidOfPool(UuidOf(group, lv))));
  for (const LogicalVolume* const part : {parts->data, parts->metadata}) {
    QUARRY_TRY(dm.RemoveDevice(lvm::DmUuidOfPart(UuidOf(group, *part), part->name)));
  }
  return Ok();
}

}  // namespace

void Follow(FakeLvm& lvm, FakeDm& dm) {
  dm.OnRemove([&lvm](const std::string& uuid) { lvm.DeviceWasRemoved(uuid); });
  // Ids that LVM's text had, by the UUID of the pool. The pool may have devices that LVM does not know.
  const auto known = std::make_shared<std::map<std::string, std::set<dm::ThinId>>>();
  const auto committed = [&dm, known](const VolumeGroup& group) {
    for (const LogicalVolume& pool : group.lvs) {
      if (!IsThinPool(pool)) {
        continue;
      }
      std::set<dm::ThinId> now;
      for (const LogicalVolume& lv : group.lvs) {
        if (IsThin(lv) && lv.pool == pool.name) {
          now.insert(lv.segments.front().thin_volume->device_id);
        }
      }
      dm.ChangeThins(UuidOf(group, pool), pool.segments.front().chunk_size, (*known)[UuidOf(group, pool)],
                     now, pool.segments.front().thin_pool->transaction_id);
      (*known)[UuidOf(group, pool)] = std::move(now);
    }
  };
  lvm.SetHooks(
      {.active = [&dm](const VolumeGroup& group, const LogicalVolume& lv) { Activate(dm, group, lv); },
       .deactivate = [&dm](const VolumeGroup& group,
                           const LogicalVolume& lv) { return Deactivate(dm, group, lv); },
       .kept =
           [&dm](const VolumeGroup& group, const LogicalVolume& lv, const LogicalVolume& store) {
             dm.AddCopy(UuidOf(group, store), lvm::DmName(group.name, store.name), UuidOf(group, lv));
           },
       .renewed = [&dm](const VolumeGroup& group, const LogicalVolume& lv) { dm.Renew(UuidOf(group, lv)); },
       .committed = committed});
}

}  // namespace quarry::fakes
