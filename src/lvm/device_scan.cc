#include "lvm/device_scan.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>

#include <fmt/format.h>

#include "base/unique_fd.h"

namespace quarry::lvm {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlock = 4096;

// First line of a sysfs attribute; empty if there is none.
std::string Attribute(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

bool HoldsNoPv(const fs::path& device) {
  return Attribute(device / "size") == "0" || Attribute(device / "hidden") == "1" ||
         Attribute(device / "dm/uuid").starts_with("LVM-");
}

Status ReadFirstBlock(const std::string& node) {
  const UniqueFd fd(open(node.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    return ErrnoError(fmt::format("opening {}", node));
  }
  alignas(kBlock) std::array<char, kBlock> block{};
  if (pread(fd.get(), block.data(), block.size(), 0) < 0) {
    return ErrnoError(fmt::format("reading {}", node));
  }
  return Ok();
}

bool MeansNoDisk(int error) {
  return error == ENOENT || error == ENXIO || error == ENODEV || error == ENOMEDIUM || error == EMEDIUMTYPE;
}

Status Answers(const fs::path& device, const std::string& dev) {
  // Reading a suspended device would block until somebody resumes it.
  if (Attribute(device / "dm/suspended") == "1") {
    return Error(Code::kUnavailable, fmt::format("device {} is suspended", device.filename().string()));
  }
  std::string name = device.filename().string();
  for (char& c : name) {
    c = c == '!' ? '/' : c;  // how sysfs spells subdirectories of /dev
  }
  Status status = ReadFirstBlock(dev + "/" + name);
  if (!status.has_value() && !MeansNoDisk(status.error().sys_errno())) {
    return std::move(status.error()).As(Code::kUnavailable);
  }
  return Ok();
}

}  // namespace

Status EveryDeviceAnswers(const Call& call, const std::string& sysfs, const std::string& dev) {
  std::error_code error;
  fs::directory_iterator entries(sysfs, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    QUARRY_TRY(call.Check("looking at every disk"));
    if (!HoldsNoPv(entries->path())) {
      QUARRY_TRY(Answers(entries->path(), dev));
    }
  }
  if (error) {
    return ErrnoError(fmt::format("listing {}", sysfs), error.value()).As(Code::kUnavailable);
  }
  return Ok();
}

}  // namespace quarry::lvm
