// The metadata of the thin pools of a FakeDm.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tests/fakes/fake_dm.h"
#include "tests/fakes/faults.h"
#include "thin/pool_reader_api.h"

namespace quarry::fakes {

// `dm` must outlive it. Faults: "Device", "Mapped", "Exclusive", "MappedBytes", "ExclusiveBytes",
// "Allocated", "Different".
class FakePoolReader final : public thin::PoolReaderApi {
 public:
  explicit FakePoolReader(FakeDm& dm) : dm_(dm) {}
  Result<std::optional<Bytes>> Device(const std::string& metadata, uint32_t id,
                                      const Call& /*call*/) override {
    QUARRY_TRY(faults.Check("Device"));
    return dm_.BytesOfThin(metadata, id);
  }
  Result<uint64_t> CreationTime(const std::string& metadata, uint32_t id, const Call& /*call*/) override {
    return dm_.CreationTimeOfThin(metadata, id);
  }
  Result<thin::MappedRanges> Mapped(const std::string& metadata, uint32_t id, Bytes from,
                                    const thin::WalkLimit& limit, const Call& /*call*/) override {
    QUARRY_TRY(faults.Check("Mapped"));
    if (on_mapped_) {
      on_mapped_();
    }
    return dm_.MappedOfThin(metadata, id, from, limit.ranges);
  }
  Result<thin::OwnRanges> Exclusive(const std::string& metadata, uint32_t id, Bytes from, size_t most,
                                    const Call& /*call*/) override {
    QUARRY_TRY(faults.Check("Exclusive"));
    if (on_exclusive_) {
      on_exclusive_();
    }
    return dm_.ExclusiveOfThin(metadata, id, from, most);
  }

  Result<thin::WalkedRanges> Allocated(const std::string& metadata, uint32_t id, Bytes from,
                                       const thin::WalkLimit& limit, const Call& /*call*/) override {
    QUARRY_TRY(faults.Check("Allocated"));
    if (on_walk_) {
      on_walk_();
    }
    return dm_.AllocatedOfThin(metadata, id, from, Capped(limit));
  }
  Result<thin::WalkedRanges> Different(const std::string& metadata, uint32_t base, uint32_t target,
                                       Bytes from, const thin::WalkLimit& limit,
                                       const Call& /*call*/) override {
    QUARRY_TRY(faults.Check("Different"));
    if (on_walk_) {
      on_walk_();
    }
    return dm_.DifferenceOfThins(metadata, base, target, from, Capped(limit));
  }

  // Called before each answer of Mapped().
  void OnMapped(std::function<void()> hook) { on_mapped_ = std::move(hook); }
  // Called before each answer of Exclusive().
  void OnExclusive(std::function<void()> hook) { on_exclusive_ = std::move(hook); }

  // Called before each answer of Allocated() and Different().
  void OnWalk(std::function<void()> hook) { on_walk_ = std::move(hook); }
  // Allocated() and Different() read at most so many blocks, whatever their limit is.
  void LimitReads(uint64_t most) { most_reads_ = most; }

  Faults faults;

  Result<std::map<uint32_t, Bytes>> MappedBytes(const std::string& metadata, std::span<const uint32_t> ids,
                                                const Call& /*call*/) override {
    QUARRY_TRY(faults.Check("MappedBytes"));
    return Sums(ids, [&](uint32_t id) { return dm_.MappedOfThin(metadata, id, Bytes{}, SIZE_MAX); });
  }
  Result<std::map<uint32_t, Bytes>> ExclusiveBytes(const std::string& metadata, std::span<const uint32_t> ids,
                                                   const Call& call) override {
    QUARRY_TRY(faults.Check("ExclusiveBytes"));
    QUARRY_TRY(call.Check("reading all mappings"));
    return Sums(ids, [&](uint32_t id) { return dm_.ExclusiveOfThin(metadata, id, Bytes{}, SIZE_MAX); });
  }

 private:
  template <typename RangesOf>
  static Result<std::map<uint32_t, Bytes>> Sums(std::span<const uint32_t> ids, const RangesOf& ranges_of) {
    std::map<uint32_t, Bytes> out;
    for (const uint32_t id : ids) {
      const auto found = ranges_of(id);
      if (!found.has_value() && found.error().code() == Code::kNotFound) {
        continue;
      }
      QUARRY_TRY(found);
      for (const thin::ByteRange& range : found->ranges) {
        out[id] = out[id] + range.length;
      }
      out.try_emplace(id);
    }
    return out;
  }
  thin::WalkLimit Capped(const thin::WalkLimit& limit) const {
    return {.ranges = limit.ranges, .reads = std::min(limit.reads, most_reads_)};
  }

  FakeDm& dm_;
  std::function<void()> on_mapped_, on_exclusive_, on_walk_;
  uint64_t most_reads_ = UINT64_MAX;
};

}  // namespace quarry::fakes
