// Plans repairs after disks are lost, return or fail: from a group and the kernel's view of it, to the next
// step. Pure and tested by itself. observe.h looks, repair_loop.h executes the steps.
//
// - A leg on a missing disk is rebuilt on another disk once its disk has been missing for as long as the
//   policy waits.
// - A disk that returns is taken back, and its volumes are refreshed, at once.
// - A group is reduced once its missing disks carry no extents any more, because until then LVM creates and
//   grows nothing in the group.
// - A volume with too few surviving legs is not touched: its disks may return.
#pragma once

#include <expected>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dm/dm_api.h"
#include "engine/model/catalog.h"
#include "engine/plan/actions.h"
#include "engine/plan/stop_store.h"
#include "engine/raid/stopped_array.h"

namespace quarry::engine {

// A ready volume, as the kernel sees it.
struct VolumeView {
  const Record* record = nullptr;
  bool active = false;
  bool suspended = false;
  bool open = false;
  bool on_lost_disk = false;           // dm::DmApi::LiesOnLostDisk
  std::optional<dm::RaidStatus> raid;  // nullopt: not a RAID volume, or not active
  bool refresh_due = true;             // false: a refresh was tried recently
  bool hopeless = false;               // its legs failed again after each attempt to take their disks back
  bool scrub_due = true;               // false: a scrub was tried recently
  uint64_t instance = 0;  // dm::DmApi::Instance; set while the legs are compared, or were a moment ago
  // Inactive volume: why it is not started. Active volume: why a leg that is back is not taken back.
  std::optional<Doubt> doubt = {};
  bool accepted = false;  // an administrator wants it started from the legs that are present
};

// Whether the kernel has marked a leg as failed, or has no leg in its place.
bool HasFailedLeg(const VolumeView& volume);

// A thin store with which the kernel cannot go on until it has been stopped and started.
struct SickStore {
  const Store* store = nullptr;
  std::string why;                        // WhyRestart()
  std::vector<ActiveVolume> active = {};  // volumes in it that the kernel has
  bool due = true;                        // false: a start was tried recently
};

struct RepairView {
  const Catalog* catalog = nullptr;  // never nullptr in a call of PlanRepair
  std::vector<VolumeView> volumes;
  std::set<std::string> given_up;  // PV UUIDs: missing for as long as the policy waits
  std::set<std::string> refused;   // PV UUIDs: returned, but LVM refused recently to take them back
  std::vector<std::string> stopped_stores =
      {};  // names of stores' pools: not in the kernel, and to be started
  std::vector<SickStore> sick_stores = {};
  // Of both, by id of the store: volumes to be active once it is started (NamesToActivate).
  std::map<std::string, std::vector<std::string>> activate = {};
  std::set<std::string> not_rebuilt;       // ids of volumes whose rebuild failed recently
  bool may_replace_legs = false;           // whether legs may be replaced although their disks are present
  bool may_evacuate = false;               // whether an evacuation step may be planned now
  std::optional<Bytes> rebuild_rate = {};  // to be set; nullopt: none is wanted, or it was tried recently

  const lvm::VolumeGroup& group() const { return *catalog->group; }
};

// The legs that cannot be read now: on a missing disk, without a disk, or not in sync according to the
// kernel.
std::vector<bool> UselessLegs(const RepairView& view, const VolumeView& volume);

// The UUIDs of the present PVs that hold legs which the kernel has marked as failed.
std::set<std::string> FailedPvs(const RepairView& view, const VolumeView& volume);

// Whether the volume has all data of a leg that a conversion took out of it: the kernel reports every other
// leg as present and in sync.
bool IsDispensable(const Record& volume, const std::optional<dm::RaidStatus>& raid);

// Whether legs are being rebuilt or compared.
bool IsBusy(const VolumeView& volume);
// Whether legs are being compared.
bool IsComparing(const VolumeView& volume);

enum class RepairKind {
  kRepair,
  kRebuild,      // of a volume's legs on missing disks
  kStartStore,   // that the kernel does not have, or that is stopped before
  kTakeBack,     // of `disk`, which has returned
  kEvacuate,     // one of many steps for a disk that is to be vacated
  kReplaceLeg,   // a leg on a disk that is present and failing
  kLimit,        // sets the rebuild rate
  kBeginScrub,   // plan_scrub.h
  kRecordScrub,  // plan_scrub.h
  kTagDisk,      // `disk`: records that legs on it fail, or that they no longer do (disk_memory.h)
};

struct RepairStep {
  std::vector<std::string> ids;  // ids of the volumes concerned
  Plan actions;
  RepairKind kind = RepairKind::kRepair;
  std::string disk = {};   // PV uuid
  bool unhurried = false;  // a copy that may take hours; meanwhile other steps may change the group
  // For scrubs: whether differences are repaired, and how much differed.
  bool repairs = false;
  Bytes mismatched = {};
};

struct LegsToReplace {
  std::vector<bool> which;                  // one entry for each leg: lvm::LegsOn for a PV, or lvm::LostLegs
  const lvm::PhysicalVolume* on = nullptr;  // the present PV with these legs; nullptr: they are lost
  UnhealthyDisks avoid;                     // disks that get no new leg (PlaceRebuiltLegs)
  bool activate = false;                    // whether the volume must be activated first
  RepairKind kind = RepairKind::kRepair;
};

// Why legs cannot be replaced now. Both reasons may hold.
struct LegsKept {
  bool needed = false;   // the remaining legs do not hold all data
  std::string no_place;  // why there is no place for the new legs; empty: there is one
};

// Replaces legs of a RAID volume by new legs on other disks, which are rebuilt from the remaining legs. A leg
// is replaced only if the volume survives without it and without all legs that are useless now. The callers
// decide whether the volume may be changed now, and report obstacles in their own words.
std::expected<RepairStep, LegsKept> ReplaceLegs(const RepairView& view, const VolumeView& volume,
                                                const lvm::Geometry& geometry, const LegsToReplace& legs);

struct RepairPlan {
  std::optional<RepairStep> step;      // nullopt: nothing to do now
  std::vector<std::string> obstacles;  // steps that are needed but impossible now, with the remedy
  // Something must finish first, such as a rebuild in the kernel.
  bool waiting = false;
};

// Plans one step. The caller executes it, looks at the group again and calls again.
RepairPlan PlanRepair(const RepairView& view);

}  // namespace quarry::engine
