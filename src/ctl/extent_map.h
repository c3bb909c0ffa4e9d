// The layout of the disks of a volume group: a model made from a snapshot, and pictures of the model. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/model/catalog.h"
#include "lvm/names.h"
#include "lvm/snapshot.h"

namespace quarry::ctl {

// A logical volume, managed or unmanaged.
struct Owner {
  std::optional<lvm::VolumeState> state = {};  // nullopt: unmanaged
  // As drawn: a-z, then A-Z, then '*' for the rest; '#' for unmanaged logical volumes, ' ' for volumes in a
  // thin store, which have no extents.
  char letter = '#';
  std::string lv_name;
  bool snapshot = false;
  bool is_store = false;  // a thin store: `name` and `id` are its own, `type` is the layout of its data
  std::string store;      // in which thin store it lies; empty: in none
  std::string name;       // of the volume or snapshot, given by the CO; may be empty
  std::string id;
  std::string type;
  Bytes size;
};

enum class Role { kData, kMetadata };

// `count` extents of one disk with the same owner and role. Extents in no run are free.
struct Run {
  lvm::ExtentRange range;
  size_t owner = 0;  // index into ExtentMap::owners
  Role role = Role::kData;
};

struct DiskMap {
  std::string device;
  std::string pv_uuid;
  bool missing = false;
  bool allocatable = true;
  Extents extents;
  Extents free;
  std::vector<Run> runs;  // ascending
};

struct ExtentMap {
  std::string pool, group;
  Bytes extent_size;
  std::vector<Owner> owners;
  std::vector<DiskMap> disks;
};

ExtentMap BuildMap(const std::string& pool, const engine::Catalog& catalog);

// One line per disk and a legend, at most `width` columns wide. A cell stands for several extents and shows
// the use of most of them: the owner's letter, '+' for RAID metadata, '.' for free. Colours are ANSI, by
// owner.
std::string DrawMap(const ExtentMap& map, size_t width, bool colour);
std::string MapJson(const ExtentMap& map);

}  // namespace quarry::ctl
