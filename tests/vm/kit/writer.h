// A user of a volume: it writes all the time, and knows what the volume must hold.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "base/result.h"
#include "tests/vm/kit/pattern.h"

namespace quarry::vm {

// Writes the blocks in turn, again and again, each with a pattern of its turn, and flushes each. Runs until
// StopAndCheck().
class Writer {
 public:
  // `raw`: writes to the device at `path` itself, otherwise to a file below it.
  // `pause`: sleeps after each block, so that other threads get the processors.
  Writer(const std::string& path, bool raw, std::chrono::milliseconds pause = {})
      : file_(raw ? path : path + "/written"),
        pause_(pause),
        thread_([this](const std::stop_token& stop) { Write(stop); }) {}

  // Stops the writer and compares every block with what was last written there.
  Status StopAndCheck() {
    thread_.request_stop();
    thread_.join();
    QUARRY_TRY(result_);
    for (uint64_t block = 0; block < std::min(turns_.load(), kBlocks); ++block) {
      const uint64_t last = (turns_ - 1 - block) / kBlocks * kBlocks + block;
      QUARRY_TRY(CheckPattern(file_, last, kBlock, block * kBlock));
    }
    return Ok();
  }
  uint64_t turns() const { return turns_; }

 private:
  static constexpr uint64_t kBlock = 256 << 10;
  static constexpr uint64_t kBlocks = 64;

  void Write(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      result_ = WritePattern(file_, turns_, kBlock, turns_ % kBlocks * kBlock);
      if (!result_.has_value()) {
        return;
      }
      ++turns_;
      std::this_thread::sleep_for(pause_);
    }
  }

  const std::string file_;
  const std::chrono::milliseconds pause_;
  std::atomic<uint64_t> turns_ = 0;
  Status result_ = Ok();  // only the thread uses it until it is joined
  std::jthread thread_;
};

}  // namespace quarry::vm
