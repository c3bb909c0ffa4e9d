#include "tests/unit/thin/metadata_image.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "thin/crc32c.h"

namespace quarry::thin::testing {
namespace {

constexpr uint64_t kInner = 1, kLeaf = 2;

void Store(BlockBytes& bytes, size_t offset, size_t width, uint64_t value) {
  std::memcpy(bytes.data() + offset, &value, width);
}

void Seal(BlockBytes& bytes, uint64_t block, uint32_t salt) {
  Store(bytes, 8, 8, block);
  Store(bytes, 0, 4, KernelCrc32c(std::span(bytes).subspan(4)) ^ salt);
}

BlockBytes NodeBytes(uint64_t block, bool leaf, size_t max, size_t value_size,
                     const std::vector<uint64_t>& keys, const std::vector<std::vector<uint64_t>>& values) {
  BlockBytes bytes{};
  Store(bytes, 4, 4, leaf ? kLeaf : kInner);
  Store(bytes, 16, 4, keys.size());
  Store(bytes, 20, 4, max);
  Store(bytes, 24, 4, value_size);
  for (size_t i = 0; i < keys.size(); ++i) {
    Store(bytes, 32 + 8 * i, 8, keys[i]);
    for (size_t j = 0; j < values[i].size(); ++j) {
      Store(bytes, 32 + 8 * max + value_size * i + 8 * j, 8, values[i][j]);
    }
  }
  SealNode(bytes, block);
  return bytes;
}

// Appends a tree with these entries to `blocks`, and returns its root.
uint64_t AppendTree(std::vector<BlockBytes>& blocks, size_t fan_out, const std::vector<uint64_t>& keys,
                    const std::vector<std::vector<uint64_t>>& values, size_t value_size, bool leaf = true) {
  std::vector<uint64_t> first_keys;
  std::vector<std::vector<uint64_t>> children;
  // As many nodes as needed, equally full: thin-provisioning-tools refuse a node that is less than a third
  // full.
  const size_t nodes = std::max<size_t>((keys.size() + fan_out - 1) / fan_out, 1);
  for (size_t k = 0, i = 0; k < nodes; ++k) {
    const size_t n = keys.size() / nodes + (k < keys.size() % nodes ? 1 : 0);
    const auto end = static_cast<std::ptrdiff_t>(i + n), begin = static_cast<std::ptrdiff_t>(i);
    first_keys.push_back(n == 0 ? 0 : keys[i]);
    children.push_back({blocks.size()});
    blocks.push_back(NodeBytes(blocks.size(), leaf, fan_out, value_size,
                               {keys.begin() + begin, keys.begin() + end},
                               {values.begin() + begin, values.begin() + end}));
    i += n;
  }
  return children.size() == 1 ? children[0][0] : AppendTree(blocks, fan_out, first_keys, children, 8, false);
}

}  // namespace

void SealNode(BlockBytes& bytes, uint64_t block) {
  Seal(bytes, block, 121107);
}
void SealSuperblock(BlockBytes& bytes, uint64_t block) {
  Seal(bytes, block, 160774);
}

Status MemoryBlocks::Read(uint64_t first, std::span<std::byte> memory) {
  for (; !memory.empty(); memory = memory.subspan(kBlockSize), ++first) {
    ++read[first];
    std::memcpy(memory.data(), bytes.at(first).data(), kBlockSize);
  }
  return Ok();
}

uint64_t MetadataImage::Add(Node node) {
  node.born = time_;
  nodes_[next_node_] = std::move(node);
  return next_node_++;
}

uint64_t MetadataImage::Own(uint64_t node) {
  return nodes_.at(node).born == time_ ? node : Add(nodes_.at(node));
}

void MetadataImage::Create(DeviceId id) {
  trees_[id] = Add({});
  details_[id] = {.id = id, .transaction_id = id + 100, .creation_time = time_, .snapshotted_time = time_};
  model_[id] = {};
}

void MetadataImage::CreateMapped(DeviceId id, uint64_t blocks) {
  Create(id);
  for (uint64_t block = 0; block < blocks; ++block) {
    Map(id, block);
  }
}

void MetadataImage::Snapshot(DeviceId origin, DeviceId id) {
  ++time_;  // all nodes are shared from now on
  trees_[id] = trees_.at(origin);
  details_[id] = details_.at(origin);
  details_[id].id = id;
  details_[id].transaction_id = id + 100;
  details_[id].creation_time = details_[id].snapshotted_time = details_[origin].snapshotted_time = time_;
  model_[id] = model_.at(origin);
}

void MetadataImage::Delete(DeviceId id) {
  trees_.erase(id);
  details_.erase(id);
  model_.erase(id);
}

void MetadataImage::Map(DeviceId id, uint64_t thin_block, std::optional<uint64_t> data_block) {
  const uint64_t data = data_block.value_or(next_data_);
  next_data_ = std::max(next_data_, data + 1);
  const Grown grown = Insert(trees_.at(id), thin_block, (data << 24) | (time_ & 0xffffff));
  trees_[id] = !grown.sibling
                   ? grown.node
                   : Add({.leaf = false,
                          .keys = {nodes_.at(grown.node).keys[0], nodes_.at(*grown.sibling).keys[0]},
                          .values = {grown.node, *grown.sibling}});
  model_[id][thin_block] = data;
  details_[id].mapped_blocks = model_[id].size();
}

void MetadataImage::Unmap(DeviceId id, uint64_t thin_block) {
  if (model_.at(id).erase(thin_block) == 0) {
    return;
  }
  const auto root = Remove(trees_.at(id), thin_block);
  trees_[id] = root ? *root : Add({});
  details_[id].mapped_blocks = model_[id].size();
}

MetadataImage::Grown MetadataImage::Insert(uint64_t old, uint64_t key, uint64_t value) {
  const uint64_t number = Own(old);
  Node& node = nodes_.at(number);
  const auto at = std::ranges::lower_bound(node.keys, key) - node.keys.begin();
  if (node.leaf && at < std::ssize(node.keys) && node.keys[at] == key) {
    node.values[at] = value;
    return {number, {}};
  }
  if (node.leaf) {
    node.keys.insert(node.keys.begin() + at, key);
    node.values.insert(node.values.begin() + at, value);
  } else {
    const auto child =
        at < std::ssize(node.keys) && node.keys[at] == key ? at : std::max<std::ptrdiff_t>(at - 1, 0);
    node.keys[child] = std::min(node.keys[child], key);
    const Grown grown = Insert(node.values[child], key, value);
    node.values[child] = grown.node;
    if (grown.sibling) {
      node.keys.insert(node.keys.begin() + child + 1, nodes_.at(*grown.sibling).keys[0]);
      node.values.insert(node.values.begin() + child + 1, *grown.sibling);
    }
  }
  if (node.keys.size() <= fan_out_) {
    return {number, {}};
  }
  const auto half = std::ssize(node.keys) / 2;
  Node upper{.leaf = node.leaf,
             .keys = {node.keys.begin() + half, node.keys.end()},
             .values = {node.values.begin() + half, node.values.end()}};
  node.keys.resize(half);
  node.values.resize(half);
  return {number, Add(std::move(upper))};
}

// Without the kernel's rebalancing: nodes get emptier, and go when they are empty. The keys of the nodes
// above stay.
std::optional<uint64_t> MetadataImage::Remove(uint64_t old, uint64_t key) {
  const uint64_t number = Own(old);
  Node& node = nodes_.at(number);
  auto at = std::ranges::upper_bound(node.keys, key) - node.keys.begin() - 1;
  const auto child = node.leaf ? std::nullopt : Remove(node.values[at], key);
  if (child) {
    node.values[at] = *child;
    return number;
  }
  node.keys.erase(node.keys.begin() + at);
  node.values.erase(node.values.begin() + at);
  return node.keys.empty() ? std::nullopt : std::optional(number);
}

std::vector<Device> MetadataImage::devices() const {
  std::vector<Device> all;
  for (const auto& [id, device] : details_) {
    all.push_back(device);
  }
  return all;
}

void MetadataImage::Collect(uint64_t number, std::set<uint64_t>& nodes) const {
  nodes.insert(number);
  const Node& node = nodes_.at(number);
  for (size_t i = 0; !node.leaf && i < node.values.size(); ++i) {
    Collect(node.values[i], nodes);
  }
}

std::set<uint64_t> MetadataImage::NodesOf(DeviceId id) const {
  std::set<uint64_t> nodes;
  Collect(trees_.at(id), nodes);
  return nodes;
}

std::vector<BlockBytes> MetadataImage::Blocks(bool held) const {
  std::vector<BlockBytes> blocks(next_node_);
  for (const auto& [number, node] : nodes_) {
    std::vector<std::vector<uint64_t>> values;
    for (const uint64_t value : node.values) {
      values.push_back({value});
    }
    blocks[number] = NodeBytes(number, node.leaf, fan_out_, 8, node.keys, values);
  }
  std::vector<uint64_t> ids;
  std::vector<std::vector<uint64_t>> roots, details;
  for (const auto& [id, device] : details_) {
    ids.push_back(id);
    roots.push_back({trees_.at(id)});
    details.push_back({device.mapped_blocks, device.transaction_id,
                       device.creation_time | (uint64_t{device.snapshotted_time} << 32)});
  }
  const uint64_t mapping_root = AppendTree(blocks, fan_out_, ids, roots, 8);
  const uint64_t details_root = AppendTree(blocks, std::min<size_t>(fan_out_, 126), ids, details, 24);
  BlockBytes super{};
  const auto put = [&](size_t offset, size_t width, uint64_t value) { Store(super, offset, width, value); };
  put(32, 8, 27022010);
  put(40, 4, 2);
  put(44, 4, time_);
  put(48, 8, 77);
  put(320, 8, mapping_root);
  put(328, 8, details_root);
  put(336, 4, 128);
  put(340, 4, 8);
  if (held) {
    blocks[kHeldRoot] = super;
    SealSuperblock(blocks[kHeldRoot], kHeldRoot);
    // The live pool has gone on: it has no device any more.
    put(320, 8, AppendTree(blocks, fan_out_, {}, {}, 8));
    put(328, 8, AppendTree(blocks, 126, {}, {}, 24));
    put(48, 8, 78);
    put(56, 8, kHeldRoot);
  }
  put(64, 8, data_blocks_);
  put(72, 8, next_data_);
  put(192, 8, blocks.size());
  put(200, 8, blocks.size());
  blocks[0] = super;
  SealSuperblock(blocks[0], 0);
  return blocks;
}

std::shared_ptr<MemoryBlocks> MetadataImage::Source(bool held) const {
  return std::make_shared<MemoryBlocks>(Blocks(held));
}

}  // namespace quarry::thin::testing
