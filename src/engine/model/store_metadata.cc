#include "engine/model/store_metadata.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lvm/names.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

// The volumes of the pool by their ids in it.
std::map<uint32_t, const lvm::LogicalVolume*> VolumesById(const lvm::VolumeGroup& group,
                                                          const lvm::LogicalVolume& pool) {
  std::map<uint32_t, const lvm::LogicalVolume*> out;
  for (const lvm::LogicalVolume& lv : group.lvs) {
    if (lv.pool == pool.name && lv.segments.size() == 1 && lv.segments.front().thin_volume.has_value()) {
      out.emplace(lv.segments.front().thin_volume->device_id, &lv);
    }
  }
  return out;
}

std::string PathOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv) {
  return fmt::format("{}/{}", group.name, lv.name);
}

// Which devices the two do not have in common; empty: they have the same.
std::vector<std::string> Differences(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                                     const thin::StoredPool& stored) {
  std::vector<std::string> out;
  const auto volumes = VolumesById(group, pool);
  for (const auto& [id, lv] : volumes) {
    const auto device = stored.devices.find(id);
    const uint64_t made = lv->segments.front().thin_volume->transaction_id;
    if (device == stored.devices.end()) {
      out.push_back(fmt::format("{} (device {}) is not in the metadata", PathOf(group, *lv), id));
    } else if (device->second.transaction_id != made) {
      out.push_back(
          fmt::format("{} (device {}) was made at transaction {}, and the device in the metadata at {}",
                      PathOf(group, *lv), id, made, device->second.transaction_id));
    }
  }
  for (const auto& [id, device] : stored.devices) {
    if (!volumes.contains(id)) {
      out.push_back(fmt::format("device {} of the metadata, with {}, is not in LVM's text", id,
                                HumanBytes(device.mapped)));
    }
  }
  return out;
}

uint64_t TransactionOf(const lvm::LogicalVolume& pool) {
  return pool.segments.front().thin_pool->transaction_id;
}

const lvm::LogicalVolume* MetadataOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool) {
  const auto parts = lvm::PartsOfPool(group, pool);
  return parts.has_value() ? parts->metadata : nullptr;
}

// Legs of RAID have superblocks, so a text that is older than a move of them cannot start them.
bool IsOnRaid(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool) {
  const auto parts = lvm::PartsOfPool(group, pool);
  return parts.has_value() && parts->data->IsRaid() && parts->metadata->IsRaid();
}

// The id of the metadata is the one that LVM expects.
bool IsExpected(uint64_t has, uint64_t wanted, bool lvm_refused) {
  return has == wanted || (has + 1 == wanted && !lvm_refused);
}

Error CannotBeRead(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, const Error& why) {
  return {
      Code::kCorrupt,
      fmt::format(
          "the metadata of thin store {0} are damaged, and cannot be read completely ({1}): a repair would "
          "leave out what cannot be read, and volumes would lose bytes. Nothing was changed. With quarryd "
          "stopped, `thin_dump --repair` shows what is left, and `lvconvert --repair {0}` keeps no more "
          "than that. Restore what is lost from copies",
          PathOf(group, pool), why.message())};
}

}  // namespace

Result<MetadataVerdict> JudgeMetadata(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                                      const Status& check, const Result<thin::StoredPool>& stored,
                                      bool lvm_refused) {
  const bool damaged = !check.has_value();
  if (damaged && check.error().code() != Code::kCorrupt) {
    return check.error();
  }
  if (!stored.has_value()) {
    if (damaged && stored.error().code() == Code::kCorrupt) {
      return CannotBeRead(group, pool, stored.error());
    }
    // LVM decides by its own check.
    return damaged || lvm_refused ? Result<MetadataVerdict>(stored.error()) : MetadataVerdict::kSound;
  }
  const uint64_t wanted = TransactionOf(pool);
  const uint64_t has = stored->transaction_id;
  const std::vector<std::string> differences = Differences(group, pool, *stored);
  if (!IsExpected(has, wanted, lvm_refused) && (has < wanted || !differences.empty())) {
    return Error(
        Code::kPrecondition,
        fmt::format(
            "thin store {} cannot be started: its metadata have transaction id {}, LVM's text has {}{}{}. "
            "{}. "
            "Nothing was changed. If LVM's text was restored from a backup, restore the text that belongs to "
            "these metadata (vgcfgrestore); if a disk with newer metadata is away, bring it back",
            PathOf(group, pool), has, wanted,
            differences.empty() ? "" : ", and they do not have the same volumes: ",
            fmt::join(differences, "; "),
            has < wanted
                ? "The metadata are older than LVM's text, so they may lack what was written later"
                : "One of the two is older than the other, and nothing proves which volumes are right"));
  }
  if (!IsExpected(has, wanted, lvm_refused) && !IsOnRaid(group, pool)) {
    return Error(
        Code::kPrecondition,
        fmt::format(
            "thin store {} cannot be started: its metadata have transaction id {}, LVM's text has {}. "
            "Nothing proves that its data still lie where this text says, because they are not on RAID. "
            "Nothing was changed. Restore the text that belongs to these metadata (vgcfgrestore)",
            PathOf(group, pool), has, wanted));
  }
  if (damaged) {
    return MetadataVerdict::kRebuild;
  }
  return IsExpected(has, wanted, lvm_refused) ? MetadataVerdict::kSound : MetadataVerdict::kRenumber;
}

