#include "lvm/read/device_scan.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/direct_io.h"
#include "base/scsi_recovery.h"
#include "base/unique_fd.h"
#include "lvm/read/metadata_header_aio.h"

namespace quarry::lvm {
namespace {

namespace fs = std::filesystem;

bool MeansNoDisk(int error) {
  return error == ENOENT || error == ENXIO || error == ENODEV || error == ENOMEDIUM || error == EMEDIUMTYPE;
}

// Lives as long as the process: the kernel may still write to the buffer of a read that a disk has not
// answered.
DirectReads& Reads() {
  static auto* const reads = new DirectReads();
  return *reads;
}

// A device that LVM would read, open for reading.
struct Device {
  std::string name;
  UniqueFd fd;
  uint64_t number = 0;
};

Error NoAnswer(const std::string& name) {
  return {Code::kUnavailable, fmt::format("disk {} does not answer", name)};
}

// nullopt: no disk behind the device now.
Result<std::optional<Device>> Open(const fs::path& device, const std::string& dev) {
  Device out{.name = device.filename().string()};
  // A read of a suspended device would block until the device is resumed.
  if (Attribute(device, "dm/suspended") == "1") {
    return Error(Code::kUnavailable, fmt::format("device {} is suspended", out.name));
  }
  const std::string node = NodeOf(device, dev);
  if (!CheckNotInScsiRecovery(node).has_value()) {
    return NoAnswer(out.name);
  }
  struct stat status{};
  out.fd.Reset(open(node.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK));
  if (!out.fd.valid() || fstat(out.fd.get(), &status) != 0) {
    const int error = errno;
    return MeansNoDisk(error) ? Result<std::optional<Device>>(std::nullopt)
                              : ErrnoError(fmt::format("opening {}", node), error).As(Code::kUnavailable);
  }
  out.number = S_ISBLK(status.st_mode) ? status.st_rdev : status.st_ino;
  if (Reads().IsSilent(out.number)) {
    return NoAnswer(out.name);
  }
  return std::optional(std::move(out));
}

// No thread waits in the kernel for a disk: that wait may have no end.
Status ReadAll(const std::vector<Device>& devices, const Call& call) {
  constexpr std::chrono::seconds kPatience{1};
  std::vector<DirectRead> reads;
  for (const Device& device : devices) {
    reads.push_back({.fd = device.fd.get(), .device = device.number, .offset = 0, .size = kDirectAlignment});
  }
  QUARRY_TRY(Reads().Run(reads, kPatience, call));
  for (size_t i = 0; i < reads.size(); ++i) {
    if (reads[i].error == ETIMEDOUT) {
      return NoAnswer(devices[i].name);
    }
    if (reads[i].error != 0 && !MeansNoDisk(reads[i].error)) {
      return ErrnoError(fmt::format("reading /dev/{}", devices[i].name), reads[i].error)
          .As(Code::kUnavailable);
    }
  }
  return Ok();
}

}  // namespace

std::string Attribute(const fs::path& device, const char* name) {
  std::ifstream in(device / name);
  std::string line;
  std::getline(in, line);
  return line;
}

bool MayHoldPv(const fs::path& device) {
  return !Attribute(device, "dm/uuid").starts_with("LVM-") && Attribute(device, "size") != "0" &&
         Attribute(device, "hidden") != "1";
}

std::string NodeOf(const fs::path& device, const std::string& dev) {
  std::string name = device.filename();
  std::ranges::replace(name, '!', '/');  // how sysfs spells subdirectories of /dev
  return dev + "/" + name;
}

Status EveryDeviceAnswers(const Call& call, const std::string& sysfs, const std::string& dev) {
  std::vector<Device> devices;
  std::error_code error;
  fs::directory_iterator entries(sysfs, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    QUARRY_TRY(call.Check("looking at every disk"));
    if (!MayHoldPv(entries->path())) {
      continue;
    }
    QUARRY_ASSIGN(std::optional<Device> device, Open(entries->path(), dev));
    if (device.has_value()) {
      devices.push_back(std::move(*device));
    }
  }
  if (error) {
    return ErrnoError(fmt::format("listing {}", sysfs), error.value()).As(Code::kUnavailable);
  }
  return ReadAll(devices, call);
}

}  // namespace quarry::lvm
