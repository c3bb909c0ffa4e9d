// Lines on their way to a log that may not take them: a pipe that nobody reads, a journal whose disk hangs.
// Whoever logs queues, and one thread writes. A log that works has the line when Write returns, so that it
// tells of the last step before a crash; one that is behind is not waited for. What the queue cannot hold is
// lost and counted, and the log is told of it once it takes lines again.
//
// A thread, because O_NONBLOCK would not do: it belongs to the open file, which others share (the shell, the
// container's runtime), it cannot be had for a socket by opening it again, and means nothing for a file on a
// disk.
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

  // `fd` is not owned, its flags are left alone, and it stays open as long as the process. `notice` makes the
  // line that tells how many were lost; it is called on the writing thread.
  LogWriter(int fd, std::function<std::string(uint64_t lost)> notice);
  // Waits a second for what is queued. A thread that is stuck in the kernel is left behind.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Waits for the log a hundredth of a second, and not again until that has caught up. Lines come out whole,
  // in the order of the calls.
  void Write(std::string line);
  // Whether all that was queued before is out, after at most `limit`.
  bool Flush(std::chrono::milliseconds limit);
  // Lines so far that no log ever gets.
  uint64_t lost() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace quarry
