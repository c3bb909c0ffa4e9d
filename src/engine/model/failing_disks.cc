#include "engine/model/failing_disks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "engine/model/volume_health.h"
#include "lvm/names.h"

namespace quarry::engine {
namespace {

constexpr uint32_t kWholeLife = 100;  // percent used

// `weak`: the disks that placement may have excluded.
Error TellOf(Error error, const lvm::VolumeGroup& group, const UnhealthyDisks& weak) {
  if (error.code() != Code::kNoSpace) {
    return error;
  }
  const std::set<std::string> withheld = Excluded(group, weak);
  std::string words;
  const auto add = [&](const std::map<std::string, std::string>& disks, std::string_view what) {
    std::vector<std::string> names;
    for (const lvm::PhysicalVolume& pv : group.pvs) {
      if (disks.contains(pv.uuid) && withheld.contains(pv.uuid)) {
        names.push_back(pv.uuid);
      }
    }
    if (!names.empty()) {
      words += fmt::format("; excluded as {}: PV {}", what, fmt::join(names, ", "));
    }
  };
  add(weak.failing, "failing");
  add(weak.worn, "worn");
  return words.empty() ? std::move(error) : Error(error.code(), error.message() + words);
}

}  // namespace

std::string_view DiskStateName(DiskState state) {
  switch (state) {
    case DiskState::kGood:
      return "good";
    case DiskState::kWorn:
      return "worn";
    case DiskState::kFailing:
      return "failing";
  }
  return "";
}

DiskVerdict JudgeHealth(const udev::DiskHealth& health) {
  std::vector<std::string> reasons;
  if ((health.critical_warning & udev::kSpareLow) != 0 || health.available_spare < health.spare_threshold) {
    reasons.push_back(fmt::format("its spare blocks run out: {} % left, its own limit is {} %",
                                  health.available_spare, health.spare_threshold));
  }
  if ((health.critical_warning & udev::kReliabilityDegraded) != 0) {
    reasons.push_back(
        health.failure.empty()
            ? fmt::format("it reports that it is not reliable any more: {} media errors", health.media_errors)
            : fmt::format("it reports that it is failing: {}", health.failure));
  }
  if ((health.critical_warning & udev::kReadOnlyMedia) != 0) {
    reasons.emplace_back("it takes no more writes");
  }
  if (!reasons.empty()) {
    return {DiskState::kFailing, fmt::format("{}", fmt::join(reasons, "; "))};
  }
  if (health.percentage_used >= kWholeLife) {
    return {DiskState::kWorn,
            fmt::format("{} % of the life that its vendor expects is used up", health.percentage_used)};
  }
  return {};
}

bool IsEvacuating(const lvm::PhysicalVolume& pv) {
  return std::ranges::any_of(
      pv.tags, [](const std::string& tag) { return tag == lvm::kLeavingTag || tag == lvm::kReplacingTag; });
}

std::set<std::string> Excluded(const lvm::VolumeGroup& group, const UnhealthyDisks& weak) {
  std::set<std::string> failing;
  std::set<std::string> worn;
  bool others = false;
  for (const lvm::PhysicalVolume& pv : group.pvs) {
    if (weak.failing.contains(pv.uuid)) {
      failing.insert(pv.uuid);
    } else if (weak.worn.contains(pv.uuid)) {
      worn.insert(pv.uuid);
    } else {
      others = others || !pv.missing;
    }
  }
  if (others) {
    failing.merge(worn);
  }
  return failing;
}

lvm::FreeSpace Without(lvm::FreeSpace space, const std::set<std::string>& pvs) {
  std::erase_if(space.pvs, [&](const lvm::FreePv& pv) { return pvs.contains(pv.uuid); });
  return space;
}

Error ReportExcluded(Error error, const Catalog& catalog) {
  return TellOf(std::move(error), *catalog.group, catalog.weak);
}

Result<lvm::LegReplacement> PlaceRebuiltLegs(const lvm::VolumeGroup& group, const UnhealthyDisks& weak,
                                             const lvm::Geometry& geometry, const lvm::LogicalVolume& lv,
                                             const std::vector<bool>& which) {
  auto placed = PlaceOnSoundDisks(group, weak, [&](const lvm::FreeSpace& space) {
    return lvm::PlaceLegs(space, geometry, group, lv, which);
  });
  if (!placed.has_value()) {
    return TellOf(std::move(placed.error()), group, {weak.failing, {}, {}});
  }
  return placed;
}

std::optional<Ailment> DiskFailing(const Record& record, const UnhealthyDisks& weak) {
  if (weak.failing.empty()) {
    return std::nullopt;
  }
  std::vector<size_t> legs;
  std::set<std::string> disks;
  const auto pvs_of_legs = lvm::LegPvs(*record.group, *record.lv);
  for (size_t i = 0; i < pvs_of_legs.size(); ++i) {
    std::vector<std::string> failing;
    std::ranges::copy_if(pvs_of_legs[i], std::back_inserter(failing),
                         [&](const std::string& pv) { return weak.failing.contains(pv); });
    if (!failing.empty()) {
      legs.push_back(i);
      disks.insert(failing.begin(), failing.end());
    }
  }
  if (legs.empty()) {
    return std::nullopt;
  }
  std::vector<std::string> reasons;
  for (const std::string& pv : disks) {
    reasons.push_back(fmt::format("PV {}: {}", pv, weak.failing.at(pv)));
  }
  const std::string remedy = HasRedundancy(*record.lv)
                                 ? "replace the disk before another one fails"
                                 : "no other disk has these data: move them away while they can be read";
  return Ailment{
      Problem::kDegraded, "DiskFailing",
      fmt::format("leg {} of {} lies on a disk that is failing ({}); all data can still be read; {}",
                  fmt::join(legs, ", "), pvs_of_legs.size(), fmt::join(reasons, "; "), remedy)};
}

}  // namespace quarry::engine
