#include "engine/repair/observe.h"

#include <algorithm>
#include <utility>

#include "engine/model/volume_health.h"
#include "engine/plan/left_suspended.h"
#include "engine/plan/plan_volume.h"
#include "engine/raid/stopped_array.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

// Looks up the state of the volume's device, and whether it leads to a disk that the kernel no longer has.
Status ObserveDevice(const Record& record, dm::DmApi& dm, VolumeObservation& out) {
  QUARRY_ASSIGN(const auto device, dm.Find(record.DmUuid()));
  out.view.active = device.has_value();
  out.view.suspended = device.has_value() && device->suspended;
  out.view.open = device.has_value() && device->open_count > 0;
  const lvm::LogicalVolume* const pool = lvm::PoolOfPart(*record.group, *record.lv);
  for (const std::string& uuid :
       pool == nullptr ? std::vector<std::string>() : DmUuidsAboveParts(*record.group, *pool)) {
    QUARRY_ASSIGN(const auto above, dm.Find(uuid));
    out.view.suspended = out.view.suspended || (above.has_value() && above->suspended);
  }
  QUARRY_ASSIGN(out.view.on_lost_disk, dm.LiesOnLostDisk(record.DmUuid()));
  out.on_lost_disk = out.view.on_lost_disk;
  return Ok();
}

// Why an inactive volume is not started, as Node::LookForDoubt finds out.
void ObserveDoubt(const Record& record, dm::RaidLegsApi& legs, VolumeObservation& out) {
  if (!HasRedundancy(*record.lv)) {
    return;
  }
  auto found = FindDoubt(*record.group, *record.lv, legs);
  out.view.doubt = found.has_value() ? std::move(*found) : Doubt{.words = found.error().message()};
  out.doubt_changed = true;
}

}  // namespace

MissingDisks ObserveMissing(const lvm::VolumeGroup& group, const std::map<std::string, SteadyTime>& since,
                            const GiveUpPolicy& policy, SteadyTime now) {
  MissingDisks out;
  for (const lvm::PhysicalVolume& pv : group.pvs) {
    if (!IsAway(group, pv.uuid)) {
      continue;
    }
    out.all.insert(pv.uuid);
    const SteadyTime due = since.at(pv.uuid) + policy.delay;
    if (policy.at_once || (policy.after_delay && due <= now)) {
      out.given_up.insert(pv.uuid);
    } else if (policy.after_delay) {
      const auto wait = std::chrono::ceil<milliseconds>(due - now);
      out.next = std::min(out.next.value_or(wait), wait);
    }
  }
  return out;
}

ReturnedDisk ObserveReturned(const Catalog& catalog, const std::string& pv_uuid, dm::DmApi& dm) {
  ReturnedDisk out;
  for (const Record& record : catalog.records) {
    const std::vector<bool> on = lvm::LegsOn(*catalog.group, *record.lv, pv_uuid);
    if (std::ranges::find(on, true) != on.end()) {
      out.volumes.push_back(record.tags.id);
      out.pulled = out.pulled || dm.LiesOnLostDisk(record.DmUuid()).value_or(false);
    }
  }
  return out;
}

Result<VolumeObservation> ObserveVolume(const Record& record, const std::optional<dm::RaidStatus>& raid,
                                        const VolumeMemory& memory, bool disks, dm::DmApi& dm,
                                        dm::RaidLegsApi& legs) {
  VolumeObservation out{.view = {.record = &record, .active = raid.has_value(), .raid = raid}};
  VolumeView& view = out.view;
  const bool failed = HasFailedLeg(view);
  if (disks || failed || memory.doubtful || record.lv->partial || memory.on_lost_disk) {
    QUARRY_TRY(ObserveDevice(record, dm, out));
  }
  if (!view.active && (memory.doubtful || record.lv->partial)) {
    ObserveDoubt(record, legs, out);
  } else if (memory.doubtful) {
    out.doubt_changed = true;
  }
  if (failed && view.active && !view.on_lost_disk && !record.lv->partial) {
    if (const auto may = MayTakeBack(*record.group, *record.lv, *view.raid, legs); !may.has_value()) {
      view.doubt = Doubt{.words = may.error().message()};
    }
  }
  if (IsComparing(view) || memory.scrubbing) {
    view.instance = dm.Instance(record.DmUuid()).value_or(0);
  }
  return out;
}

}  // namespace quarry::engine
