// Lists of changed blocks, on fakes: what they have, how they go on, and what is refused.
#include "engine/changed_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "tests/unit/engine/thin_store_world.h"

namespace quarry::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using thin::ByteRange;

ByteRange Chunks(uint64_t begin, uint64_t count) {
  return {{begin * kChunk.value}, {count * kChunk.value}};
}

class ChangedBlocksTest : public ThinStoreTest {
 protected:
  ChangedBlocks& Blocks() { return engine_->changed_blocks(); }
  std::string Cut(const std::string& name, const std::string& source, Parameters parameters = {}) {
    const auto made = engine_->snapshots().Create(
        {.name = name, .source = source, .parameters = std::move(parameters)}, Soon());
    EXPECT_TRUE(made.has_value()) << (made.has_value() ? "" : made.error().message());
    return made.has_value() ? made->snapshot.id : "";
  }
  void WriteChunk(const std::string& id, uint64_t chunk, char byte) {
    Write(id, std::string(kChunk.value, byte), chunk * kChunk.value);
  }
  // As the kernel after a discard.
  void Discard(const std::string& id, uint64_t chunk) {
    const auto fd = dm_.Open(DmUuidOf(id), O_RDWR);
    ASSERT_TRUE(fd.has_value());
    ASSERT_EQ(fallocate(fd->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(chunk * kChunk.value), static_cast<off_t>(kChunk.value)),
              0);
  }
  // A volume of 10 extents with chunks 0 to 9; since the snapshot `base_` chunks 2, 3 and 7 were written,
  // 5 was discarded, and 40 is new in `target_`.
  void MakePair() {
    id_ = Make("one", 10);
    Activate(id_);
    for (uint64_t chunk = 0; chunk < 10; ++chunk) {
      WriteChunk(id_, chunk, 'a');
    }
    base_ = Cut("base", id_);
    for (const uint64_t chunk : {2U, 3U, 7U, 40U}) {
      WriteChunk(id_, chunk, 'b');
    }
    Discard(id_, 5);
    target_ = Cut("target", id_);
    ASSERT_FALSE(HasFailure());
  }
  // All ranges from `offset` on, `most` at a time, as a client sees them.
  template <typename Read>
  static std::vector<ByteRange> All(const Read& read, Bytes offset, size_t most) {
    std::vector<ByteRange> all;
    for (int rounds = 0; rounds < 10'000; ++rounds) {
      const Result<ChangedBatch> batch = read(offset, most);
      if (!batch.has_value()) {
        ADD_FAILURE() << batch.error().message();
        return all;
      }
      EXPECT_LE(batch->ranges.size(), most);
      for (const ByteRange& range : batch->ranges) {
        EXPECT_GE(range.offset, offset);
        EXPECT_LE(range.end(), batch->end);
        EXPECT_GT(range.length, Bytes{});
        if (!all.empty() && all.back().end() == range.offset) {
          all.back().length = all.back().length + range.length;
        } else {
          all.push_back(range);
        }
      }
      if (batch->whole) {
        EXPECT_EQ(batch->end, batch->capacity);
        return all;
      }
      EXPECT_GT(batch->end, offset) << "no progress";
      offset = batch->end;
    }
    ADD_FAILURE() << "no end";
    return all;
  }
  std::vector<ByteRange> Delta(Bytes offset = {}, size_t most = 100) {
    return All([&](Bytes at, size_t n) { return Blocks().Delta(base_, target_, at, n, Soon()); }, offset,
               most);
  }
  std::vector<ByteRange> Allocated(Bytes offset = {}, size_t most = 100) {
    return All([&](Bytes at, size_t n) { return Blocks().Allocated(target_, at, n, Soon()); }, offset, most);
  }
  bool IsHeld() { return (*dm_.ThinPool(PoolUuid()))->held_root.has_value(); }

  std::string id_, base_, target_;
};

