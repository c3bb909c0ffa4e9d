// A volume and its health, as callers see them. model/volume_health.h finds the health out.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "engine/model/volume_requests.h"

namespace quarry::engine {

// A problem of a volume, in the terms of CSI's health RPCs (csi-spec, package csi.v1 since 1.13).
enum class Problem {
  kDegraded,      // the volume serves, with less redundancy than its profile promises
  kInaccessible,  // some or all of the volume cannot be read or written now
};
struct Ailment {
  Problem problem;
  std::string reason;   // one CamelCase word, unique within a volume: "DiskMissing"
  std::string message;  // for people, with the remedy
};
struct Health {
  std::vector<Ailment> ailments;         // empty: healthy
  std::string note;                      // activity that is no problem: "syncing, 40 %"; may be empty
  std::optional<uint32_t> percent = {};  // progress of a rebuild, sync or scrub
};

// Whether the disks of a volume give its data.
enum class Loss {
  kNone,     // they do, as far as anyone can say without reading the data
  kPassing,  // they may not, but quarryd is about to change that
  kLost,     // they do not, and nothing is under way that would change that
};
struct LossVerdict {
  Loss loss = Loss::kNone;
  std::string words;  // which disk, and what is wrong with it; empty for kNone
};

// When a scrub of a RAID volume last ran to its end, and how many bytes of the legs differed. As far as is
// known they still differ.
struct ScrubOutcome {
  std::chrono::sys_seconds ended;
  Bytes mismatched;
  bool operator==(const ScrubOutcome&) const = default;
};

// A complete volume, as its tags describe it.
struct Volume {
  std::string id;
  std::string name;  // the CO's
  Bytes size;
  std::string pool;
  std::map<std::string, std::string> context;  // immutable facts only: always byte-identical
  ContentSource source = {};                   // what it was made from
  std::string s3 = {};                         // CreateRequest::s3
  std::optional<Health> health = {};           // if the caller asked for it
};

// A snapshot: the bytes of a volume at one instant, on disks of its own or in the volume's thin store. It
// lives as long as it is wanted, also without its volume.
struct VolumeSnapshot {
  std::string id;
  std::string name;    // the CO's
  std::string source;  // id of the volume, which may be gone
  Bytes size;          // the least size of a volume that is made from it
  std::chrono::sys_time<std::chrono::nanoseconds> cut;
  std::string pool;
  std::string group = {};  // id of the group snapshot of which it is a member; empty: of none
};

}  // namespace quarry::engine
