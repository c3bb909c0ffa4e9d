#include "engine/model/catalog.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include <fmt/format.h>

#include "engine/model/taken_out.h"
#include "lvm/ownership.h"
#include "mount/mount_api.h"

namespace quarry::engine {
namespace {

constexpr std::string_view kGroupSuffix = ".group";

std::string SortKey(const Record& record) {
  return record.tags.id.empty() ? record.lv->name : record.tags.id;
}

ContentSource SourceOf(const lvm::VolumeTags& tags) {
  return tags.restored.empty() ? ContentSource{tags.source, false} : ContentSource{tags.restored, true};
}

// The first ready record that `matches`.
const Record* FindReady(const std::vector<Record>& records, const auto& matches) {
  const auto found = std::ranges::find_if(records, [&](const Record& record) {
    return record.tags.state == lvm::VolumeState::kReady && matches(record);
  });
  return found == records.end() ? nullptr : &*found;
}

// An unrecognized shape was given to the volume by another command. Only an administrator can undo that, so
// the code is kPrecondition.
Error AsObstacle(Error error) {
  const Code code = error.code() == Code::kUnavailable ? Code::kUnavailable : Code::kPrecondition;
  return std::move(error).As(code);
}

Status IsAloneInStore(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv) {
  QUARRY_TRY(lvm::IsAloneInPool(group, lv));
  const lvm::LogicalVolume& pool = *group.FindLv(lv.pool);
  const auto tags = lvm::ParseTags(pool.tags);
  if (!tags.has_value() || !tags->has_value() || !(*tags)->store) {
    return Error(
        Code::kPrecondition,
        fmt::format("it is in thin pool {}/{}, which does not have the tags of Quarry's stores any more",
                    group.name, pool.name));
  }
  return lvm::IsSoundStore(group, pool).Context(fmt::format("its store {}/{}", group.name, pool.name));
}

void AddStore(Catalog& catalog, const std::string& pool, const lvm::LogicalVolume& lv, lvm::VolumeTags tags) {
  std::vector<Record> parts = RecordsOfParts(pool, catalog.group, lv);
  if (parts.empty() || tags.state != lvm::VolumeState::kReady) {
    catalog.unreadable.push_back(
        {&lv, "it has the tags of a thin store, but is no thin pool that Quarry makes"});
    return;
  }
  catalog.stores.push_back({&lv, parts.front().lv, parts.back().lv, std::move(tags)});
  std::ranges::move(parts, std::back_inserter(catalog.parts));
}

}  // namespace

std::string_view AccessName(Access access) {
  switch (access) {
    case Access::kBlock:
      return "block";
    case Access::kMount:
      return "mount";
    case Access::kAny:
      return "any";
  }
  return "";
}

std::optional<Access> ParseAccess(std::string_view text) {
  for (const Access access : {Access::kBlock, Access::kMount, Access::kAny}) {
    if (AccessName(access) == text) {
      return access;
    }
  }
  return std::nullopt;
}

Record::Record(std::string p, lvm::Snapshot g, const lvm::LogicalVolume* l, lvm::VolumeTags t)
    : pool(std::move(p)),
      group(std::move(g)),
      lv(l),
      tags(std::move(t)),
      access(ParseAccess(tags.access)),
      profile(Profile::FromCanonical(tags.profile)) {}

std::string DmUuidOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv) {
  const std::string uuid = lvm::DmUuid(group.uuid, lv.uuid);
  return lv.hidden ? lvm::DmUuidOfPart(uuid, lv.name) : uuid;
}

std::string ActiveName(const Record& record) {
  const lvm::LogicalVolume* const pool = lvm::PoolOfPart(*record.group, *record.lv);
  return pool == nullptr ? record.lv->name : pool->name;
}

