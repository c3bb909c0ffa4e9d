// The messages between quarryd and the LVM zygote (zygote_main.cc). Both come from one build.
//
// There are two kinds of socket, both SOCK_SEQPACKET. The control socket is descriptor 3 of the zygote. The
// zygote sends kReady there once. Each request is one message, a Kind and the command line, with three to
// five descriptors: the reply socket; the files for the command's standard output and standard error; and up
// to two locks. Output goes to files so that a command never waits for a reader, and is not hurt if the
// reader is gone. The command keeps the locks open until it ends, the first as its standard input. Of these
// descriptors the zygote keeps only the reply socket. When the control socket ends, the zygote stops the
// commands that only watch, waits for the others, and ends.
//
// The reply socket carries, in this order: kTaken (sent before the fork; without it, nothing was run and
// nothing will be); from the command's process kStarted with its id and kDone with its exit status; and from
// the zygote kEnded with the wait status. If the fork failed, kTaken is followed by kNotStarted with errno
// only. kStarted and kDone reach the reader even if the zygote has died; kEnded arrives even if the command
// was killed. The other direction carries kSignal.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quarry::lvm {

// The lvm program closes inherited descriptors, except standard ones and the one in this variable
// (lvmcmdline.c). The zygote's children close none, and need no variable.
inline constexpr char kKeepFdVariable[] = "LVM_REPORT_FD";

namespace zygote {

inline constexpr int kControlFd = 3;
inline constexpr size_t kMaxRequest = 65536;  // the command line
inline constexpr size_t kFirstLock = 3;
inline constexpr size_t kMostLocks = 2;
inline constexpr size_t kMostFds = kFirstLock + kMostLocks;
// lvm2_run() has an array for 64 and refuses when it is full.
inline constexpr size_t kMaxWords = 63;

// First byte of a request. A command that only watches gets TERM when the control socket ends, and when the
// zygote ends. kUnbroken: as Command::unbroken.
enum class Kind : char { kChanges = 'c', kWatches = 'w', kUnbroken = 'u' };

enum class Event : int32_t { kReady, kTaken, kNotStarted, kStarted, kDone, kEnded, kSignal };

struct Message {
  Event event = Event::kReady;
  int32_t value = 0;  // kNotStarted: errno; kStarted: process id; kDone: exit status; kEnded: as of wait(2);
                      // kSignal: signal number
};

}  // namespace zygote
}  // namespace quarry::lvm
