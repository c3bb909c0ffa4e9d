// Preloaded into an LVM command (LD_PRELOAD): logs each request to device-mapper that changes something, and
// kills the command, or stops it, at a chosen one. No debugger does that between two messages of one command
// as exactly.
//
// DM_WATCH_LOG: the log. A line is: begin and end (CLOCK_MONOTONIC, microseconds), errno or 0, the request,
// its device. DM_WATCH_KILL: "before WORDS" or "after WORDS". WORDS are the beginning of a request as the log
// has it:
//   "message TEXT", "suspend", "suspend-nolockfs", "resume", "load", "create", "remove".
// DM_WATCH_SIGNAL: the number of another signal than SIGKILL, SIGSTOP for example.
//
// Kills at the N-th request of quarryd and what it starts. quarryd gives LVM commands an environment of their
// own, so /etc/ld.so.preload names the library for this, and the files have fixed names. While kOrder is
// there ("N one", "N all" or "N halt"), these requests are logged in kNthLog; with "N hand" those of all
// other programs. The process that makes the next request once that log has N lines is killed before it. With
// "all", quarryd and its zygote are killed first; with "halt" all of them are stopped instead, so that a
// power cut finds the disks as they are before that request. A line with -1 for errno has the request, and
// the name of the process.
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <string_view>

namespace {

constexpr size_t kLongest = 512;
constexpr char kOrder[] = "/run/quarry-test/watch-nth";
constexpr char kNthLog[] = "/run/quarry-test/watch";

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
// NOLINTEND(concurrency-mt-unsafe)

long LinesOf(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  long lines = 0;
  char buffer[4096];
  for (ssize_t got = 0; fd >= 0 && (got = read(fd, buffer, sizeof buffer)) > 0;) {
    lines += std::count(buffer, buffer + got, '\n');
  }
  close(fd);
  return lines;
}

// Reads the beginning of a file as a text. False: there is no such file, or it is empty.
bool ReadText(const char* path, char (&text)[kLongest]) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return false;
  }
  const ssize_t got = read(fd, text, sizeof text - 1);
  text[got > 0 ? got : 0] = '\0';
  close(fd);
  return got > 0;
}

// Parent of a process that is quarryd or its zygote; 0: it is another program.
pid_t ParentOfOurs(pid_t process) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", process);
  char text[kLongest];
  if (!ReadText(path, text) || strstr(text, "(quarry") == nullptr) {
    return 0;
  }
  char state = 0;
  int parent = 0;
  return sscanf(strrchr(text, ')'), ") %c %d", &state, &parent) == 2 ? parent : 0;
}

void Log(const char* path, long long begin, int error, const char* words, const char* device) {
  const int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log >= 0) {
    dprintf(log, "%lld %lld %d %s @ %s\n", begin, Now(), error, words, device);
    close(log);
  }
}

// True: an order is there for this process, and the request is to be logged for it.
bool KillAtNth(const char* words) {
  char order[kLongest];
  char which[8] = {};
  long at = 0;
  if (!ReadText(kOrder, order) || sscanf(order, "%ld %7s", &at, which) != 2) {
    return false;
  }
  const bool is_ours = ParentOfOurs(getpid()) != 0 || ParentOfOurs(getppid()) != 0;
  if (is_ours == (strcmp(which, "hand") == 0)) {
    return false;
  }
  // Of several processes that see the file, one removes it.
  if (LinesOf(kNthLog) < at || unlink(kOrder) != 0) {
    return true;
  }
  char name[kLongest];
  if (ReadText("/proc/self/comm", name)) {
    name[strcspn(name, "\n")] = '\0';
    Log(kNthLog, Now(), -1, words, name);
  }
  const bool halts = strcmp(which, "halt") == 0;
  const int signal = halts ? SIGSTOP : SIGKILL;
  pid_t victims[8] = {};
  size_t count = 0;
  for (pid_t one = getppid(); (halts || strcmp(which, "all") == 0) && count < std::size(victims); ++count) {
    const pid_t parent = ParentOfOurs(one);
    if (parent == 0) {
      break;
    }
    victims[count] = one;
    one = parent;
  }
  while (count > 0) {
    kill(victims[--count], signal);  // quarryd first: it must not see the end of the others
  }
  kill(getpid(), signal);
  return true;
}

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
  const bool counted = KillAtNth(words);
  const long long begin = Now();
  const int result = static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
  const int error = result == 0 ? 0 : errno;
  // The kernel fills in the name of a device that the caller gave by number or uuid.
  const char* const device = static_cast<const dm_ioctl*>(argument)->name;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment meanwhile
  if (const char* const log = getenv("DM_WATCH_LOG"); log != nullptr) {
    Log(log, begin, error, words, device);
  }
  if (counted) {
    Log(kNthLog, begin, error, words, device);
  }
  KillIf("after", words);
  errno = error;
  return result;
}