std::optional<lvm::Geometry> GeometryOfPart(const lvm::LogicalVolume& part) {
  if (part.segments.empty()) {
    return std::nullopt;
  }
  const lvm::Segment& segment = part.segments.front();
  const auto type = lvm::ParseVolumeType(std::string_view(segment.type).substr(0, segment.type.find('_')));
  if (!type.has_value()) {
    return std::nullopt;
  }
  lvm::GeometryRequest request{
      .type = *type, .stripe_size = segment.stripe_size, .region_size = segment.region_size};
  const auto legs = static_cast<uint32_t>(segment.areas.size());
  if (*type == lvm::VolumeType::kRaid1) {
    request.mirrors = std::max(legs, 1U) - 1;
  } else if (*type != lvm::VolumeType::kLinear) {
    request.stripes = segment.data_stripes;
  }
  if (*type == lvm::VolumeType::kRaid10) {
    request.mirrors = std::max(legs / std::max(segment.data_stripes, 1U), 1U) - 1;
  }
  auto made = lvm::Geometry::Make(request);
  return made.has_value() ? std::optional(std::move(*made)) : std::nullopt;
}

std::vector<Record> RecordsOfParts(const std::string& pool, const lvm::Snapshot& group,
                                   const lvm::LogicalVolume& lv) {
  std::vector<Record> out;
  const auto parts = lvm::PartsOfPool(*group, lv);
  const auto tags = lvm::ParseTags(lv.tags);
  if (!parts.has_value() || !tags.has_value() || !tags->has_value() || !(*tags)->store) {
    return out;
  }
  for (const lvm::LogicalVolume* const part : {parts->data, parts->metadata}) {
    const auto geometry = GeometryOfPart(*part);
    if (!geometry.has_value()) {
      return {};
    }
    const Profile profile{.pool = pool, .geometry = *geometry};
    out.emplace_back(
        pool, group, part,
        lvm::VolumeTags{.id = fmt::format("{}/{}", (*tags)->id, part == parts->data ? "data" : "metadata"),
                        .size = part->size,
                        .profile = profile.Canonical(),
                        .access = std::string(AccessName(Access::kBlock)),
                        .erase = std::string(EraseName(ErasePolicy::kZero)),
                        .scrubbed = part == parts->data ? (*tags)->scrubbed : (*tags)->scrubbed_metadata});
  }
  return out;
}

std::vector<std::string> DmUuids(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv) {
  std::vector<std::string> out = {DmUuidOf(group, lv)};
  const auto add = [&](std::string_view name) {
    if (const lvm::LogicalVolume* part = group.FindLv(name); part != nullptr) {
      out.push_back(lvm::DmUuid(group.uuid, part->uuid));
    }
  };
  for (const lvm::Segment& segment : lv.segments) {
    for (const lvm::SegmentArea& area : segment.areas) {
      if (lvm::IsLegOf(area.lv_name, lv.name)) {
        add(area.lv_name);
        add(lvm::MetadataLvName(area.lv_name));
      }
    }
  }
  return out;
}

const Record* Catalog::ById(std::string_view id) const {
  return FindReady(records,
                   [&](const Record& r) { return !r.tags.ephemeral && !r.tags.snapshot && r.tags.id == id; });
}

const Record* Catalog::ByName(std::string_view co_name) const {
  return FindReady(records, [&](const Record& r) { return !r.tags.snapshot && r.tags.co_name == co_name; });
}

const Record* Catalog::SnapshotById(std::string_view id) const {
  return FindReady(records, [&](const Record& r) { return r.tags.id == id && IsWholeSnapshot(*this, r); });
}

const Record* Catalog::SnapshotByName(std::string_view co_name) const {
  return FindReady(records,
                   [&](const Record& r) { return r.tags.co_name == co_name && IsWholeSnapshot(*this, r); });
}

const Record* Catalog::ByUuid(std::string_view lv_uuid) const {
  return FindReady(records, [&](const Record& r) { return r.lv->uuid == lv_uuid; });
}

const Store* Catalog::StoreOf(const lvm::LogicalVolume& lv) const {
  const auto found = std::ranges::find_if(
      stores, [&](const Store& store) { return !lv.pool.empty() && store.lv->name == lv.pool; });
  return found == stores.end() ? nullptr : &*found;
}

