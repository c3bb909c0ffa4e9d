#include "thin/walked_ranges.h"

#include <fcntl.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/scratch_folder.h"
#include "base/unique_fd.h"
#include "tests/unit/thin/histories.h"
#include "tests/unit/thin/metadata_image.h"
#include "thin/pool_reader.h"

namespace quarry::thin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MetadataImage;

constexpr uint64_t kBlock = 65536;  // of the image
constexpr WalkLimit kFree{.ranges = SIZE_MAX, .reads = UINT64_MAX};

ByteRange Blocks(uint64_t begin, uint64_t count) {
  return {{begin * kBlock}, {count * kBlock}};
}

// Device 2 is a snapshot of 1; since then 1 has overwritten 7, 8 and 20, discarded 9, and got 100.
MetadataImage Changed() {
  MetadataImage image(6);
  image.CreateMapped(1, 40);
  image.Snapshot(1, 2);
  image.Map(1, 7);
  image.Map(1, 8);
  image.Unmap(1, 9);
  image.Map(1, 20);
  image.Map(1, 100);
  return image;
}

// What `walk` finds from `from` on, in as many steps as it takes.
template <typename Walk>
std::vector<ByteRange> InSteps(const Walk& walk, uint64_t from, const WalkLimit& limit) {
  std::vector<ByteRange> all;
  Bytes at{from * kBlock};
  while (true) {
    const Result<WalkedRanges> part = walk(at, limit);
    RC_ASSERT(part.has_value());
    RC_ASSERT(part->ranges.size() <= limit.ranges);
    RC_ASSERT(part->whole || part->end > at);
    for (const ByteRange& range : part->ranges) {
      RC_ASSERT(range.offset >= at && range.end() <= part->end);
      // A step may end within a range.
      if (!all.empty() && all.back().end() == range.offset) {
        RC_ASSERT(range.offset == at);
        all.back().length = all.back().length + range.length;
      } else {
        all.push_back(range);
      }
    }
    if (part->whole) {
      return all;
    }
    at = part->end;
  }
}

std::vector<ByteRange> RangesOf(const std::set<uint64_t>& blocks, uint64_t from) {
  std::vector<ByteRange> out;
  for (auto block = blocks.lower_bound(from); block != blocks.end(); ++block) {
    if (!out.empty() && out.back().end() == Bytes{*block * kBlock}) {
      out.back().length = out.back().length + Bytes{kBlock};
    } else {
      out.push_back(Blocks(*block, 1));
    }
  }
  return out;
}

TEST(WalkedRangesTest, OverwrittenDiscardedAndNewChunksAreDifferent) {
  const auto found = FindDifferent(Changed().Source(true), 2, 1, Bytes{}, kFree, Call{});
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_THAT(found->ranges, ElementsAre(Blocks(7, 3), Blocks(20, 1), Blocks(100, 1)));
  EXPECT_TRUE(found->whole);
  EXPECT_THAT(FindDifferent(Changed().Source(true), 1, 1, Bytes{}, kFree, Call{})->ranges, IsEmpty());
}

TEST(WalkedRangesTest, AllocatedChunksAreThoseThatAreMapped) {
  const auto found = FindAllocated(Changed().Source(true), 1, Bytes{}, kFree, Call{});
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_THAT(found->ranges, ElementsAre(Blocks(0, 9), Blocks(10, 30), Blocks(100, 1)));
  EXPECT_TRUE(found->whole);
}

TEST(WalkedRangesTest, AFullAnswerGoesOnBehindItsLastRange) {
  const MetadataImage image = Changed();
  const WalkLimit two{.ranges = 2, .reads = UINT64_MAX};
  const auto first = FindDifferent(image.Source(true), 2, 1, Bytes{}, two, Call{});
  EXPECT_THAT(first->ranges, ElementsAre(Blocks(7, 3), Blocks(20, 1)));
  EXPECT_FALSE(first->whole);
  EXPECT_EQ(first->end, Bytes{21 * kBlock});
  const auto rest = FindDifferent(image.Source(true), 2, 1, first->end, two, Call{});
  EXPECT_THAT(rest->ranges, ElementsAre(Blocks(100, 1)));
  EXPECT_TRUE(rest->whole);
}

