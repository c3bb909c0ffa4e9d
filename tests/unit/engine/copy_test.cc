// Copies of volumes: what callers see while a copy is made, what is refused, and what an interruption leaves.
#include <fcntl.h>

#include <thread>

#include <fmt/format.h>

#include "tests/unit/engine/copy_fixture.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

constexpr Bytes kExtent = kCopyExtent;

using CopyTest = CopyFixture;

TEST_F(CopyTest, ACopyHasTheBytesAndNamesItsSource) {
  const std::string source = Make({.name = "one", .extents = 4});
  Write(source, "the beginning", 0);
  Write(source, "the end", (4 * kExtent.value) - 512);
  for (const char* type : {"linear", "raid1"}) {
    const auto copied =
        Create({.name = std::string("copy-") + type, .source = {source}, .parameters = {{"type", type}}});
    ASSERT_TRUE(copied.has_value()) << copied.error().message();
    EXPECT_TRUE(copied->created);
    EXPECT_EQ(copied->volume.source.id, source);
    EXPECT_EQ(copied->volume.size, Bytes{4 * kExtent.value});
    EXPECT_EQ(Read(copied->volume.id, 13, 0), "the beginning");
    EXPECT_EQ(Read(copied->volume.id, 7, (4 * kExtent.value) - 512), "the end");
    const auto got = engine_->volumes().Get(copied->volume.id, Soon());
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->source.id, source);
  }
  // Each lives without the other.
  ASSERT_TRUE(engine_->volumes().Delete(source, Soon()).has_value());
  EXPECT_EQ(engine_->volumes().List(0, "", Soon())->volumes.size(), 2U);
}

TEST_F(CopyTest, ALargerCopyBeginsWithTheBytes) {
  const std::string source = Make({.name = "one", .extents = 4});
  Write(source, "bytes", 4096);
  const std::string copy = Make({.name = "two", .extents = 7, .source = {source}});
  EXPECT_EQ(Read(copy, 5, 4096), "bytes");
  EXPECT_EQ(engine_->volumes().Get(copy, Soon())->size, Bytes{7 * kExtent.value});
}

TEST_F(CopyTest, ARepeatedCallGivesTheSameVolumeAndAnotherSourceIsAnotherVolume) {
  const std::string source = Make({.name = "one", .extents = 4});
  const std::string other = Make({.name = "other", .extents = 4});
  const std::string copy = Make({.name = "two", .source = {source}});
  const auto again = Create({.name = "two", .source = {source}});
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_FALSE(again->created);
  EXPECT_EQ(again->volume.id, copy);
  EXPECT_EQ(again->volume.source.id, source);
  EXPECT_EQ(Create({.name = "two", .source = {other}}).error().code(), Code::kAlreadyExists);
  const auto blank = Create({.name = "two", .extents = 4});
  ASSERT_FALSE(blank.has_value());
  EXPECT_EQ(blank.error().code(), Code::kAlreadyExists);
  EXPECT_NE(blank.error().message().find("volume_content_source"), std::string::npos)
      << blank.error().message();
  EXPECT_EQ(Create({.name = "one", .source = {other}}).error().code(), Code::kAlreadyExists);
  // The source may be gone by the time the call is repeated.
  ASSERT_TRUE(engine_->volumes().Delete(source, Soon()).has_value());
  EXPECT_EQ(Create({.name = "two", .source = {source}})->volume.id, copy);
}

