#include "engine/model/sizing.h"
#include "engine/model/config.h"

#include <gtest/gtest.h>

#include "tests/unit/engine/group_builder.h"

namespace quarry::engine {
namespace {

constexpr Bytes kExtent{4 * 1024 * 1024};

lvm::Geometry Make(lvm::VolumeType type, uint32_t stripes = 0) {
  return *lvm::Geometry::Make({.type = type, .stripes = stripes});
}

Result<Extents> Create(uint64_t required, uint64_t limit, const lvm::Geometry& geometry, Bytes least = {}) {
  return SizeForCreate({Bytes{required}, Bytes{limit}}, geometry, kExtent, kGiB, least);
}

TEST(SizeForCreate, RoundsUpToExtentsAndStripes) {
  EXPECT_EQ(Create(1, 0, Make(lvm::VolumeType::kLinear))->value, 1U);
  EXPECT_EQ(Create(kExtent.value + 1, 0, Make(lvm::VolumeType::kLinear))->value, 2U);
  EXPECT_EQ(Create(1, 0, Make(lvm::VolumeType::kRaid5, 3))->value, 3U);
}

TEST(SizeForCreate, UsesTheDefaultIfTheRequestNamesNoSize) {
  EXPECT_EQ(Create(0, 0, Make(lvm::VolumeType::kLinear))->value, 256U);
}

TEST(SizeForCreate, ALimitAloneCapsTheDefaultAndRoundsDown) {
  EXPECT_EQ(Create(0, 3 * kExtent.value + 5, Make(lvm::VolumeType::kLinear))->value, 3U);
  EXPECT_EQ(Create(0, 2 * kGiB.value, Make(lvm::VolumeType::kLinear))->value, 256U);
}

TEST(SizeForCreate, ExactSizesAreExact) {
  const uint64_t exact = 6 * kExtent.value;
  EXPECT_EQ(Create(exact, exact, Make(lvm::VolumeType::kRaid5, 3))->value, 6U);
}

TEST(SizeForCreate, ALimitBelowTheRoundedSizeNamesTheNearestSizes) {
  const auto refused = Create(5 * kExtent.value, 5 * kExtent.value, Make(lvm::VolumeType::kRaid5, 3));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kOutOfRange);
  for (const char* word : {"capacity_range.limit_bytes", "12582912", "25165824"}) {
    EXPECT_NE(refused.error().message().find(word), std::string::npos) << refused.error().message();
  }
}

TEST(SizeForCreate, FileSystemsHaveASmallestSize) {
  const Bytes least{300 * kMiB.value};
  EXPECT_EQ(Create(1, 0, Make(lvm::VolumeType::kLinear), least)->value, 75U);
  EXPECT_EQ(Create(1, kMiB.value * 100, Make(lvm::VolumeType::kLinear), least).error().code(),
            Code::kOutOfRange);
}

TEST(SizeForExpand, NeverShrinksAndKeepsASufficientSize) {
  const auto geometry = Make(lvm::VolumeType::kLinear);
  const auto expand = [&](uint64_t required, uint64_t limit) {
    return SizeForExpand({Bytes{required}, Bytes{limit}}, geometry, kExtent, Extents{10});
  };
  EXPECT_EQ(expand(5 * kExtent.value, 0)->value, 10U);
  EXPECT_EQ(expand(10 * kExtent.value + 1, 0)->value, 11U);
  EXPECT_EQ(expand(0, 9 * kExtent.value).error().code(), Code::kOutOfRange);
  EXPECT_EQ(expand(10 * kExtent.value + 1, 10 * kExtent.value + 2).error().code(), Code::kOutOfRange);
}

TEST(PoolSpace, TheReserveIsLeftOutOfEveryCapacity) {
  const Catalog catalog = GroupBuilder({100}).Build();
  const auto linear = Make(lvm::VolumeType::kLinear);
  EXPECT_EQ(lvm::MaxExtents(PoolSpace(catalog, PoolConfig{}), linear).value, 100U);
  EXPECT_EQ(lvm::MaxExtents(
                PoolSpace(catalog, PoolConfig{.name = "", .group = "", .reserve = Bytes{10 * kExtent.value}}),
                linear)
                .value,
            90U);
  EXPECT_EQ(
      lvm::MaxExtents(
          PoolSpace(catalog, PoolConfig{.name = "", .group = "", .reserve = Bytes{1000 * kExtent.value}}),
          linear)
          .value,
      0U);
}

lvm::VolumeTags LinearTags(const char* name, uint64_t extents) {
  return ReadyTags(name, name, extents);
}

TEST(Shares, LimitTheTotalSpaceOfEachType) {
  GroupBuilder builder({100, 100});
  builder.Linear("qaaaaaaaaaaaaaaaaaaaaaaaaaa", 0, {Extents{0}, Extents{30}},
                 lvm::BuildTags(LinearTags("qaaaaaaaaaaaaaaaaaaaaaaaaaa", 30)));
  const Catalog catalog = builder.Build();
  PoolConfig pool;
  pool.shares = {{lvm::VolumeType::kLinear, 20}, {lvm::VolumeType::kRaid1, 50}};
  // 200 extents: 40 for linear, of which 30 are taken; 100 for raid1 in two legs with a metadata extent each;
  // 60 are left.
  EXPECT_EQ(Largest(catalog, pool, Make(lvm::VolumeType::kLinear)).value, 10U);
  EXPECT_EQ(Largest(catalog, pool, Make(lvm::VolumeType::kRaid1)).value, 49U);
  EXPECT_EQ(Largest(catalog, pool, Make(lvm::VolumeType::kStriped)).value, 60U);
  EXPECT_TRUE(CheckRoom(catalog, pool, Make(lvm::VolumeType::kLinear), Extents{10}).has_value());
  const auto refused = CheckRoom(catalog, pool, Make(lvm::VolumeType::kLinear), Extents{11});
  EXPECT_EQ(refused.error().code(), Code::kNoSpace);
  EXPECT_NE(refused.error().message().find("share of linear"), std::string::npos);
}

TEST(Shares, NeverExceedThePlaceableSize) {
  const Catalog catalog = GroupBuilder({100, 10}).Build();
  PoolConfig pool;
  pool.shares = {{lvm::VolumeType::kRaid1, 100}};
  EXPECT_EQ(Largest(catalog, pool, Make(lvm::VolumeType::kRaid1)).value, 9U);
  EXPECT_EQ(Largest(catalog, pool, Make(lvm::VolumeType::kLinear)).value, 0U);
}

TEST(PoolSpaceAfterErasing, JoinsErasedExtentsToTheirNeighbours) {
  lvm::VolumeTags erasing = ReadyTags("qaaaaaaaaaaaaaaaaaaaaaaaaaa", "gone", 20);
  erasing.state = lvm::VolumeState::kErasing;
  GroupBuilder builder({100});
  builder.Linear("qaaaaaaaaaaaaaaaaaaaaaaaaaa", 0, {Extents{40}, Extents{20}}, lvm::BuildTags(erasing));
  const Catalog catalog = builder.Build();
  EXPECT_EQ(ErasingBytes(catalog), Bytes{20 * kExtent.value});
  EXPECT_EQ(lvm::MaxExtents(PoolSpace(catalog, PoolConfig{}), Make(lvm::VolumeType::kLinear)).value, 80U);
  const auto later = PoolSpaceAfterErasing(catalog, PoolConfig{});
  EXPECT_EQ(lvm::MaxExtents(later, Make(lvm::VolumeType::kLinear)).value, 100U);
  ASSERT_EQ(later.pvs.front().free.size(), 1U);
}

}  // namespace
}  // namespace quarry::engine
