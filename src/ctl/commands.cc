#include "ctl/commands.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ctl/capacity_table.h"
#include "ctl/extent_map.h"
#include "ctl/find_volume.h"
#include "ctl/json_text.h"
#include "engine/model/config.h"
#include "engine/model/sizing.h"
#include "engine/model/thin_space.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/plan_thin.h"
#include "engine/plan/plan_volume.h"

namespace quarry::ctl {
namespace {

std::string Joined(const std::vector<std::string>& documents, bool json) {
  return json ? fmt::format("[{}]\n", fmt::join(documents, ","))
              : fmt::format("{}", fmt::join(documents, "\n"));
}

Result<engine::CreatePlan> PlanOf(const engine::Catalog& catalog, const engine::PoolConfig& pool,
                                  const engine::CreateWish& wish) {
  if (!wish.profile.thin) {
    return engine::PlanCreate(catalog, wish, pool);
  }
  QUARRY_ASSIGN(const engine::Store* const store, engine::FindStore(catalog, pool, wish.profile));
  return engine::PlanCreateThin(catalog, pool, *store, wish);
}

}  // namespace

Result<std::string> ShowCapacity(const Bench& bench, const engine::Parameters& parameters, const Call& call) {
  std::optional<engine::Profile> only;
  if (!parameters.empty()) {
    QUARRY_ASSIGN(only, engine::Profile::Parse(parameters, bench.pools.front().name));
  }
  std::vector<std::string> documents;
  for (const engine::PoolConfig& pool : bench.pools) {
    if (only.has_value() && pool.name != only->pool) {
      continue;
    }
    QUARRY_ASSIGN(const engine::Catalog catalog, ReadPool(bench, pool, call));
    const CapacityTable table =
        BuildCapacityTable(pool, catalog, only.has_value() ? &*only : nullptr, bench.dm);
    documents.push_back(bench.json ? CapacityJson(table) : DrawCapacityTable(table));
  }
  return Joined(documents, bench.json);
}

Result<std::string> ShowMap(const Bench& bench, size_t width, bool colour, const Call& call) {
  std::vector<std::string> documents;
  for (const engine::PoolConfig& pool : bench.pools) {
    QUARRY_ASSIGN(const engine::Catalog catalog, ReadPool(bench, pool, call));
    const ExtentMap map = BuildMap(pool.name, catalog);
    documents.push_back(bench.json ? MapJson(map) : DrawMap(map, width, colour));
  }
  return Joined(documents, bench.json);
}

Result<std::string> ShowPlan(const Bench& bench, const engine::Parameters& parameters, Bytes size,
                             const Call& call) {
  QUARRY_ASSIGN(auto profile, engine::Profile::Parse(parameters, bench.pools.front().name));
  for (const engine::PoolConfig& pool : bench.pools) {
    if (pool.name != profile.pool) {
      continue;
    }
    QUARRY_TRY(engine::CheckTarget(bench.dm, profile.geometry));
    QUARRY_ASSIGN(const engine::Catalog catalog, ReadPool(bench, pool, call));
    QUARRY_ASSIGN(const Extents extents,
                  engine::SizeForCreate({size, {}}, profile.geometry, catalog.group->extent_size, kGiB, {}));
    QUARRY_ASSIGN(const engine::CreatePlan plan,
                  PlanOf(catalog, pool,
                         {"(planned)", profile, {engine::Access::kBlock, ""}, extents, lvm::NewLvName()}));
    QUARRY_TRY(engine::CheckMetadataRoom(catalog, engine::MetadataFor(plan.actions)));
    std::vector<std::string> lines;
    for (const engine::Action& action : plan.actions) {
      lines.push_back(engine::Text(action));
    }
    return bench.json ? nlohmann::json(lines).dump() + "\n" : fmt::format("{}\n", fmt::join(lines, "\n"));
  }
  return Error(Code::kInvalidArgument, fmt::format("no pool '{}' is configured", profile.pool));
}

std::string DiskPlan(const std::vector<engine::DeviceReport>& disks,
                     const std::vector<engine::PoolConfig>& pools, bool json) {
  nlohmann::json rows = nlohmann::json::array();
  std::string text;
  for (const engine::DeviceReport& disk : disks) {
    if (!disk.wanted) {
      text += disk.member ? "" : fmt::format("{} would not be used: {}\n", disk.disk.node, disk.words);
      continue;
    }
    const auto pool = std::ranges::find(pools, disk.pool, &engine::PoolConfig::name);
    const std::string group = pool == pools.end() ? "" : pool->group;
    const bool exists = std::ranges::any_of(
        disks, [&](const engine::DeviceReport& other) { return other.member && other.pool == disk.pool; });
    rows.push_back({{"device", disk.disk.node},
                    {"identity", disk.disk.identity},
                    {"pool", disk.pool},
                    {"volume_group", group},
                    {"rule", disk.rule}});
    text += fmt::format("{} ({} {}, {}) {} volume group {} of pool '{}', by the rule {}\n", disk.disk.node,
                        disk.disk.model, disk.disk.serial, HumanBytes(disk.disk.size),
                        exists ? "would join" : "would be used for a new", group, disk.pool, disk.rule);
  }
  return json ? JsonLine(rows) : text + (rows.empty() ? "no disk would be used\n" : "");
}

}  // namespace quarry::ctl
