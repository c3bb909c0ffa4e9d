// Many O_DIRECT reads at once, with a time limit, on the kernel's native AIO. Used by HeaderReader
// (metadata_header_reader.h has the reasons), and by EveryDeviceAnswers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "base/call.h"
#include "base/mutex.h"
#include "base/result.h"

namespace quarry::lvm {

struct DirectRead {
  int fd = -1;          // may be closed once Run() has returned
  uint64_t device = 0;  // the device that counts as silent if this read does not end
  uint64_t offset = 0;  // offset and size: multiples of kDirectAlignment (base/direct_io.h)
  size_t size = 0;
  int error = 0;                // out: errno; ETIMEDOUT: no answer yet
  std::vector<std::byte> data;  // out: short if the device ends before
};

// Thread-safe.
class DirectReads {
 public:
  DirectReads();
  // Does not wait: a read that is in flight keeps its buffer for the life of the process.
  ~DirectReads();

  // Returns when every read has ended or `patience` is over. kTimeout, kCancelled: the call ended first.
  Status Run(std::span<DirectRead> reads, std::chrono::milliseconds patience, const Call& call);

  // Whether an earlier read of this device is still in flight.
  bool IsSilent(uint64_t device);

 private:
  class Batch;
  std::unique_ptr<Batch> Take(size_t reads);
  void GiveBack(std::unique_ptr<Batch> batch);
  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::vector<std::unique_ptr<Batch>> idle_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Batch>> parked_ ABSL_GUARDED_BY(mutex_);  // batches with reads in flight
  std::set<uint64_t> may_block_ ABSL_GUARDED_BY(mutex_);  // devices that cannot be read with RWF_NOWAIT
};

}  // namespace quarry::lvm
