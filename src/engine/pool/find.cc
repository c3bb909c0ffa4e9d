// Finds volumes by id, by name, and by their device in the kernel.
#include <algorithm>

#include <fmt/format.h>

#include "engine/model/unmanaged.h"
#include "engine/pool/node.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

// For a pool that may have the volume: LVM's answer may wait for another process that is changing the group.
constexpr milliseconds kAllPatience{10'000};
// A missing group must not read as "there is no such volume".
Error CouldNotLook(Error error) {
  return error.code() == Code::kPrecondition ? std::move(error).As(Code::kUnavailable) : std::move(error);
}

// Whether `dm_name` is device-mapper's name of a logical volume `lv_name` in any group. `lv_name` is a name
// that Quarry gave, without hyphens. Hyphens of the group's name are doubled, so an odd number of them marks
// the joint.
bool IsDmNameOf(std::string_view dm_name, std::string_view lv_name) {
  if (!dm_name.ends_with(lv_name)) {
    return false;
  }
  dm_name.remove_suffix(lv_name.size());
  const size_t last = dm_name.find_last_not_of('-');
  return last != std::string_view::npos && (dm_name.size() - last - 1) % 2 == 1;
}

// What a step of the search for a volume's stack found out.
struct StackAnswer {
  bool decided = false;        // false: the next step has to look
  std::optional<Stack> stack;  // if decided; nullopt: there is none
};

// Looks in the last catalog of each pool. An id always stands for the same logical volume, so a catalog that
// was read earlier is good enough.
Result<StackAnswer> FindInKnown(Node& node, const std::string& id, const lvm::VolumeIdParts& parts) {
  for (const auto& pool : node.pools) {
    std::shared_ptr<const Catalog> known;
    {
      const MutexLock lock(pool->catalog_mutex);
      known = pool->catalog;
    }
    if (const Record* record = known == nullptr ? nullptr : known->ById(id); record != nullptr) {
      QUARRY_ASSIGN(auto stack, node.StackOn(record->DmUuid()));
      return StackAnswer{.decided = true, .stack = std::move(stack)};
    }
    const bool inline_one =
        known != nullptr && std::ranges::any_of(known->records, [&](const Record& record) {
          return record.tags.ephemeral && record.lv->name == parts.lv_name;
        });
    if (inline_one) {
      return StackAnswer{.decided = true, .stack = {}};  // an inline volume is known by its handle only
    }
  }
  return StackAnswer();
}

// Looks for an adopted volume, which keeps the name that its logical volume had before. Only its group shows
// whether that logical volume is still a volume. The group of a pool that was removed from the configuration
// cannot be read; then this search decides nothing, and the kernel's devices are searched next.
Result<StackAnswer> FindAdopted(Node& node, const std::string& id, const lvm::VolumeIdParts& parts,
                                const Call& call) {
  bool unread = !node.FindPool(parts.pool).has_value();
  for (const auto& pool : node.pools) {
    const auto catalog = node.Look(*pool, kOthersPatience, call);
    if (const Record* record = catalog.has_value() ? (*catalog)->ById(id) : nullptr; record != nullptr) {
      QUARRY_ASSIGN(auto stack, node.StackOn(record->DmUuid()));
      return StackAnswer{.decided = true, .stack = std::move(stack)};
    }
    if (!catalog.has_value() || !(*catalog)->CheckReadableId(id).has_value()) {
      unread = true;
    } else if (pool->config.name == parts.pool) {
      return StackAnswer{.decided = true, .stack = {}};
    }
  }
  return StackAnswer{.decided = !unread, .stack = {}};
}

// Looks among device-mapper's devices. A volume that Quarry made is recognized by the name of its device, an
// adopted one by the UUID of its device.
Result<std::optional<Stack>> FindInKernel(Node& node, const lvm::VolumeIdParts& parts) {
  QUARRY_ASSIGN(const std::vector<dm::Device> devices, node.world.dm.List(std::string(lvm::kDmUuidPrefix)));
  for (const dm::Device& device : devices) {
    const bool same = std::ranges::any_of(node.pools, [&](const auto& pool) {
      return !parts.lv_name.empty() && device.name == lvm::DmName(pool->config.group, parts.lv_name);
    });
    if (same || (!parts.lv_uuid.empty() && lvm::IsDmUuidOf(device.uuid, parts.lv_uuid))) {
      return node.StackOn(device.uuid);
    }
  }
  // The group's name is unknown for a pool that is no longer configured. The logical volume's name identifies
  // the volume alone: it has 128 random bits.
  for (const dm::Device& device : devices) {
    if (!parts.lv_name.empty() && IsDmNameOf(device.name, parts.lv_name)) {
      return node.StackOn(device.uuid);
    }
  }
  return std::optional<Stack>();
}

}  // namespace

Result<std::optional<Found>> Node::FindVolume(const std::string& id, const Call& call) {
  return FindId(id, &Catalog::ById, call);
}

Result<std::optional<Found>> Node::FindSnapshot(const std::string& id, const Call& call) {
  return FindId(id, &Catalog::SnapshotById, call);
}

