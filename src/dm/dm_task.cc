#include "dm/dm_task.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "base/unique_fd.h"

namespace quarry::dm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kControl = "/dev/mapper/control";
// From the kernel's devices.txt: fixed, so the node can exist before the driver.
constexpr unsigned kMiscMajor = 10;
constexpr unsigned kControlMinor = 236;

constexpr int kLevelMask = 7;  // libdm-common.h: the other bits are flags
constexpr int kLevelError = 3;

struct Library {
  Mutex mutex;
  std::string words ABSL_GUARDED_BY(mutex);  // errors of the current session
  bool prepared ABSL_GUARDED_BY(mutex) = false;
};

Library& TheLibrary() {
  static Library library;
  return library;
}

// Called by libdevmapper, within a session.
__attribute__((format(printf, 5, 6))) void TakeWords(int level, const char* /*file*/, int /*line*/,
                                                     int /*dm_errno*/, const char* format, ...) {
  if ((level & kLevelMask) > kLevelError) {
    return;
  }
  std::array<char, 512> text{};
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  if (length <= 0) {
    return;
  }
  Library& library = TheLibrary();
  library.mutex.AssumeHeld();
  std::string& words = library.words;
  if (!words.empty()) {
    words += "; ";
  }
  words += text.data();
}

// libdevmapper opens /dev/mapper/control once, keeps it open, and would let children inherit it.
void KeepControlFromChildren() {
  std::error_code error;
  for (fs::directory_iterator entry("/proc/self/fd", error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code closed;
    if (fs::read_symlink(entry->path(), closed) == kControl) {
      fcntl(std::stoi(entry->path().filename()), F_SETFD, FD_CLOEXEC);
    }
  }
}

// Makes the first request, so that the control node is open before any other request.
Status Prepare(Library& library) ABSL_EXCLUSIVE_LOCKS_REQUIRED(library.mutex) {
  UniqueFd control(open(kControl, O_RDWR | O_CLOEXEC));
  if (!control.valid() && errno == ENOENT) {
    // Usually udev or kmod makes the node at boot. Opening it loads the module.
    mkdir("/dev/mapper", 0755);
    mknod(kControl, S_IFCHR | 0600, makedev(kMiscMajor, kControlMinor));
    control.Reset(open(kControl, O_RDWR | O_CLOEXEC));
  }
  if (!control.valid()) {
    return ErrnoError(fmt::format("there is no device-mapper here: opening {}", kControl))
        .As(Code::kUnavailable);
  }
  dm_log_with_errno_init(TakeWords);
  dm_hold_control_dev(1);
  std::array<char, 32> version{};
  if (dm_driver_version(version.data(), version.size()) == 0) {
    return Error(Code::kUnavailable, fmt::format("device-mapper cannot be used: {}", library.words));
  }
  KeepControlFromChildren();
  return Ok();
}

}  // namespace

Result<LibdmSession> LibdmSession::Begin() {
  Library& library = TheLibrary();
  std::unique_lock lock(library.mutex);
  library.mutex.AssumeHeld();
  library.words.clear();
  if (!library.prepared) {
    QUARRY_TRY(Prepare(library));
    library.prepared = true;
  }
  return LibdmSession(std::move(lock));
}

Error LibdmSession::Failure(std::string_view what, int sys_errno) const {
  const Library& library = TheLibrary();
  library.mutex.AssumeHeld();
  const std::string& words = library.words;
  const std::string message =
      fmt::format("{}: {}", what, words.empty() ? "device-mapper gave no reason" : words);
  if (sys_errno == 0) {
    return {Code::kUnavailable, message};
  }
  const Code code = ErrnoError({}, sys_errno).code();
  return Error(code == Code::kNotFound ? Code::kUnavailable : code, message).WithErrno(sys_errno);
}

}  // namespace quarry::dm
