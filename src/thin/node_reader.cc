#include "thin/node_reader.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "thin/superblock.h"

namespace quarry::thin {

NodeReader::NodeReader(std::shared_ptr<BlockSource> source, uint64_t max_reads)
    : source_(std::move(source)),
      blocks_(std::min(source_->blocks(), kMaxMetadataBlocks)),
      max_reads_(max_reads) {}

Result<DirectBuffer> NodeReader::ReadBlock(uint64_t block, const Call& call) {
  QUARRY_TRY(call.Check("reading the metadata of a thin pool"));
  if (block >= blocks_) {
    return Error(Code::kCorrupt,
                 fmt::format("metadata block {}: the metadata has only {} blocks", block, blocks_));
  }
  if (reads_ == max_reads_) {
    return Error(
        Code::kOutOfRange,
        fmt::format("metadata block {}: {} blocks were read already, which is the limit", block, max_reads_));
  }
  ++reads_;
  DirectBuffer memory = MakeDirectBuffer(kBlockSize);
  if (memory == nullptr) {
    return Error(Code::kUnavailable, fmt::format("metadata block {}: no memory to read it", block));
  }
  QUARRY_TRY(source_->Read(block, BlockMemory(memory.get(), kBlockSize)));
  return memory;
}

Result<BtreeNode> NodeReader::ReadNode(uint64_t block, size_t value_size, const Call& call) {
  QUARRY_ASSIGN(DirectBuffer memory, ReadBlock(block, call));
  return BtreeNode::Parse(std::move(memory), block, value_size);
}

}  // namespace quarry::thin
