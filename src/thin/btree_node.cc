#include "thin/btree_node.h"

#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/little_endian.h"
#include "thin/block_check.h"

namespace quarry::thin {
namespace {

constexpr uint32_t kSalt = 121107;
constexpr uint64_t kInner = 1, kLeaf = 2;
constexpr size_t kChildSize = 8;
// Offsets of the fields.
constexpr size_t kFlags = 4, kNumber = 8, kEntries = 16, kMaxEntries = 20, kValueSize = 24;

Error Corrupt(uint64_t block, std::string_view what) {
  return {Code::kCorrupt, fmt::format("metadata block {}: {}", block, what)};
}

}  // namespace

Result<BtreeNode> BtreeNode::Parse(DirectBuffer bytes, uint64_t block, size_t value_size) {
  BtreeNode node(std::move(bytes), block);
  const std::span<const std::byte, kBlockSize> all(node.bytes_.get(), kBlockSize);
  const auto number = [&](size_t offset, size_t width) { return little_endian::Load(all, offset, width); };
  QUARRY_TRY(CheckBlock(all, block, number(kNumber, 8), kSalt));
  const uint64_t flags = number(kFlags, 4);
  const uint64_t size = number(kEntries, 4), max = number(kMaxEntries, 4);
  if (flags != kInner && flags != kLeaf) {
    return Corrupt(block,
                   fmt::format("neither an inner node nor a leaf of a tree, its flags are {:#x}", flags));
  }
  node.is_leaf_ = flags == kLeaf;
  node.value_size_ = node.is_leaf_ ? value_size : kChildSize;
  if (number(kValueSize, 4) != node.value_size_) {
    return Corrupt(block,
                   fmt::format("values of {} bytes, must be of {}", number(kValueSize, 4), node.value_size_));
  }
  if (size > max || kHeaderSize + max * (kKeySize + node.value_size_) > kBlockSize) {
    return Corrupt(block, fmt::format("{} of at most {} entries do not fit", size, max));
  }
  if (size == 0 && !node.is_leaf_) {
    return Corrupt(block, "an inner node without entries");
  }
  node.size_ = size;
  node.values_ = kHeaderSize + max * kKeySize;
  for (size_t i = 1; i < size; ++i) {
    if (node.key(i - 1) >= node.key(i)) {
      return Corrupt(block, fmt::format("entry {} has key {} after key {}", i, node.key(i), node.key(i - 1)));
    }
  }
  return node;
}

size_t BtreeNode::FindAtMost(uint64_t key) const {
  const size_t after = key == UINT64_MAX ? size_ : FindAtLeast(key + 1);
  return after == 0 ? 0 : after - 1;
}

size_t BtreeNode::FindAtLeast(uint64_t wanted) const {
  size_t first = 0, count = size_;
  while (count > 0) {
    const size_t half = count / 2;
    if (key(first + half) < wanted) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

}  // namespace quarry::thin
