#include "ctl/extent_map.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ctl/json_text.h"
#include "lvm/names.h"

namespace quarry::ctl {
namespace {

constexpr size_t kNameColumn = 14;
constexpr size_t kFreeColumn = 11;
constexpr size_t kLeastCells = 10;
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr char kFreeCell = '.';
constexpr char kMetadataCell = '+';
constexpr char kNoCell = ' ';

std::string_view KindName(const std::optional<lvm::VolumeState>& state) {
  if (!state.has_value()) {
    return "foreign";
  }
  switch (*state) {
    case lvm::VolumeState::kReady:
      return "volume";
    case lvm::VolumeState::kCreating:
      return "half-made";
    case lvm::VolumeState::kErasing:
      return "erasing";
  }
  return "foreign";
}

Owner MakeOwner(const engine::Catalog& catalog, const lvm::LogicalVolume& lv, size_t& letters) {
  Owner owner{.lv_name = lv.name, .name = "", .id = "", .type = lv.segment_type, .size = lv.size};
  const auto next_letter = [&letters] {
    ++letters;
    return letters <= kLetters.size() ? kLetters[letters - 1] : '*';
  };
  for (const engine::Store& store : catalog.stores) {
    if (store.lv == &lv) {
      owner.state = store.tags.state;
      owner.is_store = true;
      owner.name = store.name();
      owner.id = store.tags.id;
      owner.type = store.data->segment_type;
      owner.letter = next_letter();
    }
  }
  const engine::Store* const in = catalog.StoreOf(lv);
  owner.store = in == nullptr ? "" : in->name();
  for (const engine::Record& record : catalog.records) {
    if (record.lv == &lv) {
      owner.state = record.tags.state;
      owner.snapshot = record.tags.snapshot;
      owner.name = record.tags.co_name;
      owner.id = record.tags.id;
      owner.letter = in == nullptr ? next_letter() : kNoCell;
    }
  }
  return owner;
}

// The extents of raid metadata, and of the metadata of thin pools.
std::set<lvm::PhysicalRange> MetadataRanges(const lvm::VolumeGroup& group) {
  std::set<std::string_view> pool_metadata;
  for (const lvm::LogicalVolume& lv : group.lvs) {
    for (const lvm::Segment& segment : lv.segments) {
      if (segment.thin_pool.has_value()) {
        pool_metadata.insert(segment.thin_pool->metadata_lv);
      }
    }
  }
  std::set<lvm::PhysicalRange> out;
  for (const lvm::LogicalVolume& lv : group.lvs) {
    if (lv.hidden && (lv.name.find("_rmeta") != std::string::npos || pool_metadata.contains(lv.name))) {
      for (lvm::PhysicalRange& range : lvm::PhysicalExtents(group, lv)) {
        out.insert(std::move(range));
      }
    }
  }
  return out;
}

struct Cell {
  char letter = kFreeCell;
  size_t owner = SIZE_MAX;
};

// The owner of most of the extents [first, end).
Cell Majority(const ExtentMap& map, const DiskMap& disk, uint64_t first, uint64_t end) {
  std::map<std::pair<size_t, Role>, uint64_t> shares;
  uint64_t taken = 0;
  for (const Run& run : disk.runs) {
    const uint64_t from = std::max(first, run.range.first.value);
    const uint64_t to = std::min(end, run.range.end().value);
    if (from < to) {
      shares[{run.owner, run.role}] += to - from;
      taken += to - from;
    }
  }
  Cell cell;
  uint64_t most = end - first - taken;
  for (const auto& [who, share] : shares) {
    if (share > most) {
      most = share;
      cell = {who.second == Role::kMetadata ? kMetadataCell : map.owners[who.first].letter, who.first};
    }
  }
  return cell;
}

std::string Paint(const Cell& cell, bool colour) {
  if (!colour || cell.owner == SIZE_MAX) {
    return std::string(1, cell.letter);
  }
  // Foreground colours 1-6 and their bright forms: readable on dark and light terminals, neighbours differ.
  static constexpr int kColours[] = {32, 34, 35, 36, 33, 31, 92, 94, 95, 96, 93, 91};
  return fmt::format("\x1b[{}m{}\x1b[0m", kColours[cell.owner % std::size(kColours)], cell.letter);
}

std::string Clip(std::string_view text, size_t width) {
  return text.size() <= width ? std::string(text) : fmt::format("…{}", text.substr(text.size() - width + 1));
}

std::string Bar(const ExtentMap& map, const DiskMap& disk, size_t cells, bool colour) {
  std::string bar;
  const uint64_t total = disk.extents.value;
  const size_t drawn = std::min<uint64_t>(cells, total);
  for (size_t i = 0; i < drawn; ++i) {
    bar += Paint(Majority(map, disk, total * i / drawn, total * (i + 1) / drawn), colour);
  }
  return bar;
}

std::string LegendLine(const Owner& owner, size_t index, bool colour) {
  const std::string what = owner.name.empty() ? owner.lv_name : fmt::format("{} ({})", owner.name, owner.id);
  const std::string kind = owner.state != lvm::VolumeState::kReady
                               ? fmt::format(", {}", KindName(owner.state))
                           : owner.snapshot ? ", snapshot"
                           : owner.is_store ? ", thin store"
                                            : "";
  const std::string in = owner.store.empty() ? "" : fmt::format(", in thin store {}", owner.store);
  return fmt::format("  {} {}: {}, {}{}{}\n", Paint({owner.letter, index}, colour), what, owner.type,
                     HumanBytes(owner.size), kind, in);
}

}  // namespace

ExtentMap BuildMap(const std::string& pool, const engine::Catalog& catalog) {
  const lvm::VolumeGroup& group = *catalog.group;
  ExtentMap map{pool, group.name, group.extent_size, {}, {}};
  for (const lvm::PhysicalVolume& pv : group.pvs) {
    DiskMap disk{
        pv.missing ? "(missing)" : pv.device, pv.uuid, pv.missing, pv.allocatable, pv.extent_count, {}, {}};
    for (const lvm::ExtentRange& range : pv.free) {
      disk.free += range.count;
    }
    map.disks.push_back(std::move(disk));
  }
  const std::set<lvm::PhysicalRange> metadata = MetadataRanges(group);
  size_t letters = 0;
  for (const lvm::LogicalVolume& lv : group.lvs) {
    // LVM's spare is hidden, but no part of a volume.
    if (lv.hidden && !lvm::IsPoolSpareName(lv.name)) {
      continue;
    }
    map.owners.push_back(MakeOwner(catalog, lv, letters));
    for (const lvm::PhysicalRange& range : lvm::PhysicalExtents(group, lv)) {
      for (DiskMap& disk : map.disks) {
        if (disk.pv_uuid == range.pv_uuid) {
          const Role role = metadata.contains(range) ? Role::kMetadata : Role::kData;
          disk.runs.push_back({range.range, map.owners.size() - 1, role});
        }
      }
    }
  }
  for (DiskMap& disk : map.disks) {
    std::sort(disk.runs.begin(), disk.runs.end(),
              [](const Run& a, const Run& b) { return a.range < b.range; });
  }
  return map;
}

std::string DrawMap(const ExtentMap& map, size_t width, bool colour) {
  const size_t fixed = kNameColumn + kFreeColumn + 6;
  const size_t cells = width > fixed + kLeastCells ? width - fixed : kLeastCells;
  std::string out = fmt::format("pool {}: volume group {}, extents of {}\n", map.pool, map.group,
                                HumanBytes(map.extent_size));
  for (const DiskMap& disk : map.disks) {
    const std::string free = HumanBytes(ToBytes(disk.free, map.extent_size));
    out += fmt::format("{:<{}} |{}| {:>{}}\n", Clip(disk.device, kNameColumn), kNameColumn,
                       Bar(map, disk, cells, colour), free, kFreeColumn);
  }
  out += "  . free   + metadata   # unmanaged   (right: free on that disk)\n";
  for (size_t i = 0; i < map.owners.size(); ++i) {
    out += LegendLine(map.owners[i], i, colour);
  }
  return out;
}

std::string MapJson(const ExtentMap& map) {
  nlohmann::json owners = nlohmann::json::array();
  for (const Owner& owner : map.owners) {
    owners.push_back({{"lv", owner.lv_name},
                      {"kind", owner.is_store ? "store" : KindName(owner.state)},
                      {"store", owner.store},
                      {"name", owner.name},
                      {"volume_id", owner.id},
                      {"type", owner.type},
                      {"size_bytes", owner.size.value}});
  }
  nlohmann::json disks = nlohmann::json::array();
  for (const DiskMap& disk : map.disks) {
    nlohmann::json runs = nlohmann::json::array();
    for (const Run& run : disk.runs) {
      runs.push_back({{"first_extent", run.range.first.value},
                      {"extents", run.range.count.value},
                      {"owner", run.owner},
                      {"role", run.role == Role::kMetadata ? "metadata" : "data"}});
    }
    disks.push_back({{"device", disk.device},
                     {"pv_uuid", disk.pv_uuid},
                     {"missing", disk.missing},
                     {"allocatable", disk.allocatable},
                     {"extents", disk.extents.value},
                     {"free_extents", disk.free.value},
                     {"runs", std::move(runs)}});
  }
  const nlohmann::json whole = {{"pool", map.pool},
                                {"group", map.group},
                                {"extent_size_bytes", map.extent_size.value},
                                {"owners", std::move(owners)},
                                {"disks", std::move(disks)}};
  return JsonText(whole);
}

}  // namespace quarry::ctl
