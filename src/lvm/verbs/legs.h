// Verbs that change where a volume lies, and how fast its legs are rebuilt.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/result.h"
#include "base/units.h"
#include "lvm/verbs/words.h"

namespace quarry::lvm {

// Replaces the legs of a raid volume that are on missing PVs, or on a PV that is being evacuated. The volume
// must be active. The kernel rebuilds the new legs afterwards. kNoSpace: the ranges have no space. The kernel
// does not read a leg on a PV being evacuated, so the volume has less redundancy until the new leg is
// rebuilt.
struct RepairLv {
  std::string group;
  std::string name;
  std::vector<std::string> pv_arguments;  // where the new legs go: "/dev/a:0-49", one for each leg
  std::string leave;                      // path of the PV to evacuate; empty: the missing PVs

  static constexpr bool kReloadsTables = true;
  std::string Text() const;
  std::string Object() const { return FullName(group, name); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

// Limits the rate of resyncs and scrubs of raid volumes (Segment::max_recovery_rate), including those in
// progress. One commit for each volume; OK if the limit is already set.
struct LimitRecovery {
  std::string group;
  std::vector<std::string> names;
  Bytes rate;  // a second; 0: no limit

  static constexpr bool kReloadsTables = true;
  std::string Text() const;
  std::string Object() const { return Several(group, names); }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

// Moves extents of one logical volume, or of its legs, to another PV while the volume is in use. Returns when
// they are there. The volume must be active; it stays complete throughout. If the command is killed, it
// leaves a hidden volume "pvmove…" below, and the same verb resumes that move. LVM runs one move off a PV at
// a time. While there is another move, this verb resumes that one, whatever it moves, so check first.
struct MoveExtents {
  std::string group;
  std::string name;  // of the volume, not of a leg
  std::string from;  // "/dev/a:0-49"
  std::string to;    // the same number of extents: "/dev/b:10-59"

  static constexpr bool kReloadsTables = true;
  std::string Text() const { return fmt::format("move {} from {} to {}", FullName(group, name), from, to); }
  std::string Object() const { return FullName(group, name) + " " + from; }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

// Aborts the move off this PV, no matter who started it, so check first. Segments that were already moved
// stay on the target PV; the others are back where they were. OK if there is no move.
struct AbortMove {
  std::string group;
  std::string device;  // path of the PV

  static constexpr bool kReloadsTables = false;
  std::string Text() const { return fmt::format("abort the move off disk {} of group {}", device, group); }
  std::string Object() const { return group + " " + device; }
  Result<Words> Arguments() const;
  CommitCount Commits() const { return kNotCounted; }
  Bytes MetadataText() const { return kNoText; }
};

}  // namespace quarry::lvm
