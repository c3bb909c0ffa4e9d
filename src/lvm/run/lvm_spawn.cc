#include "lvm/run/lvm_spawn.h"

#include <malloc.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <utility>

#include <fmt/format.h>

#include "lvm/lvm_command.h"
#include "lvm/read/device_scan.h"
#include "lvm/read/report_parser.h"
#include "lvm/run/lvm_failure.h"
#include "lvm/run/zygote_wire.h"

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

}  // namespace

Result<std::unique_ptr<LvmSpawn>> LvmSpawn::Make(Subprocess& subprocess, LvmSpawnOptions options,
                                                 const Call& call) {
  for (const char* path : kPlaces) {
    if (access(path, X_OK) == 0) {
      std::unique_ptr<LvmSpawn> lvm(new LvmSpawn(subprocess, std::move(options), path));
      QUARRY_TRY(lvm->Version("", call));
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
    const MutexLock lock(mutex_);
    last_seen_[group] = TargetsOf(read);
  }
  return std::make_shared<const VolumeGroup>(std::move(read));
}

// Holds no lock. The report changes nothing, and a report stuck behind a silent disk would keep the next
// owner out.
Result<VolumeGroup> LvmSpawn::Report(const std::string& group, const Call& call) {
  QUARRY_ASSIGN(const Words arguments, ReadArguments(group));
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

Status LvmSpawn::Apply(const Change& change, const Call& call) {
  return std::visit([&](const auto& verb) { return Do(verb, call); }, change);
}

template <typename Verb>
Status LvmSpawn::Do(const Verb& change, const Call& call) {
  QUARRY_TRY(RunToSuccess(change, call));
  return change.Commits() == 0U ? Ok() : Flush(change.group, call);
}

Status LvmSpawn::Do(const CreateGroup& change, const Call& call) {
  QUARRY_TRY(change.Arguments());
  if (options_.locks != nullptr) {
    QUARRY_TRY(options_.locks->ClaimName(change.group));
  }
  return Do<CreateGroup>(change, call);
}

// The new disk must be flushed too. Without its label the group would lack a disk after a power cut.
Status LvmSpawn::Do(const AddPv& change, const Call& call) {
  QUARRY_TRY(RunToSuccess(change, call));
  QUARRY_TRY(FlushNewPv(change.device, call).Context("done, but not known to be durable"));
  return Flush(change.group, call);
}

Status LvmSpawn::Do(const ChangeTags& change, const Call& call) {
  return change.IsEmpty() ? Ok() : Do<ChangeTags>(change, call);
}

// Flushed even if nothing was to do: the process that did it may not have flushed.
template <typename Verb>
Status LvmSpawn::DoUnlessDone(const Verb& change, const Call& call) {
  QUARRY_ASSIGN(const Words arguments, change.Arguments());
  QUARRY_ASSIGN(const Finished finished, RunHolding(change.group, arguments, call));
  return finished.ok() || SaysNothingToChange(finished)
             ? Flush(change.group, call)
             : Status(Failure(arguments[0], change.Object(), finished, call));
}

Status LvmSpawn::Do(const ExtendThinLv& change, const Call& call) {
  return DoUnlessDone(change, call);
}

Status LvmSpawn::Do(const AllocateAnywhere& change, const Call& call) {
  return DoUnlessDone(change, call);
}

Status LvmSpawn::Do(const CreateLv& change, const Call& call) {
  if (change.lock_fd < 0) {
    return change.seqno == 0 ? Do<CreateLv>(change, call)
                             : Error(Code::kUnsupported, "lvcreate cannot compare sequence numbers");
  }
  QUARRY_TRY(RunToSuccess(change, call, change.lock_fd));
  flock(change.lock_fd, LOCK_UN);  // a flush may take long, and a report would wait for the lock
  return Flush(change.group, call);
}

Status LvmSpawn::Do(const RemoveLvs& change, const Call& call) {
  QUARRY_ASSIGN(const Words arguments, change.Arguments());
  if (change.names.empty()) {
    return Ok();
  }
  QUARRY_ASSIGN(const Finished finished, RunHolding(change.group, arguments, call));
  if (finished.ok()) {
    return Flush(change.group, call);
  }
  if (change.names.size() == 1) {
    // Flushed even if the volume was already gone: the process that removed it may not have flushed.
    return SaysNoSuchLv(finished) ? Flush(change.group, call)
                                  : Failure(arguments[0], change.Object(), finished, call);
  }
  // LVM's message is about one of the volumes, so each is tried by itself.
  Status worst = Ok();
  for (const std::string& name : change.names) {
    Status one = Do(RemoveLvs{change.group, {name}, change.seqno, change.thin}, call);
    if (!one.has_value()) {
      worst = std::move(one);
    }
  }
  return worst;
}

Result<std::string> LvmSpawn::Version(const std::string& /*group*/, const Call& call) {
  QUARRY_ASSIGN(const Finished finished, Run({"version"}, call));
  return ParseVersion(finished.out);
}

Result<Finished> LvmSpawn::Run(const std::vector<std::string>& arguments, const Call& call) {
  return subprocess_.Run(CommandOf(arguments), call).Context(arguments[0]);
}

Result<Finished> LvmSpawn::RunHolding(const std::string& group, const std::vector<std::string>& arguments,
                                      const Call& call, int lock_fd) {
  Command command = CommandOf(arguments);
  if (lock_fd >= 0) {
    command.unbroken = true;  // LVM blocks signals only while it holds a lock of its own
    command.keep_fds = {lock_fd};
    // Without this, lvm closes all descriptors but the first three.
    command.env.emplace_back(kKeepFdVariable, fmt::format("{}", lock_fd));
  }
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

template <typename Verb>
Status LvmSpawn::RunToSuccess(const Verb& change, const Call& call, int lock_fd) {
  QUARRY_ASSIGN(const Words arguments, change.Arguments());
  QUARRY_ASSIGN(const Finished finished, RunHolding(change.group, arguments, call, lock_fd));
  return finished.ok() ? Ok() : Status(Failure(arguments[0], change.Object(), finished, call));
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
  const MutexLock lock(mutex_);
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
