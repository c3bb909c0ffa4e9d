#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/lvm/layout_groups.h"

namespace quarry::lvm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::MakeGeometry;
using ::testing::StartsWith;

TEST(Geometry, EachTypeHasTheLegsThatItsNameMeans) {
  struct Case {
    VolumeType type;
    uint32_t stripes, mirrors, data_legs, legs;
    bool metadata;
  };
  for (const Case& c : {
           Case{VolumeType::kLinear, 0, 0, 1, 1, false},
           Case{VolumeType::kStriped, 3, 0, 3, 3, false},
           Case{VolumeType::kRaid0, 4, 0, 4, 4, false},
           Case{VolumeType::kRaid1, 0, 2, 1, 3, true},
           Case{VolumeType::kRaid4, 2, 0, 2, 3, true},
           Case{VolumeType::kRaid5, 3, 0, 3, 4, true},
           Case{VolumeType::kRaid6, 3, 0, 3, 5, true},
           Case{VolumeType::kRaid10, 2, 1, 2, 4, true},
       }) {
    const Geometry made = MakeGeometry(c.type, c.stripes, c.mirrors);
    EXPECT_EQ(made.data_legs(), c.data_legs) << TypeName(c.type);
    EXPECT_EQ(made.legs(), c.legs) << TypeName(c.type);
    EXPECT_EQ(made.has_metadata(), c.metadata) << TypeName(c.type);
  }
}

TEST(Geometry, DefaultsAreTheMinimumOfTheType) {
  EXPECT_EQ(MakeGeometry(VolumeType::kStriped).data_legs(), 2);
  EXPECT_EQ(MakeGeometry(VolumeType::kRaid1).legs(), 2);
  EXPECT_EQ(MakeGeometry(VolumeType::kRaid5).legs(), 3);
  EXPECT_EQ(MakeGeometry(VolumeType::kRaid6).legs(), 5);
  EXPECT_EQ(MakeGeometry(VolumeType::kRaid10).legs(), 4);
  EXPECT_EQ(MakeGeometry(VolumeType::kRaid5).stripe_size(), Bytes{65536});
  EXPECT_EQ(MakeGeometry(VolumeType::kRaid5).region_size(), Bytes{2 * kMiB.value});
  EXPECT_EQ(MakeGeometry(VolumeType::kRaid1).stripe_size(), Bytes{});
  EXPECT_EQ(MakeGeometry(VolumeType::kRaid0).region_size(), Bytes{});
}

GeometryRequest Request(VolumeType type, uint32_t stripes, uint32_t mirrors, uint64_t stripe_kib,
                        uint64_t region_kib, bool integrity = false) {
  return {type, stripes, mirrors, Bytes{stripe_kib * kKiB.value}, Bytes{region_kib * kKiB.value}, integrity};
}

struct Refused {
  GeometryRequest request;
  std::string_view parameter;
};

TEST(Geometry, RefusesWhatLvmWouldRefuseOrChange) {
  using enum VolumeType;
  const std::vector<Refused> cases = {
      {Request(kLinear, 2, 0, 0, 0), "stripes"},           {Request(kRaid1, 2, 0, 0, 0), "stripes"},
      {Request(kStriped, 1, 0, 0, 0), "stripes"},          {Request(kStriped, 129, 0, 0, 0), "stripes"},
      {Request(kRaid0, 65, 0, 0, 0), "stripes"},           {Request(kRaid5, 1, 0, 0, 0), "stripes"},
      {Request(kRaid5, 64, 0, 0, 0), "stripes"},           {Request(kRaid6, 2, 0, 0, 0), "stripes"},
      {Request(kRaid6, 63, 0, 0, 0), "stripes"},           {Request(kRaid10, 33, 0, 0, 0), "stripes"},
      {Request(kLinear, 0, 1, 0, 0), "mirrors"},           {Request(kRaid5, 0, 1, 0, 0), "mirrors"},
      {Request(kRaid10, 0, 2, 0, 0), "mirrors"},           {Request(kRaid1, 0, 64, 0, 0), "mirrors"},
      {Request(kLinear, 0, 0, 64, 0), "stripesize"},       {Request(kRaid1, 0, 0, 64, 0), "stripesize"},
      {Request(kStriped, 0, 0, 96, 0), "stripesize"},      {Request(kStriped, 0, 0, 2, 0), "stripesize"},
      {Request(kStriped, 0, 0, 2 << 20, 0), "stripesize"}, {Request(kRaid0, 0, 0, 0, 2048), "regionsize"},
      {Request(kRaid1, 0, 0, 0, 3072), "regionsize"},      {Request(kRaid1, 0, 0, 0, 1), "regionsize"},
      {Request(kRaid5, 0, 0, 1024, 64), "regionsize"},     {Request(kRaid1, 0, 0, 0, 0, true), "integrity"},
      {Request(kLinear, 0, 0, 0, 0, true), "integrity"},
  };
  for (const Refused& c : cases) {
    const auto made = Geometry::Make(c.request);
    ASSERT_FALSE(made.has_value()) << TypeName(c.request.type) << " " << c.parameter;
    EXPECT_EQ(made.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(made.error().message(), StartsWith(std::string(c.parameter) + ":"));
  }
}

TEST(Geometry, AcceptsTheLimitsThemselves) {
  using enum VolumeType;
  for (const GeometryRequest& request : {
           Request(kStriped, 128, 0, 0, 0),
           Request(kRaid0, 64, 0, 0, 0),
           Request(kRaid1, 0, 63, 0, 0),
           Request(kRaid5, 63, 0, 0, 0),
           Request(kRaid6, 62, 0, 0, 0),
           Request(kRaid10, 32, 1, 0, 0),
           Request(kStriped, 0, 0, 4, 0),
           Request(kRaid5, 0, 0, 1024, 1024),
           Request(kRaid1, 0, 0, 0, 1048576),
       }) {
    const auto made = Geometry::Make(request);
    EXPECT_TRUE(made.has_value()) << made.error().message();
  }
}

TEST(Geometry, AStripeLargerThanTheDefaultRegionRaisesTheRegion) {
  const auto made = Geometry::Make(Request(VolumeType::kRaid5, 0, 0, 4096, 0));
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->region_size(), Bytes{4 * kMiB.value});
}

