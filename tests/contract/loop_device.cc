#include "tests/contract/loop_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

#include "base/subprocess.h"

namespace quarry::contract {
namespace {

constexpr const char* kFiles = "/var/tmp";
// Another process may take the free device that the kernel named.
constexpr int kAttempts = 100;

[[noreturn]] void Fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

UniqueFd OpenControl() {
  UniqueFd control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control.valid() && errno == ENOENT) {
    RunTool({"modprobe", "loop"});
    control.Reset(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  }
  if (!control.valid()) {
    Fail("/dev/loop-control");
  }
  return control;
}

}  // namespace

LoopDevice::LoopDevice(Bytes size)
    : LoopDevice(UniqueFd(open(kFiles, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)), size) {}

LoopDevice::LoopDevice(UniqueFd file, Bytes size) : file_(std::move(file)) {
  if (!file_.valid() || ftruncate(file_.get(), static_cast<off_t>(size.value)) != 0) {
    Fail("file for a loop device");
  }
  const UniqueFd control = OpenControl();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int number = ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) {
      Fail("LOOP_CTL_GET_FREE");
    }
    node_ = fmt::format("/dev/loop{}", number);
    loop_ = UniqueFd(open(node_.c_str(), O_RDWR | O_CLOEXEC));
    loop_config config{};
    config.fd = static_cast<uint32_t>(file_.get());
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    if (loop_.valid() && ioctl(loop_.get(), LOOP_CONFIGURE, &config) == 0) {
      return;
    }
    if (errno != EBUSY && errno != ENXIO) {
      Fail("LOOP_CONFIGURE");
    }
  }
  throw std::runtime_error("no free loop device");
}

void LoopDevice::Grow(Bytes size) {
  if (ftruncate(file_.get(), static_cast<off_t>(size.value)) != 0 ||
      ioctl(loop_.get(), LOOP_SET_CAPACITY) != 0) {
    Fail("growing a loop device");
  }
}

UniqueFd FileWithoutHoles() {
  std::string place = std::string(kFiles) + "/quarry-ramfs-XXXXXX";
  if (mkdtemp(place.data()) == nullptr || mount("none", place.c_str(), "ramfs", 0, nullptr) != 0) {
    Fail("mounting ramfs");
  }
  UniqueFd file(open(place.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  umount2(place.c_str(), MNT_DETACH);
  rmdir(place.c_str());
  return file;
}

std::string RunTool(const std::vector<std::string>& words, const std::string& input) {
  for (const char* directory : {"/usr/sbin", "/usr/bin", "/sbin", "/bin"}) {
    const std::string path = fmt::format("{}/{}", directory, words[0]);
    if (access(path.c_str(), X_OK) != 0) {
      continue;
    }
    Command command;
    command.argv = words;
    command.argv[0] = path;
    command.env = {{"LC_ALL", "C"}, {"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}};
    command.input = input;
    auto finished = SpawnSubprocess().Run(command, CallWithin(std::chrono::minutes(5)));
    if (!finished.has_value() || !finished->ok()) {
      throw std::runtime_error(
          fmt::format("{}: {}", fmt::join(words, " "),
                      finished.has_value() ? finished->err + finished->out : finished.error().message()));
    }
    return std::move(finished->out);
  }
  throw std::runtime_error(words[0] + " is not installed");
}

}  // namespace quarry::contract
