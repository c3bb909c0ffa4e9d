#include "tests/contract/loop_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "base/subprocess.h"

namespace quarry::contract {
namespace {

constexpr const char* kFiles = "/var/tmp";
// Somebody else may take the free device that we were told of.
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

LoopDevice::LoopDevice(Bytes size, bool read_only)
    : file_(open(kFiles, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
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
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR | (read_only ? LO_FLAGS_READ_ONLY : 0);
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
    auto finished = SpawnSubprocess().Run(command, CallWithin(std::chrono::seconds(120)));
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