TEST(Geometry, EveryTypeNameParsesBackAndOthersDoNot) {
  for (const Geometry& geometry : testing::SmallGeometries(6)) {
    const auto parsed = ParseVolumeType(TypeName(geometry.type()));
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(*parsed, geometry.type());
  }
  for (const std::string_view word : {"", "mirror", "RAID1", "raid", "raid5_ls", "thin"}) {
    const auto parsed = ParseVolumeType(word);
    ASSERT_FALSE(parsed.has_value()) << word;
    EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(parsed.error().message(), AllOf(StartsWith("type:"), HasSubstr("raid10")));
  }
}

TEST(Geometry, StripesMustDivideTheExtentsOfTheGroup) {
  const auto wide = Geometry::Make(Request(VolumeType::kStriped, 0, 0, 8192, 0));
  ASSERT_TRUE(wide.has_value());
  const Status status = CheckExtentSize(*wide, Bytes{4 * kMiB.value});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code(), Code::kOutOfRange);
  EXPECT_THAT(status.error().message(), HasSubstr("stripesize"));
  // lvm2 accepts extents of any multiple of 128 KiB.
  const auto quarter = Geometry::Make(Request(VolumeType::kStriped, 0, 0, 256, 0));
  ASSERT_TRUE(quarter.has_value());
  EXPECT_FALSE(CheckExtentSize(*quarter, Bytes{384 * kKiB.value}).has_value());
  EXPECT_TRUE(CheckExtentSize(*quarter, Bytes{768 * kKiB.value}).has_value());
}

TEST(Geometry, MetadataNeedsExtentsThatHoldTheLargestBitmap) {
  const Bytes small{256 * kKiB.value};
  EXPECT_FALSE(CheckExtentSize(MakeGeometry(VolumeType::kRaid1), small).has_value());
  EXPECT_TRUE(CheckExtentSize(MakeGeometry(VolumeType::kRaid1), kMinRaidExtent).has_value());
  EXPECT_TRUE(CheckExtentSize(MakeGeometry(VolumeType::kLinear), small).has_value());
  EXPECT_TRUE(CheckExtentSize(MakeGeometry(VolumeType::kRaid0), small).has_value());
}

TEST(RoundUp, GoesToWholeGranulesAndNeverDown) {
  const Bytes extent{4 * kMiB.value};
  const Geometry raid5 = MakeGeometry(VolumeType::kRaid5, 3);
  EXPECT_EQ(Granule(raid5, extent), Bytes{12 * kMiB.value});
  EXPECT_EQ(RoundUp(raid5, Bytes{1}, extent), Extents{3});
  EXPECT_EQ(RoundUp(raid5, Bytes{12 * kMiB.value}, extent), Extents{3});
  EXPECT_EQ(RoundUp(raid5, Bytes{12 * kMiB.value + 1}, extent), Extents{6});
  EXPECT_EQ(RoundUp(raid5, Bytes{0}, extent), Extents{3});
  EXPECT_EQ(RoundUp(MakeGeometry(VolumeType::kLinear), Bytes{10 * kGiB.value}, extent), Extents{2560});
}

TEST(RoundUp, TheLargestNumberOfBytesDoesNotOverflow) {
  const Bytes all{std::numeric_limits<uint64_t>::max()};
  const Extents rounded = RoundUp(MakeGeometry(VolumeType::kRaid6, 62), all, Bytes{kMiB});
  EXPECT_GE(rounded.value, all.value / kMiB.value);
  EXPECT_EQ(rounded.value % 62, 0);
}

TEST(Geometry, DescribesItselfForMessages) {
  EXPECT_EQ(MakeGeometry(VolumeType::kRaid5, 3).Describe(), "raid5 with 3 stripes");
  EXPECT_EQ(MakeGeometry(VolumeType::kRaid1).Describe(), "raid1 with 1 mirror");
  EXPECT_EQ(MakeGeometry(VolumeType::kRaid1, 0, 2).Describe(), "raid1 with 2 mirrors");
  EXPECT_EQ(MakeGeometry(VolumeType::kLinear).Describe(), "linear");
}

}  // namespace
}  // namespace quarry::lvm
