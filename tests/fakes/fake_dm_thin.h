// The thin pools of FakeDm: what their metadata and data would be on disk, so it survives deactivation and
// FakeDm::Reboot(). A thin device is a sparse file, and a chunk is mapped if the file has data there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "dm/thin_api.h"
#include "thin/pool_reader_api.h"

namespace quarry::fakes {

// A new file without content. Throws if there is none to be had: a test cannot go on then.
UniqueFd MakeFakeFile(const std::string& name);

// Not thread-safe: FakeDm locks.
class FakeThinPool {
 public:
  FakeThinPool(Bytes chunk, uint64_t data_chunks) : chunk_(chunk), data_total_(data_chunks) {}

  // The file of a thin device, for as long as the pool lives; -1: the pool has no such device.
  int FileOf(dm::ThinId id) const;
  // uuid and name are left empty. Shared chunks count once; a chunk is shared until one of its owners gets
  // other bytes. A pool that has more chunks than it can hold is out of data space: the fake cannot refuse
  // the write itself.
  dm::ThinPoolStatus Status();
  dm::ThinStatus StatusOf(dm::ThinId id) const;
  // Ranges of the device that have data. -1 of FileOf: none.
  std::vector<thin::ByteRange> Mapped(dm::ThinId id) const;
  // Ranges of the data device that only this device has. A block stays where it is, but bytes of the data
  // device are not those of the thin devices.
  std::vector<thin::ByteRange> Exclusive(dm::ThinId id);
  // As PoolReaderApi::Allocated (no `older`) and Different. Each chunk that one of the devices has takes one
  // read, whether it differs or not.
  thin::WalkedRanges Walked(std::optional<dm::ThinId> older, dm::ThinId target, Bytes from,
                            const thin::WalkLimit& limit);
  bool WasShared(dm::ThinId id) const { return shared_.contains(id); }
  uint64_t CreationTime(dm::ThinId id) const { return thins_.at(id).time; }
  // 0 or errno, as the kernel's. `active`: the device that the message deletes is.
  int Take(const dm::PoolMessage& message, bool active);

  // Every status has these members as they are here; the world's side sets them.
  dm::ThinPoolStatus base{.mode = dm::ThinPoolStatus::Mode::kReadWrite,
                          .metadata_used = 10,
                          .metadata_total = 1024,
                          .metadata_low_water = 256,
                          .discards = dm::ThinPoolStatus::Discards::kPassedDown};
  void SetDataChunks(uint64_t count) { data_total_ = count; }

 private:
  struct Thin {
    UniqueFd file;
    std::map<uint64_t, uint64_t> blocks;  // data block of each chunk, as of the last Settle()
    uint64_t time;                        // that of the pool when the device was made
  };
  // The chunks of the file that have data, ascending.
  std::vector<uint64_t> MappedChunks(const Thin& thin) const;
  bool SameBytes(const Thin& one, const Thin& other, uint64_t chunk) const;
  // Brings `blocks` up to date: chunks without data have none, new ones and those that differ from the chunk
  // with which they shared a block get a new one.
  void Settle();
  int Create(dm::ThinId id);
  int Snapshot(dm::ThinId id, dm::ThinId origin);

  Bytes chunk_;
  uint64_t data_total_;
  uint64_t next_block_ = 0;
  uint64_t time_ = 0;
  std::map<dm::ThinId, Thin> thins_;
  std::set<dm::ThinId> shared_;
};

}  // namespace quarry::fakes
