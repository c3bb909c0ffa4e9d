#include "lvm/run/lvm_spawn.h"

#include <malloc.h>
#include <unistd.h>

#include <array>
#include <utility>

#include <fmt/format.h>

#include "lvm/lvm_command.h"
#include "lvm/read/device_scan.h"
#include "lvm/read/report_parser.h"
#include "lvm/run/lvm_failure.h"

namespace quarry::lvm {
namespace {

constexpr auto kPlaces =
    std::to_array<const char*>({"/usr/sbin/lvm", "/sbin/lvm", "/usr/bin/lvm", "/bin/lvm"});

// lvm blocks signals while it holds a group's lock. With a moment after TERM it usually ends by itself. That
// leaves less to repair than a KILL between suspend and resume.
constexpr std::chrono::milliseconds kKillGrace{5000};

// Parsing a report of 1,000 volumes takes some 10 MiB, in pieces so small that glibc would keep them. Reports
// are rare: the text on the disks answers nearly every read.
void GiveBack(std::string report) {
  constexpr size_t kLarge = 256 << 10;
  const bool large = report.size() > kLarge;
  std::string().swap(report);
  if (large) {
    malloc_trim(0);
  }
}

std::vector<FlushTarget> TargetsOf(const VolumeGroup& group) {
  std::vector<FlushTarget> out;
  for (const PhysicalVolume& pv : group.pvs) {
    if (!pv.device.empty()) {
      out.push_back({pv.uuid, pv.device, pv.metadata_size.value > 0});
    }
  }
  return out;
}

std::string Several(const std::string& group, const std::vector<std::string>& names) {
  return names.size() == 1 ? FullName(group, names[0]) : fmt::format("{} ({} volumes)", group, names.size());
}

}  // namespace

Result<std::unique_ptr<LvmSpawn>> LvmSpawn::Make(Subprocess& subprocess, LvmSpawnOptions options,
                                                 const Call& call) {
  for (const char* path : kPlaces) {
    if (access(path, X_OK) == 0) {
      std::unique_ptr<LvmSpawn> lvm(new LvmSpawn(subprocess, std::move(options), path));
      QUARRY_TRY(lvm->Version(call));
      return lvm;
    }
  }
  return Error(Code::kNotFound, "LVM is not installed: no lvm in /usr/sbin, /sbin, /usr/bin, /bin");
}

// A group read before it was claimed may have been changed since by its last owner, so it is read again.
Result<Snapshot> LvmSpawn::Read(const std::string& group, const Call& call) {
  if (options_.locks != nullptr) {
    QUARRY_TRY(options_.locks->ClaimName(group));
    if (const std::string uuid = options_.uuid_of ? options_.uuid_of(group) : ""; !uuid.empty()) {
      QUARRY_TRY(options_.locks->Claim(group, uuid));
    }
  }
  QUARRY_ASSIGN(VolumeGroup read, Report(group, call));
  bool claimed = options_.locks == nullptr;
  while (!claimed) {
    QUARRY_ASSIGN(const bool just_now, options_.locks->Claim(group, read.uuid));
    if (just_now) {
      QUARRY_ASSIGN(read, Report(group, call));
    }
    claimed = !just_now;
  }
  {
    const std::lock_guard lock(mutex_);
    last_seen_[group] = TargetsOf(read);
  }
  return std::make_shared<const VolumeGroup>(std::move(read));
}

// Holds no lock. The report changes nothing, and a report stuck behind a silent disk would keep the next
// owner out.
Result<VolumeGroup> LvmSpawn::Report(const std::string& group, const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, ReadArguments(group));
  QUARRY_ASSIGN(Finished finished, Run(arguments, call));
  if (!finished.ok()) {
    return Failure(arguments[0], group, finished, call);
  }
  if (finished.output_truncated) {
    return Error(Code::kInternal, fmt::format("fullreport of {}: the report is too long", group));
  }
  QUARRY_ASSIGN(VolumeGroup parsed, ParseReport(finished.out).Context(fmt::format("group {}", group)));
  GiveBack(std::move(finished.out));
  return parsed;
}

