// Reads any bytes as the metadata of a thin pool: no crash, no endless walk, and what is accepted is
// consistent: runs in order, differences and exclusive blocks as brute force over the walks gives them. Entry
// point for libFuzzer; a unit test feeds it random blocks too.
//
// An input is turned into an image, so that mutations reach behind the checksums. Each block is kNodeSize
// bytes of the input, then zeroes: enough for six entries. Block 0 becomes a superblock that names the trees
// whose blocks the input begins with. Nodes get their number and checksum, except that the first bit of the
// second byte of the input leaves them as they are.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "tests/unit/thin/metadata_image.h"
#include "thin/difference.h"
#include "thin/exclusive.h"
#include "thin/metadata_reader.h"

namespace {

using quarry::Call;
using namespace quarry::thin;  // NOLINT(google-build-using-namespace): a program of one file

constexpr size_t kHead = 4, kNodeSize = 128, kMaxBlocks = 64;
constexpr uint64_t kMaxReads = 20000;
using Mappings = std::map<uint64_t, uint64_t>;

void Require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

std::vector<testing::BlockBytes> ImageOf(std::span<const uint8_t> input) {
  std::array<uint8_t, kHead> head{};
  std::copy_n(input.begin(), std::min(input.size(), kHead), head.begin());
  std::vector<testing::BlockBytes> blocks = testing::MetadataImage().Blocks();
  blocks.resize(1);
  // The superblock of an empty pool, with other roots.
  for (const auto& [offset, root] : {std::pair{320, head[0]}, std::pair{328, head[2]}}) {
    const uint64_t value = root % kMaxBlocks;
    std::memcpy(blocks[0].data() + offset, &value, sizeof(value));
  }
  testing::SealSuperblock(blocks[0], 0);
  for (size_t at = kHead; at < input.size() && blocks.size() < kMaxBlocks; at += kNodeSize) {
    testing::BlockBytes block{};
    std::memcpy(block.data(), input.data() + at, std::min(kNodeSize, input.size() - at));
    if ((head[1] & 1) == 0) {
      testing::SealNode(block, blocks.size());
    }
    blocks.push_back(block);
  }
  return blocks;
}

// nullopt: refused.
std::optional<Mappings> Walk(MetadataReader& reader, DeviceId id) {
  Mappings mappings;
  uint64_t next = 0;
  const auto status = reader.Walk(
      id, 0,
      [&](const MappingRun& run) {
        Require(run.length > 0 && run.thin_begin >= next);
        for (uint64_t i = 0; i < run.length; ++i) {
          mappings[run.thin_begin + i] = run.data_begin + i;
        }
        next = run.thin_begin + run.length;
        return true;
      },
      Call{});
  return status.has_value() ? std::optional(mappings) : std::nullopt;
}

void CheckDifference(MetadataReader& reader, DeviceId base, DeviceId target, const Mappings& before,
                     const Mappings& after) {
  std::map<uint64_t, Change> changes;
  const auto status = WalkDifference(
      reader, base, target, 0,
      [&](const ChangedRun& run) {
        for (uint64_t i = 0; i < run.length; ++i) {
          Require(changes.emplace(run.thin_begin + i, run.change).second);
        }
        return true;
      },
      Call{});
  if (!status.has_value()) {
    return;
  }
  for (const auto& [block, change] : changes) {
    const bool was = before.contains(block), is = after.contains(block);
    Require(change == (was && is ? Change::kChanged : was ? Change::kRemoved : Change::kAdded));
    Require(was || is);
  }
  for (const auto& [block, data] : before) {
    const auto now = after.find(block);
    Require(changes.contains(block) == (now == after.end() || now->second != data));
  }
  for (const auto& [block, data] : after) {
    Require(before.contains(block) || changes.contains(block));
  }
}

void CheckExclusive(MetadataReader& reader, DeviceId doomed, const std::map<DeviceId, Mappings>& devices) {
  const auto found = FindExclusive(reader, std::array{doomed}, Call{});
  if (!found.has_value()) {
    return;
  }
  std::set<uint64_t> mine, others;
  for (const auto& [id, mappings] : devices) {
    for (const auto& [thin, data] : mappings) {
      (id == doomed ? mine : others).insert(data);
    }
  }
  uint64_t exclusive = 0;
  for (const uint64_t block : mine) {
    Require(found->Contains(block) == !others.contains(block));
    exclusive += others.contains(block) ? 0 : 1;
  }
  Require(found->size() == exclusive);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto source = std::make_shared<testing::MemoryBlocks>(ImageOf({data, size}));
  auto reader = MetadataReader::Open(source, Root::kLive, Call{}, kMaxReads);
  Require(reader.has_value());
  const auto devices = reader->Devices(Call{});
  if (!devices.has_value()) {
    return 0;
  }
  std::map<DeviceId, Mappings> all;
  for (const Device& device : *devices) {
    const auto mappings = Walk(*reader, device.id);
    if (!mappings) {
      return 0;
    }
    all[device.id] = *mappings;
  }
  for (const auto& [base, before] : all) {
    for (const auto& [target, after] : all) {
      CheckDifference(*reader, base, target, before, after);
    }
    CheckExclusive(*reader, base, all);
  }
  return 0;
}