Result<std::optional<Found>> Node::FindId(const std::string& id, Lookup lookup, const Call& call) {
  const auto parts = lvm::ParseVolumeId(id);
  if (!parts.has_value()) {
    return std::optional<Found>();  // Quarry never issues such an id
  }
  Pool* const own = FindPool(parts->pool).value_or(nullptr);
  std::optional<Error> unread;
  if (own != nullptr) {
    const auto catalog = Read(*own, call);
    if (!catalog.has_value()) {
      unread = catalog.error();
    } else if (const Record* record = (**catalog.*lookup)(id); record != nullptr) {
      return std::optional(Found{own, *record});
    } else {
      QUARRY_TRY((*catalog)->CheckReadableId(id));
    }
  }
  const bool decided = own != nullptr && !unread.has_value();
  for (const auto& pool : pools) {
    if (pool.get() == own) {
      continue;
    }
    (void)pool->gate.WaitBriefly(call);
    const auto catalog = Look(*pool, kOthersPatience, call);
    if (!catalog.has_value()) {
      unread = unread.has_value() ? unread : catalog.error();
    } else if (const Record* record = (**catalog.*lookup)(id); record != nullptr) {
      return std::optional(Found{pool.get(), *record});
    } else {
      QUARRY_TRY((*catalog)->CheckReadableId(id));
    }
  }
  if (!decided && unread.has_value()) {
    return CouldNotLook(std::move(*unread));
  }
  return std::optional<Found>();
}

Result<Found> Node::GetVolume(const std::string& id, const Call& call, Realm realm) {
  QUARRY_ASSIGN(auto found, FindVolume(id, call));
  if (!found.has_value()) {
    QUARRY_ASSIGN(const auto foreign, FindForeign(id, call));
    if (foreign.has_value()) {
      return NotAdopted(foreign->record);
    }
    return Error(Code::kNotFound, fmt::format("volume_id: no volume '{}' on this node", id));
  }
  QUARRY_TRY(CheckRealm(found->record, realm));
  return std::move(*found);
}

Status Node::CheckNotElsewhere(const std::string& id, std::string_view kind) const {
  const auto parts = lvm::ParseVolumeId(id);
  if (!parts.has_value() || parts->node_hash.empty()) {
    return Ok();
  }
  const std::string own = lvm::NodeHash(config.node);
  if (parts->node_hash == own) {
    return Ok();
  }
  return Error(
      Code::kPrecondition,
      fmt::format("{0}_id: {0} {1} is not on this node ({2}), and its id names another ({3}): send the "
                  "call to the plugin of the node that made it; if that node is gone for good, let the "
                  "orchestrator forget the {0}",
                  kind, id, own, parts->node_hash));
}

Result<Found> Node::GetForController(const std::string& id, const Call& call, Realm realm) {
  auto found = GetVolume(id, call, realm);
  if (!found.has_value() && found.error().code() == Code::kNotFound && !deleted_here.Has(id)) {
    QUARRY_TRY(CheckNotElsewhere(id));
  }
  return found;
}

Result<Found> Node::GetSnapshot(const std::string& id, const Call& call) {
  QUARRY_ASSIGN(auto found, FindSnapshot(id, call));
  if (!found.has_value()) {
    QUARRY_TRY(deleted_here.Has(id) ? Ok() : CheckNotElsewhere(id, "snapshot"));
    return Error(Code::kNotFound, fmt::format("snapshot_id: no snapshot '{}' on this node", id));
  }
  return std::move(*found);
}

Result<std::optional<Found>> Node::FindByName(const std::string& co_name, Pool* asked, const Call& call) {
  return FindName(co_name, &Catalog::ByName, asked, call);
}

Result<std::optional<Found>> Node::FindSnapshotByName(const std::string& co_name, Pool* asked,
                                                      const Call& call) {
  return FindName(co_name, &Catalog::SnapshotByName, asked, call);
}

// A repeated create asks for the same pool, unless it names none and the default pool has changed. So other
// pools are searched, but one that cannot be read does not prevent the answer.
Result<std::optional<Found>> Node::FindName(const std::string& co_name, Lookup lookup, Pool* asked,
                                            const Call& call) {
  const milliseconds patience = asked == nullptr ? kAllPatience : kOthersPatience;
  std::optional<Error> unread;
  if (asked != nullptr) {
    const auto catalog = Read(*asked, call);
    if (!catalog.has_value()) {
      unread = catalog.error();
    } else if (const Record* record = (**catalog.*lookup)(co_name); record != nullptr) {
      return std::optional(Found{asked, *record});
    }
  }
  for (const auto& pool : pools) {
    if (pool.get() == asked) {
      continue;
    }
    (void)pool->gate.WaitBriefly(call);
    const auto catalog = Look(*pool, patience, call);
    if (!catalog.has_value()) {
      unread = asked == nullptr && !unread.has_value() ? CouldNotLook(catalog.error()) : unread;
    } else if (const Record* record = (**catalog.*lookup)(co_name); record != nullptr) {
      return std::optional(Found{pool.get(), *record});
    }
  }
  return unread.has_value() ? Result<std::optional<Found>>(std::move(*unread)) : std::optional<Found>();
}

