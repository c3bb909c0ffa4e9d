#include "tests/property/lvm_lab.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <thread>

#include <fmt/format.h>

#include "lvm/lvm_command.h"
#include "lvm/read/report_parser.h"
#include "lvm/run/lvm_config.h"
#include "tests/unit/lvm/text_agreement.h"

namespace quarry::lvm::testing {
namespace {

constexpr std::chrono::seconds kPatience{120};
constexpr int kLoopTries = 50;  // another process may take the free device first

Call Patient() {
  return CallWithin(kPatience);
}

}  // namespace

Result<LoopDisk> LoopDisk::Make(Bytes size) {
  UniqueFd memory(memfd_create("quarry-lab", MFD_CLOEXEC));
  if (!memory.valid() || ftruncate(memory.get(), static_cast<off_t>(size.value)) != 0) {
    return ErrnoError("memory for a loop device").As(Code::kUnavailable);
  }
  const UniqueFd control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control.valid()) {
    return ErrnoError("/dev/loop-control").As(Code::kUnavailable);
  }
  for (int attempt = 0; attempt < kLoopTries; ++attempt) {
    const int number = ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) {
      return ErrnoError("LOOP_CTL_GET_FREE").As(Code::kUnavailable);
    }
    std::string path = fmt::format("/dev/loop{}", number);
    UniqueFd device(open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!device.valid()) {
      return ErrnoError(path).As(Code::kUnavailable);
    }
    loop_config config{};
    config.fd = static_cast<uint32_t>(memory.get());
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    if (ioctl(device.get(), LOOP_CONFIGURE, &config) == 0) {
      return LoopDisk(std::move(path), std::move(memory), std::move(device));
    }
    if (errno != EBUSY) {
      return ErrnoError("LOOP_CONFIGURE of " + path).As(Code::kUnavailable);
    }
  }
  return Error(Code::kUnavailable, "other processes took every free loop device first");
}

Result<std::unique_ptr<LvmLab>> LvmLab::Make(const std::vector<std::string>& devices, bool driver_loaded) {
  std::string dir = (std::filesystem::temp_directory_path() / "quarry-lab-XXXXXX").string();
  if (mkdtemp(dir.data()) == nullptr) {
    return ErrnoError("mkdtemp").As(Code::kUnavailable);
  }
  std::unique_ptr<LvmLab> lab(new LvmLab(dir, driver_loaded));
  const std::filesystem::path pvs = std::filesystem::path(dir) / "pv";
  std::filesystem::create_directory(pvs);
  for (size_t i = 0; i < devices.size(); ++i) {
    lab->links_.push_back((pvs / fmt::format("d{}", i)).string());
    std::filesystem::create_symlink(devices[i], lab->links_.back());
  }
  LvmConfig config;
  config.system_dir = dir + "/etc";
  config.locking_dir = dir + "/lock";
  config.scan_dirs = {pvs.string()};
  std::filesystem::create_directory(config.locking_dir);
  QUARRY_TRY(WriteLvmConfig(config));
  QUARRY_TRY(lab->Must({"version"}));
  return lab;
}

LvmLab::~LvmLab() {
  (void)RemoveGroup();
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

Status LvmLab::MakePvs(const std::vector<Bytes>& sizes) {
  QUARRY_TRY(RemoveGroup());
  for (size_t i = 0; i < sizes.size(); ++i) {
    QUARRY_TRY(Must({"pvcreate", "-y", "-ff", "--zero", "y", "--dataalignment", "1m",
                     "--setphysicalvolumesize", fmt::format("{}b", kMiB.value + sizes[i].value), links_[i]}));
  }
  return Ok();
}

Status LvmLab::MakeGroup(size_t pvs, Bytes extent_size) {
  QUARRY_TRY(RemoveGroup());
  std::vector<std::string> create = {"vgcreate", "-y", "--physicalextentsize",
                                     fmt::format("{}b", extent_size.value), kLabGroup};
  create.insert(create.end(), links_.begin(), links_.begin() + static_cast<std::ptrdiff_t>(pvs));
  QUARRY_TRY(Must(std::move(create)));
  has_group_ = true;
  return Ok();
}

Status LvmLab::RemoveGroup() {
  if (!has_group_) {
    return Ok();
  }
  QUARRY_TRY(MustOnceUnused({"vgremove", "-y", "-ff", kLabGroup}));
  has_group_ = false;
  return Ok();
}

Status LvmLab::SetAllocatable(size_t pv, bool allocatable) {
  return Must({"pvchange", "--allocatable", allocatable ? "y" : "n", links_[pv]});
}

Result<Snapshot> LvmLab::Read() {
  QUARRY_ASSIGN(std::vector<std::string> arguments, ReadArguments(kLabGroup));
  QUARRY_ASSIGN(const Finished finished, Run(std::move(arguments)));
  if (!finished.ok()) {
    return Error(Code::kInternal, "report: " + ToolWords(finished.err));
  }
  QUARRY_ASSIGN(VolumeGroup group, ParseReport(finished.out));
  if (const std::string difference = TextDifference(group); !difference.empty()) {
    return Error(Code::kInternal, "the parsed text on the disks differs from LVM's report:\n" + difference);
  }
  return std::make_shared<const VolumeGroup>(std::move(group));
}

Status LvmLab::Create(const CreateLv& spec) {
  QUARRY_ASSIGN(std::vector<std::string> arguments, spec.Arguments());
  return Must(std::move(arguments));
}

Status LvmLab::Extend(const ExtendLv& spec) {
  QUARRY_ASSIGN(std::vector<std::string> arguments, spec.Arguments());
  return Must(std::move(arguments));
}

Status LvmLab::Remove(const std::string& name) {
  QUARRY_ASSIGN(std::vector<std::string> arguments, (RemoveLvs{kLabGroup, {name}}.Arguments()));
  return MustOnceUnused(arguments);
}

Result<Finished> LvmLab::Run(std::vector<std::string> arguments) {
  Command command;
  command.argv = {"/sbin/lvm"};
  std::ranges::move(arguments, std::back_inserter(command.argv));
  if (!driver_loaded_) {
    command.argv.insert(command.argv.begin() + 2, {"--driverloaded", "n"});
  }
  command.env = {{"LVM_SYSTEM_DIR", dir_ + "/etc"},
                 {"LVM_SUPPRESS_FD_WARNINGS", "1"},
                 {"PATH", "/sbin:/usr/sbin:/bin:/usr/bin"},
                 {"LC_ALL", "C"}};
  return subprocess_.Run(command, Patient());
}

// udevd opens a new or closed device to probe it, and LVM removes nothing that is open.
Status LvmLab::MustOnceUnused(const std::vector<std::string>& arguments) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    Status done = Must(arguments);
    if (done.has_value() || done.error().message().find(" in use") == std::string::npos ||
        std::chrono::steady_clock::now() > deadline) {
      return done;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

Status LvmLab::Must(std::vector<std::string> arguments) {
  const std::string verb = arguments.front();
  QUARRY_ASSIGN(const Finished finished, Run(std::move(arguments)));
  if (!finished.ok()) {
    return Error(Code::kInternal, fmt::format("{}: {}", verb, ToolWords(finished.err)));
  }
  return Ok();
}

}  // namespace quarry::lvm::testing
