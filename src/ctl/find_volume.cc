#include "ctl/find_volume.h"

#include <optional>

#include <fmt/format.h>

namespace quarry::ctl {
namespace {

Result<engine::Record> OnlyOne(const std::vector<engine::Record>& named, const std::string& wanted) {
  if (named.size() == 1) {
    return named.front();
  }
  std::vector<std::string> ids;
  for (const engine::Record& record : named) {
    ids.push_back(record.tags.id);
  }
  return Error(Code::kPrecondition,
               fmt::format("several volumes and snapshots have the name '{}': name one by its id: {}", wanted,
                           fmt::join(ids, ", ")));
}

}  // namespace

Result<engine::Catalog> ReadPool(const Bench& bench, const engine::PoolConfig& pool, const Call& call) {
  auto group = bench.lvm.Read(pool.group, call);
  if (!group.has_value()) {
    return std::move(group.error())
        .Context(fmt::format("pool '{}', volume group '{}'", pool.name, pool.group));
  }
  return engine::ReadCatalog(pool.name, *group);
}

Result<engine::Record> FindVolume(const Bench& bench, const std::string& wanted, const Call& call) {
  std::vector<engine::Record> named;
  std::optional<Error> unread;
  for (const engine::PoolConfig& pool : bench.pools) {
    const auto catalog = ReadPool(bench, pool, call);
    if (!catalog.has_value()) {
      unread = catalog.error();
      continue;
    }
    for (const engine::Record& record : catalog->records) {
      if (record.tags.state == lvm::VolumeState::kCreating) {
        continue;
      }
      if (record.tags.id == wanted) {
        return record;
      }
      if (record.tags.co_name == wanted) {
        named.push_back(record);
      }
    }
  }
  if (!named.empty()) {
    return OnlyOne(named, wanted);
  }
  if (unread.has_value()) {
    return Error(Code::kUnavailable,
                 fmt::format("no pool that can be read has a volume '{}'; {}", wanted, unread->message()));
  }
  return Error(Code::kNotFound,
               fmt::format("no volume or snapshot of this node has the id or name '{}': `quarryctl "
                           "status` lists them",
                           wanted));
}

}  // namespace quarry::ctl
