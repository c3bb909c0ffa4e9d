#include "thin/tree_cursor.h"

#include <utility>

#include <fmt/format.h>

namespace quarry::thin {
namespace {

Error Corrupt(uint64_t block, std::string_view what) {
  return {Code::kCorrupt, fmt::format("metadata block {}: {}", block, what)};
}

}  // namespace

uint64_t TreeCursor::high() const {
  if (frames_.empty()) {
    return UINT64_MAX;
  }
  const size_t next = top().index + 1;
  return next < top().node.size() ? top().node.key(next) - 1 : top().high;
}

Status TreeCursor::CheckChild(const BtreeNode& node) const {
  if (frames_.size() >= kMaxDepth) {
    return Corrupt(node.block(), fmt::format("more than {} levels of a tree lie above it", kMaxDepth - 1));
  }
  if (node.is_leaf() && leaf_depth_.value_or(frames_.size()) != frames_.size()) {
    return Corrupt(node.block(), fmt::format("a leaf at depth {}, another one of the tree is at depth {}",
                                             frames_.size(), *leaf_depth_));
  }
  for (const Frame& frame : frames_) {
    if (frame.node.block() == node.block()) {
      return Corrupt(node.block(), "a node of a tree is below itself");
    }
  }
  if (frames_.empty()) {
    return Ok();
  }
  if (node.size() == 0) {
    return Corrupt(node.block(), "a leaf without entries that is not the root");
  }
  if (node.key(0) < low() || node.key(node.size() - 1) > high()) {
    return Corrupt(node.block(), fmt::format("keys {} to {}, but the node above has it for {} to {}",
                                             node.key(0), node.key(node.size() - 1), low(), high()));
  }
  return Ok();
}

Status TreeCursor::Enter(const Call& call) {
  QUARRY_ASSIGN(BtreeNode node, reader_->ReadNode(block(), value_size_, call));
  QUARRY_TRY(CheckChild(node));
  if (node.is_leaf()) {
    leaf_depth_ = frames_.size();
  }
  const size_t index = node.is_leaf() ? node.FindAtLeast(from_) : node.FindAtMost(from_);
  const uint64_t bound = high();
  frames_.push_back({std::move(node), index, bound});
  Settle();
  return Ok();
}

void TreeCursor::Skip() {
  if (frames_.empty()) {
    state_ = State::kEnd;
    return;
  }
  ++frames_.back().index;
  Settle();
}

void TreeCursor::Settle() {
  while (!frames_.empty() && top().index >= top().node.size()) {
    frames_.pop_back();
    if (!frames_.empty()) {
      ++frames_.back().index;
    }
  }
  if (frames_.empty()) {
    state_ = State::kEnd;
  } else {
    state_ = top().node.is_leaf() ? State::kEntry : State::kNode;
  }
}

Result<bool> TreeCursor::ToEntry(const Call& call) {
  while (at_node()) {
    QUARRY_TRY(Enter(call));
  }
  return at_entry();
}

}  // namespace quarry::thin
