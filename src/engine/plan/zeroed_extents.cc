#include "engine/plan/zeroed_extents.h"

#include <algorithm>

namespace quarry::engine {
namespace {

using lvm::ExtentRange;
using lvm::PhysicalRange;

std::vector<ExtentRange> Merged(std::vector<ExtentRange> ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<ExtentRange> out;
  for (const ExtentRange& range : ranges) {
    if (!out.empty() && range.first <= out.back().end()) {
      const Extents end = std::max(out.back().end(), range.end());
      out.back().count = end - out.back().first;
    } else if (range.count.value > 0) {
      out.push_back(range);
    }
  }
  return out;
}

void AppendRange(std::vector<ExtentRange>& to, Extents first, Extents end) {
  if (first < end) {
    to.push_back({first, end - first});
  }
}

}  // namespace

std::map<std::string, std::vector<ExtentRange>> ByPv(const std::vector<PhysicalRange>& ranges) {
  std::map<std::string, std::vector<ExtentRange>> out;
  for (const PhysicalRange& range : ranges) {
    out[range.pv_uuid].push_back(range.range);
  }
  for (auto& [pv, list] : out) {
    list = Merged(std::move(list));
  }
  return out;
}

std::vector<ExtentRange> Without(const std::vector<ExtentRange>& from,
                                 const std::vector<ExtentRange>& taken) {
  std::vector<ExtentRange> out;
  for (const ExtentRange& range : from) {
    Extents at = range.first;
    for (const ExtentRange& hole : taken) {
      if (hole.first < range.end() && at < hole.end()) {
        AppendRange(out, at, std::min(hole.first, range.end()));
        at = std::max(at, hole.end());
      }
    }
    AppendRange(out, at, range.end());
  }
  return out;
}

std::vector<ExtentRange> Common(const std::vector<ExtentRange>& a, const std::vector<ExtentRange>& b) {
  return Without(a, Without(a, b));
}

void ZeroedExtents::Look(const lvm::VolumeGroup& group) {
  const bool ours = seqno_.has_value() && group.uuid == group_uuid_ && group.seqno >= *seqno_ &&
                    group.seqno - *seqno_ <= commits_;
  if (!ours) {
    clear_.clear();
  }
  for (auto& [uuid, ranges] : clear_) {
    // A missing disk may be given to another group before it comes back.
    ranges = group.LacksPv(uuid) ? std::vector<ExtentRange>() : Common(ranges, group.FindPv(uuid)->free);
  }
  group_uuid_ = group.uuid;
  seqno_ = group.seqno;
  commits_ = 0;
  Count();
}

void ZeroedExtents::Count() {
  uint64_t total = 0;
  for (const auto& [pv, ranges] : clear_) {
    for (const ExtentRange& range : ranges) {
      total += range.count.value;
    }
  }
  total_.store(total, std::memory_order_relaxed);
}

void ZeroedExtents::Add(const std::vector<PhysicalRange>& ranges) {
  for (const auto& [pv, more] : ByPv(ranges)) {
    std::vector<ExtentRange>& known = clear_[pv];
    known.insert(known.end(), more.begin(), more.end());
    known = Merged(std::move(known));
  }
  Count();
}

void ZeroedExtents::Forget(const std::vector<PhysicalRange>& ranges) {
  for (const auto& [pv, taken] : ByPv(ranges)) {
    clear_[pv] = Without(clear_[pv], taken);
  }
  Count();
}

std::vector<PhysicalRange> ZeroedExtents::Known() const {
  std::vector<PhysicalRange> out;
  for (const auto& [pv, ranges] : clear_) {
    for (const ExtentRange& range : ranges) {
      out.push_back({pv, range});
    }
  }
  return out;
}

std::vector<PhysicalRange> ZeroedExtents::Unknown(const std::vector<PhysicalRange>& ranges) const {
  std::vector<PhysicalRange> out;
  for (const auto& [pv, wanted] : ByPv(ranges)) {
    const auto known = clear_.find(pv);
    for (const ExtentRange& range : known == clear_.end() ? wanted : Without(wanted, known->second)) {
      out.push_back({pv, range});
    }
  }
  return out;
}

std::vector<PhysicalRange> ExtentsOf(const Plan& plan, bool metadata) {
  std::vector<PhysicalRange> out;
  for (const Action& action : plan) {
    const auto* verify = std::get_if<VerifyLayoutAction>(&action);
    for (const lvm::Leg& leg : verify == nullptr ? std::vector<lvm::Leg>() : verify->placement.legs) {
      out.insert(out.end(), leg.data.begin(), leg.data.end());
      if (metadata) {
        out.insert(out.end(), leg.metadata.begin(), leg.metadata.end());
      }
    }
  }
  return out;
}

uint64_t CommitsOf(const Action& action) {
  if (const auto* change = std::get_if<lvm::Change>(&action); change != nullptr) {
    return lvm::CommitsOf(*change);
  }
  const auto* const remove = std::get_if<RemoveLvAction>(&action);
  return remove == nullptr ? 0 : remove->thin ? 2 * remove->names.size() : 1;
}

}  // namespace quarry::engine
