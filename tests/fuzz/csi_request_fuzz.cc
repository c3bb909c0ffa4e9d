// Parses any bytes as any CSI v1 request: the parser does not crash, and an accepted request fulfils what the
// engine relies on. The first byte picks the message, the rest is its wire form.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <csi/v1/csi.pb.h>

#include "csi/fields.h"
#include "csi/v1/requests.h"

namespace {

namespace pb = csi::v1;
using namespace quarry::csi::v1;  // NOLINT(google-build-using-namespace): the room under test
using quarry::AbsolutePath;
using quarry::Code;
using quarry::Error;
using quarry::csi::CheckLimits;
using quarry::csi::NodeTopology;

void Require(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "violated: %s\n", what);
    std::abort();
  }
}

void CheckError(const Error& error) {
  Require(!error.message().empty(), "an error has a message");
  switch (error.code()) {
    case Code::kInvalidArgument:
    case Code::kUnsupported:
    case Code::kNoSpace:
    case Code::kPrecondition:
      return;
    default:
      Require(false, "a request alone cannot lead to this code");
  }
}

void CheckRange(const quarry::engine::CapacityRange& range) {
  Require(range.limit.value == 0 || range.required <= range.limit, "required <= limit");
  Require(range.required.value <= INT64_MAX && range.limit.value <= INT64_MAX, "sizes are not negative");
}

void CheckPath(const AbsolutePath& path) {
  Require(path.str().size() > 1 && path.str().front() == '/', "paths are absolute and not the root");
  Require((path.str() + "/").find("/../") == std::string::npos, "paths do not climb");
}

void CheckParsed(const quarry::engine::CreateRequest& create) {
  Require(!create.name.empty() && create.name.size() <= quarry::csi::kMaxText, "a name of 1 to 128 bytes");
  Require(!create.capabilities.empty(), "at least one capability");
  CheckRange(create.range);
}
void CheckParsed(const quarry::engine::ValidateRequest& validate) {
  Require(!validate.id.empty() && !validate.capabilities.empty(), "validate: id and capabilities");
}
void CheckParsed(const CapacityQuestion& /*question*/) {}
void CheckParsed(const uint32_t& entries) {
  Require(entries <= INT32_MAX, "a page is not negative");
}
void CheckParsed(const ExpandQuestion& question) {
  Require(!question.id.empty(), "expand: id");
  Require(question.range.required.value != 0 || question.range.limit.value != 0, "expand: a size");
  CheckRange(question.range);
}
void CheckParsed(const quarry::engine::StageRequest& stage) {
  Require(!stage.id.empty(), "stage: id");
  CheckPath(stage.staging_path);
}
void CheckParsed(const quarry::engine::PublishRequest& publish) {
  Require(!publish.id.empty(), "publish: id");
  CheckPath(publish.target_path);
  if (publish.staging_path.has_value()) {
    CheckPath(*publish.staging_path);
    Require(!publish.target_path.str().starts_with(publish.staging_path->str() + "/"),
            "target outside of staging");
  }
}
void CheckParsed(const std::optional<quarry::engine::EphemeralRequest>& ephemeral) {
  if (ephemeral.has_value()) {
    CheckParsed(ephemeral->publish);
    Require(!ephemeral->publish.staging_path.has_value(), "inline: staged nowhere");
  }
}
void CheckParsed(const VolumeAtPath& at) {
  Require(!at.id.empty(), "volume id");
  CheckPath(at.path);
}
void CheckParsed(const quarry::engine::NodeExpandRequest& expand) {
  Require(!expand.id.empty() && !expand.volume_path.empty(), "node expand: id and path");
  CheckRange(expand.range);
}

// Calls CheckLimits first, as Edge does.
template <typename Request, typename Parse>
void Try(std::string_view wire, const Parse& parse) {
  Request request;
  if (!request.ParseFromArray(wire.data(), static_cast<int>(wire.size()))) {
    return;
  }
  if (const auto limits = CheckLimits(request); !limits.has_value()) {
    CheckError(limits.error());
    return;
  }
  const auto parsed = parse(request);
  if (!parsed.has_value()) {
    CheckError(parsed.error());
    return;
  }
  CheckParsed(*parsed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const NodeTopology kHere("quarry.csi.local", "node-1");
  if (size == 0) {
    return 0;
  }
  const std::string_view wire(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 9) {
    case 0:
      Try<pb::CreateVolumeRequest>(wire, [](const auto& r) { return ParseCreate(r, kHere); });
      break;
    case 1:
      Try<pb::ValidateVolumeCapabilitiesRequest>(wire, [](const auto& r) { return ParseValidate(r); });
      break;
    case 2:
      Try<pb::ListVolumesRequest>(wire, [](const auto& r) { return ParseMaxEntries(r.max_entries()); });
      break;
    case 3:
      Try<pb::GetCapacityRequest>(wire, [](const auto& r) { return ParseCapacity(r, kHere); });
      break;
    case 4:
      Try<pb::ControllerExpandVolumeRequest>(wire, [](const auto& r) { return ParseExpand(r); });
      break;
    case 5:
      Try<pb::NodeStageVolumeRequest>(wire, [](const auto& r) { return ParseStage(r); });
      break;
    case 6:
      Try<pb::NodePublishVolumeRequest>(wire, [](const auto& r) { return ParsePublish(r); });
      Try<pb::NodePublishVolumeRequest>(wire, [](const auto& r) { return ParseEphemeral(r); });
      break;
    case 7:
      Try<pb::NodeUnpublishVolumeRequest>(wire, [](const auto& r) { return ParseUnpublish(r); });
      break;
    default:
      Try<pb::NodeExpandVolumeRequest>(wire, [](const auto& r) { return ParseNodeExpand(r); });
      break;
  }
  return 0;
}
