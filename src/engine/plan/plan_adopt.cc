#include "engine/plan/plan_adopt.h"

#include <fmt/format.h>

#include "engine/model/unmanaged.h"
#include "lvm/layout.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

using Kind = mount::Content::Kind;

constexpr size_t kMaxName = 128;  // bytes; CSI's limit

std::string PathOf(const Record& record) {
  return fmt::format("{}/{}", record.group->name, record.lv->name);
}

Error Refuse(Code code, const Record& record, std::string_view why) {
  return {code, fmt::format("logical volume {} {}", PathOf(record), why)};
}

Status CheckForeign(const Record& record) {
  const lvm::LogicalVolume& lv = *record.lv;
  const auto tags = lvm::ParseTags(lv.tags);
  if (!tags.has_value()) {
    return Refuse(
        Code::kPrecondition, record,
        fmt::format("has Quarry tags that are damaged or newer than this build: {}", tags.error().message()));
  }
  if (!IsForeign(lv)) {
    const auto owned = lvm::OwnedExtents(*record.group, lv);
    return Refuse(Code::kPrecondition, record,
                  fmt::format("is a pool, or the origin or a snapshot of another volume, or a leg of a "
                              "volume of Quarry{}",
                              owned.has_value() ? "" : ": " + owned.error().message()));
  }
  if (record.tags.id.empty()) {
    return Refuse(Code::kPrecondition, record,
                  fmt::format("has a uuid that cannot be part of a volume id: {}", lv.uuid));
  }
  if (lv.partial) {
    return Refuse(Code::kUnavailable, record, "has extents on a missing disk");
  }
  return Ok();
}

Result<std::string> NameFor(const Record& record, const AdoptRequest& request) {
  if (!request.csilvm) {
    return request.name.empty() ? PathOf(record) : request.name;
  }
  auto name = lvm::CsilvmName(record.lv->name, record.lv->tags);
  if (!name.has_value()) {
    return Refuse(Code::kPrecondition, record, name.error().message());
  }
  if (!name->has_value()) {
    return Refuse(Code::kPrecondition, record, "has no name of the form that csilvm gives");
  }
  return std::move(**name);
}

Result<std::string> WantedFilesystem(const AdoptRequest& request) {
  if (request.fs_type.empty()) {
    return std::string(mount::SupportedFilesystems().front());
  }
  if (!mount::IsSupportedFilesystem(request.fs_type)) {
    return Error(Code::kInvalidArgument,
                 fmt::format("fs_type: '{}' is not supported; supported are {}", request.fs_type,
                             fmt::join(mount::SupportedFilesystems(), ", ")));
  }
  return request.fs_type;
}

}  // namespace

Result<Candidate> Examine(const std::string& pool, const Catalog& catalog, const AdoptRequest& request) {
  const lvm::LogicalVolume* lv = catalog.group->FindLv(request.lv_name);
  if (lv == nullptr || lv->hidden) {
    return Error(Code::kNotFound, fmt::format("volume group {} has no logical volume '{}'",
                                              catalog.group->name, request.lv_name));
  }
  Candidate candidate{ForeignRecord(pool, catalog, *lv), "", *Profile::Parse({}, pool)};
  QUARRY_TRY(CheckForeign(candidate.record));
  QUARRY_ASSIGN(candidate.name, NameFor(candidate.record, request));
  if (candidate.name.size() > kMaxName) {
    return Error(Code::kInvalidArgument,
                 fmt::format("name: must be at most {} bytes, is {}", kMaxName, candidate.name.size()));
  }
  if (!request.erase.empty()) {
    QUARRY_ASSIGN(candidate.profile, Profile::Parse({{"erase", request.erase}}, pool));
  }
  Status alone = CheckAlone(*catalog.group, *lv, fmt::format("logical volume {}", PathOf(candidate.record)));
  if (!alone.has_value() && alone.error().code() == Code::kUnavailable) {
    return std::move(alone.error());
  }
  auto geometry = lvm::GeometryOf(*catalog.group, *lv);
  if (!geometry.has_value()) {
    return Refuse(Code::kPrecondition, candidate.record, geometry.error().message());
  }
  QUARRY_TRY(std::move(alone));
  candidate.profile.geometry = std::move(*geometry);
  return candidate;
}

Result<AdoptionPlan> PlanAdoption(const Candidate& candidate, const AdoptRequest& request,
                                  const Findings& findings) {
  const Record& record = candidate.record;
  const mount::Content& content = findings.content;
  QUARRY_ASSIGN(const std::string wanted, WantedFilesystem(request));
  AdoptionPlan adoption{.tags = {.state = lvm::VolumeState::kReady,
                                 .id = record.tags.id,
                                 .co_name = candidate.name,
                                 .size = record.lv->size,
                                 .profile = candidate.profile.Canonical(),
                                 .access = std::string(AccessName(Access::kAny)),
                                 .fs_type = wanted,
                                 .erase = std::string(EraseName(candidate.profile.erase))}};
  const auto holds = [&](const std::string& what) {
    return Refuse(Code::kPrecondition, record, fmt::format("holds {}; it is left as it is", what));
  };
  switch (content.kind) {
    case Kind::kAmbiguous:
      return holds("several contradicting signatures");
    case Kind::kOther:
      return holds(content.type);
    case Kind::kFilesystem:
      if (!mount::IsSupportedFilesystem(content.type)) {
        return holds(fmt::format("{}, which Quarry does not serve", content.type));
      }
      if (!request.fs_type.empty() && request.fs_type != content.type) {
        return holds(fmt::format("{}, not {}", content.type, request.fs_type));
      }
      adoption.tags.fs_type = content.type;
      adoption.tags.formatted = content.type;
      adoption.holds = content.type;
      return adoption;
    case Kind::kBlank:
      break;
  }
  if (!findings.begins_with_zeros && !request.fs_type.empty()) {
    return holds(fmt::format("raw data, which making {} would destroy", wanted));
  }
  if (!findings.begins_with_zeros || record.lv->size < mount::MinimumSize(wanted)) {
    adoption.tags.access = AccessName(Access::kBlock);
    adoption.tags.fs_type.clear();
  }
  adoption.holds = findings.begins_with_zeros ? "nothing" : "raw data";
  return adoption;
}

}  // namespace quarry::engine
