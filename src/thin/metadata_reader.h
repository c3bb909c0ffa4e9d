// Reads the metadata of a thin pool (dm-thin): its superblock, its devices, and where the data of a device
// lies.
//
// The tools of thin-provisioning-tools print the same as XML. This reader runs in the process, streams,
// begins anywhere in a device, and knows which nodes two devices share.
//
// When what is read is true:
//
// - Root::kHeld: while a metadata snapshot of the pool is reserved (message reserve_metadata_snap). The pool
//   may be used meanwhile. The reader shows the moment of the reservation, and must go before the release.
// - Root::kLive: only while no pool is active on the metadata. Otherwise nodes change while they are read.
//
// Each block is checked: checksum, its own number, the limits of a node, the order of keys. Damage gives
// kCorrupt and the number of the block. A block whose checksum was made for wrong contents cannot be told
// from a right one if it keeps to the format.
//
// Threads: a reader belongs to one thread at a time. Several readers may share a thread-safe BlockSource.
//
// Memory: one block of 4 KiB for each level of a tree, at most 16, and what the reader reads ahead (2 MiB for
// MetadataFile), however many mappings there are.
//
// Time: a leaf has 84 to 252 mappings. The `call` is checked before each node; a read that the disk does not
// answer is not interrupted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "thin/block_source.h"
#include "thin/node_reader.h"
#include "thin/superblock.h"
#include "thin/tree_cursor.h"

namespace quarry::thin {

// The id of a thin device in its pool: 24 bits. LVM's text has it as device_id.
using DeviceId = uint32_t;
inline constexpr DeviceId kMaxDeviceId = (DeviceId{1} << 24) - 1;

// The value of a mapping: the data block, above the time of the pool at which it was mapped.
inline constexpr int kTimeBits = 24;

enum class Root {
  kLive,  // what the pool committed last
  kHeld,  // the metadata snapshot
};

struct Device {
  DeviceId id = 0;
  uint64_t mapped_blocks = 0;     // data blocks, as the pool counted them
  uint64_t transaction_id = 0;    // of the pool when the device was made
  uint32_t creation_time = 0;     // the pool's time then
  uint32_t snapshotted_time = 0;  // the pool's time at its last snapshot
  auto operator<=>(const Device&) const = default;
};

// Blocks of a device that lie in order on the pool's data device. All three in data blocks
// (Superblock::data_block_size).
struct MappingRun {
  uint64_t thin_begin = 0;
  uint64_t data_begin = 0;
  uint64_t length = 0;
  auto operator<=>(const MappingRun&) const = default;
};

// Gets each run, and returns false to end the walk.
using MappingVisitor = std::function<bool(const MappingRun&)>;

class MetadataReader {
 public:
  // Reads the superblock. At most `max_reads` blocks are read, altogether.
  // kCorrupt, kUnsupported: ParseSuperblock. kPrecondition: kHeld, and no metadata snapshot is reserved.
  static Result<MetadataReader> Open(std::shared_ptr<BlockSource> source, Root root, const Call& call,
                                     uint64_t max_reads = UINT64_MAX);

  // For kHeld: transaction, time and trees of the metadata snapshot; the held root and the numbers of blocks
  // are those of the live superblock.
  const Superblock& superblock() const { return superblock_; }

  // Every device, by ascending id. kCorrupt if a device lacks its details or its mappings.
  Result<std::vector<Device>> Devices(const Call& call);
  // kNotFound: the pool has no such device.
  Result<Device> FindDevice(DeviceId id, const Call& call);

  // The mappings of a device from thin block `from` on, in order. Adjacent ones are one run, so runs never
  // touch. A run that begins before `from` is cut. To continue later, give the end of the last run as `from`.
  // kNotFound: the pool has no such device.
  Status Walk(DeviceId id, uint64_t from, const MappingVisitor& visit, const Call& call);

  // Blocks that were read up to now.
  uint64_t reads() const { return nodes_.reads(); }

  // For difference.cc and exclusive.cc, which walk the trees themselves.
  struct DeviceTree {
    DeviceId id = 0;
    uint64_t root = 0;  // metadata block
  };
  NodeReader& nodes() { return nodes_; }
  Result<std::vector<DeviceTree>> Trees(const Call& call);
  Result<DeviceTree> FindTree(DeviceId id, const Call& call);
  // A cursor over the mappings below `tree`; DataBlock() is the value of its entries.
  TreeCursor Mappings(const DeviceTree& tree, uint64_t from = 0);
  // The data block of the entry at which `cursor` is. kCorrupt: the pool has no such data block.
  Result<uint64_t> DataBlock(const TreeCursor& cursor) const;

 private:
  MetadataReader(NodeReader nodes, Superblock superblock)
      : nodes_(std::move(nodes)), superblock_(superblock) {}

  NodeReader nodes_;
  Superblock superblock_;
};

}  // namespace quarry::thin
