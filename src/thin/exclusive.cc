#include "thin/exclusive.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace quarry::thin {
namespace {

using Tree = MetadataReader::DeviceTree;

Status InsertBlocksOf(MetadataReader& reader, const Tree& tree, BlockSet& blocks, const Call& call) {
  TreeCursor cursor = reader.Mappings(tree);
  while (true) {
    QUARRY_ASSIGN(const bool more, cursor.ToEntry(call));
    if (!more) {
      return Ok();
    }
    QUARRY_ASSIGN(const uint64_t block, reader.DataBlock(cursor));
    blocks.Insert(block);
    cursor.Skip();
  }
}

// `visited`: nodes whose blocks, and those below them, are not in `blocks` any more.
Status EraseBlocksOf(MetadataReader& reader, const Tree& tree, std::vector<bool>& visited, BlockSet& blocks,
                     const Call& call) {
  TreeCursor cursor = reader.Mappings(tree);
  while (!cursor.at_end() && !blocks.empty()) {
    if (cursor.at_entry()) {
      QUARRY_ASSIGN(const uint64_t block, reader.DataBlock(cursor));
      blocks.Erase(block);
      cursor.Skip();
      continue;
    }
    const uint64_t node = cursor.block();
    if (node < visited.size() && visited[node]) {
      cursor.Skip();
      continue;
    }
    QUARRY_TRY(cursor.Enter(call));  // refuses a node beyond the metadata, so `visited` has it
    visited[node] = true;
  }
  return Ok();
}

bool IsDoomed(std::span<const DeviceId> doomed, DeviceId id) {
  return std::ranges::find(doomed, id) != doomed.end();
}

}  // namespace

Result<BlockSet> FindExclusive(MetadataReader& reader, std::span<const DeviceId> doomed, const Call& call) {
  // Devices, not only trees: a device that is in one of the two trees only is damage.
  QUARRY_TRY(reader.Devices(call));
  QUARRY_ASSIGN(const std::vector<Tree> trees, reader.Trees(call));
  BlockSet blocks;
  for (const DeviceId id : doomed) {
    const auto tree = std::ranges::find(trees, id, &Tree::id);
    if (tree == trees.end()) {
      return Error(Code::kNotFound, fmt::format("the pool has no thin device {}", id));
    }
    QUARRY_TRY(InsertBlocksOf(reader, *tree, blocks, call).Context(fmt::format("thin device {}", id)));
  }
  std::vector<bool> visited(reader.nodes().blocks());
  for (const Tree& tree : trees) {
    if (!IsDoomed(doomed, tree.id)) {
      QUARRY_TRY(
          EraseBlocksOf(reader, tree, visited, blocks, call).Context(fmt::format("thin device {}", tree.id)));
    }
  }
  return blocks;
}

}  // namespace quarry::thin
