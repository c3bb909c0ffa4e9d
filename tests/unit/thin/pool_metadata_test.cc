#include "thin/pool_metadata.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <map>
#include <ranges>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/scratch_folder.h"
#include "base/unique_fd.h"
#include "tests/unit/thin/histories.h"
#include "tests/unit/thin/metadata_image.h"
#include "thin/exclusive.h"

namespace quarry::thin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MetadataImage;

constexpr uint64_t kBlock = 65536;  // of the image
constexpr Bytes kAll{UINT64_MAX};

std::vector<ByteRange> RangesOf(const ExclusiveRanges& ranges, Bytes largest = kAll, Bytes from = {}) {
  std::vector<ByteRange> out;
  for (auto range = ranges.Next(from, largest); range.has_value();
       range = ranges.Next(range->offset + range->length, largest)) {
    out.push_back(*range);
  }
  return out;
}

ByteRange Blocks(uint64_t begin, uint64_t count) {
  return {{begin * kBlock}, {count * kBlock}};
}

Result<ExclusiveRanges> Find(const MetadataImage& image, std::vector<DeviceId> doomed, bool held = true) {
  return ExclusiveRanges::Find(image.Source(held), doomed, Call{});
}

// Data blocks 0 to 39 are shared, 40 and 41 belong to device 1, and 7 to its snapshot 2.
MetadataImage Shared() {
  MetadataImage image(6);
  image.CreateMapped(1, 40);
  image.Snapshot(1, 2);
  image.Map(1, 7);
  image.Map(1, 100);
  return image;
}

TEST(ExclusiveRangesTest, AdjacentBlocksAreOneRangeInTheOrderOfTheDevice) {
  const MetadataImage image = Shared();
  const auto one = Find(image, {1});
  ASSERT_TRUE(one.has_value()) << one.error().message();
  EXPECT_EQ(one->total(), Bytes{2 * kBlock});
  EXPECT_THAT(RangesOf(*one), ElementsAre(Blocks(40, 2)));
  EXPECT_THAT(RangesOf(*Find(image, {2})), ElementsAre(Blocks(7, 1)));
  EXPECT_THAT(RangesOf(*Find(image, {2, 1})), ElementsAre(Blocks(0, 42)));
  EXPECT_THAT(RangesOf(*Find(image, {})), IsEmpty());
}

TEST(ExclusiveRangesTest, PiecesAreBoundedAndResumeAnywhere) {
  const auto ranges = Find(Shared(), {1});
  ASSERT_TRUE(ranges.has_value());
  EXPECT_THAT(RangesOf(*ranges, {kBlock}), ElementsAre(Blocks(40, 1), Blocks(41, 1)));
  const uint64_t begin = 40 * kBlock;
  EXPECT_THAT(
      RangesOf(*ranges, {kBlock * 3 / 2}),
      ElementsAre(ByteRange{{begin}, {kBlock * 3 / 2}}, ByteRange{{begin + kBlock * 3 / 2}, {kBlock / 2}}));
  EXPECT_THAT(RangesOf(*ranges, kAll, {begin + 512}),
              ElementsAre(ByteRange{{begin + 512}, {2 * kBlock - 512}}));
  EXPECT_THAT(RangesOf(*ranges, kAll, {begin + 2 * kBlock}), IsEmpty());
}

TEST(ExclusiveRangesTest, AnUnknownDeviceIsNotFoundAndAMissingDiskIsNot) {
  EXPECT_EQ(Find(Shared(), {3}).error().code(), Code::kNotFound);
  const std::array<DeviceId, 1> doomed{1};
  EXPECT_EQ(ExclusiveRanges::Find("/dev/quarry-no-such-device", doomed, Call{}).error().code(),
            Code::kUnavailable);
  EXPECT_EQ(BytesOfDevice("/dev/quarry-no-such-device", 1, Call{}).error().code(), Code::kUnavailable);
}

TEST(ExclusiveRangesTest, WithoutAReservationNothingIsAnswered) {
  EXPECT_EQ(Find(Shared(), {1}, false).error().code(), Code::kPrecondition);
  EXPECT_EQ(BytesOfDevice(Shared().Source(), 1, Call{}).error().code(), Code::kPrecondition);
}

RC_GTEST_PROP(ExclusiveRangesProperty, PiecesCoverExactlyTheExclusiveBlocks, (uint32_t seed)) {
  const MetadataImage image = testing::RandomPool(seed, 60, 100);
  const DeviceId doomed = image.model().begin()->first;
  auto reader = MetadataReader::Open(image.Source(true), Root::kHeld, Call{});
  const std::array<DeviceId, 1> ids{doomed};
  const auto blocks = FindExclusive(*reader, ids, Call{});
  const auto ranges = ExclusiveRanges::Find(image.Source(true), ids, Call{});
  RC_ASSERT(blocks.has_value() && ranges.has_value());
  RC_ASSERT(ranges->total().value == blocks->size() * kBlock);
  const Bytes largest{(1 + seed % 7) * kBlock};
  uint64_t covered = 0;
  Bytes end;
  for (const ByteRange& range : RangesOf(*ranges, largest)) {
    RC_ASSERT(range.offset >= end && range.length.value > 0 && range.length <= largest);
    end = range.offset + range.length;
    for (uint64_t at = range.offset.value; at < end.value; at += kBlock) {
      RC_ASSERT(blocks->Contains(at / kBlock));
      ++covered;
    }
  }
  RC_ASSERT(covered == blocks->size());
}