Status LvmSpawn::Create(const CreateGroup& spec, const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, CreateArguments(spec));
  if (options_.locks != nullptr) {
    QUARRY_TRY(options_.locks->ClaimName(spec.name));
  }
  return Commit(arguments, spec.name, spec.name, call);
}

Status LvmSpawn::Create(const CreateLv& spec, const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, CreateArguments(spec));
  return Commit(arguments, spec.group, FullName(spec.group, spec.name), call);
}

Status LvmSpawn::Extend(const ExtendLv& spec, const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, ExtendArguments(spec));
  return Commit(arguments, spec.group, FullName(spec.group, spec.name), call);
}

Status LvmSpawn::Remove(const std::string& group, const std::vector<std::string>& names, uint64_t seqno,
                        const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, RemoveArguments(group, names, seqno));
  if (names.empty()) {
    return Ok();
  }
  QUARRY_ASSIGN(const Finished finished, RunHolding(group, arguments, call));
  if (finished.ok()) {
    return Flush(group, call);
  }
  if (names.size() == 1) {
    // Flushed even if the volume was already gone: the process that removed it may not have flushed.
    return SaysNoSuchLv(finished) ? Flush(group, call)
                                  : Failure(arguments[0], FullName(group, names[0]), finished, call);
  }
  // LVM's message is about one of the volumes, so each is tried by itself.
  Status worst = Ok();
  for (const std::string& name : names) {
    Status one = Remove(group, {name}, seqno, call);
    worst = one.has_value() ? std::move(worst) : std::move(one);
  }
  return worst;
}

Status LvmSpawn::ChangeTags(const std::string& group, const std::string& name,
                            const std::vector<std::string>& add, const std::vector<std::string>& remove,
                            const Call& call) {
  if (add.empty() && remove.empty()) {
    return Ok();
  }
  QUARRY_ASSIGN(const std::vector<std::string> arguments, TagArguments(group, name, add, remove));
  return Commit(arguments, group, FullName(group, name), call);
}

// Activation changes only the kernel: no commit, so nothing to flush.
Status LvmSpawn::Activate(const std::string& group, const std::vector<std::string>& names, const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, ActivateArguments(group, names));
  return RunToSuccess(arguments, group, Several(group, names), call);
}

Status LvmSpawn::Deactivate(const std::string& group, const std::string& name, uint64_t seqno,
                            const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, DeactivateArguments(group, name, seqno));
  return RunToSuccess(arguments, group, FullName(group, name), call);
}

// May commit: LVM repairs inconsistencies that it meets.
Status LvmSpawn::Refresh(const std::string& group, const std::vector<std::string>& names, const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, RefreshArguments(group, names));
  return Commit(arguments, group, Several(group, names), call);
}

Status LvmSpawn::Repair(const RepairLv& spec, const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, RepairArguments(spec));
  return Commit(arguments, spec.group, FullName(spec.group, spec.name), call);
}

Status LvmSpawn::LimitRecovery(const std::string& group, const std::vector<std::string>& names, Bytes rate,
                               const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, LimitRecoveryArguments(group, names, rate));
  return Commit(arguments, group, Several(group, names), call);
}

Status LvmSpawn::RestorePv(const std::string& group, const std::string& device, const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, RestorePvArguments(group, device));
  return Commit(arguments, group, fmt::format("{} {}", group, device), call);
}

Status LvmSpawn::DropMissingPvs(const std::string& group, const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, DropMissingPvsArguments(group));
  return Commit(arguments, group, group, call);
}

Status LvmSpawn::ChangePv(const PvChange& spec, const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, ChangePvArguments(spec));
  return Commit(arguments, spec.group, fmt::format("{} {}", spec.group, spec.device), call);
}

Status LvmSpawn::Move(const MoveExtents& spec, const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, MoveArguments(spec));
  return Commit(arguments, spec.group, fmt::format("{} {}", FullName(spec.group, spec.name), spec.from),
                call);
}

