#include "lvm/read/metadata_header_aio.h"

#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "base/direct_io.h"

namespace quarry::lvm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Slice of every wait, so that a stop request is noticed.
constexpr milliseconds kSlice{50};
// Pause before the retry of a read for which the device's queue had no place.
constexpr milliseconds kTryAgain{1};
// Reads are tried without blocking for this long. Some devices never accept such a read, if it must be split.
constexpr milliseconds kTryWithoutBlocking{100};
constexpr size_t kSmallestContext = 32;

timespec ToTimespec(milliseconds time) {
  return {static_cast<time_t>(time.count() / 1000), static_cast<long>(time.count() % 1000 * 1000000)};
}

}  // namespace

// One AIO context with its buffers, for one thread at a time.
class DirectReads::Batch {
 public:
  explicit Batch(size_t capacity) : capacity_(capacity) {
    // Without a context (all of fs.aio-max-nr is in use) reads are done one by one.
    if (syscall(SYS_io_setup, static_cast<unsigned>(capacity), &context_) != 0) {
      context_ = 0;
    }
  }
  ~Batch() {
    if (context_ != 0) {
      syscall(SYS_io_destroy, context_);
    }
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  bool has_context() const { return context_ != 0; }
  size_t capacity() const { return capacity_; }
  size_t in_flight() const { return in_flight_; }

  // Whether the device has not answered a read of the last Start().
  bool Awaits(uint64_t device) const {
    return std::ranges::any_of(
        slots_, [&](const Slot& slot) { return slot.state == State::kInFlight && slot.device == device; });
  }

  Status Start(std::span<DirectRead> reads, const std::set<uint64_t>& may_block) {
    slots_.clear();
    slots_.resize(reads.size());
    started_ = steady_clock::now();
    for (size_t i = 0; i < reads.size(); ++i) {
      Slot& slot = slots_[i];
      slot.device = reads[i].device;
      slot.buffer = MakeDirectBuffer(reads[i].size);
      if (slot.buffer == nullptr) {
        return Error(Code::kInternal, "out of memory");
      }
      slot.request.aio_data = i;
      slot.request.aio_lio_opcode = IOCB_CMD_PREAD;
      slot.request.aio_fildes = static_cast<uint32_t>(reads[i].fd);
      slot.request.aio_buf = reinterpret_cast<uintptr_t>(slot.buffer.get());
      slot.request.aio_nbytes = reads[i].size;
      slot.request.aio_offset = static_cast<int64_t>(reads[i].offset);
      slot.request.aio_rw_flags = may_block.contains(reads[i].device) ? 0 : RWF_NOWAIT;
    }
    return Ok();
  }

  // Submits pending reads and collects finished ones, waiting at most `limit`. True once nothing is left.
  bool Step(milliseconds limit) {
    Submit();
    Collect(std::any_of(slots_.begin(), slots_.end(), IsWaiting) ? std::min(limit, kTryAgain) : limit);
    return in_flight_ == 0 && std::none_of(slots_.begin(), slots_.end(), IsWaiting);
  }

  // Collects finished reads, waiting at most `limit`.
  void Collect(milliseconds limit) {
    std::array<io_event, 16> events{};
    timespec time = ToTimespec(limit);
    while (in_flight_ > 0) {
      const long n =
          syscall(SYS_io_getevents, context_, 1L, static_cast<long>(events.size()), events.data(), &time);
      if (n <= 0) {
        return;
      }
      for (long i = 0; i < n; ++i) {
        --in_flight_;
        End(slots_[events[static_cast<size_t>(i)].data], events[static_cast<size_t>(i)].res);
      }
      time = {0, 0};
    }
    if (limit > milliseconds::zero() && std::any_of(slots_.begin(), slots_.end(), IsWaiting)) {
      nanosleep(&time, nullptr);
    }
  }

  // Hands over the results. A read that is neither finished nor in flight was never accepted by its device.
  void Finish(std::span<DirectRead> reads, std::set<uint64_t>& may_block) const {
    for (size_t i = 0; i < reads.size(); ++i) {
      const Slot& slot = slots_[i];
      reads[i].error = slot.state == State::kDone ? slot.error : ETIMEDOUT;
      reads[i].data.clear();
      if (slot.state == State::kDone) {
        reads[i].data.assign(slot.buffer.get(), slot.buffer.get() + slot.bytes);
        if (slot.never_without_blocking) {
          may_block.insert(slot.device);
        }
      }
    }
  }

 private:
  enum class State { kWaiting, kInFlight, kDone };
  struct Slot {
    State state = State::kWaiting;
    uint64_t device = 0;
    DirectBuffer buffer;
    iocb request{};
    bool never_without_blocking = false;
    int error = 0;
    size_t bytes = 0;
  };

  static bool IsWaiting(const Slot& slot) { return slot.state == State::kWaiting; }

  void Submit() {
    for (Slot& slot : slots_) {
      while (slot.state == State::kWaiting) {
        iocb* request = &slot.request;
        if (context_ == 0) {
          const ssize_t n = pread(static_cast<int>(request->aio_fildes), slot.buffer.get(),
                                  request->aio_nbytes, request->aio_offset);
          End(slot, n >= 0 ? n : -errno);
        } else if (syscall(SYS_io_submit, context_, 1L, &request) == 1) {
          slot.state = State::kInFlight;
          ++in_flight_;
        } else if (errno == EAGAIN) {
          break;  // the kernel has no free requests now
        } else {
          End(slot, -errno);
        }
      }
    }
  }

  void End(Slot& slot, int64_t result) {
    slot.state = State::kDone;
    slot.error = result < 0 ? static_cast<int>(-result) : 0;
    slot.bytes = result < 0 ? 0 : static_cast<size_t>(result);
    if (slot.request.aio_rw_flags == 0 || (result != -EAGAIN && result != -EOPNOTSUPP)) {
      return;
    }
    slot.state = State::kWaiting;
    slot.never_without_blocking = result == -EOPNOTSUPP;
    if (slot.never_without_blocking || steady_clock::now() - started_ > kTryWithoutBlocking) {
      slot.request.aio_rw_flags = 0;
    }
  }

  size_t capacity_;
  aio_context_t context_ = 0;
  size_t in_flight_ = 0;
  std::vector<Slot> slots_;
  SteadyTime started_;
};

DirectReads::DirectReads() = default;
DirectReads::~DirectReads() {
  Sweep();
  for (std::unique_ptr<Batch>& batch : parked_) {
    (void)batch.release();  // destroying it would wait in the kernel for its reads
  }
}

Status DirectReads::Run(std::span<DirectRead> reads, milliseconds patience, const Call& call) {
  if (reads.empty()) {
    return Ok();
  }
  std::unique_ptr<Batch> batch = Take(reads.size());
  std::set<uint64_t> may_block;
  {
    const MutexLock lock(mutex_);
    may_block = may_block_;
  }
  QUARRY_TRY(batch->Start(reads, may_block));
  const SteadyTime end = steady_clock::now() + patience;
  Status status = Ok();
  bool done = false;
  while (!done && status.has_value() && steady_clock::now() < end) {
    const auto left = std::chrono::ceil<milliseconds>(end - steady_clock::now());
    done = batch->Step(std::min({left, kSlice, call.Remaining()}));
    if (!done) {
      status = call.Check("reading disks");
    }
  }
  batch->Finish(reads, may_block);
  {
    const MutexLock lock(mutex_);
    may_block_.merge(may_block);
  }
  GiveBack(std::move(batch));
  return status;
}

bool DirectReads::IsSilent(uint64_t device) {
  const MutexLock lock(mutex_);
  Sweep();
  return std::ranges::any_of(parked_, [&](const auto& batch) { return batch->Awaits(device); });
}

std::unique_ptr<DirectReads::Batch> DirectReads::Take(size_t reads) {
  {
    const MutexLock lock(mutex_);
    Sweep();
    for (auto batch = idle_.begin(); batch != idle_.end(); ++batch) {
      if ((*batch)->capacity() >= reads) {
        std::unique_ptr<Batch> taken = std::move(*batch);
        idle_.erase(batch);
        return taken;
      }
    }
  }
  return std::make_unique<Batch>(std::max(reads, kSmallestContext));
}

void DirectReads::GiveBack(std::unique_ptr<Batch> batch) {
  const MutexLock lock(mutex_);
  if (batch->in_flight() > 0) {
    parked_.push_back(std::move(batch));
  } else if (batch->has_context()) {
    idle_.push_back(std::move(batch));
  }
}

void DirectReads::Sweep() {
  for (auto batch = parked_.begin(); batch != parked_.end();) {
    (*batch)->Collect(milliseconds::zero());
    if ((*batch)->in_flight() > 0) {
      ++batch;
      continue;
    }
    idle_.push_back(std::move(*batch));
    batch = parked_.erase(batch);
  }
}

}  // namespace quarry::lvm