// Nothing is found in most steps, and each of them gets further.
TEST(WalkedRangesTest, AStepReadsLittleEvenWhereNothingDiffers) {
  MetadataImage image(6);
  image.Create(1);
  image.Create(2);
  for (uint64_t block = 0; block < 2000; ++block) {  // two trees of their own, with the same data
    image.Map(1, block, block);
    image.Map(2, block, block);
  }
  image.Map(2, 1999);
  Bytes at;
  int steps = 0;
  for (bool whole = false; !whole; ++steps) {
    const auto source = image.Source(true);
    const auto part = FindDifferent(source, 1, 2, at, {.ranges = 10, .reads = 40}, Call{});
    ASSERT_TRUE(part.has_value()) << part.error().message();
    int reads = 0;
    for (const auto& [block, times] : source->read) {
      reads += times;
    }
    EXPECT_LE(reads, 80) << "with what was read ahead";
    EXPECT_THAT(part->ranges, part->whole ? ::testing::SizeIs(1) : ::testing::SizeIs(0));
    whole = part->whole;
    at = part->end;
  }
  EXPECT_GT(steps, 20);
}

// Ends the call while one of its reads is under way.
class SlowSource : public BlockSource {
 public:
  SlowSource(std::shared_ptr<BlockSource> source, int ends_at) : source_(std::move(source)), left_(ends_at) {}
  uint64_t blocks() const override { return source_->blocks(); }
  Status Read(uint64_t first, std::span<std::byte> memory) override {
    if (--left_ == 0) {
      stop.request_stop();
    }
    return source_->Read(first, memory);
  }

  std::stop_source stop;

 private:
  std::shared_ptr<BlockSource> source_;
  int left_;
};

TEST(WalkedRangesTest, AWalkThatTakesTooLongHasWhatItRead) {
  MetadataImage image(6);
  image.Create(1);
  image.Create(2);
  for (uint64_t block = 0; block < 200; ++block) {
    image.Map(1, block, block);
    image.Map(2, block, block);
  }
  for (const uint64_t block : {3U, 80U, 199U}) {
    image.Map(2, block);
  }
  const std::vector<ByteRange> all = {Blocks(3, 1), Blocks(80, 1), Blocks(199, 1)};
  for (const bool different : {false, true}) {
    int parts = 0;
    bool whole = false;
    for (int ends_at = 1; !whole; ++ends_at) {
      SCOPED_TRACE(ends_at);
      const auto source = std::make_shared<SlowSource>(image.Source(true), ends_at);
      const Call call{.stop = source->stop.get_token()};
      const auto part = different ? FindDifferent(source, 1, 2, Bytes{}, kFree, call)
                                  : FindAllocated(source, 2, Bytes{}, kFree, call);
      if (!part.has_value()) {
        EXPECT_EQ(part.error().code(), Code::kCancelled);
        EXPECT_EQ(parts, 0) << "a longer walk has more";
        continue;
      }
      whole = part->whole;
      ASSERT_GT(part->end, Bytes{});
      parts += whole ? 0 : 1;
      std::vector<ByteRange> expected = different ? all : std::vector<ByteRange>{Blocks(0, 200)};
      std::erase_if(expected, [&](const ByteRange& range) { return range.offset >= part->end; });
      if (!different && !whole) {
        expected = {{Bytes{}, part->end}};
      }
      EXPECT_EQ(part->ranges, expected);
    }
    EXPECT_GT(parts, 10);
  }
}