TEST_F(ChangedBlocksTest, WrittenDiscardedAndNewChunksChanged) {
  MakePair();
  EXPECT_THAT(Delta(), ElementsAre(Chunks(2, 2), Chunks(5, 1), Chunks(7, 1), Chunks(40, 1)));
  EXPECT_THAT(Allocated(), ElementsAre(Chunks(0, 5), Chunks(6, 4), Chunks(40, 1)));
  const auto batch = Blocks().Delta(base_, target_, Bytes{}, 100, Soon());
  EXPECT_EQ(batch->capacity, Bytes{10 * kExtent.value});
  EXPECT_TRUE(batch->whole);
  EXPECT_FALSE(IsHeld());
  WriteChunk(id_, 1, 'c');
  EXPECT_EQ(Delta().size(), 4U) << "what the volume gets later is in no snapshot";
  EXPECT_THAT(All([&](Bytes at, size_t n) { return Blocks().Delta(base_, base_, at, n, Soon()); }, {}, 5),
              IsEmpty());
}

TEST_F(ChangedBlocksTest, AListGoesOnAtEveryOffsetInBatchesOfEverySize) {
  MakePair();
  const std::vector<ByteRange> delta = Delta(), allocated = Allocated();
  const auto behind = [](const std::vector<ByteRange>& all, Bytes from) {
    std::vector<ByteRange> out;
    for (ByteRange range : all) {
      if (range.end() > from) {
        const Bytes begin = std::max(range.offset, from);
        out.push_back({begin, range.end() - begin});
      }
    }
    return out;
  };
  for (uint64_t half = 0; half <= 84; ++half) {
    for (const uint64_t more : {0U, 1U}) {
      const Bytes from{half * kChunk.value / 2 + more};
      SCOPED_TRACE(from.value);
      EXPECT_EQ(Delta(from, 1 + half % 3), behind(delta, from));
      EXPECT_EQ(Allocated(from, 1 + half % 3), behind(allocated, from));
    }
  }
}

TEST_F(ChangedBlocksTest, ABatchEndsAfterALimitedNumberOfReads) {
  MakePair();
  const std::vector<ByteRange> delta = Delta(), allocated = Allocated();
  reader_.LimitReads(2);
  const auto first = Blocks().Delta(base_, target_, Bytes{}, 100, Soon());
  ASSERT_TRUE(first.has_value()) << first.error().message();
  EXPECT_THAT(first->ranges, IsEmpty()) << "chunks 0 and 1 are equal";
  EXPECT_FALSE(first->whole);
  EXPECT_EQ(first->end, Bytes{2 * kChunk.value});
  EXPECT_FALSE(IsHeld());
  EXPECT_EQ(Delta(), delta);
  EXPECT_EQ(Allocated(), allocated);
}

TEST_F(ChangedBlocksTest, ASnapshotOfTheSmallerVolumeIsComparedToItsEnd) {
  id_ = Make("one", 1);
  Activate(id_);
  WriteChunk(id_, 31, 'a');
  base_ = Cut("base", id_);
  ASSERT_TRUE(engine_->volumes().Expand(id_, {Bytes{3 * kExtent.value}, Bytes{}}, {}, Soon()).has_value());
  WriteChunk(id_, 33, 'b');
  target_ = Cut("target", id_);
  EXPECT_THAT(Delta(), ElementsAre(Chunks(33, 1)));
  EXPECT_THAT(Delta(Bytes{34 * kChunk.value}), IsEmpty());
  const auto batch = Blocks().Delta(base_, target_, Bytes{}, 100, Soon());
  EXPECT_EQ(batch->capacity, Bytes{3 * kExtent.value});
  const auto small = Blocks().Allocated(base_, Bytes{}, 100, Soon());
  EXPECT_EQ(small->capacity, kExtent);
  EXPECT_THAT(small->ranges, ElementsAre(Chunks(31, 1)));
}

