// What becomes of each disk of the node: whose it is, whether a pool is to take it, and why not. Pure: from
// what was seen, no I/O.
//
// A disk is taken only if all who may know agree that it is nobody's: the kernel has nothing on it (no
// partitions, no holders), LVM has no label on it, and libblkid, with the disk claimed exclusively, finds it
// blank. By a rule that is not just its path, only if it reads as zeroes, too, or the rule says wipe-ok.
// Whatever else is said of it, it is left alone.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/config.h"
#include "engine/model/types.h"
#include "lvm/pv_reader.h"
#include "lvm/snapshot.h"
#include "mount/mount_api.h"
#include "udev/udev_api.h"

namespace quarry::engine {

// What was seen of one disk.
struct SeenDisk {
  udev::Disk disk;
  lvm::PvFacts pv;
  // libblkid's answer, or why there is none (kPrecondition: somebody has the disk open for himself). nullopt:
  // it was not asked.
  std::optional<Result<mount::Content>> content = std::nullopt;
};

// And of one pool.
struct SeenPool {
  const PoolConfig* config = nullptr;
  lvm::Snapshot group;  // nullptr: there is none of its name; or `problem` says why it could not be read
  std::string problem;
  // Where LVM says that the group's PVs are, by their UUIDs: tells the member from its copy.
  std::map<std::string, udev::DeviceNumber> members;
};

struct Survey {
  std::vector<SeenDisk> disks;
  std::vector<SeenPool> pools;
};

enum class Standing {
  kMember,  // of the pool's group
  kWanted,  // of a pool, and nothing is known against it so far: libblkid is to be asked
  kFree,    // of a pool, and proven blank and unused: it is to be taken
  kLeft,    // alone
};

struct Verdict {
  Standing standing = Standing::kLeft;
  size_t pool = 0;    // index in the survey; meaningful but for kLeft
  std::string named;  // the pool whose rule it met, or whose member it is; empty: none's
  std::string rule;   // that it met, if any
  std::string holds;  // what is on it: "ext4", "LVM physical volume of vg1", "nothing"; empty: not known
  std::string words;  // why it stands so
};

// One for each disk, in their order.
std::vector<Verdict> Judge(const Survey& survey);

// Whether the pool takes disks by rules: explicit paths alone make its group, and never add to it.
bool Claims(const PoolConfig& pool);

}  // namespace quarry::engine
