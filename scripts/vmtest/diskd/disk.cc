#include "disk.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <vector>

namespace vmtest {

Disk::~Disk() {
  close(fd_);
}

// Waits for the end of stalls and delays. Returns 0 if the request may proceed.
int Disk::Admit(std::unique_lock<std::mutex>& lock, Fault kind, uint64_t offset, uint64_t length) {
  if (delay_ms_ > 0) {
    changed_.wait_for(lock, std::chrono::milliseconds(delay_ms_), [&] { return state_ != State::kOnline; });
  }
  changed_.wait(lock, [&] { return state_ == State::kPulled || (state_ == State::kOnline && !stalled_); });
  if (state_ == State::kPulled) {
    return EIO;
  }
  if (offset > size_ || length > size_ - offset) {
    return EINVAL;
  }
  const bool unlucky = kind == kRead && (faults_ & kHalfOfReads) != 0 && luck_() % 2 == 0;
  if ((faults_ & kind) == 0 && !unlucky) {
    return 0;
  }
  const bool touches =
      kind == kFlush || (offset < fault_first_ + fault_length_ && fault_first_ < offset + length);
  return touches ? EIO : 0;
}

int Disk::Read(uint64_t offset, std::span<char> bytes) {
  std::unique_lock lock(mutex_);
  ++reads_;
  if (const int error = Admit(lock, kRead, offset, bytes.size()); error != 0) {
    return error;
  }
  if (pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset)) !=
      static_cast<ssize_t>(bytes.size())) {
    return EIO;
  }
  const uint64_t end = offset + bytes.size();
  for (auto found = cache_.lower_bound(offset / kBlock); found != cache_.end(); ++found) {
    const uint64_t start = found->first * kBlock;
    if (start >= end) {
      break;
    }
    const uint64_t from = std::max(start, offset);
    const uint64_t to = std::min(start + kBlock, end);
    char* target = bytes.data() + (from - offset);
    if (found->second) {
      memcpy(target, found->second->data() + (from - start), to - from);
    } else {
      memset(target, 0, to - from);
    }
  }
  return 0;
}

int Disk::Write(uint64_t offset, std::span<const char> bytes, bool through) {
  std::unique_lock lock(mutex_);
  ++writes_;
  if (const int error = Admit(lock, kWrite, offset, bytes.size()); error != 0) {
    return error;
  }
  if (const int error = Store(offset, bytes.data(), bytes.size()); error != 0) {
    return error;
  }
  return through ? Through(offset, bytes.size()) : 0;
}

int Disk::Zero(uint64_t offset, uint64_t length, bool through, bool discard) {
  std::unique_lock lock(mutex_);
  ++(discard ? discards_ : zeroes_);
  if (const int error = Admit(lock, kWrite, offset, length); error != 0) {
    return error;
  }
  if (const int error = Store(offset, nullptr, length); error != 0) {
    return error;
  }
  return through ? Through(offset, length) : 0;
}

int Disk::Flush() {
  std::unique_lock lock(mutex_);
  ++flushes_;
  if (const int error = Admit(lock, kFlush, 0, 0); error != 0) {
    return error;
  }
  return WriteBack(0, UINT64_MAX);
}

int Disk::Load(uint64_t block, Block* bytes) {
  if (const auto found = cache_.find(block); found != cache_.end()) {
    if (found->second) {
      *bytes = *found->second;
    } else {
      bytes->fill(0);
    }
    return 0;
  }
  bytes->fill(0);
  const uint64_t wanted = std::min(kBlock, size_ - block * kBlock);
  const ssize_t got = pread(fd_, bytes->data(), wanted, static_cast<off_t>(block * kBlock));
  return got == static_cast<ssize_t>(wanted) ? 0 : EIO;
}

// Writes to the cache. `bytes` null means zeroes.
int Disk::Store(uint64_t offset, const char* bytes, uint64_t length) {
  for (uint64_t done = 0; done < length;) {
    const uint64_t block = (offset + done) / kBlock;
    const uint64_t within = (offset + done) % kBlock;
    const uint64_t part = std::min(kBlock - within, length - done);
    if (bytes == nullptr && part == kBlock) {
      cache_[block] = nullptr;
    } else {
      auto content = std::make_unique<Block>();
      if (part < kBlock) {
        if (const int error = Load(block, content.get()); error != 0) {
          return error;
        }
      }
      if (bytes != nullptr) {
        memcpy(content->data() + within, bytes + done, part);
      } else {
        memset(content->data() + within, 0, part);
      }
      cache_[block] = std::move(content);
    }
    done += part;
  }
  return cache_.size() > kCacheBlocks ? WriteBack(0, UINT64_MAX) : 0;
}

