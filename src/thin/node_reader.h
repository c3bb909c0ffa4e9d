// Reads single blocks of a pool's metadata, counted and limited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/call.h"
#include "base/result.h"
#include "thin/block_source.h"
#include "thin/btree_node.h"

namespace quarry::thin {

// Not thread-safe.
class NodeReader {
 public:
  // Refuses to read more than `max_reads` blocks altogether.
  NodeReader(std::shared_ptr<BlockSource> source, uint64_t max_reads);

  // The bytes of a block. kCorrupt: the source, or the most metadata that the kernel uses, ends before it.
  // kOutOfRange: max_reads blocks have been read. kTimeout, kCancelled: `call`.
  Result<DirectBuffer> ReadBlock(uint64_t block, const Call& call);
  // A checked node of a tree; BtreeNode::Parse.
  Result<BtreeNode> ReadNode(uint64_t block, size_t value_size, const Call& call);

  // Blocks beyond this number are refused.
  uint64_t blocks() const { return blocks_; }
  uint64_t reads() const { return reads_; }

 private:
  std::shared_ptr<BlockSource> source_;
  uint64_t blocks_;
  uint64_t max_reads_;
  uint64_t reads_ = 0;
};

}  // namespace quarry::thin
