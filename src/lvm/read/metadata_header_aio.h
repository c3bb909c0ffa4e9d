// Many O_DIRECT reads at once with a time limit, on the kernel's native AIO. Internal to the header reader,
// whose header tells what it is for.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "base/call.h"
#include "base/result.h"

namespace quarry::lvm {

// Offsets and sizes that every disk LVM can use takes with O_DIRECT.
inline constexpr size_t kDirectAlignment = 4096;

struct DirectRead {
  int fd = -1;          // may be closed as soon as Run() has returned
  uint64_t device = 0;  // what stays silent, if this read does
  uint64_t offset = 0;  // multiple of kDirectAlignment, as is size
  size_t size = 0;
  int error = 0;                // out: errno; ETIMEDOUT: no answer yet
  std::vector<std::byte> data;  // out: short where the device ends
};

// Thread-safe.
class DirectReads {
 public:
  DirectReads();
  // Waits for nothing: a read that is in flight keeps its buffer for the life of the process.
  ~DirectReads();

  // Done when every read has ended or `patience` is over. kTimeout, kCancelled: the call ended before that.
  Status Run(std::span<DirectRead> reads, std::chrono::milliseconds patience, const Call& call);

  // Whether a read of this device is still in flight, long after anybody waited for it.
  bool IsSilent(uint64_t device);

 private:
  class Batch;
  std::unique_ptr<Batch> Take(size_t reads);
  void GiveBack(std::unique_ptr<Batch> batch);
  void Sweep();

  std::mutex mutex_;
  std::vector<std::unique_ptr<Batch>> idle_;
  std::vector<std::unique_ptr<Batch>> parked_;  // with reads in flight
  std::set<uint64_t> may_block_;                // devices that cannot be read with RWF_NOWAIT
};

}  // namespace quarry::lvm
