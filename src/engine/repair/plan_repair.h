// What is to be done about disks that are lost, have come back or have failed: (a group as it is, what the
// kernel has of it) → the next step. Pure, tested by itself; repair_loop.h has the memory and the doing.
//
// Lost legs of raid volumes are rebuilt on other disks once their disk has been away for as long as the
// policy waits; a disk that is back is taken back and its volumes refreshed, at once; a group whose lost
// disks bear nothing any more is reduced, because LVM makes and grows nothing in it before. Whoever has too
// few legs left for his data is left alone: his disks may come back.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dm/dm_api.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/plan/actions.h"
#include "engine/raid/stopped_array.h"

namespace quarry::engine {

// A ready volume, as the kernel has it.
struct VolumeView {
  const Record* record = nullptr;
  bool active = false;
  bool suspended = false;
  bool open = false;
  bool on_lost_disk = false;           // dm::DmApi::LiesOnLostDisk
  std::optional<dm::RaidStatus> raid;  // nullopt: no raid volume, or not active
  bool refresh_due = true;             // false: that was tried a moment ago
  bool hopeless = false;               // its legs failed again each time that their disks were taken back
  bool scrub_due = true;               // likewise
  uint64_t instance = 0;               // dm::DmApi::Instance, where its legs are, or were, being compared
  // Of one that is not active; of an active one, why a leg that is back is not taken back.
  std::optional<Doubt> doubt = {};
  bool accepted = false;  // a person wants it started from what is there
};

// Whether the kernel has given up a leg, or has none in its place.
bool HasFailedLeg(const VolumeView& volume);

struct RepairView {
  const Catalog* catalog = nullptr;  // never nullptr when it is planned on
  std::vector<VolumeView> volumes;
  std::set<std::string> given_up;  // PV uuids: away for as long as the policy waits
  std::set<std::string> refused;   // PV uuids: have returned, and LVM refused a moment ago to take them back
  bool may_replace_legs = false;   // whether legs may be made anew whose disks are there
  bool may_evacuate = false;       // whether a disk may be emptied now
  std::optional<Bytes> rebuild_rate = {};  // as EngineConfig; nullopt also: that was tried a moment ago

  const lvm::VolumeGroup& group() const { return *catalog->group; }
};

// Legs that cannot be read now: on a missing disk, nowhere, or not in sync by the kernel's word.
std::vector<bool> UselessLegs(const RepairView& view, const VolumeView& volume);

// The PVs, all of them there, of legs that the kernel has given up, by uuid.
std::set<std::string> FailedPvs(const RepairView& view, const VolumeView& volume);

// Whether legs are being filled or compared.
bool IsBusy(const VolumeView& volume);
// The latter.
bool IsComparing(const VolumeView& volume);

enum class RepairKind {
  kRepair,
  kTakeBack,     // a disk that has returned, `disk`
  kEvacuate,     // one of many, of a disk that is being emptied
  kReplaceLeg,   // a leg on a disk that is there, and fails
  kLimit,        // how fast legs are filled
  kBeginScrub,   // plan_scrub.h
  kRecordScrub,  // likewise
};

struct RepairStep {
  std::vector<std::string> ids;  // of the volumes that it is about
  Plan actions;
  RepairKind kind = RepairKind::kRepair;
  std::string disk = {};   // PV uuid
  bool unhurried = false;  // copies: may take hours, in which others may change the group
  // Of scrubs: whether what differs is written anew, and how much it was.
  bool repairs = false;
  Bytes mismatched = {};
};

struct RepairPlan {
  std::optional<RepairStep> step;      // nullopt: there is nothing to do now
  std::vector<std::string> obstacles;  // what ought to be done and cannot be, with the remedy
  // There is something that only time can bring: a sync that goes on.
  bool waiting = false;
};

// One step at a time, each planned on what the one before it left.
RepairPlan PlanRepair(const RepairView& view);

}  // namespace quarry::engine