const Store* Catalog::StoreOfPart(const Record& record) const {
  const auto found = std::ranges::find_if(
      stores, [&](const Store& store) { return store.data == record.lv || store.metadata == record.lv; });
  return found == stores.end() ? nullptr : &*found;
}

Status Catalog::CheckReadableId(std::string_view id) const {
  for (const Unreadable& one : unreadable) {
    if (lvm::BearsId(one.lv->tags, id)) {
      return Error(Code::kPrecondition,
                   fmt::format("volume_id: volume {} is logical volume {}/{}, whose tags this build cannot "
                               "read ({}): use the quarryd version that made it, or correct its tags",
                               id, group->name, one.lv->name, one.why));
    }
  }
  return Ok();
}

Status Catalog::CheckReadableName(std::string_view co_name) const {
  for (const Unreadable& one : unreadable) {
    if (lvm::BearsName(one.lv->tags, co_name)) {
      return Error(Code::kAlreadyExists,
                   fmt::format("name: the volume of this name is logical volume {}/{}, whose tags this build "
                               "cannot read ({}): use the quarryd version that made it, or correct its tags",
                               group->name, one.lv->name, one.why));
    }
  }
  return Ok();
}

Catalog ReadCatalog(const std::string& pool, const lvm::Snapshot& group, const Catalog* last) {
  Catalog catalog{.group = group, .weak = {}, .records = {}, .stray_legs = {}};
  std::unordered_map<std::string_view, const Record*> known;  // by the LV's uuid
  if (last != nullptr) {
    for (const Record& record : last->records) {
      known.emplace(record.lv->uuid, &record);
    }
  }
  for (const lvm::LogicalVolume& lv : group->lvs) {
    if (lv.hidden) {
      continue;  // legs have copies of the marker with which their volume was created
    }
    if (const auto same = known.find(lv.uuid);
        same != known.end() && same->second->pool == pool && same->second->lv->name == lv.name &&
        same->second->lv->tags == lv.tags && lvm::IsOurLvName(lv.name)) {
      Record& record = catalog.records.emplace_back(*same->second);
      record.group = group;
      record.lv = &lv;
      continue;
    }
    if (!lvm::Replaces(lv.tags).empty()) {
      continue;  // no volume: it becomes, or was, the metadata of a store (store_metadata.h)
    }
    auto tags = lvm::ParseTags(lv.tags);
    if (const std::string_view volume = lvm::OurLvNameIn(lv.name); !volume.empty()) {
      // LVM shows this leg because LVM was killed between making and hiding it. The leg goes with its volume.
      // Without a volume, both its name and its tag must be Quarry's.
      if (IsEndedLeg(lv, tags)) {
        catalog.records.push_back(Record{pool, group, &lv, std::move(**tags)});
      } else if (tags.has_value() && tags->has_value() && group->FindLv(volume) == nullptr) {
        catalog.stray_legs.push_back(lv.name);
      }
      continue;
    }
    if (lvm::IsHalfMadeStore(*group, lv)) {
      catalog.records.push_back(Record{pool, group, &lv, {.state = lvm::VolumeState::kCreating}});
    } else if (!tags.has_value()) {
      catalog.unreadable.push_back({&lv, tags.error().message()});
    } else if (tags->has_value() && (*tags)->store) {
      AddStore(catalog, pool, lv, std::move(**tags));
    } else if (tags->has_value() && (*tags)->state == lvm::VolumeState::kCreating &&
               !lvm::IsOurLvName(lv.name)) {
      // The next start removes LVs with the marker, so the LV must have a Quarry name as well.
      catalog.unreadable.push_back(
          {&lv, fmt::format("it has tag {} but not a name that Quarry gives", lvm::kCreatingTag)});
    } else if (tags->has_value()) {
      catalog.records.push_back(Record{pool, group, &lv, std::move(**tags)});
    }
  }
  std::sort(catalog.records.begin(), catalog.records.end(),
            [](const Record& a, const Record& b) { return SortKey(a) < SortKey(b); });
  std::ranges::sort(catalog.stores, {}, [](const Store& store) { return store.name(); });
  FindTakenOut(catalog);
  return catalog;
}