TEST(BytesOfDeviceTest, AnswersForTheMomentOfTheReservation) {
  MetadataImage image = Shared();
  for (const auto& [id, there] : std::map<DeviceId, bool>{{0, false}, {1, true}, {2, true}, {3, false}}) {
    const auto has = BytesOfDevice(image.Source(true), id, Call{});
    ASSERT_TRUE(has.has_value()) << has.error().message();
    EXPECT_EQ(has->has_value(), there) << id;
  }
  image.Delete(1);
  EXPECT_EQ(*BytesOfDevice(image.Source(true), 2, Call{}), Bytes{image.model().at(2).size() * kBlock});
  EXPECT_FALSE(BytesOfDevice(image.Source(true), 1, Call{})->has_value());
}

WalkLimit Most(size_t ranges) {
  return {.ranges = ranges, .reads = UINT64_MAX};
}

TEST(MappedTest, RangesAreWholeBoundedAndResumeAnywhere) {
  const MetadataImage image = Shared();
  const auto one = FindMapped(image.Source(true), 1, Bytes{}, Most(10), Call{});
  ASSERT_TRUE(one.has_value()) << one.error().message();
  EXPECT_THAT(one->ranges, ElementsAre(Blocks(0, 40), Blocks(100, 1)))
      << "wherever they lie on the data device";
  EXPECT_TRUE(one->whole);
  EXPECT_TRUE(one->was_shared);
  const auto first = FindMapped(image.Source(true), 1, Bytes{}, Most(1), Call{});
  EXPECT_THAT(first->ranges, ElementsAre(Blocks(0, 40)));
  EXPECT_FALSE(first->whole);
  const auto rest = FindMapped(image.Source(true), 1, first->ranges.back().end(), Most(1), Call{});
  EXPECT_THAT(rest->ranges, ElementsAre(Blocks(100, 1)));
  EXPECT_TRUE(rest->whole);
  MetadataImage alone = Shared();
  alone.CreateMapped(5, 3);
  EXPECT_FALSE(FindMapped(alone.Source(true), 5, Bytes{}, Most(10), Call{})->was_shared)
      << "the pool had snapshots before";
  MetadataImage large;
  large.CreateMapped(1, 20000);
  constexpr uint64_t kReads = 20;
  std::vector<ByteRange> all;
  for (Bytes at; all.empty() || all.back().length < Bytes{20000 * kBlock};) {
    const auto part = FindMapped(large.Source(true), 1, at, {.ranges = 10, .reads = kReads}, Call{});
    ASSERT_TRUE(part.has_value()) << part.error().message();
    ASSERT_GT(part->end, at) << "no progress";
    ASSERT_EQ(part->ranges.front().offset, at);
    ASSERT_EQ(part->ranges.back().end(), part->end);
    EXPECT_EQ(part->whole, part->end == Bytes{20000 * kBlock});
    all = {{Bytes{}, part->end}};
    at = part->end;
  }
  EXPECT_EQ(FindMapped(alone.Source(true), 6, Bytes{}, Most(10), Call{}).error().code(), Code::kNotFound);
  EXPECT_EQ(FindMapped(alone.Source(false), 5, Bytes{}, Most(10), Call{}).error().code(),
            Code::kPrecondition);
}

TEST(BytesOfDeviceTest, DamageIsNoAnswer) {
  const auto source = Shared().Source(true);
  for (auto& block : source->bytes | std::views::drop(2)) {
    block[100] ^= std::byte{1};
  }
  EXPECT_EQ(BytesOfDevice(source, 3, Call{}).error().code(), Code::kCorrupt);
}

// Through a file, as through a device.
TEST(BytesOfDeviceTest, ReadsAMetadataDeviceByItsPath) {
  const auto blocks = Shared().Blocks(true);
  const auto folder = ScratchFolder::Make(::testing::TempDir() + "pool_metadata_XXXXXX");
  ASSERT_TRUE(folder.has_value()) << folder.error().message();
  const std::string path = folder->path() + "/metadata";
  {
    const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const auto size = static_cast<ssize_t>(blocks.size() * kBlockSize);
    ASSERT_EQ(write(file.get(), blocks.data(), blocks.size() * kBlockSize), size);
  }
  const auto has = BytesOfDevice(path, 2, Call{});
  ASSERT_TRUE(has.has_value()) << has.error().message();
  EXPECT_TRUE(has->has_value());
  const std::array<DeviceId, 1> doomed{2};
  EXPECT_EQ(ExclusiveRanges::Find(path, doomed, Call{})->total(), Bytes{kBlock});
}

}  // namespace
}  // namespace quarry::thin
