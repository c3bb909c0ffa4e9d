// Reads single blocks of a pool's metadata, counted and limited, and further ones ahead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "base/call.h"
#include "base/result.h"
#include "thin/block_source.h"
#include "thin/btree_node.h"

namespace quarry::thin {

// Neighbours of a block are often wanted next: the kernel takes the next free block for a new node. So
// neighbours are read together with a block and kept for a while, more of them if earlier ones were wanted.
// That is allowed because a node does not change as long as a reader may read it (metadata_reader.h). Not
// thread-safe.
//
// Memory: kWindows times the read-ahead of the source, 2 MiB for MetadataFile.
class NodeReader {
 public:
  // Refuses more than `max_reads` blocks altogether, wherever they are taken from.
  NodeReader(std::shared_ptr<BlockSource> source, uint64_t max_reads);

  // The bytes of a block that may change: never those that were read before. kCorrupt: the source, or the
  // most metadata that the kernel uses, ends before it. kOutOfRange: max_reads blocks have been read.
  // kTimeout, kCancelled: `call`.
  Result<DirectBuffer> ReadFresh(uint64_t block, const Call& call);
  // A checked node of a tree; BtreeNode::Parse. Errors as above.
  Result<BtreeNode> ReadNode(uint64_t block, size_t value_size, const Call& call);

  // Blocks beyond this number are refused.
  uint64_t blocks() const { return blocks_; }
  // Blocks that were wanted, not those read ahead.
  uint64_t reads() const { return reads_; }

 private:
  static constexpr size_t kWindows = 8;
  struct Window {
    uint64_t first;
    uint64_t count;
    DirectBuffer bytes;
    uint64_t used = 0;
  };

  Status Count(uint64_t block, const Call& call);
  Status ReadAlone(uint64_t block, std::span<std::byte> memory);
  // The bytes of a block in the window that has it; reads such a window if there is none. Empty: it cannot be
  // read, which may be because of a neighbour.
  std::span<const std::byte> FindAhead(uint64_t block);
  void Learn(const Window& gone);

  std::shared_ptr<BlockSource> source_;
  uint64_t blocks_;
  uint64_t max_reads_;
  uint64_t reads_ = 0;
  uint64_t ahead_;
  std::deque<Window> windows_;  // the newest last
};

}  // namespace quarry::thin
