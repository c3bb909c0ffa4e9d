// The volumes that an orchestrator knows, from a list that it printed. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quarry::ctl {

struct KnownIds {
  std::map<std::string, std::string>
      volumes;                      // id → the node that the orchestrator names for it; may be empty
  std::set<std::string> snapshots;  // ids, where the list tells them from volumes
  bool lists_snapshots = false;     // there is a VolumeSnapshotContent
  size_t of_others = 0;             // entries of other drivers, and ids that no Quarry ever issued

  bool empty() const { return volumes.empty() && snapshots.empty(); }
};

// Reads any of these:
// - the output of `kubectl get pv -o json` or `kubectl get pv,volumesnapshotcontent -o json`; entries of
//   drivers other than `driver` are only counted, unless their id is one of Quarry's;
// - the output of `nomad volume status -type csi -namespace '*' -json`;
// - a JSON array of ids;
// - one id on each line.
// kInvalidArgument: it is none of them, is cut off, or is one page of a longer list. So the output of a
// command that failed is refused, and is not taken for a short list.
Result<KnownIds> ParseKnownIds(std::string_view text, std::string_view driver);

}  // namespace quarry::ctl
