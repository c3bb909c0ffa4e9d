#include "engine/model/other_node.h"

#include <fmt/format.h>

#include "lvm/names.h"

namespace quarry::engine {

Status CheckNotElsewhere(const std::string& node, const std::string& id) {
  const auto parts = lvm::ParseVolumeId(id);
  if (!parts.has_value() || parts->node_hash.empty() || parts->node_hash == lvm::NodeHash(node)) {
    return Ok();
  }
  return Error(
      Code::kPrecondition,
      fmt::format("volume_id: volume {} is not on this node ({}), and its id names another ({}): send the "
                  "call to the plugin of the node that made it; if that node is gone for good, let the "
                  "orchestrator forget the volume",
                  id, lvm::NodeHash(node), parts->node_hash));
}

void DeletedHere::Add(const std::string& id) {
  const MutexLock lock(mutex_);
  if (ids_.size() >= kMost) {
    ids_.clear();
  }
  ids_.insert(id);
}

bool DeletedHere::Has(const std::string& id) const {
  const MutexLock lock(mutex_);
  return ids_.contains(id);
}

}  // namespace quarry::engine
