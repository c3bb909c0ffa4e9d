// What a caller asks of a volume on this node: staging and publishing.
#pragma once

#include <optional>
#include <string>

#include "base/path.h"
#include "base/units.h"
#include "engine/model/capability.h"
#include "engine/model/create_request.h"

namespace quarry::engine {

struct StageRequest {
  std::string id;
  AbsolutePath staging_path;
  Capability capability;
};

// Who makes and removes the path at which a volume is published. kCaller: the path exists before and after;
// it is a directory even for a raw volume.
enum class TargetOwner { kPlugin, kCaller };

struct PublishRequest {
  std::string id;
  std::optional<AbsolutePath> staging_path;  // nullopt: the caller does not stage; publishing does everything
  AbsolutePath target_path;
  Capability capability;
  bool read_only = false;
  TargetOwner target_owner = TargetOwner::kPlugin;
};

// An inline volume of a pod: publishing makes it, unpublishing erases it.
struct EphemeralRequest {
  PublishRequest publish;  // `id` is the CO's handle; there is no staging
  Bytes size;              // 0: not given
  Parameters parameters;   // as in CreateRequest
};

}  // namespace quarry::engine