TEST_F(CopyTest, WhatCannotBeCopiedIsRefusedAndLeavesNothing) {
  const std::string raw = Make({.name = "raw", .extents = 4});
  const std::string ext4 = Make({.name = "ext4", .extents = 40, .access = AccessType::kMount});
  const struct {
    Asked asked;
    Code code;
    std::string words;
  } cases[] = {
      {{.name = "x", .source = {"default.qnothing"}}, Code::kNotFound, "volume_content_source: "},
      {{.name = "x", .extents = 3, .source = {raw}}, Code::kOutOfRange, "capacity_range"},
      {{.name = "x", .source = {raw}, .limit = 3}, Code::kOutOfRange, "capacity_range.limit_bytes"},
      {{.name = "x", .source = {raw}, .access = AccessType::kMount},
       Code::kInvalidArgument,
       "made for block"},
      {{.name = "x", .source = {ext4}}, Code::kInvalidArgument, "made for mount ext4"},
      {{.name = "x", .source = {ext4}, .access = AccessType::kMount, .fs_type = "xfs"},
       Code::kInvalidArgument,
       "made for mount ext4"},
      {{.name = "x", .extents = 290, .source = {raw}}, Code::kNoSpace, ""},
  };
  for (const auto& one : cases) {
    const auto refused = Create(one.asked);
    ASSERT_FALSE(refused.has_value()) << one.words;
    EXPECT_EQ(refused.error().code(), one.code) << refused.error().message();
    EXPECT_NE(refused.error().message().find(one.words), std::string::npos) << refused.error().message();
    EXPECT_EQ(LvCount(), 2U) << refused.error().message();
  }
  // The id names another node. A caller that has other nodes to ask is sent to them.
  const std::string far = lvm::VolumeId("default", lvm::NewLvName(), lvm::NodeHash("node-2"));
  EXPECT_EQ(Create({.name = "x", .source = {far}}).error().code(), Code::kPrecondition);
  EXPECT_EQ(Create({.name = "x", .source = {far}, .elsewhere = true}).error().code(), Code::kNoSpace);
  // A growth that was cut off: the file system may fill the logical volume already.
  const std::string grown = Make({.name = "grown", .extents = 4});
  lvm_.before.FailNth("ChangeTags", 1, Error(Code::kUnavailable, "no"));  // the commit of the size
  ASSERT_FALSE(engine_->volumes().Expand(grown, {Bytes{6 * kExtent.value}, {}}, {}, Soon()).has_value());
  const auto longer = Create({.name = "x", .source = {grown}});
  EXPECT_EQ(longer.error().code(), Code::kPrecondition);
  EXPECT_NE(longer.error().message().find("expand the volume"), std::string::npos)
      << longer.error().message();
  ASSERT_TRUE(engine_->volumes().Expand(grown, {Bytes{6 * kExtent.value}, {}}, {}, Soon()).has_value());
  EXPECT_NE(Make({.name = "whole", .source = {grown}}), "");
  // Every refusal has released the source.
  EXPECT_NE(Make({.name = "y", .source = {raw}}), "");
}

TEST_F(CopyTest, ASourceInUseIsRefused) {
  const std::string source = Make({.name = "one", .extents = 40, .access = AccessType::kMount});
  ASSERT_TRUE(engine_->volumes().Stage({source, Path("/stage/v"), {}}, Soon()).has_value());
  const auto refused = Create({.name = "two", .source = {source}, .access = AccessType::kMount});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_NE(refused.error().message().find("not in use"), std::string::npos) << refused.error().message();
  ASSERT_TRUE(engine_->volumes().Unstage(source, Path("/stage/v"), Soon()).has_value());
  const std::string copy = Make({.name = "two", .source = {source}, .access = AccessType::kMount});

  const std::string raw = Make({.name = "raw", .extents = 4});
  const Capability block{.access = AccessType::kBlock};
  ASSERT_TRUE(engine_->volumes().Stage({raw, Path("/stage/r"), block}, Soon()).has_value());
  ASSERT_TRUE(
      engine_->volumes().Publish({raw, Path("/stage/r"), Path("/pods/r"), block}, Soon()).has_value());
  EXPECT_EQ(Create({.name = "three", .source = {raw}}, 7000).error().code(), Code::kPrecondition);
  ASSERT_TRUE(engine_->volumes().Unpublish(raw, Path("/pods/r"), Soon()).has_value());
  EXPECT_NE(Make({.name = "three", .source = {raw}}), "");
}

