#include "engine/calls/unfinished_copies.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "engine/model/sizing.h"

namespace quarry::engine {
namespace {

// While this is so, the eraser does not touch it. The caller has pool.making_mutex.
bool IsKeptNow(const Pool& pool, const std::string& lv_name) ABSL_SHARED_LOCKS_REQUIRED(pool.making_mutex) {
  const auto kept = pool.unfinished.find(lv_name);
  return kept != pool.unfinished.end() && kept->second > std::chrono::steady_clock::now();
}

bool IsKept(Pool& pool, const Record& record) {
  const MutexLock lock(pool.making_mutex);
  return IsUnfinishedCopy(record) && IsKeptNow(pool, record.lv->name);
}

// Whether a call with this wish would make just this copy, and nothing behind its bytes can have been
// discarded by a build that knows no unfinished copies: the rest of a raw volume must read as zeroes.
bool IsWished(const Record& copy, CreateWish wish, Bytes size) {
  wish.lv_name = copy.lv->name;
  lvm::VolumeTags tags = ReadyTags(wish, size);
  tags.state = lvm::VolumeState::kErasing;
  tags.copying = copy.tags.copying;
  tags.cut = copy.tags.cut;
  const bool all_rest = wish.least == size || PolicyOf(copy) != ErasePolicy::kDiscard;
  return all_rest && copy.lv->size == size && lvm::BuildTags(tags) == lvm::BuildTags(copy.tags);
}

}  // namespace

bool IsUnfinishedCopy(const Record& record) {
  return IsErasing(record) && !record.tags.copying.empty() && record.tags.erased.empty() &&
         !record.tags.cow && !record.tags.thin && !record.tags.store;
}

void KeepUnfinished(Parts& parts, Pool& pool, const Catalog& catalog) {
  const SteadyTime until = std::chrono::steady_clock::now() + parts.node.config.copy_keep;
  const MutexLock lock(pool.making_mutex);
  for (const Record& record : catalog.records) {
    if (IsUnfinishedCopy(record)) {
      pool.unfinished.emplace(record.lv->name, until);
    }
  }
}

Result<std::string> FindUnfinished(Parts& parts, Pool& pool, const CreateWish& wish,
                                   const CapacityRange& range, const Call& call) {
  QUARRY_ASSIGN(const auto catalog, parts.node.Read(pool, call));
  CreateWish wanted = wish;
  wanted.node_hash = parts.node.id_hash();
  std::string found;
  for (const Record& record : catalog->records) {
    if (!IsKept(pool, record) || record.tags.co_name != wish.name ||
        record.tags.snapshot != wish.cut.has_value()) {
      continue;
    }
    const auto size = SizeForCreate(range, wish.profile.geometry, catalog->group->extent_size,
                                    parts.node.config.default_size, mount::MinimumSize(wish.access.fs_type));
    if (found.empty() && size.has_value() &&
        IsWished(record, wanted, ToBytes(*size, catalog->group->extent_size))) {
      if (record.lv->partial) {
        return Error(
            Code::kUnavailable,
            fmt::format("the copy {}/{} that an earlier call has begun lacks a disk: return the disk, or "
                        "wait; {} minutes after quarryd's start it is erased, and the next call begins again",
                        catalog->group->name, record.lv->name, parts.node.config.copy_keep.count()));
      }
      found = record.lv->name;
      parts.node.log.Info("an interrupted copy goes on",
                          {{"pool", pool.config.name}, {"lv", found}, {"name", wish.name}});
      continue;
    }
    parts.node.log.Info("an interrupted copy does not go on, because the repeated call wants another one",
                        {{"pool", pool.config.name}, {"lv", record.lv->name}, {"name", wish.name}});
    {
      const MutexLock lock(pool.making_mutex);
      pool.unfinished.erase(record.lv->name);
    }
    parts.erasers.Of(pool).Wake();
  }
  return found;
}

Result<SteadyTime> TakeUnfinished(Parts& parts, Pool& pool, const std::string& lv_name,
                                  std::optional<Copying>& out) {
  SteadyTime until;
  {
    const MutexLock lock(pool.making_mutex);
    if (!IsKeptNow(pool, lv_name)) {
      return Error(Code::kUnavailable, "the interrupted copy is being erased by now: try again");
    }
    until = std::exchange(pool.unfinished[lv_name], SteadyTime::max());
  }
  out.emplace(pool, parts.erasers.Of(pool), lv_name);
  return until;
}

void KeepAgain(Pool& pool, const std::string& lv_name, SteadyTime until) {
  const MutexLock lock(pool.making_mutex);
  pool.unfinished.emplace(lv_name, until);
}

}  // namespace quarry::engine
