// Decides for each disk of the node whether it is in a pool, may join one, or is left alone, and why. Pure:
// judges a survey, no I/O.
//
// A disk joins only if every source agrees that it is free: the kernel has nothing on it (no partitions, no
// holders), it carries no LVM label, and libblkid, which opens it exclusively, finds it blank. A disk that
// matches a rule other than an explicit path must also read as zeroes, unless the rule has wipe-ok. In every
// other case the disk is left alone.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/model/config.h"
#include "lvm/pv_reader.h"
#include "lvm/snapshot.h"
#include "mount/mount_api.h"
#include "udev/udev_api.h"

namespace quarry::engine {

// The survey's facts about one disk.
struct SeenDisk {
  udev::Disk disk;
  lvm::PvFacts pv;
  // libblkid's answer, or why there is none (kPrecondition: another process has the disk open exclusively).
  // nullopt: the disk was not probed.
  std::optional<Result<mount::Content>> content = std::nullopt;
};

// The survey's facts about one pool.
struct SeenPool {
  const PoolConfig* config = nullptr;
  lvm::Snapshot group;  // nullptr: no group has this name, or it could not be read and `problem` says why
  std::string problem;
  // Where LVM sees the group's PVs, by PV UUID. Distinguishes a PV from a copy of it.
  std::map<std::string, udev::DeviceNumber> members;
};

struct Survey {
  std::vector<SeenDisk> disks;
  std::vector<SeenPool> pools;
};

enum class Standing {
  kMember,  // a PV of the pool's group
  kWanted,  // matches a pool's rule, and nothing speaks against it so far: libblkid has to probe it
  kFree,    // matches a pool's rule, and is proven blank and free: it joins
  kLeft,    // left alone
};

struct Verdict {
  Standing standing = Standing::kLeft;
  size_t pool = 0;    // index in the survey of the pool that `named` names
  std::string named;  // the pool whose rule the disk matches, or whose PV it is; empty: no pool
  std::string rule;   // the rule that the disk matches, if any
  std::string holds;  // contents: "ext4", "LVM physical volume of vg1", "nothing"; empty: not known
  std::string words;  // the reason for the verdict
};

// One verdict for each disk, in the order of the survey.
std::vector<Verdict> Judge(const Survey& survey);

// Whether disks join this pool by rules. Explicit paths only make its group; they never add to it.
bool Claims(const PoolConfig& pool);

}  // namespace quarry::engine
