// Reads the labels, metadata headers and texts of many devices at once, past the page cache: the I/O half of
// metadata_header.h. Read-only, and takes no lock of LVM's.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "lvm/fresh/metadata_header.h"

namespace quarry::lvm {

// What one metadata area said. Only the committed location counts: between a command's precommit and its
// commit the group is still the old one, and an area compares equal to what it was.
struct AreaState {
  DiskArea area;
  bool damaged = false;                  // the header does not check out, also on reading again
  uint32_t damage = 0;                   // checksum of the damaged bytes, so that a change of them shows
  bool ignored = false;                  // as in MetadataHeader
  std::optional<RawLocation> committed;  // as in MetadataHeader
  bool operator==(const AreaState&) const = default;
};

// What one device said at one moment. Equal states: nothing that LVM committed on this device in between.
struct PvState {
  enum class Kind : uint8_t {
    kPv,          // a label that checks out; what follows is set
    kNoPv,        // readable, and no label in it
    kDamaged,     // readable, and its label does not check out
    kAbsent,      // no such device, or it is gone
    kUnreadable,  // opening or reading failed; `error` says how
    kSilent,      // no answer in the time that a device has
  };
  Kind kind = Kind::kAbsent;
  int error = 0;               // errno of kUnreadable
  uint64_t device_number = 0;  // st_rdev
  // The kernel's count of disks that it saw, another after each plugging in; 0 before Linux 5.15.
  uint64_t disk_sequence = 0;
  std::string uuid;  // with hyphens
  std::vector<AreaState> areas;
  bool operator==(const PvState&) const = default;
};

// Whether an error of reading means that the disk failed, or the way to it, and not that we asked in vain for
// another reason (open(2), read(2); what the block layer makes of its statuses).
bool IsDiskError(int error);

// Seam for tests. Thread-safe.
class HeaderSource {
 public:
  virtual ~HeaderSource() = default;
  // One state for each path, in their order: a device that cannot be read is an answer, not an error.
  // kTimeout, kCancelled: the call ended first.
  virtual Result<std::vector<PvState>> Read(std::span<const std::string> paths, const Call& call) = 0;

  // The text at `location` of `area` on a device, all its bytes, its checksum proven. kCorrupt if that is
  // wrong: overwritten meanwhile, or damaged.
  virtual Result<std::string> ReadText(const std::string& path, DiskArea area, const RawLocation& location,
                                       const Call& call) = 0;
};

// The kernel's native AIO (io_submit(2)) with O_DIRECT: one read of 8 KiB per device, all at the same time;
// more for areas that do not begin there. Devices are opened for reading for the moment of the read only, so
// that a pulled disk is let go, and a name that changed hands is noticed.
//
// A disk in trouble may keep a read for minutes, and no signal ends that. So nobody waits in the kernel:
// reads are asked not to block on submission, and a device that has not answered within `patience` is silent.
// Its read stays in flight, its buffer stays put until it ends, and the device is not asked again before; it
// costs later calls no time. One that fails is asked three times within a tenth of a second before that is
// said of it, and once each time while it goes on failing. (What can still block is open(2), while the kernel
// itself reads a partition table.)
//
// Where AIO cannot be had (fs.aio-max-nr used up), reads are plain preads, one after the other.
class HeaderReader final : public HeaderSource {
 public:
  explicit HeaderReader(std::chrono::milliseconds patience = std::chrono::milliseconds(1000));
  ~HeaderReader() override;

  Result<std::vector<PvState>> Read(std::span<const std::string> paths, const Call& call) override;
  Result<std::string> ReadText(const std::string& path, DiskArea area, const RawLocation& location,
                               const Call& call) override;

  // `size` bytes of each device from `offset` (both multiples of 4096): for the text of a group. Short where
  // the device ends; an error of this device alone where it cannot be read.
  struct Piece {
    std::string path;
    uint64_t offset = 0;
    size_t size = 0;
  };
  Result<std::vector<Result<std::vector<std::byte>>>> ReadPieces(std::span<const Piece> pieces,
                                                                 const Call& call);

 private:
  class Pool;
  std::chrono::milliseconds patience_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace quarry::lvm
