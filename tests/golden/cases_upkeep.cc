// Steps of repairs, evacuations and scrubs.
#include "tests/golden/plan_world.h"

namespace quarry::engine {
namespace {

constexpr std::chrono::hours kLongEnough{1};  // a missing disk is given up sooner

std::string MakeMirror(PlanWorld& world) {
  return world.Make('a', {{"type", "raid1"}}, 10);
}

// A disk with a leg of the volume is pulled, and the delay of repairs passes.
void PullForLong(PlanWorld& world, const std::string& id, size_t leg) {
  world.SetMissing(world.Legs(id)[leg]);
  world.Mend();
  world.Pass(kLongEnough);
}

// `rebuild`: legs are rebuilt from the other legs, instead of copied.
void Evacuates(PlanWorld& world, bool rebuild) {
  const std::string id = MakeMirror(world);
  const std::string leaving = world.Legs(id)[0];
  world.Does([&]() -> Status {
    QUARRY_TRY(world.engine_->disks().Evacuate({.disk = leaving, .rebuild = rebuild}, PlanWorld::Soon()));
    world.MendUntilGone(leaving);
    return Ok();
  });
}

void ComparesLegs(PlanWorld& world, bool repair, uint64_t mismatches) {
  const std::string id = MakeMirror(world);
  world.Does([&]() -> Status {
    QUARRY_TRY(world.engine_->upkeep().Scrub({{id}, repair}, PlanWorld::Soon()));
    QUARRY_TRY(world.Repair());
    world.dm_.EndScrub(world.DmUuidOf(id), mismatches);
    return world.Repair();
  });
}

// Pulls the disk of the first leg of a new raid1 volume, which a repair round notes. Returns its PV UUID.
std::string PullAndMiss(PlanWorld& w) {
  const std::string id = MakeMirror(w);
  const std::string pulled = w.Legs(id)[0];
  w.SetMissing(pulled);
  w.SetLegs(id, "DA");
  w.Mend();
  return pulled;
}

std::vector<PlanCase> RepairCases() {
  return {
      {"repair_pulled_disk", "repair after the delay",
       "a raid1 volume; the disk of a leg was pulled for good",
       [](PlanWorld& w) {
         PullForLong(w, MakeMirror(w), 1);
         w.Does([&] { return w.Repair(); });
       }},
      {"repair_inactive_volume", "repair after the delay",
       "the node has rebooted; the disk of a leg of a raid1 volume was pulled for good",
       [](PlanWorld& w) {
         const std::string id = MakeMirror(w);
         w.lvm_.Reboot();
         w.dm_.Reboot();
         PullForLong(w, id, 1);
         w.Does([&] { return w.Repair(); });
       }},
      {"repair_returned_disk", "repair at once",
       "a raid1 volume; the disk of a leg was pulled and is back, and LVM has not missed a commit",
       [](PlanWorld& w) {
         w.SetMissing(PullAndMiss(w), false);
         w.Does([&] { return w.Repair(); });
       }},
      {"repair_returned_disk_that_missed_a_commit", "repair at once",
       "a raid1 volume; the disk of a leg is back, and the group was changed without it",
       [](PlanWorld& w) {
         w.lvm_.ReturnDisk("vg0", PullAndMiss(w));
         w.Does([&] { return w.Repair(); });
       }},
      {"repair_failing_leg", "repair after the third time that the leg failed",
       "a raid1 volume; its disk is present, and the leg fails again after each refresh",
       [](PlanWorld& w) {
         const std::string id = MakeMirror(w);
         for (int i = 0; i < 3; ++i) {
           w.SetLegs(id, "AD");
           w.Mend(RepairCause::kEvent);
           w.SetLegs(id, "AD");
           const RepairReport report = w.Mend(RepairCause::kEvent);
           ASSERT_TRUE(report.next.has_value());
           w.clock_.now += *report.next;
         }
         w.Does([&] { return w.Repair(RepairCause::kEvent); });
       }},
      {"repair_suspended_volume", "repair at once", "a killed command left the volume suspended",
       [](PlanWorld& w) {
         const std::string id = w.Make('a', {}, 10);
         w.dm_.SetSuspended(w.DmUuidOf(id), true);
         w.Does([&] { return w.Repair(); });
       }},
      {"repair_without_spare_disk", "repair after the delay",
       "a raid1 volume on the only two disks; one was pulled for good",
       [](PlanWorld& w) {
         w.SetDisks(2, 100);
         PullForLong(w, MakeMirror(w), 1);
         w.Does([&] { return w.Repair(); });
       }},
      {"repair_too_few_legs", "repair after the delay", "a raid5 volume; the disks of two legs were pulled",
       [](PlanWorld& w) {
         const std::string id = w.Make('a', {{"type", "raid5"}}, 20);
         const std::vector<std::string> legs = w.Legs(id);
         w.SetMissing(legs[0]);
         w.SetMissing(legs[2]);
         w.Mend();
         w.Pass(kLongEnough);
         w.Does([&] { return w.Repair(); });
       }},
      {"repair_empty_disk", "repair after the delay", "a disk without extents was pulled for good",
       [](PlanWorld& w) {
         w.SetMissing(w.Group()->pvs.back().uuid);
         w.Mend();
         w.Pass(kLongEnough);
         w.Does([&] { return w.Repair(); });
       }},
      {"limit_rebuild_rate", "set the configured rate of 10 MiB/s",
       "a raid1 volume that was made without a limit",
       [](PlanWorld& w) {
         MakeMirror(w);
         w.Begin([](EngineConfig& config) { config.rebuild_rate = Bytes{10 * kMiB.value}; });
         w.Does([&] { return w.Repair(); });
       }},
  };
}

std::vector<PlanCase> OtherCases() {
  return {
      {"evacuate", "vacate the disk of the first leg, until it has left the group", "a raid1 volume",
       [](PlanWorld& w) { Evacuates(w, false); }},
      {"evacuate_by_rebuild", "replace the disk of the first leg without reading it, until it has left",
       "a raid1 volume", [](PlanWorld& w) { Evacuates(w, true); }},
      {"scrub", "compare the legs, and record the result", "a raid1 volume whose legs differ in 8 sectors",
       [](PlanWorld& w) { ComparesLegs(w, false, 8); }},
      {"scrub_and_repair", "compare the legs, rewrite what differs, and record the result",
       "a raid1 volume whose legs differ in 8 sectors", [](PlanWorld& w) { ComparesLegs(w, true, 8); }},
  };
}

}  // namespace

std::vector<PlanCase> UpkeepCases() {
  std::vector<PlanCase> out = RepairCases();
  const std::vector<PlanCase> others = OtherCases();
  out.insert(out.end(), others.begin(), others.end());
  return out;
}

}  // namespace quarry::engine
