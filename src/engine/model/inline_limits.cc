#include "engine/model/inline_limits.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/model/config.h"

namespace quarry::engine {
namespace {

constexpr std::string_view kCallersOwn = "csi.storage.k8s.io/";

Error Refuse(std::string_view attribute, std::string_view what) {
  return Error(Code::kInvalidArgument, fmt::format("volume_context['{}']: {}", attribute, what));
}

Extents PhysicalExtentsOf(const lvm::Placement& placement) {
  Extents sum;
  for (const lvm::Leg& leg : placement.legs) {
    for (const auto* ranges : {&leg.data, &leg.metadata}) {
      for (const lvm::PhysicalRange& range : *ranges) {
        sum += range.range.count;
      }
    }
  }
  return sum;
}

}  // namespace

EphemeralMost EphemeralMostOf(const std::vector<PoolConfig>& pools, Bytes general, const PoolConfig& pool) {
  const bool any =
      std::ranges::any_of(pools, [](const PoolConfig& config) { return config.ephemeral.most.has_value(); });
  if (!any) {
    return {general, "--ephemeral-max-size"};
  }
  return {pool.ephemeral.most.value_or(Bytes{}), fmt::format("ephemeral of pool '{}'", pool.name)};
}

Status CheckEphemeralRequest(const EphemeralMost& most, const PoolConfig& pool,
                             const EphemeralRequest& request) {
  if (most.size == Bytes{0}) {
    return Refuse(
        "csi.storage.k8s.io/ephemeral",
        fmt::format("inline volumes are not permitted in pool '{}' on this node; quarryd's setting {} "
                    "permits them, up to a size",
                    pool.name, most.setting));
  }
  std::vector<std::string> given;
  for (const auto& [key, unused] : request.parameters) {
    if (!key.starts_with(kCallersOwn)) {
      given.push_back(key);
    }
  }
  if (request.size > Bytes{0}) {
    given.emplace_back("size");
  }
  for (const std::string& key : given) {
    if (!pool.ephemeral.attributes.contains(key)) {
      return Refuse(key, fmt::format("pods may not set it; ephemeral-attributes of pool '{}' permits: {}",
                                     pool.name, fmt::join(pool.ephemeral.attributes, ", ")));
    }
  }
  if (request.size > most.size) {
    return Refuse("size", fmt::format("is {} bytes; an inline volume may have at most {} ({})",
                                      request.size.value, most.size.value, most.setting));
  }
  return Ok();
}

Status CheckEphemeralRoom(const Catalog& catalog, const PoolConfig& pool, const lvm::Placement& placement) {
  const EphemeralLimits& limits = pool.ephemeral;
  size_t volumes = 0;
  Extents taken;
  for (const Record& record : catalog.records) {
    if (!record.tags.ephemeral) {
      continue;
    }
    ++volumes;
    for (const lvm::PhysicalRange& range : lvm::PhysicalExtents(*catalog.group, *record.lv)) {
      taken += range.range.count;
    }
  }
  if (limits.most_volumes > 0 && volumes >= limits.most_volumes) {
    return Error(Code::kNoSpace, fmt::format("there are {} inline volumes, including those being erased, and "
                                             "ephemeral-max-count of pool '{}' is {}",
                                             volumes, pool.name, limits.most_volumes));
  }
  const Bytes extent = catalog.group->extent_size;
  const Bytes more = ToBytes(PhysicalExtentsOf(placement), extent);
  if (limits.total > Bytes{0} && ToBytes(taken, extent) + more > limits.total) {
    return Error(Code::kNoSpace,
                 fmt::format("inline volumes take {} of the disks, including all legs and volumes being "
                             "erased; this volume needs {}; ephemeral-total of pool '{}' is {}",
                             HumanBytes(ToBytes(taken, extent)), HumanBytes(more), pool.name,
                             HumanBytes(limits.total)));
  }
  return Ok();
}

}  // namespace quarry::engine
