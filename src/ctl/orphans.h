// The volumes of this node that an orchestrator does not know, and those that it knows and this node does not
// have. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "ctl/known_ids.h"
#include "engine/model/catalog.h"

namespace quarry::ctl {

struct Orphan {
  std::string id, name, pool, type;
  std::string logical_volume;  // "vg0/q…"
  Bytes size;
  bool snapshot = false;
  std::optional<std::chrono::seconds> age;  // nullopt: LVM does not know it
  bool young = false;                       // younger than OrphanQuestion::least_age
};

struct Orphans {
  std::vector<Orphan> orphans;          // by pool, then by id
  std::vector<std::string> missing;     // ids of this node without a volume
  std::vector<std::string> deleted;     // ids of this node whose volume was deleted and is being erased
  size_t known = 0;                     // volumes and snapshots here that the list names
  size_t unplaced = 0;                  // ids of the list that do not tell their node, and are not here
  size_t snapshots_left_out = 0;        // snapshots here, if the list has none
  size_t inline_left_out = 0;           // inline volumes of pods, which no list has
  size_t by_hand_left_out = 0;          // volumes that quarryd mounts itself, which no list has
  std::vector<std::string> unreadable;  // logical volumes with tags that this build cannot read
};

struct OrphanQuestion {
  std::vector<engine::Catalog> catalogs;  // of all pools
  KnownIds known;
  bool snapshots = false;  // compare snapshots although no VolumeSnapshotContent is in the list
  std::string node;        // this node's id; may be empty
  std::chrono::system_clock::time_point now;
  std::chrono::minutes least_age{60};
};

Orphans FindOrphans(const OrphanQuestion& question);

std::string DrawOrphans(const Orphans& found);
std::string OrphansJson(const Orphans& found);

}  // namespace quarry::ctl
