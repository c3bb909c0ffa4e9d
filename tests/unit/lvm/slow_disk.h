// A disk that does not answer: a file of a FUSE file system whose server is this object. Readers see a real
// file, also with O_DIRECT and asynchronous reads. Needs root and FUSE in the kernel.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace quarry::lvm {

// Unmounts when destroyed; held reads then fail.
class SlowDisk {
 public:
  // Mounts on `folder`, an empty directory.
  static Result<std::unique_ptr<SlowDisk>> Make(std::string folder, std::vector<std::byte> content);
  ~SlowDisk();

  std::string path() const { return folder_ + "/disk"; }
  // From now on reads are held until Answer().
  void Hold();
  void Answer();
  // From now on reads fail with EIO, or succeed again.
  void SetFailing(bool failing) { failing_ = failing; }
  // Reads received so far.
  int reads() const { return reads_; }

 private:
  struct Read {
    uint64_t unique = 0;
    uint64_t offset = 0;
    uint32_t size = 0;
  };
  SlowDisk(std::string folder, std::vector<std::byte> content, UniqueFd fuse);
  void Serve();
  void Handle(const std::vector<std::byte>& request);
  void Reply(uint64_t unique, int error, const void* body = nullptr, size_t size = 0);
  void ReplyRead(const Read& read);

  const std::string folder_;
  const std::vector<std::byte> content_;
  UniqueFd fuse_;
  std::atomic<int> reads_ = 0;
  std::atomic<bool> failing_ = false;
  std::mutex mutex_;
  bool holding_ = false;
  std::vector<Read> held_;
  std::thread server_;
};

}  // namespace quarry::lvm