Volume Describe(const Record& record) {
  Volume volume{.id = record.tags.id,
                .name = record.tags.co_name,
                .size = record.tags.size,
                .pool = record.pool,
                .context = {},
                .source = SourceOf(record.tags),
                .s3 = record.tags.s3};
  // The profile is written once and never edited, so this part of the context never changes.
  if (record.profile.has_value()) {
    volume.context = {{"pool", record.profile->pool}, {"type", std::string(record.profile->TypeName())}};
  }
  return volume;
}

VolumeSnapshot DescribeSnapshot(const Record& record) {
  const std::chrono::nanoseconds cut(record.tags.cut);
  return {.id = record.tags.id,
          .name = record.tags.co_name,
          .source = record.tags.source,
          .size = LeastSize(record),
          .cut = std::chrono::sys_time<std::chrono::nanoseconds>(cut),
          .pool = record.pool,
          .group = record.tags.group};
}

std::string GroupIdOf(std::string_view leader) {
  return fmt::format("{}{}", leader, kGroupSuffix);
}

std::string LeaderOf(std::string_view group) {
  return std::string(group.ends_with(kGroupSuffix) ? group.substr(0, group.size() - kGroupSuffix.size())
                                                   : group);
}

bool IsUnfinished(const Catalog& catalog, const Record& record) {
  if (record.tags.group.empty() || record.tags.state != lvm::VolumeState::kReady) {
    return false;
  }
  const std::string leader = LeaderOf(record.tags.group);
  return std::ranges::any_of(catalog.records, [&](const Record& other) {
    return other.tags.id == leader && other.tags.state != lvm::VolumeState::kReady;
  });
}

bool IsWholeSnapshot(const Catalog& catalog, const Record& record) {
  return record.tags.snapshot && record.tags.state == lvm::VolumeState::kReady &&
         !IsUnfinished(catalog, record);
}

std::string InWords(const Record& record) {
  if (record.tags.id.empty()) {
    return fmt::format("logical volume {}/{}", record.group->name, record.lv->name);
  }
  return fmt::format("{} {}",
                     IsPart(record)         ? "thin store"
                     : record.tags.snapshot ? "snapshot"
                                            : "volume",
                     record.tags.id);
}

Bytes LeastSize(const Record& record) {
  return record.tags.asked > Bytes{} ? record.tags.asked : ContentLength(record);
}

Bytes ContentLength(const Record& record) {
  return record.tags.snapshot ? record.tags.length : record.tags.size;
}

Result<AccessPlan> PlanAccess(const std::vector<Capability>& capabilities) {
  bool block = false;
  bool mount = false;
  std::string fs_type;
  for (size_t i = 0; i < capabilities.size(); ++i) {
    const Capability& capability = capabilities[i];
    const auto bad = [&](std::string_view field, const std::string& why) {
      return Error(Code::kInvalidArgument, fmt::format("volume_capabilities[{}].{}: {}", i, field, why));
    };
    if (IsMultiNode(capability.mode)) {
      return bad("access_mode", "a node-local volume can be used on one node only");
    }
    if (capability.access == AccessType::kBlock) {
      block = true;
      continue;
    }
    mount = true;
    const std::string wanted =
        capability.fs_type.empty() ? std::string(mount::SupportedFilesystems().front()) : capability.fs_type;
    if (!mount::IsSupportedFilesystem(wanted)) {
      return bad("mount.fs_type", fmt::format("'{}' is not supported; supported are {}", wanted,
                                              fmt::join(mount::SupportedFilesystems(), ", ")));
    }
    if (!fs_type.empty() && fs_type != wanted) {
      return bad("mount.fs_type", fmt::format("'{}' contradicts '{}' asked for earlier", wanted, fs_type));
    }
    fs_type = wanted;
    if (auto options = mount::ParseMountOptions(capability.mount_flags); !options.has_value()) {
      return bad("mount.mount_flags", options.error().message());
    }
  }
  return AccessPlan{block && mount ? Access::kAny : block ? Access::kBlock : Access::kMount, fs_type};
}

