// Volumes that are not here. The id of one says which node made it, so that a call that came to the wrong
// node is not answered as if the volume were gone: it, and its data, would stay there for ever. A volume that
// is here is served whatever its id says: nodes are renamed, disks are moved.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "base/result.h"

namespace quarry::engine {

// For a controller's call about a volume that is not here. kPrecondition if its id names a node other than
// `node`. Ids that name none, and such as were never given out, are anybody's. Pure.
Status CheckNotElsewhere(const std::string& node, const std::string& id);

// Ids of volumes that were deleted here although they name another node: a repetition of that is no call that
// went astray. Thread-safe; forgotten at the end of the process.
class DeletedHere {
 public:
  void Add(const std::string& id);
  bool Has(const std::string& id) const;

 private:
  static constexpr size_t kMost = 1000;

  mutable std::mutex mutex_;
  std::set<std::string> ids_;
};

}  // namespace quarry::engine
