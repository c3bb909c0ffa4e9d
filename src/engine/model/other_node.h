// Volumes that are not on this node. A volume's id names the node that made it. So a call that reaches the
// wrong node gets an error: the answer "the volume is gone" would strand the volume and its data. A volume
// that is here is served whatever node its id names, because nodes are renamed and disks are moved.
#pragma once

#include <set>
#include <string>

#include "base/mutex.h"
#include "base/result.h"

namespace quarry::engine {

// For a controller call about a volume that is not here. kPrecondition if its id names a node other than
// `node`. OK for ids that name no node, and for ids that no build ever issued. Pure.
Status CheckNotElsewhere(const std::string& node, const std::string& id);

// Ids of volumes that were deleted here although their ids name another node. A repeated deletion of such a
// volume did not reach the wrong node. Thread-safe. The ids are forgotten when the process ends.
class DeletedHere {
 public:
  void Add(const std::string& id);
  bool Has(const std::string& id) const;

 private:
  static constexpr size_t kMost = 1000;

  mutable Mutex mutex_;
  std::set<std::string> ids_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quarry::engine
