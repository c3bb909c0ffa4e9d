// Writes lines to a log that may block: a pipe without a reader, or a journal on a hung disk. Callers queue
// lines, and one thread writes them. If the log works, it has the line when Write returns, so it shows the
// last step before a crash. If the log is behind, no caller waits for it. A line is lost, and counted, if it
// does not fit the queue, if it comes after a lost line while the queue is not empty, or if writing it fails.
// The log gets the count once it accepts lines again.
//
// A thread is used because O_NONBLOCK would not do. O_NONBLOCK belongs to the open file, which others share
// (the shell, the container's runtime). Opening /proc/self/fd/2 again would give an open file of our own, but
// not if the log is a socket. And O_NONBLOCK has no effect for a file on a disk.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace quarry {

// Thread-safe.
class LogWriter {
 public:
  static constexpr size_t kMostWaiting = size_t{1} << 20;  // bytes

  // `fd` is not owned, its flags are not changed, and it must stay open as long as the process. `notice`
  // makes the line that reports the number of lost lines; it is called on the writing thread.
  LogWriter(int fd, std::function<std::string(uint64_t lost)> notice);
  // Waits up to one second for queued lines. A thread stuck in the kernel is abandoned.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Waits at most 10 ms until the line is written. If that is not enough, the log is behind: no later call
  // waits until it has caught up. Lines come out whole, in the order of the calls.
  void Write(std::string line);
  // Waits at most `limit`. True if all lines queued before the call were written, or failed.
  bool Flush(std::chrono::milliseconds limit);
  // The number of lines lost so far.
  uint64_t lost() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace quarry