TEST_F(CopyTest, ACopyOfAFormattedVolumeIsNotFormattedAgain) {
  const std::string source = Make({.name = "one", .extents = 40, .access = AccessType::kMount});
  ASSERT_TRUE(engine_->volumes().Stage({source, Path("/stage/v"), {}}, Soon()).has_value());
  ASSERT_TRUE(engine_->volumes().Unstage(source, Path("/stage/v"), Soon()).has_value());
  const std::string copy = Make({.name = "two", .source = {source}, .access = AccessType::kMount});
  ASSERT_EQ(mount_.Made().size(), 1U);
  const Status staged = engine_->volumes().Stage({copy, Path("/stage/w"), {}}, Soon());
  ASSERT_TRUE(staged.has_value()) << staged.error().message();
  EXPECT_EQ(mount_.Made().size(), 1U);
  // A source without a file system has nothing to copy.
  const std::string blank = Make({.name = "blank", .extents = 40, .access = AccessType::kMount});
  const std::string second = Make({.name = "second", .source = {blank}, .access = AccessType::kMount});
  ASSERT_TRUE(engine_->volumes().Stage({second, Path("/stage/x"), {}}, Soon()).has_value());
  EXPECT_EQ(mount_.Made().size(), 2U);
}

TEST_F(CopyTest, TheFileSystemOfACopyHasAUuidOfItsOwn) {
  for (const std::string type : {"ext4", "xfs", "btrfs"}) {
    const Capability mounted{.access = AccessType::kMount, .fs_type = type};
    const std::string source =
        Make({.name = type, .extents = 80, .access = AccessType::kMount, .fs_type = type});
    ASSERT_TRUE(engine_->volumes().Stage({source, Path("/stage/v"), mounted}, Soon()).has_value());
    ASSERT_TRUE(engine_->volumes().Unstage(source, Path("/stage/v"), Soon()).has_value());
    const Asked asked{
        .name = type + "-copy", .source = {source}, .access = AccessType::kMount, .fs_type = type};
    // It is unfinished until it has one.
    mount_.faults.FailNth("ChangeUuid", 1, Error(Code::kUnavailable, "no"));
    EXPECT_EQ(Create(asked).error().code(), Code::kUnavailable);
    EXPECT_TRUE(UntilLvs(1));
    const std::string copy = Make(asked);
    EXPECT_EQ(mount_.ContentOf(DmUuidOf(copy)).type, type);
    EXPECT_NE(mount_.ContentOf(DmUuidOf(copy)).uuid, mount_.ContentOf(DmUuidOf(source)).uuid);
    ASSERT_TRUE(engine_->volumes().Stage({copy, Path("/stage/w"), mounted}, Soon()).has_value());
    ASSERT_TRUE(engine_->volumes().Unstage(copy, Path("/stage/w"), Soon()).has_value());
    ASSERT_TRUE(engine_->volumes().Delete(copy, Soon()).has_value());
    ASSERT_TRUE(UntilLvs(1));

    // The source was not unmounted before its node lost power.
    mount_.SetUnclean(DmUuidOf(source), true);
    const auto unclean = Create(asked);
    EXPECT_EQ(unclean.has_value(), type != "btrfs") << type;
    if (unclean.has_value()) {
      ASSERT_TRUE(engine_->volumes().Delete(unclean->volume.id, Soon()).has_value());
    } else {
      EXPECT_EQ(unclean.error().code(), Code::kPrecondition);
    }
    ASSERT_TRUE(UntilLvs(1)) << "a refusal leaves nothing";
    ASSERT_TRUE(engine_->volumes().Delete(source, Soon()).has_value());
    ASSERT_TRUE(UntilLvs(0));
  }
}