// What lies beyond the size of the volume at the base is in no backup of the base, so it counts as changed.
TEST_F(ChangedBlocksTest, BytesBeyondTheBaseAreInTheListAlthoughTheyDidNotChange) {
  MakePair();
  const std::string name = lvm::ParseVolumeId(base_)->lv_name;
  const lvm::Snapshot group = Group();
  const Bytes length{6 * kChunk.value + 512};
  const std::vector<std::string> tags = group->FindLv(name)->tags;
  lvm::VolumeTags read = **lvm::ParseTags(tags);
  read.length = length;
  lvm::ChangeTags change{.group = "vg0", .name = name, .add = {}, .remove = {}};
  const std::vector<std::string> now = lvm::BuildTags(read);
  std::ranges::copy_if(now, std::back_inserter(change.add),
                       [&](const std::string& tag) { return std::ranges::find(tags, tag) == tags.end(); });
  std::ranges::copy_if(tags, std::back_inserter(change.remove),
                       [&](const std::string& tag) { return std::ranges::find(now, tag) == now.end(); });
  ASSERT_TRUE(lvm_.Apply(change, Soon()).has_value());
  const uint64_t end = 10 * kChunk.value;
  EXPECT_THAT(Delta(), ElementsAre(Chunks(2, 2), Chunks(5, 1), ByteRange{length, {end - length.value}},
                                   Chunks(40, 1)));
}

TEST_F(ChangedBlocksTest, OffsetsBeyondTheEndAreRefusedAndTheEndIsEmpty) {
  MakePair();
  const Bytes end{10 * kExtent.value};
  for (const bool delta : {false, true}) {
    const auto at = [&](uint64_t offset) {
      return delta ? Blocks().Delta(base_, target_, {offset}, 10, Soon())
                   : Blocks().Allocated(target_, {offset}, 10, Soon());
    };
    const auto empty = at(end.value);
    ASSERT_TRUE(empty.has_value()) << empty.error().message();
    EXPECT_TRUE(empty->whole && empty->ranges.empty());
    const auto beyond = at(end.value + 1);
    ASSERT_FALSE(beyond.has_value());
    EXPECT_EQ(beyond.error().code(), Code::kOutOfRange);
    EXPECT_THAT(beyond.error().message(), HasSubstr("starting_offset: "));
  }
}

TEST_F(ChangedBlocksTest, WhatIsRefusedNamesItsField) {
  MakePair();
  const auto expect = [&](const Result<ChangedBatch>& refused, Code code, const std::string& field,
                          const std::string& words) {
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), code) << refused.error().message();
    EXPECT_THAT(refused.error().message(), AllOf(::testing::StartsWith(field + ": "), HasSubstr(words)));
  };
  const auto delta = [&](const std::string& base, const std::string& target) {
    return Blocks().Delta(base, target, {}, 10, Soon());
  };
  const auto allocated = [&](const std::string& id) { return Blocks().Allocated(id, {}, 10, Soon()); };
  expect(allocated("none-exist-id"), Code::kNotFound, "snapshot_id", "no snapshot");
  expect(delta("none-exist-id", target_), Code::kNotFound, "base_snapshot_id", "no snapshot");
  expect(delta(base_, "none-exist-id"), Code::kNotFound, "target_snapshot_id", "no snapshot");
  expect(allocated(id_), Code::kNotFound, "snapshot_id", "no snapshot");  // a volume
  expect(delta(target_, base_), Code::kInvalidArgument, "target_snapshot_id", "is older");
  const std::string two = Make("two", 1);
  Activate(two);
  const std::string other = Cut("other", two);
  expect(delta(base_, other), Code::kInvalidArgument, "base_snapshot_id", "different volumes");
  const std::string three = Make("three", 1);
  const std::string thick = Cut("thick", three, {{"type", "linear"}});
  const std::string thin = Cut("thin", three);
  expect(allocated(thick), Code::kPrecondition, "snapshot_id", "make a full backup");
  expect(delta(thick, thin), Code::kPrecondition, "base_snapshot_id", "changes are not tracked");
  const std::string later = Cut("later", three, {{"type", "linear"}});
  expect(delta(thin, later), Code::kPrecondition, "target_snapshot_id", "changes are not tracked");
}

