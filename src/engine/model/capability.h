// How a caller wants to use a volume, without any CSI version.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quarry::engine {

enum class AccessType { kBlock, kMount };

// The access modes of CSI, without UNKNOWN (csi-spec section 3.3).
enum class AccessMode {
  kSingleNodeWriter,
  kSingleNodeReaderOnly,
  kMultiNodeReaderOnly,
  kMultiNodeSingleWriter,
  kMultiNodeMultiWriter,
  kSingleNodeSingleWriter,
  kSingleNodeMultiWriter,
};

struct Capability {
  AccessType access = AccessType::kMount;
  AccessMode mode = AccessMode::kSingleNodeWriter;
  std::string fs_type;                       // mount only; empty: the default
  std::vector<std::string> mount_flags;      // mount only; may contain secrets, never logged
  std::optional<uint32_t> mount_group = {};  // mount only: gid for all files
};

}  // namespace quarry::engine
