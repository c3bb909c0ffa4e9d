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

  // Whether a copy shows the volume at one instant, from before its turn `least` ended until after turn
  // `most` began. Only at the block that was being written then may it show anything. `least` >= kRound.
  static constexpr uint64_t kRound = 64;  // turns until each block was written once
  static Status CheckCopy(const std::string& path, bool raw, uint64_t least, uint64_t most) {
    const std::string file = raw ? path : path + "/written";
    Status why = Ok();
    for (uint64_t turns = least; turns <= most + 1; ++turns) {
      why = Ok();
      for (uint64_t block = 0; block < kBlocks && why.has_value(); ++block) {
        const uint64_t last = (turns - 1 - block) / kBlocks * kBlocks + block;
        why = block == turns % kBlocks ? Ok() : CheckPattern(file, last, kBlock, block * kBlock);
      }
      if (why.has_value()) {
        return why;
      }
    }
    return why;
  }

 private:
  static constexpr uint64_t kBlock = 256 << 10;
  static constexpr uint64_t kBlocks = kRound;

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
