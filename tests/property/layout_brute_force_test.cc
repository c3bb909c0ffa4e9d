// The rule of docs/capacity.md a second time, in the most naive form, tried on every small group.
#include <algorithm>
#include <bit>
#include <random>

#include <gtest/gtest.h>

#include "tests/property/layout_generators.h"

namespace quarry::lvm {
namespace {

using testing::ExpectSound;
using testing::GroupOf;
using testing::Picture;
using testing::Runs;

// Can a leg of `data` extents lie on a PV with these free runs? Tries every selection of runs.
bool LegFits(const Runs& runs, uint64_t data, uint64_t metadata, uint64_t most_runs) {
  for (uint32_t chosen = 1; chosen < (1U << runs.size()); ++chosen) {
    if (std::cmp_greater(std::popcount(chosen), most_runs)) {
      continue;
    }
    uint64_t sum = 0;
    bool can_begin = false;
    for (size_t i = 0; i < runs.size(); ++i) {
      if ((chosen & (1U << i)) != 0) {
        sum += runs[i].count.value;
        can_begin = can_begin || runs[i].count.value >= metadata + 1;
      }
    }
    if (can_begin && sum >= data + metadata) {
      return true;
    }
  }
  return false;
}

// Can a volume with `data` extents per leg be made? Tries every selection of PVs.
bool VolumeFits(const std::vector<Runs>& pvs, const Geometry& geometry, uint64_t data, uint64_t reserve) {
  const uint64_t metadata = geometry.has_metadata() ? 1 : 0;
  const uint64_t most_runs = 1 + 63 / geometry.legs();
  uint64_t total = 0;
  for (const Runs& runs : pvs) {
    for (const ExtentRange& run : runs) {
      total += run.count.value;
    }
  }
  if (geometry.legs() * (data + metadata) + reserve > total) {
    return false;
  }
  for (uint32_t chosen = 0; chosen < (1U << pvs.size()); ++chosen) {
    if (std::cmp_not_equal(std::popcount(chosen), geometry.legs())) {
      continue;
    }
    bool all = true;
    for (size_t i = 0; i < pvs.size(); ++i) {
      all = all && ((chosen & (1U << i)) == 0 || LegFits(pvs[i], data, metadata, most_runs));
    }
    if (all) {
      return true;
    }
  }
  return false;
}

bool LinearFits(const std::vector<Runs>& pvs, uint64_t size, uint64_t reserve, bool may_span) {
  Runs all;
  bool on_one = false;
  for (const Runs& runs : pvs) {
    all.insert(all.end(), runs.begin(), runs.end());
    on_one = on_one || LegFits(runs, size, 0, 64);
  }
  uint64_t total = 0;
  for (const ExtentRange& run : all) {
    total += run.count.value;
  }
  return size + reserve <= total && (on_one || (may_span && LegFits(all, size, 0, 64)));
}

uint64_t NaiveMax(const std::vector<Runs>& pvs, const Geometry& geometry, uint64_t reserve, bool may_span) {
  uint64_t best = 0;
  for (uint64_t data = 1; data < 200; ++data) {
    const bool fits = geometry.type() == VolumeType::kLinear ? LinearFits(pvs, data, reserve, may_span)
                                                             : VolumeFits(pvs, geometry, data, reserve);
    if (!fits) {
      break;
    }
    best = data;
  }
  return best * geometry.data_legs();
}

void Check(const std::vector<Runs>& pvs, const Geometry& geometry, uint64_t reserve, bool may_span) {
  const VolumeGroup group = GroupOf(pvs);
  FreeSpace space = FreeSpaceOf(group);
  space.reserve = {reserve};
  space.linear_may_span = may_span;
  const uint64_t most = MaxExtents(space, geometry).value;
  ASSERT_EQ(most, NaiveMax(pvs, geometry, reserve, may_span))
      << Picture(group) << geometry.Describe() << " reserve " << reserve << " may span " << may_span;
  ASSERT_FALSE(Place(space, geometry, {most + geometry.data_legs()}, group).has_value());
  if (most != 0) {
    const auto plan = Place(space, geometry, {most}, group);
    ASSERT_TRUE(plan.has_value()) << Picture(group) << plan.error().message();
    ExpectSound(space, geometry, *plan);
    ASSERT_FALSE(::testing::Test::HasFailure()) << Picture(group) << geometry.Describe();
  }
}

Runs FromBits(uint32_t bits, uint32_t width) {
  Runs runs;
  for (uint32_t e = 0; e < width; ++e) {
    if ((bits & (1U << e)) == 0) {
      continue;
    }
    if (!runs.empty() && runs.back().end().value == e) {
      runs.back().count += Extents{1};
    } else {
      runs.push_back({{e}, {1}});
    }
  }
  return runs;
}

// Calls `body` with every pattern of free extents on `pvs` disks of `width` extents, ignoring the order of
// the disks.
template <typename Body>
void ForEveryGroup(size_t pvs, uint32_t width, Body body) {
  std::vector<uint32_t> bits(pvs, 0);
  for (;;) {
    std::vector<Runs> free;
    for (const uint32_t b : bits) {
      free.push_back(FromBits(b, width));
    }
    body(free);
    size_t i = 0;
    while (i < pvs && ++bits[i] == (1U << width)) {
      ++i;
    }
    if (i == pvs) {
      return;
    }
    std::fill_n(bits.begin(), i,
                bits[i]);  // keeps the disks in descending order, so each multiset comes once
  }
}

class EverySmallGroup : public ::testing::TestWithParam<std::pair<size_t, uint32_t>> {};

TEST_P(EverySmallGroup, HoldsExactlyWhatTheRuleSays) {
  const auto [pvs, width] = GetParam();
  std::vector<Geometry> geometries = testing::SmallGeometries(static_cast<uint32_t>(pvs));
  size_t cases = 0;
  ForEveryGroup(pvs, width, [&](const std::vector<Runs>& free) {
    if (HasFatalFailure()) {
      return;
    }
    for (const Geometry& geometry : geometries) {
      Check(free, geometry, 0, cases % 2 == 0);
      Check(free, geometry, 1 + cases % 3, cases % 4 < 2);
      cases += 2;
    }
  });
  RecordProperty("cases", static_cast<int>(cases));
  EXPECT_GT(cases, 1000);
}

INSTANTIATE_TEST_SUITE_P(Groups, EverySmallGroup,
                         ::testing::Values(std::pair{2, 7}, std::pair{3, 5}, std::pair{4, 4},
                                           std::pair{5, 3}));

// Volumes with so many legs that each leg may use only one or two runs, so that the limit on runs takes
// effect.
TEST(BruteForce, WideVolumesObeyTheLimitOnRuns) {
  std::mt19937 random(20261121);
  for (int round = 0; round < 300; ++round) {
    std::vector<Runs> pvs(36);
    for (Runs& runs : pvs) {
      uint64_t at = 0;
      for (uint64_t i = random() % 5; i > 0; --i) {
        at += 1 + random() % 3;
        runs.push_back({{at}, {1 + random() % 9}});
        at = runs.back().end().value;
      }
    }
    const VolumeGroup group = GroupOf(pvs);
    for (const uint32_t mirrors : {20U, 21U, 31U, 32U, 35U}) {
      const Geometry geometry = testing::MakeGeometry(VolumeType::kRaid1, 0, mirrors);
      const uint64_t most_runs = 1 + 63 / geometry.legs();
      uint64_t naive = 0;
      for (uint64_t data = 1;; ++data) {
        const auto fitting =
            std::ranges::count_if(pvs, [&](const Runs& r) { return LegFits(r, data, 1, most_runs); });
        if (std::cmp_less(fitting, geometry.legs())) {
          break;
        }
        naive = data;
      }
      const FreeSpace space = FreeSpaceOf(group);
      ASSERT_EQ(MaxExtents(space, geometry).value, naive) << Picture(group) << mirrors;
      if (naive != 0) {
        ExpectSound(space, geometry, *Place(space, geometry, {naive}, group));
      }
    }
  }
}

}  // namespace
}  // namespace quarry::lvm