Status LvmSpawn::AbandonMove(const std::string& group, const std::string& device, const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, AbandonMoveArguments(group, device));
  return Commit(arguments, group, fmt::format("{} {}", group, device), call);
}

Status LvmSpawn::RemovePv(const std::string& group, const std::string& device, const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, ReducePvArguments(group, device));
  return Commit(arguments, group, fmt::format("{} {}", group, device), call);
}

Result<std::string> LvmSpawn::Version(const Call& call) {
  QUARRY_ASSIGN(const Finished finished, Run({"version"}, call));
  return ParseVersion(finished.out);
}

// The new disk must be flushed too. Without its label the group would lack a disk after a power cut.
Status LvmSpawn::Add(const AddPv& spec, const Call& call) {
  QUARRY_ASSIGN(const std::vector<std::string> arguments, AddArguments(spec));
  QUARRY_TRY(RunToSuccess(arguments, spec.group, spec.group, call));
  QUARRY_TRY(FlushNewPv(spec.device, call).Context("done, but not known to be durable"));
  return Flush(spec.group, call);
}

Result<Finished> LvmSpawn::Run(const std::vector<std::string>& arguments, const Call& call) {
  return subprocess_.Run(CommandOf(arguments), call).Context(arguments[0]);
}

Result<Finished> LvmSpawn::RunHolding(const std::string& group, const std::vector<std::string>& arguments,
                                      const Call& call) {
  Command command = CommandOf(arguments);
  if (options_.locks != nullptr) {
    QUARRY_ASSIGN(command.hold_fd, options_.locks->ForCommand(group));
  }
  command.ends_with_us = OnlyWatches(arguments);
  return subprocess_.Run(command, call).Context(arguments[0]);
}

Command LvmSpawn::CommandOf(const std::vector<std::string>& arguments) const {
  Command command;
  command.argv = {lvm_path_};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  if (!options_.driver_loaded) {
    command.argv.insert(command.argv.begin() + 2, {"--driverloaded", "n"});
  }
  command.env = {{"LC_ALL", "C"},
                 {"TZ", "UTC0"},
                 {"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"},
                 {"LVM_SYSTEM_DIR", options_.system_dir},
                 {"LVM_SUPPRESS_FD_WARNINGS", "1"}};
  command.kill_grace = kKillGrace;
  return command;
}

Status LvmSpawn::RunToSuccess(const std::vector<std::string>& arguments, const std::string& group,
                              const std::string& object, const Call& call) {
  QUARRY_ASSIGN(const Finished finished, RunHolding(group, arguments, call));
  if (!finished.ok()) {
    return Failure(arguments[0], object, finished, call);
  }
  return Ok();
}

Status LvmSpawn::Commit(const std::vector<std::string>& arguments, const std::string& group,
                        const std::string& object, const Call& call) {
  QUARRY_TRY(RunToSuccess(arguments, group, object, call));
  return Flush(group, call);
}

Error LvmSpawn::Failure(const std::string& verb, const std::string& object, const Finished& finished,
                        const Call& call) {
  const std::string command = fmt::format("{} {}", verb, object);
  if (SaysNoSuchGroup(finished)) {
    if (Status scan = EveryDeviceAnswers(call, options_.sysfs, options_.dev); !scan.has_value()) {
      return std::move(scan.error()).Context(fmt::format("{}: LVM did not find the group, but", command));
    }
  }
  return LvmFailure(command, finished);
}

std::vector<FlushTarget> LvmSpawn::LastSeen(const std::string& group) {
  const std::lock_guard lock(mutex_);
  const auto found = last_seen_.find(group);
  return found == last_seen_.end() ? std::vector<FlushTarget>() : found->second;
}

Status LvmSpawn::Flush(const std::string& group, const Call& call) {
  if (FlushPvs(LastSeen(group), call).has_value()) {
    return Ok();
  }
  QUARRY_TRY(Read(group, call).Context("done, but not known to be durable"));
  return FlushPvs(LastSeen(group), call).Context("done, but not known to be durable");
}

}  // namespace quarry::lvm
