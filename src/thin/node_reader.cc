#include "thin/node_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "thin/superblock.h"

namespace quarry::thin {
namespace {

constexpr uint64_t kLeastAhead = 4;
// A window was worth its size if one in so many of its blocks was wanted.
constexpr uint64_t kWorthwhile = 16;

}  // namespace

NodeReader::NodeReader(std::shared_ptr<BlockSource> source, uint64_t max_reads)
    : source_(std::move(source)),
      blocks_(std::min(source_->blocks(), kMaxMetadataBlocks)),
      max_reads_(max_reads),
      ahead_(std::min(source_->read_ahead(), kLeastAhead)) {}

Status NodeReader::Count(uint64_t block, const Call& call) {
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
  return Ok();
}

Status NodeReader::ReadAlone(uint64_t block, std::span<std::byte> memory) {
  return source_->Read(block, memory).Context(fmt::format("metadata block {}", block));
}

Result<DirectBuffer> NodeReader::ReadFresh(uint64_t block, const Call& call) {
  QUARRY_TRY(Count(block, call));
  DirectBuffer memory = MakeDirectBuffer(kBlockSize);
  if (memory == nullptr) {
    return Error(Code::kUnavailable, fmt::format("metadata block {}: no memory to read it", block));
  }
  QUARRY_TRY(ReadAlone(block, {memory.get(), kBlockSize}));
  return memory;
}

Result<BtreeNode> NodeReader::ReadNode(uint64_t block, size_t value_size, const Call& call) {
  if (ahead_ == 1) {
    QUARRY_ASSIGN(DirectBuffer alone, ReadFresh(block, call));
    return BtreeNode::Parse(std::move(alone), block, value_size);
  }
  QUARRY_TRY(Count(block, call));
  DirectBuffer memory = MakeDirectBuffer(kBlockSize);
  if (memory == nullptr) {
    return Error(Code::kUnavailable, fmt::format("metadata block {}: no memory to read it", block));
  }
  const std::span<const std::byte> found = FindAhead(block);
  if (found.empty()) {
    QUARRY_TRY(ReadAlone(block, {memory.get(), kBlockSize}));
  } else {
    std::memcpy(memory.get(), found.data(), kBlockSize);
  }
  return BtreeNode::Parse(std::move(memory), block, value_size);
}

std::span<const std::byte> NodeReader::FindAhead(uint64_t block) {
  auto window = std::ranges::find_if(
      windows_, [&](const Window& each) { return block >= each.first && block - each.first < each.count; });
  if (window == windows_.end()) {
    // The oldest window gives its memory, which has the largest size from the beginning.
    DirectBuffer bytes;
    if (windows_.size() == kWindows) {
      Learn(windows_.front());
      bytes = std::move(windows_.front().bytes);
      windows_.pop_front();
    } else {
      bytes = MakeDirectBuffer(source_->read_ahead() * kBlockSize);
    }
    const uint64_t first = block / ahead_ * ahead_;
    const uint64_t count = std::min(ahead_, blocks_ - first);
    if (bytes == nullptr || !source_->Read(first, {bytes.get(), count * kBlockSize}).has_value()) {
      return {};
    }
    window = windows_.insert(windows_.end(), {first, count, std::move(bytes)});
  }
  ++window->used;
  return {window->bytes.get() + (block - window->first) * kBlockSize, kBlockSize};
}

void NodeReader::Learn(const Window& gone) {
  if (gone.used * kWorthwhile >= gone.count) {
    ahead_ = std::min(ahead_ * 2, source_->read_ahead());
  } else {
    ahead_ = std::max(ahead_ / 2, kLeastAhead);
  }
}

}  // namespace quarry::thin
