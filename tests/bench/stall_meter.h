// A writer that feels what a snapshot does to a volume in use: how long a write had to wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/unique_fd.h"

namespace quarry::bench {

// A thread writes 4 KiB here and there in the first `area` bytes of a device or file, past the page cache,
// each write durable before the next one begins (O_DSYNC), with a millisecond between two. The destructor
// ends it. The methods are for one other thread.
class StallMeter {
 public:
  // `area`: a multiple of 4096. The file or device must exist.
  StallMeter(std::string path, int64_t area);
  ~StallMeter();
  StallMeter(const StallMeter&) = delete;
  StallMeter& operator=(const StallMeter&) = delete;

  // Forgets the longest write.
  void Begin();
  // Waits until the write that is under way has ended. Returns the milliseconds of the longest write that
  // ended since Begin(), the one that was under way then included. kTimeout: no write ends within a minute.
  // Another error is that of a write; the writer has ended then.
  Result<double> Longest();

 private:
  void Write(const std::stop_token& stop);
  Status WriteOnce(int fd, const void* bytes, uint64_t block);

  const std::string path_;
  const uint64_t blocks_;
  std::mutex mutex_;
  std::condition_variable ended_;
  uint64_t writes_ = 0;  // that have ended
  double longest_ = 0;   // milliseconds
  Status result_ = Ok();
  std::jthread thread_;
};

}  // namespace quarry::bench