Status ProveRepaired(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                     const thin::StoredPool& repaired, const std::map<uint32_t, std::string>& differences) {
  std::vector<std::string> lost;
  const auto volumes = VolumesById(group, pool);
  const uint64_t wanted = TransactionOf(pool);
  for (const auto& [id, words] : differences) {
    const auto volume = volumes.find(id);
    lost.push_back(volume == volumes.end()
                       ? fmt::format("device {} {}", id, words)
                       : fmt::format("{} (device {}) {}", PathOf(group, *volume->second), id, words));
  }
  for (const auto& [id, lv] : volumes) {
    // LVM makes the device of the volume that it was making when it was cut off.
    const bool is_queued = repaired.transaction_id + 1 == wanted &&
                           lv->segments.front().thin_volume->transaction_id == repaired.transaction_id;
    if (!repaired.devices.contains(id) && !is_queued && !differences.contains(id)) {
      lost.push_back(fmt::format("{} (device {}) is not in them", PathOf(group, *lv), id));
    }
  }
  if (lost.empty()) {
    return Ok();
  }
  return Error(
      Code::kCorrupt,
      fmt::format("the repaired metadata of thin store {} are not what the damaged ones were: {}. They "
                  "are not used, and the damaged metadata stay as they are",
                  PathOf(group, pool), fmt::join(lost, "; ")));
}

std::vector<const lvm::LogicalVolume*> UnusedMetadata(const lvm::VolumeGroup& group) {
  std::vector<const lvm::LogicalVolume*> out;
  for (const lvm::LogicalVolume& lv : group.lvs) {
    const std::string replaces = lv.hidden ? "" : lvm::Replaces(lv.tags);
    const auto is_for = [&](const lvm::LogicalVolume& pool) {
      const lvm::LogicalVolume* const metadata = MetadataOf(group, pool);
      const std::string_view own = lvm::KeptMetadataNameIn(lv.name, pool.name);
      // A leg goes with its volume, if that is there.
      // While an exchange is under way, an administrator may have used the new ones, and exchanged them back.
      return metadata != nullptr && metadata->uuid == replaces && !own.empty() &&
             lvm::KeptTags(pool.tags).empty() && (own == lv.name || group.FindLv(own) == nullptr);
    };
    if (!replaces.empty() && std::ranges::any_of(group.lvs, is_for)) {
      out.push_back(&lv);
    }
  }
  return out;
}

std::vector<MetadataExchange> BegunExchanges(const Catalog& catalog) {
  std::vector<MetadataExchange> out;
  for (const Store& store : catalog.stores) {
    for (const std::string& tag : lvm::KeptTags(store.lv->tags)) {
      const std::string uuid = lvm::KeptMetadata(tag);
      const auto former = std::ranges::find(catalog.group->lvs, uuid, &lvm::LogicalVolume::uuid);
      const bool is_kept = former != catalog.group->lvs.end() && !former->hidden;
      out.push_back({.store = &store,
                     .tag = tag,
                     .done = store.metadata->uuid != uuid,
                     .kept = is_kept ? &*former : nullptr});
    }
  }
  return out;
}

std::string FreeKeptName(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool) {
  int number = 0;
  while (group.FindLv(lvm::KeptMetadataName(pool.name, number)) != nullptr) {
    ++number;
  }
  return lvm::KeptMetadataName(pool.name, number);
}

}  // namespace quarry::engine