int Disk::Through(uint64_t offset, uint64_t length) {
  return WriteBack(offset / kBlock, (offset + length + kBlock - 1) / kBlock);
}

// Moves the cached blocks [first, end) into the file.
int Disk::WriteBack(uint64_t first, uint64_t end) {
  auto next = cache_.lower_bound(first);
  while (next != cache_.end() && next->first < end) {
    if (const int error = WriteBackRun(&next, end); error != 0) {
      return error;
    }
  }
  return 0;
}

// Writes back one run: consecutive blocks of one kind from *next on, as many as one system call takes.
int Disk::WriteBackRun(std::map<uint64_t, std::unique_ptr<Block>>::iterator* next, uint64_t end) {
  constexpr size_t kMostVectors = 512;
  const auto begin = *next;
  const bool zero = begin->second == nullptr;
  const uint64_t offset = begin->first * kBlock;
  std::vector<iovec> vectors;
  uint64_t length = 0;
  auto at = begin;
  for (; at != cache_.end() && at->first < end && at->first * kBlock == offset + length; ++at) {
    if ((at->second == nullptr) != zero || vectors.size() == kMostVectors) {
      break;
    }
    const uint64_t part = std::min(kBlock, size_ - at->first * kBlock);
    if (!zero) {
      vectors.push_back({at->second->data(), part});
    }
    length += part;
  }
  bool done = false;
  if (zero) {
    const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    done = fallocate(fd_, mode, static_cast<off_t>(offset), static_cast<off_t>(length)) == 0;
  } else {
    const auto count = static_cast<int>(vectors.size());
    done = pwritev(fd_, vectors.data(), count, static_cast<off_t>(offset)) == static_cast<ssize_t>(length);
  }
  if (!done) {
    return EIO;
  }
  *next = cache_.erase(begin, at);
  return 0;
}

void Disk::Stall(bool on) {
  const std::lock_guard lock(mutex_);
  stalled_ = on;
  changed_.notify_all();
}

void Disk::Slow(unsigned milliseconds) {
  const std::lock_guard lock(mutex_);
  delay_ms_ = milliseconds;
}

void Disk::SlowZeroes(unsigned milliseconds) {
  const std::lock_guard lock(mutex_);
  zeroes_delay_ms_ = milliseconds;
}

unsigned Disk::zeroes_delay_ms() {
  const std::lock_guard lock(mutex_);
  return zeroes_delay_ms_;
}

void Disk::SetFaults(unsigned kinds, uint64_t first, uint64_t length) {
  const std::lock_guard lock(mutex_);
  faults_ = kinds;
  fault_first_ = first;
  fault_length_ = std::min(length, UINT64_MAX - first);
}

void Disk::Pull() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kCut) {
    return;
  }
  state_ = State::kPulled;
  cache_.clear();
  changed_.notify_all();
}

void Disk::Return() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kPulled) {
    state_ = State::kOnline;
  }
  stalled_ = false;
}

void Disk::CutPower(Lose lose, unsigned seed) {
  const std::lock_guard lock(mutex_);
  state_ = State::kCut;
  if (lose == Lose::kSome) {
    std::mt19937 random(seed);
    std::erase_if(cache_, [&](const auto&) { return random() % 2 == 0; });
  }
  if (lose != Lose::kAll) {
    WriteBack(0, UINT64_MAX);
  }
  cache_.clear();
  changed_.notify_all();
}

void Disk::Settle() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kOnline) {
    WriteBack(0, UINT64_MAX);
  }
}

std::string Disk::Describe() {
  const std::lock_guard lock(mutex_);
  const char* state = state_ == State::kPulled ? "pulled" : stalled_ ? "stalled" : "online";
  const std::string counts = " reads=" + std::to_string(reads_) + " writes=" + std::to_string(writes_) +
                             " flushes=" + std::to_string(flushes_) + " zeroes=" + std::to_string(zeroes_) +
                             " discards=" + std::to_string(discards_);
  return std::string(state) + " size=" + std::to_string(size_) +
         " unflushed=" + std::to_string(cache_.size() * kBlock) + counts +
         " faults=" + std::to_string(faults_) + " delay_ms=" + std::to_string(delay_ms_) +
         " zeroes_delay_ms=" + std::to_string(zeroes_delay_ms_);
}

}  // namespace vmtest
