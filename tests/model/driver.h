// The service under test, as the model calls it: sizes in extents, volumes by the names of the sequence, and
// Quarry's error codes. A driver translates this into calls of the engine, or into RPCs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace quarry::model {

struct Type {
  const char* name;
  uint64_t granule;  // sizes are multiples of it, in extents
  uint64_t legs;
  bool metadata;  // each RAID leg has one extent of metadata
};
// A thin volume takes nothing of the group: the store has its extents.
inline constexpr Type kTypes[] = {{"linear", 1, 1, false},
                                  {"striped", 2, 2, false},
                                  {"raid1", 1, 2, true},
                                  {"raid5", 2, 3, true},
                                  {"thin", 1, 0, false}};
inline constexpr size_t kThin = std::size(kTypes) - 1;

// Extents of the group that a volume of `extents` takes.
uint64_t Taken(const Type& type, uint64_t extents);

struct Wish {
  std::string name;
  std::string type;
  uint64_t required = 0;
  uint64_t limit = 0;  // 0: none
  bool block = false;
  std::string source = {};    // id of the volume that it is a copy of
  std::string snapshot = {};  // id of the snapshot that it is made from
};

// A volume or a snapshot.
struct Made {
  std::string id;
  uint64_t extents = 0;
};

struct MadeGroup {
  std::string id;
  std::map<std::string, Made> members;  // snapshots, by the ids of their volumes
};

struct Grown {
  uint64_t extents = 0;
  bool node_expansion_required = false;
};

// Where a volume may be used; the driver chooses the path. Target kStaging is the staging path.
inline constexpr int kStaging = -1;
struct Spot {
  std::string name;
  int target = kStaging;
};

// Used by one thread. If a call must be repeated because extents are being zeroed, the driver repeats it.
class Driver {
 public:
  virtual ~Driver() = default;

  virtual Result<Made> Create(const Wish& wish) = 0;
  virtual Status Delete(const std::string& id) = 0;
  virtual Result<Grown> Expand(const std::string& id, uint64_t required, uint64_t limit) = 0;
  // Whether the volume is confirmed.
  virtual Result<bool> Validate(const std::string& id, bool block, const std::string& type) = 0;
  // All volumes, `page` at a time (0: at once): extents by id.
  virtual Result<std::map<std::string, uint64_t>> List(uint32_t page) = 0;
  virtual Result<uint64_t> Get(const std::string& id) = 0;
  // The largest volume of the type that can be made now.
  virtual Result<uint64_t> Capacity(const std::string& type) = 0;
  virtual Status Stage(const std::string& id, const std::string& name, bool block) = 0;
  virtual Status Unstage(const std::string& id, const std::string& name) = 0;
  virtual Status Publish(const std::string& id, const Spot& spot, bool block, bool read_only) = 0;
  virtual Status Unpublish(const std::string& id, const Spot& spot) = 0;
  // Bytes of the device, or of the file system.
  virtual Result<uint64_t> Stats(const std::string& id, const Spot& spot) = 0;
  // Bytes of the device.
  virtual Result<uint64_t> NodeExpand(const std::string& id, const Spot& spot, uint64_t required) = 0;
  virtual Result<Made> Snapshot(const std::string& name, const std::string& source) = 0;
  virtual Status DeleteSnapshot(const std::string& id) = 0;
  // All snapshots: extents by id.
  virtual Result<std::map<std::string, uint64_t>> Snapshots() = 0;
  virtual Result<MadeGroup> SnapshotGroup(const std::string& name,
                                          const std::vector<std::string>& sources) = 0;
  virtual Status DeleteGroup(const std::string& id, const std::vector<std::string>& members) = 0;
  virtual Result<MadeGroup> GetGroup(const std::string& id) = 0;
  // A number at the beginning of a raw volume. Read activates a thin volume that is not active.
  virtual void Write(const std::string& id, uint64_t number) = 0;
  virtual uint64_t Read(const std::string& id) = 0;
  // The process dies, and a new process serves.
  virtual Status Restart() = 0;

  // Extents of the group without the thin store, when there are no volumes.
  virtual uint64_t Total() = 0;
  // Extents of the data of the thin store: enough for all volumes of a sequence.
  virtual uint64_t StoreTotal() = 0;
  virtual uint64_t ExtentBytes() = 0;
  // Whether anything exists at the path of a target.
  virtual bool Exists(const Spot& spot) = 0;
  // Logical volumes, devices and mounts that exist now, but not those of the store itself, as text; empty:
  // none.
  virtual std::string Leftovers() = 0;
};

}  // namespace quarry::model