TEST_F(ChangedBlocksTest, AnIdOfAnotherNodeIsNotFoundAndTheErrorSaysWhere) {
  MakePair();
  std::string elsewhere = base_;
  const std::string own = lvm::NodeHash("node-1");
  ASSERT_NE(elsewhere.find(own), std::string::npos);
  elsewhere.replace(elsewhere.find(own), own.size(), lvm::NodeHash("node-2"));
  const auto refused = Blocks().Delta(elsewhere, target_, {}, 10, Soon());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kNotFound);
  EXPECT_THAT(refused.error().message(), HasSubstr("names another node"));
}

TEST_F(ChangedBlocksTest, ASnapshotThatIsDeletedBetweenBatchesEndsTheList) {
  MakePair();
  const auto first = Blocks().Delta(base_, target_, {}, 1, Soon());
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(first->whole);
  ASSERT_TRUE(engine_->snapshots().Delete(base_, Soon()).has_value());
  ASSERT_TRUE(UntilLvs(3));
  // Its device number may go to another one.
  const std::string again = Cut("again", id_);
  const auto next = Blocks().Delta(base_, target_, first->end, 1, Soon());
  ASSERT_FALSE(next.has_value());
  EXPECT_EQ(next.error().code(), Code::kNotFound) << next.error().message();
  EXPECT_FALSE(IsHeld());
}

TEST_F(ChangedBlocksTest, NothingIsHeldAfterABatchHoweverItEnds) {
  MakePair();
  for (const auto& [call, error, code] : std::vector<std::tuple<std::string, Code, Code>>{
           {"Different", Code::kIo, Code::kIo},
           {"Different", Code::kNotFound, Code::kCorrupt},
           {"Different", Code::kPrecondition, Code::kUnavailable},
           {"Different", Code::kCorrupt, Code::kCorrupt}}) {
    reader_.faults.FailNth(call, 1, Error(error, "unwell"));
    const auto refused = Blocks().Delta(base_, target_, {}, 10, Soon());
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), code) << refused.error().message();
    EXPECT_FALSE(IsHeld());
    reader_.faults.Clear();
  }
  EXPECT_EQ(Delta().size(), 4U);
}

TEST_F(ChangedBlocksTest, AHoldThatAKillHasLeftDoesNotMatter) {
  MakePair();
  engine_.reset();
  ASSERT_TRUE(dm_.SendToPool(PoolUuid(), dm::ReserveMetadataSnap{}).has_value());
  Restart();
  EXPECT_EQ(Delta().size(), 4U);
  EXPECT_FALSE(IsHeld());
}

TEST_F(ChangedBlocksTest, AHoldOfAnotherProgramStays) {
  MakePair();
  ASSERT_TRUE(dm_.SendToPool(PoolUuid(), dm::ReserveMetadataSnap{}).has_value());
  const auto refused = Blocks().Delta(base_, target_, {}, 10, Soon());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kUnavailable);
  EXPECT_THAT(refused.error().message(), HasSubstr("release_metadata_snap"));
  EXPECT_FALSE(Create("refused", 1).has_value());
  EXPECT_TRUE(IsHeld());
  ASSERT_TRUE(dm_.SendToPool(PoolUuid(), dm::ReleaseMetadataSnap{}).has_value());
  EXPECT_EQ(Delta().size(), 4U);
}

TEST_F(ChangedBlocksTest, WhatWasReadWhileTheHoldWasReleasedIsNoAnswer) {
  MakePair();
  const auto reserved_by_another = [&] {
    dm_.ChangeThinPool(PoolUuid(), [](dm::ThinPoolStatus& status) { status.held_root = 8; });
  };
  reader_.OnWalk(reserved_by_another);
  const auto refused = Blocks().Delta(base_, target_, {}, 10, Soon());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kUnavailable) << refused.error().message();
  reader_.OnWalk({});
  EXPECT_EQ(Delta().size(), 4U);
}

