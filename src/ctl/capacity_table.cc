#include "ctl/capacity_table.h"

#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ctl/json_text.h"
#include "engine/model/config.h"
#include "engine/model/sizing.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/thin_capacity.h"

namespace quarry::ctl {
namespace {

std::vector<lvm::Geometry> UsualGeometries() {
  using lvm::VolumeType;
  std::vector<lvm::Geometry> usual;
  const auto add = [&](VolumeType type, uint32_t stripes, uint32_t mirrors) {
    auto geometry = lvm::Geometry::Make({.type = type, .stripes = stripes, .mirrors = mirrors});
    if (geometry.has_value()) {
      usual.push_back(std::move(*geometry));
    }
  };
  add(VolumeType::kLinear, 0, 0);
  add(VolumeType::kStriped, 2, 0);
  add(VolumeType::kRaid0, 2, 0);
  add(VolumeType::kRaid1, 0, 1);
  add(VolumeType::kRaid1, 0, 2);
  add(VolumeType::kRaid4, 2, 0);
  add(VolumeType::kRaid5, 2, 0);
  add(VolumeType::kRaid5, 3, 0);
  add(VolumeType::kRaid6, 3, 0);
  add(VolumeType::kRaid10, 2, 0);
  return usual;
}

CapacityRow MakeRow(const lvm::Geometry& geometry, const engine::Catalog& catalog,
                    const engine::PoolConfig& pool, dm::DmApi& dm) {
  const Bytes extent = catalog.group->extent_size;
  CapacityRow row{geometry.Describe(), {}, lvm::Granule(geometry, extent), {geometry.legs()}, ""};
  if (auto there = engine::CheckTarget(dm, geometry); !there.has_value()) {
    row.reason = there.error().message();
    return row;
  }
  if (auto room = engine::CheckMetadataRoom(catalog, engine::MetadataForVolume(geometry));
      !room.has_value()) {
    row.reason = room.error().message();
    return row;
  }
  const Extents most = engine::Largest(catalog, pool, geometry);
  row.largest = ToBytes(most, extent);
  if (most == Extents{0}) {
    // The error that a create of the smallest volume would get.
    auto refused = engine::CheckRoom(catalog, pool, geometry, lvm::RoundUp(geometry, Bytes{1}, extent));
    row.reason = refused.has_value() ? "" : refused.error().message();
  }
  return row;
}

CapacityRow ThinRow(const engine::Profile& profile, const engine::Catalog& catalog,
                    const engine::PoolConfig& pool, dm::DmApi& dm) {
  const engine::CapacityResult capacity = engine::ThinCapacityIn(catalog, pool, profile, Bytes{}, dm);
  return {profile.store.empty() ? std::string(engine::Profile::kThinType)
                                : fmt::format("thin in store {}", profile.store),
          capacity.available,
          catalog.group->extent_size,
          {},
          capacity.reason};
}

std::vector<engine::Profile> StoreProfiles(const engine::PoolConfig& pool, const engine::Catalog& catalog) {
  std::set<std::string> names;
  for (const engine::Store& store : catalog.stores) {
    names.insert(store.name());
  }
  for (const engine::StoreConfig& store : pool.stores) {
    names.insert(store.name);
  }
  std::vector<engine::Profile> out;
  for (const std::string& name : names) {
    out.push_back({.pool = pool.name, .thin = true, .store = name, .geometry = *lvm::Geometry::Make({})});
  }
  return out;
}

}  // namespace

CapacityTable BuildCapacityTable(const engine::PoolConfig& pool, const engine::Catalog& catalog,
                                 const engine::Profile* profile, dm::DmApi& dm) {
  const lvm::VolumeGroup& group = *catalog.group;
  CapacityTable table{.pool = pool.name,
                      .group = group.name,
                      .total = ToBytes(group.extent_count, group.extent_size),
                      .free = ToBytes(group.free_count, group.extent_size),
                      .reserve = pool.reserve,
                      .erasing = engine::ErasingBytes(catalog),
                      .rows = {}};
  std::vector<lvm::Geometry> layouts;
  std::vector<engine::Profile> stores;
  if (profile == nullptr) {
    layouts = UsualGeometries();
    stores = StoreProfiles(pool, catalog);
  } else if (profile->thin) {
    stores.push_back(*profile);
  } else {
    layouts.push_back(profile->geometry);
  }
  for (const lvm::Geometry& geometry : layouts) {
    table.rows.push_back(MakeRow(geometry, catalog, pool, dm));
  }
  for (const engine::Profile& store : stores) {
    table.rows.push_back(ThinRow(store, catalog, pool, dm));
  }
  return table;
}

std::string DrawCapacityTable(const CapacityTable& table) {
  std::string out = fmt::format("pool {}: volume group {}, {} in all, {} free", table.pool, table.group,
                                HumanBytes(table.total), HumanBytes(table.free));
  out += table.erasing > Bytes{0} ? fmt::format(", {} being erased", HumanBytes(table.erasing)) : "";
  out += table.reserve > Bytes{0} ? fmt::format(", {} held in reserve", HumanBytes(table.reserve)) : "";
  out += fmt::format("\n{:<26} {:>14} {:>16} {:>11} {:>6}\n", "profile", "largest", "bytes", "in steps of",
                     "disks");
  for (const CapacityRow& row : table.rows) {
    out += fmt::format("{:<26} {:>14} {:>16} {:>11} {:>6}{}{}\n", row.profile, HumanBytes(row.largest),
                       row.largest.value, HumanBytes(row.granule),
                       row.legs.value == 0 ? "-" : fmt::format("{}", row.legs.value),
                       row.reason.empty() ? "" : "  ", row.reason);
  }
  return out;
}

std::string CapacityJson(const CapacityTable& table) {
  nlohmann::json rows = nlohmann::json::array();
  for (const CapacityRow& row : table.rows) {
    rows.push_back({{"profile", row.profile},
                    {"largest_bytes", row.largest.value},
                    {"granule_bytes", row.granule.value},
                    {"legs", row.legs.value},
                    {"reason", row.reason}});
  }
  const nlohmann::json whole = {{"pool", table.pool},
                                {"group", table.group},
                                {"total_bytes", table.total.value},
                                {"free_bytes", table.free.value},
                                {"erasing_bytes", table.erasing.value},
                                {"reserve_bytes", table.reserve.value},
                                {"profiles", std::move(rows)}};
  return JsonText(whole);
}

}  // namespace quarry::ctl
