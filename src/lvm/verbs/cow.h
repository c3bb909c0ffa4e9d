// Verbs for the copy-on-write store of a volume that is copied while it is in use: a snapshot in LVM's terms
// (lvmthin(7) calls it thick). Before a write changes the volume, the kernel copies the old bytes to the
// store.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "lvm/layout.h"
#include "lvm/verbs/words.h"

namespace quarry::lvm {

// The unit in which the kernel copies.
inline constexpr Bytes kCowChunk{64 * kKiB.value};

// The size of a store that never overflows, however much of the volume changes: one chunk for the header, all
// chunks of the volume, and 16 bytes for each of them (kernel: drivers/md/dm-snap-persistent.c). lvcreate
// makes no larger one.
Extents CowStoreSize(Bytes volume, Bytes extent_size);

// Makes a store for the volume, and begins to keep the bytes that the volume has now. File systems on it
// stand still for that moment, and have written what they have. The device of the store's LV has the kept
// bytes, and the size of the volume.
//
// Needs a volume that is active; the store is then active too. If LVM is killed, the volume may be left
// suspended, and the store may be an ordinary linear LV with these tags.
//
// kUnavailable: the file system is frozen (fsfreeze), and the kernel cannot freeze it twice (Linux 6.1).
struct CreateCow {
  std::string group;
  std::string name;    // of the volume
  std::string store;   // name of the new LV
  PlacementStep step;  // where the store goes, and how many extents
  std::vector<std::string> tags;

  static constexpr bool kReloadsTables = true;
  std::string Text() const;
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return 2; }
  Bytes MetadataText() const;
};

// Separates the store from its volume. What the volume had is lost; the store becomes an ordinary linear LV
// with whatever bytes it holds, and keeps its tags. It is active if the volume is. kPrecondition: the store's
// device is open.
struct SplitCow {
  std::string group;
  std::string name;   // of the volume
  std::string store;  // of the LV to separate

  static constexpr bool kReloadsTables = true;
  std::string Text() const;
  std::string Object() const { return FullName(group, store); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return 1; }
  Bytes MetadataText() const { return kNoText; }
};

// Removes a store whose disks are missing. Meanwhile the kernel has given the store up, and the volume goes
// on; but LVM activates the volume no more, and keeps the missing disk in the group. kNotFound if it is gone.
struct DropCow {
  std::string group;
  std::string name;   // of the volume
  std::string store;  // of the LV to remove

  static constexpr bool kReloadsTables = true;
  std::string Text() const;
  std::string Object() const { return FullName(group, store); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

}  // namespace quarry::lvm
