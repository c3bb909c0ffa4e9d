#include "dm/target_lines.h"

#include <libdevmapper.h>

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "dm/line_words.h"

namespace quarry::dm {
namespace {

struct DmPoolDestroy {
  void operator()(dm_pool* pool) const { dm_pool_destroy(pool); }
};
using DmPool = std::unique_ptr<dm_pool, DmPoolDestroy>;

// The position of the first pair of device and offset, the number of pairs, and the sectors that each pair
// maps. nullopt: another type, or not understood.
struct Pairs {
  size_t at;
  uint64_t count;
  uint64_t length;
};
std::optional<Pairs> FindPairs(std::string_view type, uint64_t length,
                               const std::vector<std::string_view>& words) {
  if (type == "linear") {
    return Pairs{0, 1, length};
  }
  if (type == "striped" && words.size() > 2) {
    const auto stripes = Number(words[0]);
    if (stripes.value_or(0) > 0) {
      return Pairs{2, *stripes, length / *stripes};
    }
  }
  if (type == "mirror" &&
      words.size() > 2) {  // log type, number of its arguments, the arguments, number of copies
    const auto arguments = Number(words[1]);
    if (arguments.has_value() && *arguments < words.size() - 2) {
      const auto copies = Number(words[2 + *arguments]);
      if (copies.has_value()) {
        return Pairs{3 + *arguments, *copies, length};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Result<RaidStatus> ParseRaidStatus(const std::string& parameters) {
  const DmPool pool(dm_pool_create("raid status", 1024));
  dm_status_raid* status = nullptr;
  if (!pool || dm_get_status_raid(pool.get(), parameters.c_str(), &status) == 0) {
    return Error(Code::kCorrupt, fmt::format("'{}' is not the status of a raid device", parameters));
  }
  RaidStatus parsed{.type = status->raid_type,
                    .legs = status->dev_health,
                    .in_sync = status->insync_regions,
                    .total = status->total_regions,
                    .action = status->sync_action == nullptr ? "" : status->sync_action,
                    .mismatches = status->mismatch_count};
  if (parsed.legs.size() != status->dev_count || parsed.in_sync > parsed.total || parsed.total == 0) {
    return Error(Code::kCorrupt,
                 fmt::format("the status '{}' of a raid device contradicts itself", parameters));
  }
  return parsed;
}

std::vector<SectorRange> SectorsTaken(std::string_view type, uint64_t length, std::string_view parameters,
                                      std::string_view device) {
  const std::vector<std::string_view> words = Words(parameters);
  const auto named = static_cast<uint64_t>(std::ranges::count(words, device));
  const auto pairs = FindPairs(type, length, words);
  std::vector<SectorRange> out;
  if (pairs.has_value() && pairs->count <= (words.size() - pairs->at) / 2) {
    for (size_t at = pairs->at; at < pairs->at + 2 * pairs->count; at += 2) {
      const auto offset = Number(words[at + 1]);
      if (words[at] == device && offset.has_value()) {
        out.push_back({*offset, pairs->length});
      }
    }
  }
  if (out.size() < named) {  // for example a mirror's log
    return {SectorRange()};
  }
  return out;
}

}  // namespace quarry::dm
