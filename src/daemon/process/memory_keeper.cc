#include "daemon/process/memory_keeper.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdint>
#include <ctime>

namespace quarry::daemon {
namespace {

// The keeper shares the thread-local variables of the thread that started it, including errno, and must not
// change them. It therefore uses only system calls that do not fail on Linux 5.9 and later. Keep must not
// return.
//
// The kernel announces the parent's death when the parent's threads begin to end. The last user of the memory
// waits for the reads. That must be the keeper, not a thread of the parent. So the keeper ends only after all
// threads of the parent have ended: one second after the announcement.
__attribute__((no_sanitize("address", "thread", "undefined"))) int Keep(void* parent) {
  static constexpr uint64_t kDeath = uint64_t{1} << (SIGTERM - 1);  // a set of signals, as the kernel has it
  static constexpr timespec kLonger{1, 0};
  syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGTERM);
  syscall(SYS_prctl, PR_SET_NAME, "quarryd-memory");
  syscall(SYS_close_range, 0, UINT_MAX, 0);
  while (syscall(SYS_getppid) == *static_cast<const pid_t*>(parent)) {
    // Every signal is blocked, so nothing but the awaited one ends this wait.
    syscall(SYS_rt_sigtimedwait, &kDeath, nullptr, nullptr, sizeof(kDeath));
  }
  syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &kLonger, nullptr);
  syscall(SYS_exit_group, 0);
  return 0;
}

}  // namespace

Status KeepMemory() {
  alignas(16) static std::array<char, 16384> stack;
  static const pid_t self = getpid();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);  // the keeper starts with this mask
  const int pid = clone(Keep, stack.data() + stack.size(), CLONE_VM, const_cast<pid_t*>(&self));
  const Status started = pid > 0 ? Ok() : Status(ErrnoError("clone"));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace quarry::daemon
