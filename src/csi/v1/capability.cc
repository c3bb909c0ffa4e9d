// Parses volume capabilities and capacity ranges, which several requests share.
#include <charconv>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "csi/fields.h"
#include "csi/v1/requests.h"

namespace quarry::csi::v1 {
namespace {

using Mode = pb::VolumeCapability::AccessMode;

Result<engine::AccessMode> ParseMode(const std::string& field, const pb::VolumeCapability& capability) {
  const std::string mode_field = field + ".access_mode";
  if (!capability.has_access_mode()) {
    return Invalid(mode_field, "is required");
  }
  switch (capability.access_mode().mode()) {
    case Mode::UNKNOWN:
      return Invalid(mode_field, "must not be UNKNOWN");
    case Mode::SINGLE_NODE_WRITER:
      return engine::AccessMode::kSingleNodeWriter;
    case Mode::SINGLE_NODE_READER_ONLY:
      return engine::AccessMode::kSingleNodeReaderOnly;
    case Mode::MULTI_NODE_READER_ONLY:
      return engine::AccessMode::kMultiNodeReaderOnly;
    case Mode::MULTI_NODE_SINGLE_WRITER:
      return engine::AccessMode::kMultiNodeSingleWriter;
    case Mode::MULTI_NODE_MULTI_WRITER:
      return engine::AccessMode::kMultiNodeMultiWriter;
    case Mode::SINGLE_NODE_SINGLE_WRITER:
      return engine::AccessMode::kSingleNodeSingleWriter;
    case Mode::SINGLE_NODE_MULTI_WRITER:
      return engine::AccessMode::kSingleNodeMultiWriter;
    default:  // proto3 enumerations are open: a newer caller may use modes that this build does not know
      return Unsupported(
          mode_field, fmt::format("mode {} is not known", static_cast<int>(capability.access_mode().mode())));
  }
}

// A gid: decimal digits and nothing else. (gid_t)-1 is not a group: chown(2) takes it for "do not change".
Result<std::optional<uint32_t>> ParseGroup(const std::string& field, const std::string& text) {
  if (text.empty()) {
    return std::optional<uint32_t>();
  }
  uint32_t gid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gid);
  if (error != std::errc() || text != fmt::format("{}", gid) || gid == std::numeric_limits<uint32_t>::max()) {
    return Invalid(field, "must be a group id, a decimal number from 0 to 4294967294");
  }
  return std::optional(gid);
}

Result<Bytes> ParseSize(std::string_view field, int64_t value) {
  if (value < 0) {
    return Invalid(field, fmt::format("must not be negative, is {}", value));
  }
  return Bytes{static_cast<uint64_t>(value)};
}

}  // namespace

Result<engine::Capability> ParseCapability(const std::string& field, const pb::VolumeCapability& capability) {
  engine::Capability parsed;
  switch (capability.access_type_case()) {
    case pb::VolumeCapability::ACCESS_TYPE_NOT_SET:
      return Invalid(field, "needs an access type, block or mount");
    case pb::VolumeCapability::kBlock:
      parsed.access = engine::AccessType::kBlock;
      break;
    case pb::VolumeCapability::kMount: {
      const auto& mount = capability.mount();
      parsed.access = engine::AccessType::kMount;
      parsed.fs_type = mount.fs_type();
      parsed.mount_flags = {mount.mount_flags().begin(), mount.mount_flags().end()};
      break;
    }
  }
  QUARRY_ASSIGN(parsed.mode, ParseMode(field, capability));
  QUARRY_ASSIGN(parsed.mount_group,
                ParseGroup(field + ".mount.volume_mount_group", capability.mount().volume_mount_group()));
  return parsed;
}

Result<std::vector<engine::Capability>> ParseCapabilities(const std::string& field,
                                                          const Capabilities& capabilities) {
  std::vector<engine::Capability> parsed;
  std::optional<Error> unsupported;  // a malformed capability later in the list takes precedence
  for (int i = 0; i < capabilities.size(); ++i) {
    Result<engine::Capability> one = ParseCapability(fmt::format("{}[{}]", field, i), capabilities[i]);
    if (one.has_value()) {
      parsed.push_back(std::move(*one));
    } else if (one.error().code() != Code::kUnsupported) {
      return std::move(one.error());
    } else if (!unsupported) {
      unsupported = std::move(one.error());
    }
  }
  if (unsupported) {
    return std::move(*unsupported);
  }
  return parsed;
}

Status CheckSingleNode(const std::string& field, const std::vector<engine::Capability>& capabilities) {
  for (size_t i = 0; i < capabilities.size(); ++i) {
    QUARRY_TRY(CheckSingleNode(fmt::format("{}[{}]", field, i), capabilities[i]));
  }
  return Ok();
}

Status CheckSingleNode(const std::string& field, const engine::Capability& capability) {
  if (IsMultiNode(capability.mode)) {
    return Unsupported(field + ".access_mode",
                       "is for several nodes; a node-local volume is on one node only");
  }
  return Ok();
}

Result<engine::CapacityRange> ParseRange(const pb::CapacityRange& range) {
  engine::CapacityRange parsed;
  QUARRY_ASSIGN(parsed.required, ParseSize("capacity_range.required_bytes", range.required_bytes()));
  QUARRY_ASSIGN(parsed.limit, ParseSize("capacity_range.limit_bytes", range.limit_bytes()));
  if (parsed.required.value == 0 && parsed.limit.value == 0) {
    return Invalid("capacity_range", "needs required_bytes or limit_bytes");
  }
  if (parsed.limit.value != 0 && parsed.required > parsed.limit) {
    return Invalid("capacity_range.required_bytes", fmt::format("must not exceed limit_bytes, {} > {}",
                                                                parsed.required.value, parsed.limit.value));
  }
  return parsed;
}

}  // namespace quarry::csi::v1