RC_GTEST_PROP(WalkedRangesProperty, AnyStepsFromAnywhereFindWhatTheDevicesDiffer, (uint32_t seed)) {
  const MetadataImage image = testing::RandomPool(seed, 40, 120);
  const auto source = image.Source(true);
  const uint64_t from = *rc::gen::inRange<uint64_t>(0, 140);
  const WalkLimit limit{.ranges = *rc::gen::inRange<size_t>(1, 8),
                        .reads = *rc::gen::inRange<uint64_t>(1, 40)};
  for (const auto& [target, mappings] : image.model()) {
    std::set<uint64_t> mapped;
    for (const auto& [block, data] : mappings) {
      mapped.insert(block);
    }
    const auto allocated = [&](Bytes at, const WalkLimit& most) {
      return FindAllocated(source, target, at, most, Call{});
    };
    RC_ASSERT(InSteps(allocated, from, limit) == RangesOf(mapped, from));
    for (const auto& [base, base_mappings] : image.model()) {
      std::set<uint64_t> different;
      for (const auto& [block, data] : base_mappings) {
        const auto now = mappings.find(block);
        if (now == mappings.end() || now->second != data) {
          different.insert(block);
        }
      }
      for (const auto& [block, data] : mappings) {
        if (!base_mappings.contains(block)) {
          different.insert(block);
        }
      }
      const auto delta = [&](Bytes at, const WalkLimit& most) {
        return FindDifferent(source, base, target, at, most, Call{});
      };
      RC_ASSERT(InSteps(delta, from, limit) == RangesOf(different, from));
    }
  }
}

TEST(WalkedRangesTest, WhatCannotBeAnsweredIsAnError) {
  const MetadataImage image = Changed();
  EXPECT_EQ(FindDifferent(image.Source(true), 1, 3, Bytes{}, kFree, Call{}).error().code(), Code::kNotFound);
  EXPECT_EQ(FindDifferent(image.Source(true), 3, 1, Bytes{}, kFree, Call{}).error().code(), Code::kNotFound);
  EXPECT_EQ(FindAllocated(image.Source(true), 3, Bytes{}, kFree, Call{}).error().code(), Code::kNotFound);
  EXPECT_EQ(FindDifferent(image.Source(), 2, 1, Bytes{}, kFree, Call{}).error().code(), Code::kPrecondition);
  EXPECT_EQ(FindAllocated(image.Source(), 1, Bytes{}, kFree, Call{}).error().code(), Code::kPrecondition);
  MetadataImage huge(6);
  huge.Create(1);
  huge.Create(2);
  huge.Map(1, UINT64_MAX / kBlock + 1);
  EXPECT_EQ(FindAllocated(huge.Source(true), 1, Bytes{}, kFree, Call{}).error().code(), Code::kCorrupt);
  EXPECT_EQ(FindDifferent(huge.Source(true), 2, 1, Bytes{}, kFree, Call{}).error().code(), Code::kCorrupt);
}

// Through a file, as through a device.
TEST(PoolReaderTest, WalksByThePathOfTheMetadata) {
  const auto blocks = Changed().Blocks(true);
  const auto folder = ScratchFolder::Make(::testing::TempDir() + "walked_ranges_XXXXXX");
  ASSERT_TRUE(folder.has_value()) << folder.error().message();
  const std::string path = folder->path() + "/metadata";
  {
    const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const auto size = static_cast<ssize_t>(blocks.size() * kBlockSize);
    ASSERT_EQ(write(file.get(), blocks.data(), blocks.size() * kBlockSize), size);
  }
  PoolReader reader;
  const auto delta = reader.Different(path, 2, 1, Bytes{10 * kBlock}, kFree, Call{});
  ASSERT_TRUE(delta.has_value()) << delta.error().message();
  EXPECT_THAT(delta->ranges, ElementsAre(Blocks(20, 1), Blocks(100, 1)));
  const auto allocated = reader.Allocated(path, 2, Bytes{39 * kBlock}, kFree, Call{});
  ASSERT_TRUE(allocated.has_value()) << allocated.error().message();
  EXPECT_THAT(allocated->ranges, ElementsAre(Blocks(39, 1)));
  EXPECT_EQ(reader.Allocated(path + "-not", 2, Bytes{}, kFree, Call{}).error().code(), Code::kUnavailable);
  EXPECT_EQ(reader.Different(path + "-not", 2, 1, Bytes{}, kFree, Call{}).error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace quarry::thin
