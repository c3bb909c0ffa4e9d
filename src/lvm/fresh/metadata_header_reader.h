// Reads labels, metadata headers and texts of many devices at once, bypassing the page cache: the I/O part of
// metadata_header.h. Read-only; takes no LVM lock.
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
#include "lvm/pv_reader.h"

namespace quarry::lvm {

// The state of one metadata area. Only the committed location counts. Between a command's precommit and its
// commit the group is still the old one, so the state stays equal.
struct AreaState {
  DiskArea area;
  bool damaged = false;                  // the header is invalid, also after retries
  uint32_t damage = 0;                   // checksum of the damaged bytes, so that their change is noticed
  bool ignored = false;                  // as in MetadataHeader
  std::optional<RawLocation> committed;  // as in MetadataHeader
  bool HoldsText() const { return !damaged && !ignored && committed.has_value(); }
  bool operator==(const AreaState&) const = default;
};

// The state of one device at one moment. If two states are equal, LVM committed nothing on this device in
// between.
struct PvState {
  enum class Kind : uint8_t {
    kPv,          // a valid label; the fields below are set
    kNoPv,        // readable, no label
    kDamaged,     // readable, but the label is invalid
    kAbsent,      // no such device, or it was removed
    kUnreadable,  // opening or reading failed; `error` has the errno
    kSilent,      // no answer within the time limit
  };
  Kind kind = Kind::kAbsent;
  int error = 0;               // errno of kUnreadable
  uint64_t device_number = 0;  // st_rdev
  // The kernel's sequence number of the disk, new after each plugging in; 0 before Linux 5.15.
  uint64_t disk_sequence = 0;
  std::string uuid;  // with hyphens
  std::vector<AreaState> areas;
  bool operator==(const PvState&) const = default;
};

// Whether a read error means that the disk, or the path to it, failed. Other errors of open(2) and read(2) do
// not mean that. The errno values are those that the block layer makes of a device's statuses.
bool IsDiskError(int error);

// A seam for tests. Thread-safe.
class HeaderSource {
 public:
  virtual ~HeaderSource() = default;
  // One state for each path, in the same order. A device that cannot be read is an answer, not an error.
  // kTimeout, kCancelled: the call ended first.
  virtual Result<std::vector<PvState>> Read(std::span<const std::string> paths, const Call& call) = 0;

  // The text at `location` of `area` on a device: all its bytes, with the checksum proven. kCorrupt if the
  // checksum is wrong: the text was overwritten meanwhile, or is damaged.
  virtual Result<std::string> ReadText(const std::string& path, DiskArea area, const RawLocation& location,
                                       const Call& call) = 0;
};

// Uses the kernel's native AIO (io_submit(2)) with O_DIRECT: one read of 8 KiB per device, all at once; more
// reads for areas elsewhere. A device is open only during the read. So a pulled disk is released, and a name
// that now belongs to another disk is noticed.
//
// A failing disk may hold a read for minutes, and no signal ends the read. So no thread waits in the kernel.
// Reads are submitted without blocking. A device that has not answered within `patience` is silent. Its read
// stays in flight, its buffer stays in place until the read ends, and until then the device is not read
// again. So a silent device costs later calls no time.
//
// A read that fails is tried three times within a tenth of a second before the device counts as failing.
// While the device keeps failing, each call tries once. (open(2) can still block, while the kernel itself
// reads a partition table.)
//
// If AIO is not available (fs.aio-max-nr used up), reads are plain preads, one after the other.
class HeaderReader final : public HeaderSource {
 public:
  explicit HeaderReader(std::chrono::milliseconds patience = std::chrono::milliseconds(1000));
  ~HeaderReader() override;

  Result<std::vector<PvState>> Read(std::span<const std::string> paths, const Call& call) override;
  Result<std::string> ReadText(const std::string& path, DiskArea area, const RawLocation& location,
                               const Call& call) override;

 private:
  class Pool;
  std::unique_ptr<Pool> pool_;
};

// Thread-safe. `headers` must outlive the object.
class HeaderPvReader final : public PvReader {
 public:
  explicit HeaderPvReader(HeaderSource& headers) : headers_(headers) {}

  Result<std::vector<PvFacts>> ReadPvs(const std::vector<std::string>& devices, const Call& call) override;

 private:
  HeaderSource& headers_;
};

}  // namespace quarry::lvm
