// What quarryd and the LVM zygote (zygote_main.cc) say to each other. Both come from one build.
//
// Two kinds of socket, SOCK_SEQPACKET. The control socket is descriptor 3 of the zygote: it says kReady there
// once; each request is one message, a Kind and the command line, with three descriptors or four: where its
// replies go; where the command's standard output and error go (files, so that a command never waits for a
// reader, and is not hurt when there is none any more); and, as its standard input, a lock that it keeps
// until it ends. The zygote keeps none of these but the first. The end of the control socket is the end of
// the zygote, once the commands under way have ended: those that only watch are ended.
//
// On the reply socket, in this order: kTaken (before the fork: without it, nothing was run and nothing will
// be), then from the command's process itself kStarted with its id and kDone with its exit status, at last
// kEnded with the wait status from the zygote. The former reach their reader even if the zygote has died;
// kEnded even if the command was killed. The other way goes kSignal.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quarry::lvm::zygote {

inline constexpr int kControlFd = 3;
inline constexpr size_t kMaxRequest = 65536;  // the line
inline constexpr size_t kMostFds = 4;
// lvm2_run() has an array for 64 and refuses when it is full.
inline constexpr size_t kMaxWords = 63;

// First byte of a request. What watches gets TERM at the end of the control socket, and at that of the
// zygote.
enum class Kind : char { kChanges = 'c', kWatches = 'w' };

enum class Event : int32_t { kReady, kTaken, kNotStarted, kStarted, kDone, kEnded, kSignal };

struct Message {
  Event event = Event::kReady;
  int32_t value = 0;  // kNotStarted: errno; kStarted: process id; kDone: exit status; kEnded: as of wait(2);
                      // kSignal: signal number
};

}  // namespace quarry::lvm::zygote
