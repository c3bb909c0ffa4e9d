#include "lvm/lvm_command.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lvm/names.h"
#include "lvm/read/report_parser.h"

namespace quarry::lvm {
namespace {

using Arguments = std::vector<std::string>;

Status CheckName(const char* what, const std::string& name) {
  if (!IsLvmName(name)) {
    return Error(Code::kInvalidArgument, fmt::format("'{}' cannot be the name of a {}", name, what));
  }
  return Ok();
}

Status CheckNames(const std::string& group, const std::string& name) {
  QUARRY_TRY(CheckName("volume group", group));
  return CheckName("logical volume", name);
}

void Append(Arguments& to, Arguments more) {
  for (std::string& word : more) {
    to.push_back(std::move(word));
  }
}

// LVM checks the number once it has the lock.
void AppendSeqno(Arguments& to, uint64_t seqno) {
  if (seqno != 0) {
    Append(to, {"--select", fmt::format("vg_seqno={}", seqno)});
  }
}

void AppendTags(Arguments& to, const std::vector<std::string>& add, const std::vector<std::string>& remove) {
  for (const std::string& tag : remove) {
    Append(to, {"--deltag", tag});
  }
  for (const std::string& tag : add) {
    Append(to, {"--addtag", tag});
  }
}

std::string Kib(Bytes size) {
  return fmt::format("{}k", size.value / kKiB.value);
}

Arguments StripeArguments(const Geometry& geometry) {
  return {"--stripes", fmt::format("{}", geometry.data_legs()), "--stripesize", Kib(geometry.stripe_size())};
}

// The options that complete --type.
Arguments ShapeArguments(const Geometry& geometry) {
  Arguments out;
  switch (geometry.type()) {
    case VolumeType::kLinear:
      break;
    case VolumeType::kRaid1:
      out = {"--mirrors", fmt::format("{}", geometry.mirrors())};
      break;
    case VolumeType::kRaid10:
      out = {"--mirrors", fmt::format("{}", geometry.mirrors())};
      Append(out, StripeArguments(geometry));
      break;
    case VolumeType::kStriped:
    case VolumeType::kRaid0:
    case VolumeType::kRaid4:
    case VolumeType::kRaid5:
    case VolumeType::kRaid6:
      out = StripeArguments(geometry);
      break;
  }
  if (geometry.has_metadata()) {
    Append(out, {"--regionsize", Kib(geometry.region_size())});
  }
  return out;
}

Arguments WipeArguments(Wipe wipe) {
  switch (wipe) {
    case Wipe::kSignaturesAndFirstBlock:
      return {"--wipesignatures", "y", "--zero", "y"};
    case Wipe::kNone:
      return {"--wipesignatures", "n", "--zero", "n"};
  }
  return {};
}

}  // namespace

std::string FullName(const std::string& group, const std::string& name) {
  return fmt::format("{}/{}", group, name);
}

namespace {

Result<Arguments> WithFullNames(Arguments to, const std::string& group,
                                const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    QUARRY_TRY(CheckNames(group, name));
    to.push_back(FullName(group, name));
  }
  return to;
}

}  // namespace

Result<Arguments> ReadArguments(const std::string& group) {
  QUARRY_TRY(CheckName("volume group", group));
  return ReportArguments(group);
}

// Without -y: if LVM asks (because it found a signature after all), the empty standard input means no.
Result<std::vector<std::string>> CreateArguments(const CreateGroup& spec) {
  QUARRY_TRY(CheckName("volume group", spec.name));
  Arguments out = {"vgcreate",
                   "--quiet",
                   "--physicalextentsize",
                   Kib(spec.extent_size),
                   "--metadatasize",
                   Kib(spec.metadata_size),
                   "--setautoactivation",
                   "n",
                   "--",
                   spec.name};
  Append(out, spec.devices);
  return out;
}

Result<Arguments> CreateArguments(const CreateLv& spec) {
  QUARRY_TRY(CheckNames(spec.group, spec.name));
  if (!spec.activate && spec.wipe != Wipe::kNone) {
    return Error(Code::kInvalidArgument, "an inactive volume cannot be wiped");
  }
  Arguments out = {"lvcreate",  "-y",
                   "--name",    spec.name,
                   "--type",    std::string(TypeName(spec.geometry.type())),
                   "--extents", fmt::format("{}", spec.step.logical_extents.value),
                   "--alloc",   spec.step.alloc};
  Append(out, ShapeArguments(spec.geometry));
  Append(out, WipeArguments(spec.wipe));
  if (spec.max_recovery_rate.value != 0 && spec.geometry.has_metadata()) {
    Append(out, {"--maxrecoveryrate", Kib(spec.max_recovery_rate)});
  }
  // lvcreate refuses --nosync for raid6: its parity must be computed once.
  if (spec.assume_in_sync && spec.geometry.has_metadata() && spec.geometry.type() != VolumeType::kRaid6) {
    out.emplace_back("--nosync");
  }
  Append(out, {"--setactivationskip", "y"});
  Append(out, spec.activate ? Arguments{"--ignoreactivationskip"} : Arguments{"--activate", "n"});
  for (const std::string& tag : spec.tags) {
    Append(out, {"--addtag", tag});
  }
  Append(out, {"--", spec.group});
  Append(out, spec.step.pv_arguments);
  return out;
}

