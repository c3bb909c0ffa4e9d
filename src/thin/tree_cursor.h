// The place of a walk through one B-tree, in the order of the keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "thin/btree_node.h"
#include "thin/node_reader.h"

namespace quarry::thin {

// A tree deeper than this is refused. One with 10^9 entries has 6 levels at most.
inline constexpr size_t kMaxDepth = 16;

// Stands before a node that it has not read, at an entry of a leaf, or at the end. So a caller may pass over
// a node, and everything below it, without reading it.
//
// Holds one node for each level. It refuses a tree in which a child has keys beyond those of its entry, in
// which a node is below itself, leaves lie at different depths, or a child is empty.
class TreeCursor {
 public:
  // Before the root. `value_size`: of the tree's leaves. Entries with a key below `from` are left out, and
  // nodes that have only such entries. `reader` must outlive the cursor.
  TreeCursor(NodeReader& reader, uint64_t root, size_t value_size, uint64_t from = 0)
      : reader_(&reader), root_(root), value_size_(value_size), from_(from) {}

  bool at_end() const { return state_ == State::kEnd; }
  bool at_node() const { return state_ == State::kNode; }
  bool at_entry() const { return state_ == State::kEntry; }

  // At a node: its block, the keys that it may have (inclusive), and how many levels lie above it.
  uint64_t block() const { return frames_.empty() ? root_ : top().node.value(top().index); }
  uint64_t low() const { return frames_.empty() ? 0 : key(); }
  uint64_t high() const;
  size_t depth() const { return frames_.size(); }

  // At an entry.
  uint64_t key() const { return top().node.key(top().index); }
  uint64_t value(size_t offset = 0) const { return top().node.value(top().index, offset); }
  // The leaf that has the entry.
  uint64_t leaf() const { return top().node.block(); }

  // Reads the node; then stands at its first entry, or before its first child.
  Status Enter(const Call& call);
  // Passes over the node or the entry.
  void Skip();
  // Enters nodes until the cursor is at an entry. False: it is at the end.
  Result<bool> ToEntry(const Call& call);

 private:
  enum class State { kNode, kEntry, kEnd };
  struct Frame {
    BtreeNode node;
    size_t index;
    uint64_t high;
  };

  const Frame& top() const { return frames_.back(); }
  Status CheckChild(const BtreeNode& node) const;
  // To the next entry of the innermost node that has one.
  void Settle();

  NodeReader* reader_;
  uint64_t root_;
  size_t value_size_;
  uint64_t from_;
  State state_ = State::kNode;
  std::vector<Frame> frames_;
  std::optional<size_t> leaf_depth_;
};

}  // namespace quarry::thin
