#include "lvm/verbs/legs.h"

#include <fmt/format.h>

namespace quarry::lvm {

std::string RepairLv::Text() const {
  return fmt::format("rebuild legs of {} on {}", Object(), fmt::join(pv_arguments, " "));
}

// LVM replaces only the legs on missing PVs, or on the PV to evacuate.
Result<Words> RepairLv::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  Words out = {"lvconvert", "-y"};
  Append(out, leave.empty() ? Words{"--repair"} : Words{"--replace", leave});
  Append(out, {"--", Object()});
  Append(out, pv_arguments);
  return out;
}

std::string LimitRecovery::Text() const {
  return fmt::format("limit resync and scrub of {} to {}", FullNames(group, names),
                     rate.value == 0 ? "any rate" : HumanBytes(rate) + "/s");
}

Result<Words> LimitRecovery::Arguments() const {
  return WithFullNames({"lvchange", "-y", "--maxrecoveryrate", Kib(rate), "--"}, group, names);
}

// Runs in the foreground until the extents are moved.
Result<Words> MoveExtents::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  return Words{"pvmove", "-y", "--interval", "0", "--name", name, "--", from, to};
}

// For one PV: without a PV, LVM would abort every move in every group that it sees.
Result<Words> AbortMove::Arguments() const {
  QUARRY_TRY(CheckGroupName(group));
  if (!device.starts_with('/')) {
    return Error(Code::kInvalidArgument, fmt::format("'{}' is not the path of a disk", device));
  }
  return Words{"pvmove", "--abort", "--", device};
}

}  // namespace quarry::lvm
