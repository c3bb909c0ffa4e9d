// Preloaded into an LVM command (LD_PRELOAD): logs each request to device-mapper that changes something, and
// kills the command, or stops it, at a chosen one. No debugger does that between two messages of one command
// as exactly.
//
// DM_WATCH_LOG: the log. A line is: begin and end (CLOCK_MONOTONIC, microseconds), errno or 0, the request,
// its device. DM_WATCH_KILL: "before WORDS" or "after WORDS". WORDS are the beginning of a request as the log
// has it:
//   "message TEXT", "suspend", "suspend-nolockfs", "resume", "load", "create", "remove".
// DM_WATCH_SIGNAL: the number of another signal than SIGKILL, SIGSTOP for example.
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>

namespace {

constexpr size_t kLongest = 512;

long long Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<long long>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
}

// The request in words; false for requests that change nothing.
bool Describe(unsigned long request, const dm_ioctl& header, char (&words)[kLongest]) {
  const char* name = nullptr;
  switch (request) {
    case DM_TARGET_MSG:
      snprintf(words, kLongest, "message %s",
               reinterpret_cast<const char*>(&header) + header.data_start + sizeof(dm_target_msg));
      return true;
    case DM_DEV_SUSPEND:
      name = (header.flags & DM_SUSPEND_FLAG) == 0       ? "resume"
             : (header.flags & DM_SKIP_LOCKFS_FLAG) != 0 ? "suspend-nolockfs"
                                                         : "suspend";
      break;
    case DM_TABLE_LOAD:
      name = "load";
      break;
    case DM_DEV_CREATE:
      name = "create";
      break;
    case DM_DEV_REMOVE:
      name = "remove";
      break;
    default:
      return false;
  }
  snprintf(words, kLongest, "%s", name);
  return true;
}

// NOLINTBEGIN(concurrency-mt-unsafe): nothing changes the environment of an LVM command meanwhile
void KillIf(std::string_view when, std::string_view words) {
  const char* given = getenv("DM_WATCH_KILL");
  std::string_view wish = given == nullptr ? "" : given;
  if (!wish.starts_with(when) || wish.substr(when.size(), 1) != " ") {
    return;
  }
  wish.remove_prefix(when.size() + 1);
  if (words.starts_with(wish)) {
    const char* signal = getenv("DM_WATCH_SIGNAL");
    kill(getpid(), signal == nullptr ? SIGKILL : atoi(signal));
  }
}

void Log(long long begin, int error, const char* words, const char* device) {
  const char* path = getenv("DM_WATCH_LOG");
  const int log = path == nullptr ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log >= 0) {
    dprintf(log, "%lld %lld %d %s @ %s\n", begin, Now(), error, words, device);
    close(log);
  }
}
// NOLINTEND(concurrency-mt-unsafe)

}  // namespace

extern "C" int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list rest;
  va_start(rest, request);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  char words[kLongest];
  const bool watched =
      _IOC_TYPE(request) == DM_IOCTL && Describe(request, *static_cast<const dm_ioctl*>(argument), words);
  if (!watched) {
    return static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
  }
  KillIf("before", words);
  const long long begin = Now();
  const int result = static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
  const int error = result == 0 ? 0 : errno;
  // The kernel fills in the name of a device that the caller gave by number or uuid.
  Log(begin, error, words, static_cast<const dm_ioctl*>(argument)->name);
  KillIf("after", words);
  errno = error;
  return result;
}
