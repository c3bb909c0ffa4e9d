// What DmApi says of thin pools and thin devices, and the messages that a pool gets. Values. The target's
// words are those of the kernel's Documentation/admin-guide/device-mapper/thin-provisioning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/units.h"

namespace quarry::dm {

struct ThinPoolStatus {
  enum class Mode {
    kReadWrite,
    kReadOnly,        // metadata cannot be changed: no messages, no new data blocks
    kOutOfDataSpace,  // mapped blocks can be written, new ones cannot be allocated; messages still work
    kFailed,          // all I/O fails, and all other members are unknown
  };
  enum class Discards { kIgnored, kNotPassedDown, kPassedDown };

  // Of the device that is the pool (DmApi::ThinPool).
  std::string uuid;
  std::string name;
  Mode mode = Mode::kFailed;
  // The user's, LVM's: the kernel only stores it.
  uint64_t transaction_id = 0;
  // Blocks of 4 KiB.
  uint64_t metadata_used = 0;
  uint64_t metadata_total = 0;
  // The kernel sends an event when fewer metadata blocks are free.
  uint64_t metadata_low_water = 0;
  // Data blocks of the pool's own size.
  uint64_t data_used = 0;
  uint64_t data_total = 0;
  // The metadata block of the metadata snapshot; nullopt: none is reserved.
  std::optional<uint64_t> held_root;
  Discards discards = Discards::kIgnored;
  // True: a write that needs a block of a full pool fails at once. False: it waits, by default for a minute.
  bool fails_when_full = false;
  // Metadata must be checked by thin_check before anything else.
  bool needs_check = false;

  uint64_t metadata_free() const { return metadata_total - metadata_used; }
};

struct ThinStatus {
  // The pool has failed. All I/O fails, and the other members are unknown.
  bool failed = false;
  // In whole data blocks of the pool, shared ones too.
  Bytes mapped;
  // The end of the last mapped block; 0 if nothing is mapped. The kernel reads both numbers one after the
  // other, so those of a device that is written may not belong together.
  Bytes mapped_end;
};

// The id of a thin device in its pool, LVM's device_id.
using ThinId = uint32_t;
inline constexpr ThinId kMaxThinId = (ThinId{1} << 24) - 1;

// Reserves the metadata snapshot: the pool keeps the present metadata readable until the release. There is at
// most one. From then on each change of the pool copies the nodes of metadata that it touches.
struct ReserveMetadataSnap {};
struct ReleaseMetadataSnap {};
// A blank thin device.
struct CreateThin {
  ThinId id = 0;
};
// A thin device with the present content of `origin`. If the origin is active, it must be suspended, or the
// content is not that of one instant.
struct CreateSnap {
  ThinId id = 0;
  ThinId origin = 0;
};
// Gives up the device and its mappings. Its bytes stay on the disks. It must not be active.
struct DeleteThin {
  ThinId id = 0;
};
using PoolMessage =
    std::variant<ReserveMetadataSnap, ReleaseMetadataSnap, CreateThin, CreateSnap, DeleteThin>;

// Whether a suspend first freezes the file system that is mounted of the device itself.
enum class FileSystemLock {
  kTake,  // ext4 and xfs are written back and frozen. btrfs is not reached: call syncfs(2) before
  kSkip,  // only what has reached the device is there: right if the caller froze the file system
};

}  // namespace quarry::dm
