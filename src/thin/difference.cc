// Two cursors go forward together. Each stands before a node or at an entry. Equal nodes are passed over.
// Otherwise the node that begins first is entered, or the one that lies higher: entering the lower one would
// lose the chance that the higher one has it among its children. So both trees are compared level by level,
// also if they differ in height.
#include "thin/difference.h"

#include <algorithm>

#include <fmt/format.h>

namespace quarry::thin {
namespace {

using Tree = MetadataReader::DeviceTree;

// Joins adjacent blocks of the same change.
class ChangeRuns {
 public:
  explicit ChangeRuns(const ChangeVisitor& visit) : visit_(visit) {}

  // False: the visitor wants no more.
  bool Add(Change change, uint64_t block) {
    if (run_.length != 0 && run_.change == change && run_.thin_begin + run_.length == block) {
      ++run_.length;
      return true;
    }
    const bool more = Flush();
    run_ = {change, block, 1};
    return more;
  }
  bool Flush() { return run_.length == 0 || visit_(run_); }

 private:
  const ChangeVisitor& visit_;
  ChangedRun run_;
};

// A cursor, and the height of its tree.
struct Side {
  TreeCursor cursor;
  size_t levels;

  // Of a node before which the cursor stands: how many levels lie below it.
  size_t height() const { return levels - cursor.depth(); }
};

Result<Side> MakeSide(MetadataReader& reader, const Tree& tree, uint64_t from, const Call& call) {
  TreeCursor down = reader.Mappings(tree);
  do {
    QUARRY_TRY(down.Enter(call));
  } while (down.at_node());
  // An empty root leaves the cursor at its end, without a level.
  return Side{reader.Mappings(tree, from), down.depth()};
}

// Which of two cursors goes on.
struct Turn {
  bool base = false;
  bool target = false;
};

// Both stand before different nodes.
Turn WhoEnters(const Side& base, const Side& target) {
  if (base.cursor.high() < target.cursor.low()) {
    return {.base = true};
  }
  if (target.cursor.high() < base.cursor.low()) {
    return {.target = true};
  }
  return {.base = base.height() >= target.height(), .target = target.height() >= base.height()};
}

class Comparison {
 public:
  Comparison(MetadataReader& reader, Side base, Side target, const ChangeVisitor& visit, const Call& call)
      : reader_(reader), base_(std::move(base)), target_(std::move(target)), runs_(visit), call_(call) {}

  // Ends beyond `from` as soon as the reader has read `last_read` blocks, or the call has ended.
  Result<uint64_t> Run(uint64_t from, uint64_t last_read) {
    while (!base_.cursor.at_end() || !target_.cursor.at_end()) {
      if (reader_.reads() >= last_read && Place() > from) {
        return EndHere();
      }
      const Result<bool> more = Step();
      if (!more.has_value() && IsEndOfCall(more.error()) && Place() > from) {
        return EndHere();
      }
      QUARRY_TRY(more);
      if (!*more) {
        return kWholeDevice;
      }
    }
    runs_.Flush();
    return kWholeDevice;
  }

 private:
  uint64_t EndHere() {
    const uint64_t place = Place();
    runs_.Flush();
    return place;
  }

  // All blocks before this one were compared. At least one side is not at its end.
  uint64_t Place() const {
    const auto place = [](const TreeCursor& cursor) {
      return cursor.at_end() ? UINT64_MAX : cursor.at_node() ? cursor.low() : cursor.key();
    };
    return std::min(place(base_.cursor), place(target_.cursor));
  }

  // False: the visitor wants no more.
  Result<bool> Step() {
    TreeCursor& base = base_.cursor;
    TreeCursor& target = target_.cursor;
    if (base.at_node() && target.at_node()) {
      if (base.block() == target.block()) {
        base.Skip();
        target.Skip();
        return true;
      }
      return Enter(WhoEnters(base_, target_));
    }
    // An entry can be judged once the other side is not before a node that may have the same key.
    if (base.at_node() && (target.at_end() || base.low() <= target.key())) {
      return Enter({.base = true});
    }
    if (target.at_node() && (base.at_end() || target.low() <= base.key())) {
      return Enter({.target = true});
    }
    return CompareEntries();
  }

  Result<bool> Enter(Turn turn) {
    if (turn.base) {
      QUARRY_TRY(base_.cursor.Enter(call_));
    }
    if (turn.target) {
      QUARRY_TRY(target_.cursor.Enter(call_));
    }
    return true;
  }

  // At least one side is at an entry, and no side is before a node that may have its key.
  Result<bool> CompareEntries() {
    TreeCursor& base = base_.cursor;
    TreeCursor& target = target_.cursor;
    if (!target.at_entry() || (base.at_entry() && base.key() < target.key())) {
      return Only(base, Change::kRemoved);
    }
    if (!base.at_entry() || target.key() < base.key()) {
      return Only(target, Change::kAdded);
    }
    QUARRY_ASSIGN(const uint64_t old_data, reader_.DataBlock(base));
    QUARRY_ASSIGN(const uint64_t new_data, reader_.DataBlock(target));
    const bool more = old_data == new_data || runs_.Add(Change::kChanged, base.key());
    base.Skip();
    target.Skip();
    return more;
  }

  Result<bool> Only(TreeCursor& side, Change change) {
    QUARRY_TRY(reader_.DataBlock(side));
    const bool more = runs_.Add(change, side.key());
    side.Skip();
    return more;
  }

  MetadataReader& reader_;
  Side base_, target_;
  ChangeRuns runs_;
  const Call& call_;
};

}  // namespace

Result<uint64_t> WalkDifference(MetadataReader& reader, DeviceId base, DeviceId target, uint64_t from,
                                const ChangeVisitor& visit, const Call& call, uint64_t most_reads) {
  const uint64_t before = reader.reads();
  const uint64_t last_read = most_reads > UINT64_MAX - before ? UINT64_MAX : before + most_reads;
  QUARRY_ASSIGN(const Tree base_tree, reader.FindTree(base, call));
  QUARRY_ASSIGN(const Tree target_tree, reader.FindTree(target, call));
  if (base_tree.root == target_tree.root) {
    return kWholeDevice;
  }
  QUARRY_ASSIGN(Side base_side, MakeSide(reader, base_tree, from, call));
  QUARRY_ASSIGN(Side target_side, MakeSide(reader, target_tree, from, call));
  return Comparison(reader, std::move(base_side), std::move(target_side), visit, call).Run(from, last_read);
}

}  // namespace quarry::thin