TEST_F(ChangedBlocksTest, TheClockDoesNotDecideWhichSnapshotIsOlder) {
  MakePair();
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
    for (lvm::LogicalVolume& lv : group.lvs) {
      if (lv.name == lvm::ParseVolumeId(base_)->lv_name) {
        std::erase_if(lv.tags, [](const std::string& tag) { return tag.starts_with("quarry.cut="); });
        lv.tags.push_back(lvm::CutTag(UINT64_MAX / 4));
      }
    }
  });
  Restart();
  ASSERT_GT(Now().SnapshotById(base_)->tags.cut, Now().SnapshotById(target_)->tags.cut);
  EXPECT_EQ(Delta().size(), 4U);
  EXPECT_EQ(Blocks().Delta(target_, base_, {}, 10, Soon()).error().code(), Code::kInvalidArgument);
  const Bytes all = Now().SnapshotById(target_)->tags.length;
  EXPECT_EQ(Blocks().Delta(target_, base_, all, 10, Soon()).error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(Blocks().Delta(base_, target_, all, 10, Soon())->ranges.empty());
  EXPECT_TRUE(Blocks().Delta(base_, base_, {}, 10, Soon())->ranges.empty());
}

TEST_F(ChangedBlocksTest, AnUnhealthyStoreIsNoAnswer) {
  MakePair();
  dm_.ChangeThinPool(PoolUuid(), [](dm::ThinPoolStatus& status) { status.needs_check = true; });
  const auto refused = Blocks().Delta(base_, target_, {}, 10, Soon());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_THAT(refused.error().message(), HasSubstr("quarryctl store repair"));
  dm_.ChangeThinPool(PoolUuid(), [](dm::ThinPoolStatus& status) {
    status.needs_check = false;
    status.mode = dm::ThinPoolStatus::Mode::kOutOfDataSpace;
  });
  EXPECT_TRUE(Blocks().Delta(base_, target_, {}, 10, Soon()).has_value()) << "that is of no matter here";
  dm_.ChangeThinPool(PoolUuid(), [](dm::ThinPoolStatus& status) {
    status.mode = dm::ThinPoolStatus::Mode::kReadWrite;
    status.metadata_used = status.metadata_total;
  });
  EXPECT_EQ(Blocks().Delta(base_, target_, {}, 10, Soon()).error().code(), Code::kNoSpace);
}

TEST_F(ChangedBlocksTest, TheyAreOfferedWhereAThinStoreIsOrIsWanted) {
  EXPECT_TRUE(Blocks().IsOffered());
  stores_.clear();
  Restart();
  EXPECT_TRUE(Blocks().IsOffered()) << "the store is there, although nobody wants one any more";
}

TEST(ChangedBlocksOfferTest, WithoutAThinStoreTheyAreNotOffered) {
  fakes::FakeLvm lvm;
  fakes::FakeDm dm;
  fakes::FakeErase erase;
  fakes::FakeMount mount{dm};
  SystemClock clock;
  Logger log{LogLevel::kError, LogFormat::kText};
  lvm.AddGroup("vg0", kExtent, {{"/dev/a", Extents{100}}});
  fakes::Follow(lvm, dm);
  EngineConfig config;
  config.pools = {{.name = "default", .group = "vg0"}};
  const fakes::FakeWorld world{.lvm = lvm, .dm = dm, .erase = erase, .mount = mount, .clock = clock};
  Engine engine(config, world, log);
  ASSERT_TRUE(engine.lifecycle().Start(CallWithin(std::chrono::seconds(20))).has_value());
  EXPECT_FALSE(engine.changed_blocks().IsOffered());
  config.pools.front().stores = {{.name = "fast",
                                  .size = {8 * kExtent.value},
                                  .geometry = *lvm::Geometry::Make({.type = lvm::VolumeType::kLinear}),
                                  .chunk = kChunk}};
  Engine wants(config, world, log);
  EXPECT_TRUE(wants.changed_blocks().IsOffered()) << "before it is made";
}

}  // namespace
}  // namespace quarry::engine