Status CheckRealm(const Record& record, Realm realm) {
  const bool is_bucket = !record.tags.s3.empty();
  if (realm == Realm::kAll || is_bucket == (realm == Realm::kBuckets)) {
    return Ok();
  }
  if (!is_bucket) {
    return Error(Code::kNotFound, fmt::format("{} is no bucket", InWords(record)));
  }
  return Error(Code::kPrecondition, fmt::format("volume_id: volume {} is bucket '{}': use `quarryctl bucket`",
                                                record.tags.id, record.tags.co_name));
}

std::string UseText(std::string_view access, std::string_view fs_type) {
  return fmt::format("{}{}{}", access, fs_type.empty() ? "" : " ", fs_type);
}

std::optional<std::string> Incompatibility(const Record& record, const Profile& profile,
                                           const CreateRequest& request) {
  const Bytes size = record.tags.size;
  if (size < request.range.required) {
    return fmt::format("capacity_range.required_bytes: the existing volume has {} bytes, {} were asked for",
                       size.value, request.range.required.value);
  }
  if (request.range.limit > Bytes{0} && size > request.range.limit) {
    return fmt::format(
        "capacity_range.limit_bytes: the existing volume has {} bytes, at most {} were asked for", size.value,
        request.range.limit.value);
  }
  if (auto difference = Difference(record.tags.profile, profile); difference.has_value()) {
    return difference;
  }
  if (const ContentSource source = SourceOf(record.tags); source != request.source) {
    const auto origin = [](const ContentSource& from) {
      return from.empty() ? std::string("blank")
                          : fmt::format("a copy of {} {}", from.is_snapshot ? "snapshot" : "volume", from.id);
    };
    return fmt::format("volume_content_source: the existing volume was made as {}, the request is for {}",
                       origin(source), origin(request.source));
  }
  const auto access = PlanAccess(request.capabilities);
  if (access.has_value() && (access->access != record.access || access->fs_type != record.tags.fs_type)) {
    return fmt::format("volume_capabilities: the existing volume was made for {}, the request is for {}",
                       UseText(record.tags.access, record.tags.fs_type),
                       UseText(AccessName(access->access), access->fs_type));
  }
  return std::nullopt;
}

Status CheckAccess(const Record& record, const Capability& capability) {
  const auto refuse = [&](const std::string& why) {
    return Error(Code::kPrecondition, fmt::format("volume_capability: volume {} {}", record.tags.id, why));
  };
  if (IsMultiNode(capability.mode)) {
    return refuse("can be used on one node only");
  }
  const Access wanted = capability.access == AccessType::kBlock ? Access::kBlock : Access::kMount;
  if (record.access != wanted && record.access != Access::kAny) {
    return refuse(wanted == Access::kBlock ? "was created for mounting, not as a raw block device"
                                           : "was created as a raw block device, not for mounting");
  }
  if (wanted == Access::kMount && !capability.fs_type.empty() && capability.fs_type != record.tags.fs_type) {
    return refuse(fmt::format("has file system {}, not {}", record.tags.fs_type, capability.fs_type));
  }
  return Ok();
}

Status CheckAlone(const Record& record) {
  const lvm::VolumeGroup& group = *record.group;
  if (!record.tags.thin && !IsPart(record)) {
    return CheckAlone(group, *record.lv, InWords(record));
  }
  Status alone = IsPart(record) ? lvm::IsAlonePart(group, *record.lv) : IsAloneInStore(group, *record.lv);
  return alone.has_value() ? std::move(alone)
                           : Status(AsObstacle(std::move(alone.error())).Context(InWords(record)));
}

Status CheckAlone(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const std::string& what) {
  auto owned = lvm::OwnedExtents(group, lv);
  if (owned.has_value()) {
    return Ok();
  }
  return AsObstacle(std::move(owned.error())).Context(what);
}

}  // namespace quarry::engine