Result<Arguments> ExtendArguments(const ExtendLv& spec) {
  QUARRY_TRY(CheckNames(spec.group, spec.name));
  Arguments out = {"lvextend",  "-y",
                   "--extents", fmt::format("+{}", spec.step.logical_extents.value),
                   "--alloc",   spec.step.alloc};
  // A raid extend takes its shape from the volume. A striped volume may change shape from segment to segment,
  // so the shape is given.
  if (spec.geometry.type() == VolumeType::kStriped) {
    Append(out, StripeArguments(spec.geometry));
  }
  Append(out, {"--", FullName(spec.group, spec.name)});
  Append(out, spec.step.pv_arguments);
  return out;
}

// Without -y: LVM asks before it removes an active volume. It does not ask before it removes the snapshots of
// an inactive origin.
Result<Arguments> RemoveArguments(const std::string& group, const std::vector<std::string>& names,
                                  uint64_t seqno) {
  Arguments start = {"lvremove"};
  AppendSeqno(start, seqno);
  start.emplace_back("--");
  return WithFullNames(std::move(start), group, names);
}

Result<Arguments> TagArguments(const std::string& group, const std::string& name,
                               const std::vector<std::string>& add, const std::vector<std::string>& remove) {
  QUARRY_TRY(CheckNames(group, name));
  Arguments out = {"lvchange", "-y"};
  AppendTags(out, add, remove);
  Append(out, {"--", FullName(group, name)});
  return out;
}

// Without a background process that resumes another process's pvmove. It would outlive the command, and
// commit without our lock.
Result<Arguments> ActivateArguments(const std::string& group, const std::vector<std::string>& names) {
  return WithFullNames({"lvchange", "-y", "--activate", "y", "--ignoreactivationskip", "--poll", "n", "--"},
                       group, names);
}

Result<Arguments> DeactivateArguments(const std::string& group, const std::string& name, uint64_t seqno) {
  QUARRY_TRY(CheckNames(group, name));
  Arguments out = {"lvchange", "-y", "--activate", "n"};
  AppendSeqno(out, seqno);
  Append(out, {"--", FullName(group, name)});
  return out;
}

Result<Arguments> AddArguments(const AddPv& spec) {
  QUARRY_TRY(CheckName("volume group", spec.group));
  return Arguments{"vgextend", "--quiet",  "--metadatasize", Kib(spec.metadata_size),
                   "--",       spec.group, spec.device};
}

Result<Arguments> RepairArguments(const RepairLv& spec) {
  QUARRY_TRY(CheckNames(spec.group, spec.name));
  Arguments out = {"lvconvert", "-y"};
  Append(out, spec.leave.empty() ? Arguments{"--repair"} : Arguments{"--replace", spec.leave});
  Append(out, {"--", FullName(spec.group, spec.name)});
  Append(out, spec.pv_arguments);
  return out;
}

Result<Arguments> RefreshArguments(const std::string& group, const std::vector<std::string>& names) {
  return WithFullNames({"lvchange", "-y", "--refresh", "--poll", "n", "--"}, group, names);
}

Result<Arguments> LimitRecoveryArguments(const std::string& group, const std::vector<std::string>& names,
                                         Bytes rate) {
  return WithFullNames({"lvchange", "-y", "--maxrecoveryrate", Kib(rate), "--"}, group, names);
}

Result<Arguments> RestorePvArguments(const std::string& group, const std::string& device) {
  QUARRY_TRY(CheckName("volume group", group));
  return Arguments{"vgextend", "-y", "--restoremissing", "--", group, device};
}

Result<Arguments> DropMissingPvsArguments(const std::string& group) {
  QUARRY_TRY(CheckName("volume group", group));
  return Arguments{"vgreduce", "-y", "--removemissing", "--", group};
}

Result<Arguments> ChangePvArguments(const PvChange& spec) {
  QUARRY_TRY(CheckName("volume group", spec.group));
  Arguments out = {"pvchange", "-y", "--allocatable", spec.allocatable ? "y" : "n"};
  AppendTags(out, spec.add_tags, spec.remove_tags);
  Append(out, {"--", spec.device});
  return out;
}

Result<Arguments> MoveArguments(const MoveExtents& spec) {
  QUARRY_TRY(CheckNames(spec.group, spec.name));
  return Arguments{"pvmove", "-y", "--interval", "0", "--name", spec.name, "--", spec.from, spec.to};
}

Result<Arguments> AbandonMoveArguments(const std::string& group, const std::string& device) {
  QUARRY_TRY(CheckName("volume group", group));
  if (!device.starts_with('/')) {
    return Error(Code::kInvalidArgument, fmt::format("'{}' is not the path of a disk", device));
  }
  return Arguments{"pvmove", "--abort", "--", device};
}

bool OnlyWatches(const Arguments& arguments) {
  return arguments.front() == "pvmove" && std::ranges::find(arguments, "--abort") == arguments.end();
}

Result<Arguments> ReducePvArguments(const std::string& group, const std::string& device) {
  QUARRY_TRY(CheckName("volume group", group));
  return Arguments{"vgreduce", "-y", "--", group, device};
}

Result<std::string> ParseVersion(const std::string& output) {
  constexpr std::string_view kLabel = "LVM version:";
  const size_t label = output.find(kLabel);
  const size_t first = label == std::string::npos ? label : output.find_first_of("0123456789", label);
  if (first == std::string::npos) {
    return Error(Code::kCorrupt, fmt::format("no version in the output of lvm: '{}'", output.substr(0, 200)));
  }
  const size_t end = output.find_first_not_of("0123456789.", first);
  return output.substr(first, end == std::string::npos ? end : end - first);
}

}  // namespace quarry::lvm
