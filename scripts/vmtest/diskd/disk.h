// One disk of a guest: a sparse file behind a volatile write cache, with faults on request.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>

namespace vmtest {

// Thread-safe: one thread serves the guest's requests, another one the harness's.
//
// The cache makes a power cut honest. A write is acknowledged from memory and reaches the file only by a
// flush, by FUA, or when the cache is full. A power cut loses the rest, as a drive may. Without this cache
// everything that the guest ever wrote would survive in the host's page cache, and no test could notice a
// missing flush.
class Disk {
 public:
  enum class Lose { kAll, kNone, kSome };
  enum Fault : unsigned {
    kRead = 1,
    kWrite = 2,
    kFlush = 4,
    kHalfOfReads = 8,  // at random
  };

  // fd: the backing file, open for reading and writing; owned.
  Disk(int fd, uint64_t size) : fd_(fd), size_(size) {}
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  uint64_t size() const { return size_; }

  // Each returns 0 or an errno, after any stall or delay.
  int Read(uint64_t offset, std::span<char> bytes);
  int Write(uint64_t offset, std::span<const char> bytes, bool through);
  // Zeroes or discards. Both read as zeroes, but are counted separately.
  int Zero(uint64_t offset, uint64_t length, bool through, bool discard);
  int Flush();

  void Stall(bool on);
  void Slow(unsigned milliseconds);
  // Delay of a request to write zeroes. Other I/O goes on meanwhile, and the zeroes are written at its end.
  // The server of the requests (nbd.cc) does that.
  void SlowZeroes(unsigned milliseconds);
  unsigned zeroes_delay_ms();
  // I/O of these kinds that touches [first, first + length) fails with EIO.
  void SetFaults(unsigned kinds, uint64_t first, uint64_t length);
  // Fails all I/O from now on and loses what was not flushed, until Return().
  void Pull();
  void Return();
  // Loses all, none or a random half of what was not flushed. I/O hangs from now on.
  void CutPower(Lose lose, unsigned seed);
  // The guest has ended in order: writes everything back. Does nothing after a power cut.
  void Settle();
  std::string Describe();

 private:
  static constexpr uint64_t kBlock = 4096;
  static constexpr size_t kCacheBlocks = 16384;
  using Block = std::array<char, kBlock>;
  enum class State { kOnline, kPulled, kCut };

  int Admit(std::unique_lock<std::mutex>& lock, Fault kind, uint64_t offset, uint64_t length);
  int Load(uint64_t block, Block* bytes);
  int Store(uint64_t offset, const char* bytes, uint64_t length);
  int WriteBack(uint64_t first, uint64_t end);
  int WriteBackRun(std::map<uint64_t, std::unique_ptr<Block>>::iterator* next, uint64_t end);
  int Through(uint64_t offset, uint64_t length);

  const int fd_;
  const uint64_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kOnline;
  bool stalled_ = false;
  unsigned delay_ms_ = 0;
  unsigned zeroes_delay_ms_ = 0;
  unsigned faults_ = 0;
  uint64_t fault_first_ = 0;
  uint64_t fault_length_ = 0;
  std::minstd_rand luck_;  // the same sequence each time
  // Unflushed blocks by number; a null pointer is a block of zeroes.
  std::map<uint64_t, std::unique_ptr<Block>> cache_;
  uint64_t reads_ = 0, writes_ = 0, flushes_ = 0, zeroes_ = 0, discards_ = 0;
};

}  // namespace vmtest
