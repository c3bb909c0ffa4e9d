// A node of the kernel's persistent B-trees: pure. Layout: struct btree_node of dm-btree-internal.h.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/direct_io.h"
#include "base/result.h"

namespace quarry::thin {

// Keys ascend. The value of an inner node's entry is a child's block: the tree below has keys from the
// entry's key up to the key of the next entry. An empty node is a leaf.
class BtreeNode {
 public:
  // Takes the kBlockSize bytes that were read of `block`. `value_size`: of leaves; inner nodes have 8 bytes.
  // kCorrupt, naming the block: what the kernel would refuse, keys that do not ascend, an inner node without
  // entries.
  static Result<BtreeNode> Parse(DirectBuffer bytes, uint64_t block, size_t value_size);

  uint64_t block() const { return block_; }
  bool is_leaf() const { return is_leaf_; }
  size_t size() const { return size_; }
  // i < size().
  uint64_t key(size_t i) const { return Load(kHeaderSize + i * kKeySize); }
  // The first 8 bytes from `offset` on of an entry's value.
  uint64_t value(size_t i, size_t offset = 0) const { return Load(values_ + i * value_size_ + offset); }

  // The entry with the largest key that is at most `key`; 0 if there is none.
  size_t FindAtMost(uint64_t key) const;
  // The first entry with a key of at least `key`; size() if there is none.
  size_t FindAtLeast(uint64_t key) const;

 private:
  static constexpr size_t kHeaderSize = 32, kKeySize = 8;

  BtreeNode(DirectBuffer bytes, uint64_t block) : bytes_(std::move(bytes)), block_(block) {}
  // Nearly all time of a walk goes here: one instruction, not eight steps.
  uint64_t Load(size_t offset) const {
    static_assert(std::endian::native == std::endian::little, "numbers are used as they lie on disk");
    uint64_t number = 0;
    std::memcpy(&number, bytes_.get() + offset, sizeof(number));
    return number;
  }

  DirectBuffer bytes_;
  uint64_t block_;
  bool is_leaf_ = false;
  size_t size_ = 0;
  size_t value_size_ = 0;
  size_t values_ = 0;  // offset of the first value
};

}  // namespace quarry::thin
