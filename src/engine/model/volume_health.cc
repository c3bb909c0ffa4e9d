#include "engine/model/volume_health.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>

#include <fmt/format.h>

namespace quarry::engine {
namespace {

size_t Count(const std::vector<bool>& legs) {
  return static_cast<size_t>(std::count(legs.begin(), legs.end(), true));
}

std::string Numbers(const std::vector<bool>& legs) {
  std::vector<size_t> numbers;
  for (size_t i = 0; i < legs.size(); ++i) {
    if (legs[i]) {
      numbers.push_back(i);
    }
  }
  return fmt::format("{}", fmt::join(numbers, ", "));
}

// Missing legs and disks by LVM's metadata: a leg is missing if at least a part of it lies on a missing disk,
// or if LVM has given it up.
struct Missing {
  std::vector<bool> legs;
  std::vector<std::string> disks;  // PV uuids
};

Missing MissingOf(const Record& record) {
  Missing missing{.legs = lvm::LostLegs(*record.group, *record.lv), .disks = {}};
  for (const std::vector<std::string>& leg : lvm::LegPvs(*record.group, *record.lv)) {
    std::ranges::copy_if(leg, std::back_inserter(missing.disks),
                         [&](const std::string& uuid) { return record.group->LacksPv(uuid); });
  }
  return missing;
}

// Why each of these legs is out of reach.
std::string LostInWords(const Record& record, const std::vector<bool>& lost) {
  const std::vector<std::vector<std::string>> legs = lvm::LegPvs(*record.group, *record.lv);
  std::set<std::string> reasons;  // a disk may hold parts of several legs
  for (size_t i = 0; i < lost.size(); ++i) {
    if (lost[i] && legs[i].empty()) {
      reasons.insert(fmt::format("leg {} was given up as lost", i));
    }
    for (const std::string& uuid : lost[i] ? legs[i] : std::vector<std::string>()) {
      const lvm::PhysicalVolume* const pv = record.group->FindPv(uuid);
      const bool lacks = record.group->LacksPv(uuid);
      if (lacks && (pv == nullptr || pv->device.empty())) {
        reasons.insert(fmt::format("its disk is missing (PV {})", uuid));
      } else if (lacks) {
        reasons.insert(fmt::format("its disk {} has returned, and LVM refuses to take it back (PV {})",
                                   pv->device, uuid));
      } else if (legs[i].size() == 1) {
        reasons.insert(fmt::format("its disk {} cannot be read (PV {})", pv->device, uuid));
      }
    }
  }
  return fmt::format("{}", fmt::join(reasons, ", and "));
}

Ailment DiskMissing(const Record& record, const lvm::Geometry& geometry, const Missing& missing) {
  const std::string where =
      missing.disks.empty() ? "was given up as lost"
                            : fmt::format("lies on a missing disk (PV {})", fmt::join(missing.disks, ", "));
  if (Survives(geometry, missing.legs)) {
    return {Problem::kDegraded, "DiskMissing",
            fmt::format("leg {} of {} ({}) {}; all data can be read and written", Numbers(missing.legs),
                        missing.legs.size(), geometry.Describe(), where)};
  }
  return {Problem::kInaccessible, "DiskMissing",
          fmt::format("a part of volume {} ({}) {}; bring it back: no other disk has these data",
                      record.tags.id, geometry.Describe(), where)};
}

Ailment LegFailed(const lvm::Geometry& geometry, const std::vector<bool>& failed) {
  if (!Survives(geometry, failed)) {
    return {Problem::kInaccessible, "LegFailed",
            fmt::format("the kernel has stopped the volume, because it lost leg {} of {} ({}), more than the "
                        "type can do without. The data on the legs are unchanged. quarryd starts the volume "
                        "again once the disks are back and no process has it open",
                        Numbers(failed), failed.size(), geometry.Describe())};
  }
  return {Problem::kDegraded, "LegFailed",
          fmt::format("the kernel has failed leg {} of {} ({}) after disk errors; quarryd takes it back once "
                      "the disk answers",
                      Numbers(failed), failed.size(), geometry.Describe())};
}

// The kernel's view of a RAID volume. `missing`: legs that the metadata already report, so they are not
// reported twice.
void DiagnoseRaid(const lvm::Geometry& geometry, const dm::RaidStatus& raid, const Missing& missing,
                  Health& health) {
  const std::vector<bool> failed = FailedLegs(raid);
  bool news = false;
  for (size_t i = 0; i < failed.size(); ++i) {
    news = news || (failed[i] && !(i < missing.legs.size() && missing.legs[i]));
  }
  if (news) {
    health.ailments.push_back(LegFailed(geometry, failed));
  }
  if (raid.in_sync == raid.total && (raid.action.empty() || raid.action == "idle")) {
    return;
  }
  const uint64_t percent = static_cast<uint64_t>(100.0L * raid.in_sync / raid.total);
  if (!raid.action.empty() && raid.action != "idle" && raid.action != "frozen") {
    health.percent = static_cast<uint32_t>(percent);
  }
  if (raid.action == "recover") {
    health.ailments.push_back({Problem::kDegraded, "Rebuilding",
                               fmt::format("a leg is being rebuilt from the others: {} % done", percent)});
  } else if (raid.action == "resync") {
    health.note = fmt::format("syncing, {} % done", percent);
  } else if (raid.action == "check" || raid.action == "repair") {
    health.note = fmt::format("being checked, {} % done", percent);
  } else if (raid.in_sync != raid.total && Count(failed) == 0 && Count(missing.legs) == 0) {
    health.ailments.push_back(
        {Problem::kDegraded, "OutOfSync",
         fmt::format("its legs are only {} % in sync, and the kernel is not syncing them ({})", percent,
                     raid.action)});
  }
}

// What the last scrub found. On parity types each difference is damage: a write cut off by a power failure,
// or a disk error. Copies may differ where no data are stored: in blocks that changed while they were written
// (swap), or that were discarded (md(4)).
void DiagnoseMismatch(const Record& record, const lvm::Geometry& geometry, Health& health) {
  const auto outcome = ReadScrub(record.tags.scrubbed);
  if (!outcome.has_value() || outcome->mismatched.value == 0) {
    return;
  }
  const std::string found =
      fmt::format("the last scrub found {} that differ between its legs", HumanBytes(outcome->mismatched));
  const bool copies =
      geometry.type() == lvm::VolumeType::kRaid1 || geometry.type() == lvm::VolumeType::kRaid10;
  if (!copies) {
    health.ailments.push_back(
        {Problem::kDegraded, "LegsDiffer",
         fmt::format("{}: check its disks for errors, then let `quarryctl scrub --repair {}` rewrite the "
                     "parity from the data",
                     found, record.tags.id)});
  } else if (health.note.empty()) {
    health.note = fmt::format("{}; copies may differ where no data are stored", found);
  }
}

template <typename Number>
bool ParseNumber(std::string_view text, Number& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && end == text.data() + text.size();
}

bool Has(const std::vector<std::string>& options, std::string_view word) {
  return std::find(options.begin(), options.end(), word) != options.end();
}

// Whether the file system was mounted writable and is now read-only: the kernel made it so after an error. A
// mount that was asked for as read-only has "ro" in the options of the mount as well.
bool HasGoneReadOnly(const mount::MountEntry& entry) {
  return Has(entry.super_options, "ro") && Has(entry.options, "rw");
}

}  // namespace

bool Survives(const lvm::Geometry& geometry, const std::vector<bool>& lost) {
  switch (geometry.type()) {
    case lvm::VolumeType::kLinear:
    case lvm::VolumeType::kStriped:
    case lvm::VolumeType::kRaid0:
      return Count(lost) == 0;
    case lvm::VolumeType::kRaid1:
      return Count(lost) < lost.size();
    case lvm::VolumeType::kRaid4:
    case lvm::VolumeType::kRaid5:
      return Count(lost) <= 1;
    case lvm::VolumeType::kRaid6:
      return Count(lost) <= 2;
    case lvm::VolumeType::kRaid10: {
      // The copies of a stripe are neighbours (lvmraid(7), "near" layout).
      const size_t copies = geometry.mirrors() + 1;
      for (size_t first = 0; first + copies <= lost.size(); first += copies) {
        const auto set = lost.begin() + static_cast<std::ptrdiff_t>(first);
        if (std::all_of(set, set + static_cast<std::ptrdiff_t>(copies), [](bool leg) { return leg; })) {
          return false;
        }
      }
      return true;
    }
  }
  return false;
}

std::vector<bool> FailedLegs(const dm::RaidStatus& raid) {
  std::vector<bool> out;
  for (const char leg : raid.legs) {
    out.push_back(leg == 'D' || leg == '-');
  }
  return out;
}

bool IsWhole(const dm::RaidStatus& raid) {
  return raid.action == "idle" && raid.in_sync == raid.total &&
         raid.legs.find_first_not_of('A') == std::string::npos;
}

bool HasStopped(const lvm::Geometry& geometry, const dm::RaidStatus& raid) {
  return raid.legs.size() == geometry.legs() && !Survives(geometry, FailedLegs(raid));
}

bool HasRedundancy(const lvm::LogicalVolume& lv) {
  return lv.IsRaid() && !lv.segment_type.starts_with("raid0");
}

bool AnyGoneReadOnly(const mount::MountTable& mounts) {
  return std::ranges::any_of(mounts.entries(), HasGoneReadOnly);
}

Health Diagnose(const Record& record, const std::optional<dm::RaidStatus>& raid,
                const std::vector<const mount::MountEntry*>& mounts) {
  Health health;
  const Result<Profile>& profile = record.profile;
  if (!profile.has_value()) {
    health.ailments.push_back({Problem::kDegraded, "Unreadable", profile.error().message()});
    return health;
  }
  const lvm::Geometry& geometry = profile->geometry;
  const Missing missing = MissingOf(record);
  if (Count(missing.legs) != 0) {
    health.ailments.push_back(DiskMissing(record, geometry, missing));
  }
  if (raid.has_value()) {
    DiagnoseRaid(geometry, *raid, missing, health);
  }
  DiagnoseMismatch(record, geometry, health);
  const auto gone = std::ranges::find_if(mounts, [](const auto* entry) { return HasGoneReadOnly(*entry); });
  if (gone != mounts.end()) {
    health.ailments.push_back(
        {Problem::kInaccessible, "FilesystemReadOnly",
         fmt::format(
             "the kernel made the {} at {} read-only after an error; the kernel log has the cause. Unpublish "
             "and unstage the volume, check it with fsck, then use it again",
             (*gone)->fs_type, (*gone)->target)});
  }
  return health;
}

LossVerdict JudgeLoss(const Record& record, const std::set<std::string>& refused,
                      const std::vector<bool>& unreadable) {
  const lvm::VolumeGroup& group = *record.group;
  for (const lvm::PhysicalVolume& pv : group.pvs) {
    if (pv.missing && !pv.device.empty() && !refused.contains(pv.uuid)) {
      return {Loss::kPassing,
              fmt::format("disk {} (PV {}) of volume group {} has returned, and is being taken "
                          "back: try again",
                          pv.device, pv.uuid, group.name)};
    }
  }
  const Result<Profile>& profile = record.profile;
  if (!profile.has_value()) {
    return {};  // how many legs it can do without is not known
  }
  std::vector<bool> lost = lvm::LostLegs(group, *record.lv);
  for (size_t i = 0; i < std::min(lost.size(), unreadable.size()); ++i) {
    lost[i] = lost[i] || unreadable[i];
  }
  if (Survives(profile->geometry, lost)) {
    return {};
  }
  return {Loss::kLost, LostInWords(record, lost)};
}

std::string ScrubText(const ScrubOutcome& outcome) {
  return fmt::format("{}:{}", outcome.ended.time_since_epoch().count(), outcome.mismatched.value);
}

std::optional<ScrubOutcome> ReadScrub(std::string_view text) {
  const size_t colon = text.find(':');
  int64_t ended = 0;
  uint64_t bytes = 0;
  if (colon == std::string_view::npos || !ParseNumber(text.substr(0, colon), ended) ||
      !ParseNumber(text.substr(colon + 1), bytes)) {
    return std::nullopt;
  }
  return ScrubOutcome{std::chrono::sys_seconds(std::chrono::seconds(ended)), Bytes{bytes}};
}

std::string_view ConditionWord(const Health& health) {
  const auto has = [&](auto matches) { return std::ranges::any_of(health.ailments, matches); };
  if (has([](const Ailment& a) { return a.problem == Problem::kInaccessible; })) {
    return "failed";
  }
  if (has([](const Ailment& a) { return a.reason == "Rebuilding"; })) {
    return "repairing";
  }
  if (!health.ailments.empty()) {
    return "degraded";
  }
  return health.note.starts_with("syncing") ? "syncing" : "healthy";
}

}  // namespace quarry::engine
