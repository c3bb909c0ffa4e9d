// A set of data blocks: a bitmap of pages, of which only those with blocks exist.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

namespace quarry::thin {

struct DataRun {
  uint64_t begin = 0;
  uint64_t length = 0;
  auto operator<=>(const DataRun&) const = default;
};

// Memory: one bit for each data block of a page that has any; a page of 4 KiB covers 32,768 blocks. A million
// blocks take 124 KiB if they lie together, and never more than an eighth of a byte for each data block of
// the pool, and 10 %. Not thread-safe.
class BlockSet {
 public:
  BlockSet() = default;
  // Not copied: last_ points into pages_. A moved map keeps its pages where they are.
  BlockSet(const BlockSet&) = delete;
  BlockSet& operator=(const BlockSet&) = delete;
  BlockSet(BlockSet&&) = default;
  BlockSet& operator=(BlockSet&&) = default;
  ~BlockSet() = default;

  // Both may be repeated.
  void Insert(uint64_t block);
  void Erase(uint64_t block);
  bool Contains(uint64_t block) const;

  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // The first run with blocks at or after `from`, begun at `from` if that is within it; nullopt if there is
  // none. Runs are as long as they can be. for (auto run = set.NextRun(0); run; run = set.NextRun(run->begin
  // + run->length)).
  std::optional<DataRun> NextRun(uint64_t from) const;

 private:
  static constexpr uint64_t kWordBits = 64, kPageBits = 32768;
  using Page = std::array<uint64_t, kPageBits / kWordBits>;
  using Pages = std::map<uint64_t, Page>;

  // The first block at or after `from` that is in the set, or with `in` = false, that is not. UINT64_MAX:
  // none.
  uint64_t Find(uint64_t from, bool in) const;

  Pages pages_;
  // The page of the last Insert() or Erase(): most blocks of a device are neighbours.
  uint64_t last_number_ = UINT64_MAX;
  Page* last_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace quarry::thin
