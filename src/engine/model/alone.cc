#include "engine/model/alone.h"

#include <utility>

#include <fmt/format.h>

#include "lvm/ownership.h"

namespace quarry::engine {

Status CheckAlone(const Record& record) {
  return CheckAlone(*record.group, *record.lv,
                    record.tags.id.empty()
                        ? fmt::format("logical volume {}/{}", record.group->name, record.lv->name)
                        : fmt::format("volume {}", record.tags.id));
}

Status CheckAlone(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const std::string& what) {
  auto owned = lvm::OwnedExtents(group, lv);
  if (owned.has_value()) {
    return Ok();
  }
  // An unrecognized shape was given to the volume by another command. Only an administrator can undo that, so
  // the code is kPrecondition.
  const Code code = owned.error().code() == Code::kUnavailable ? Code::kUnavailable : Code::kPrecondition;
  return std::move(owned.error()).As(code).Context(what);
}

}  // namespace quarry::engine