Result<std::vector<Found>> Node::FindMembers(const std::string& id, const std::string& name, Pool* own,
                                             const Call& call) {
  std::vector<Pool*> order;
  for (const auto& pool : pools) {
    order.insert(pool.get() == own ? order.begin() : order.end(), pool.get());
  }
  std::vector<Found> out;
  std::optional<Error> unread;
  for (Pool* const pool : order) {
    if (pool != own) {
      (void)pool->gate.WaitBriefly(call);
    }
    const milliseconds patience = own == nullptr ? kAllPatience : kOthersPatience;
    const auto catalog = pool == own ? Read(*pool, call) : Look(*pool, patience, call);
    if (!catalog.has_value()) {
      if (pool == own) {
        return CouldNotLook(catalog.error());
      }
      unread = own == nullptr && !unread.has_value() ? CouldNotLook(catalog.error()) : unread;
      continue;
    }
    for (const Unreadable& one : (*catalog)->unreadable) {
      if (lvm::BearsGroup(one.lv->tags, id, name)) {
        return Error(Code::kPrecondition,
                     fmt::format("a member of the group snapshot is logical volume {}/{}, whose tags this "
                                 "build cannot read ({}): use the quarryd version that made it, or correct "
                                 "its tags",
                                 (*catalog)->group->name, one.lv->name, one.why));
      }
    }
    for (const Record& record : (*catalog)->records) {
      const bool is_one = id.empty() ? record.tags.group_name == name : record.tags.group == id;
      if (is_one && !record.tags.group.empty() && IsWholeSnapshot(**catalog, record)) {
        out.push_back({pool, record});
      }
    }
    if (!out.empty()) {
      return out;
    }
  }
  return unread.has_value() ? Result<std::vector<Found>>(std::move(*unread)) : out;
}

Status Node::CheckReadableName(const std::string& co_name) {
  for (const auto& pool : pools) {
    const MutexLock lock(pool->catalog_mutex);
    const bool is_gone = !pool->told.empty();
    QUARRY_TRY(pool->catalog == nullptr || is_gone ? Ok() : pool->catalog->CheckReadableName(co_name));
  }
  return Ok();
}

Status Node::CheckNoBucket(const std::string& id) {
  for (const auto& pool : pools) {
    const MutexLock lock(pool->catalog_mutex);
    const Record* const record = pool->catalog == nullptr ? nullptr : pool->catalog->ById(id);
    QUARRY_TRY(record == nullptr ? Ok() : CheckRealm(*record, Realm::kVolumes));
  }
  return Ok();
}

Result<std::optional<Stack>> Node::FindStack(const std::string& id, const Call& call) {
  const auto parts = lvm::ParseVolumeId(id);
  if (!parts.has_value()) {
    return std::optional<Stack>();
  }
  QUARRY_ASSIGN(StackAnswer answer, FindInKnown(*this, id, *parts));
  if (!answer.decided && !parts->lv_uuid.empty()) {
    QUARRY_ASSIGN(answer, FindAdopted(*this, id, *parts, call));
  }
  if (answer.decided) {
    return std::move(answer.stack);
  }
  return FindInKernel(*this, *parts);
}

Result<std::optional<Found>> Node::FindForeign(const std::string& id, const Call& call) {
  const auto parts = lvm::ParseVolumeId(id);
  if (!parts.has_value() || parts->lv_uuid.empty()) {
    return std::optional<Found>();
  }
  for (const auto& pool : pools) {
    const bool own = pool->config.name == parts->pool;
    const auto catalog = own ? Read(*pool, call) : Look(*pool, kOthersPatience, call);
    if (!catalog.has_value()) {
      continue;
    }
    for (const lvm::LogicalVolume& lv : (*catalog)->group->lvs) {
      // Compares the UUID only: the pool may have been renamed since the id was shown.
      if (IsForeign(lv) && lvm::ForeignVolumeId(parts->pool, lv.uuid) == id) {
        Record record = ForeignRecord(pool->config.name, **catalog, lv);
        record.tags.id = id;
        return std::optional(Found{pool.get(), std::move(record)});
      }
    }
  }
  return std::optional<Found>();
}

Result<std::optional<Found>> Node::FindEphemeral(const std::string& handle, Pool* asked, const Call& call) {
  QUARRY_ASSIGN(auto found, FindByName(handle, asked, call));
  if (found.has_value() && found->record.tags.ephemeral) {
    return found;
  }
  return std::optional<Found>();
}

Result<Found> Node::GetPublished(const std::string& id, const Call& call) {
  if (!lvm::ParseVolumeId(id).has_value()) {
    QUARRY_ASSIGN(auto found, FindEphemeral(id, nullptr, call));
    if (found.has_value()) {
      return std::move(*found);
    }
  }
  return GetVolume(id, call, Realm::kAll);
}

}  // namespace quarry::engine