TEST_F(CopyTest, ACallThatEndsEarlierSaysHowFarTheCopyIsAndTheNextJoinsIt) {
  const std::string source = Make({.name = "one", .extents = 4});
  Write(source, "bytes", 0);
  steps_.Hold();
  const auto late = Create({.name = "two", .source = {source}}, 1500);
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code(), Code::kUnavailable);
  EXPECT_NE(late.error().message().find("are copied"), std::string::npos) << late.error().message();
  // Nobody sees the copy, and the source stays as it is.
  EXPECT_EQ(engine_->volumes().List(0, "", Soon())->volumes.size(), 1U);
  EXPECT_EQ(engine_->lifecycle().Pools(Soon())->front().erase_pending, Bytes{});
  const Capability block{.access = AccessType::kBlock};
  EXPECT_EQ(engine_->volumes().Stage({source, Path("/stage/v"), block}, Soon()).error().code(), Code::kBusy);
  EXPECT_EQ(engine_->volumes().Delete(source, Soon()).error().code(), Code::kBusy);
  EXPECT_EQ(engine_->volumes().Expand(source, {Bytes{8 * kExtent.value}, {}}, {}, Soon()).error().code(),
            Code::kBusy);
  // A pod can end meanwhile.
  EXPECT_TRUE(engine_->volumes().Unpublish(source, Path("/pods/a"), Soon()).has_value());
  EXPECT_TRUE(engine_->volumes().Unstage(source, Path("/stage/v"), Soon()).has_value());
  EXPECT_EQ(Create({.name = "three", .source = {source}}).error().code(), Code::kBusy);
  EXPECT_EQ(Create({.name = "two", .source = {source}}, 1000).error().code(), Code::kUnavailable);
  EXPECT_EQ(LvCount(), 2U);
  steps_.LetGo();
  const auto joined = Create({.name = "two", .source = {source}});
  ASSERT_TRUE(joined.has_value()) << joined.error().message();
  EXPECT_EQ(Read(joined->volume.id, 5, 0), "bytes");
  EXPECT_TRUE(engine_->volumes().Stage({source, Path("/stage/v"), block}, Soon()).has_value());
}

TEST_F(CopyTest, AFailedCopyIsErasedAndMayBeTriedAgain) {
  const std::string source = Make({.name = "one", .extents = 4});
  const size_t before = erase_.Pieces().size();
  dm_.faults.FailNth("Open", 2, Error(Code::kIo, "no"));  // the new volume's
  const auto failed = Create({.name = "two", .source = {source}});
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), Code::kIo) << failed.error().message();
  EXPECT_TRUE(UntilLvs(1)) << "erased and removed";
  EXPECT_GT(erase_.Pieces().size(), before);
  EXPECT_NE(Make({.name = "two", .source = {source}}), "");
}

TEST_F(CopyTest, AnUnfinishedCopyIsErasedByTheNextProcess) {
  const std::string source = Make({.name = "one", .extents = 4});
  steps_.Hold();
  ASSERT_EQ(Create({.name = "two", .source = {source}}, 1500).error().code(), Code::kUnavailable);
  ASSERT_EQ(LvCount(), 2U);
  const size_t before = erase_.Pieces().size();
  std::jthread release([&] {
    std::this_thread::sleep_for(milliseconds(300));
    steps_.LetGo();  // the stop waits for the step that is running
  });
  Restart();
  EXPECT_TRUE(UntilLvs(1));
  EXPECT_GT(erase_.Pieces().size(), before) << "what was copied is erased";
  EXPECT_EQ(engine_->volumes().List(0, "", Soon())->volumes.size(), 1U);
  EXPECT_NE(Make({.name = "two", .source = {source}}), "");
}

TEST_F(CopyTest, ASourceThatWasNotActiveIsNotActiveAfterwards) {
  const std::string source = Make({.name = "one", .extents = 4});
  ASSERT_TRUE(
      lvm_.Apply(lvm::DeactivateLv{"vg0", lvm::ParseVolumeId(source)->lv_name, 0}, Soon()).has_value());
  ASSERT_FALSE(dm_.Find(DmUuidOf(source))->has_value());
  EXPECT_NE(Make({.name = "two", .source = {source}}), "");
  EXPECT_FALSE(dm_.Find(DmUuidOf(source))->has_value());
}

}  // namespace
}  // namespace quarry::engine
