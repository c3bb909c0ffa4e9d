// Copies that a stop or a kill has cut off: which of them go on, and that they have the bytes of their source
// whatever happened to either of them.
#include <fcntl.h>

#include <algorithm>
#include <atomic>

#include "tests/unit/engine/copy_fixture.h"

namespace quarry::engine {
namespace {

constexpr uint64_t kSize = 4 * kCopyExtent.value;
constexpr Bytes kSlow{4 * 1024 * 1024};  // a second: so a copy takes four seconds

class InterruptedCopiesTest : public CopyFixture {
 protected:
  InterruptedCopiesTest() {
    copy_keep_ = std::chrono::minutes(15);
    StartWith(kSlow);
  }

  void StartWith(std::optional<Bytes> rate) {
    copy_rate_ = rate;
    Restart();
  }
  void Stop() { engine_.reset(); }

  std::string MakeSource() {
    std::string id = Make({.name = "one", .extents = 4});
    Write(id, "the beginning", 0);
    Write(id, "the end", kSize - 512);
    return id;
  }
  Result<CreateResult> Copy(const std::string& source, int ms = 20000) {
    return Create({.name = "two", .source = {source}}, ms);
  }
  // Begins a copy, and stops when a part of it is done. Returns the name of its logical volume.
  std::string Interrupt(const std::string& source) {
    const auto late = Copy(source, 2000);
    EXPECT_FALSE(late.has_value());
    if (!late.has_value()) {
      EXPECT_EQ(late.error().code(), Code::kUnavailable) << late.error().message();
      EXPECT_NE(late.error().message().find("%)"), std::string::npos) << late.error().message();
    }
    Stop();
    std::string lv = Unfinished();
    EXPECT_NE(lv, "");
    return lv;
  }
  // The name of the logical volume that is a copy in progress; empty: there is none.
  std::string Unfinished() {
    const lvm::Snapshot group = *lvm_.Read("vg0", Soon());
    const auto found = std::ranges::find_if(group->lvs, [](const lvm::LogicalVolume& lv) {
      return std::ranges::any_of(lv.tags,
                                 [](const std::string& tag) { return tag.starts_with("quarry.copying="); });
    });
    return found == group->lvs.end() ? "" : found->name;
  }
  void Scribble(const std::string& lv, const std::string& text, uint64_t at) {
    const lvm::Snapshot group = *lvm_.Read("vg0", Soon());
    const auto fd = dm_.Open(lvm::DmUuid(group->uuid, group->FindLv(lv)->uuid), O_RDWR);
    ASSERT_TRUE(fd.has_value()) << fd.error().message();
    ASSERT_EQ(pwrite(fd->get(), text.data(), text.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(text.size()));
  }
  Result<SnapshotResult> Snap(const std::string& source, int ms, const Parameters& parameters = {}) {
    return engine_->snapshots().Create({"snap", source, parameters}, Soon(ms));
  }
  static std::string LvOf(const std::string& id) { return lvm::ParseVolumeId(id)->lv_name; }
  void ExpectContent(const std::string& id, const std::string& beginning, const std::string& end) {
    EXPECT_EQ(Read(id, beginning.size(), 0), beginning);
    EXPECT_EQ(Read(id, end.size(), kSize - 512), end);
  }
};

TEST_F(InterruptedCopiesTest, ARepeatedCallGoesOnWithItsCopy) {
  const std::string source = MakeSource();
  const std::string lv = Interrupt(source);
  // Whatever its disks have lost, or a stranger has written there, it becomes what the source is.
  Scribble(lv, "THE", 0);
  Scribble(lv, "garbage", kSize - 4096);
  const size_t before = erase_.Pieces().size();
  StartWith(std::nullopt);
  EXPECT_EQ(engine_->volumes().List(0, "", Soon())->volumes.size(), 1U) << "nobody sees it";
  EXPECT_EQ(engine_->lifecycle().Pools(Soon())->front().erase_pending, Bytes{});
  const auto made = Copy(source);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(LvOf(made->volume.id), lv) << "it is the same logical volume";
  EXPECT_EQ(made->volume.source.id, source);
  ExpectContent(made->volume.id, "the beginning", "the end");
  EXPECT_EQ(Read(made->volume.id, 8, kSize - 4096), std::string(8, '\0'));
  EXPECT_EQ(Unfinished(), "") << "a volume is whole";
  EXPECT_EQ(LvCount(), 2U);
  EXPECT_EQ(erase_.Pieces().size(), before) << "nothing was erased";
  EXPECT_EQ(Copy(source)->volume.id, made->volume.id);
  // It is deleted as any volume, and a deleted one is no copy to go on with.
  EXPECT_TRUE(engine_->volumes().Delete(made->volume.id, Soon()).has_value());
  EXPECT_TRUE(UntilLvs(1));
  EXPECT_NE(LvOf(Copy(source)->volume.id), lv);
}

TEST_F(InterruptedCopiesTest, ACopyMayBeInterruptedAgainAndAgain) {
  const std::string source = MakeSource();
  const std::string lv = Interrupt(source);
  for (int i = 0; i < 2; ++i) {
    StartWith(kSlow);
    EXPECT_EQ(Copy(source, 500).error().code(), Code::kUnavailable);
    Stop();
    ASSERT_EQ(Unfinished(), lv);
  }
  StartWith(std::nullopt);
  const auto made = Copy(source);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(LvOf(made->volume.id), lv);
  ExpectContent(made->volume.id, "the beginning", "the end");
}

TEST_F(InterruptedCopiesTest, ASourceThatWasWrittenToIsCopiedAsItIsNow) {
  const std::string source = MakeSource();
  const std::string lv = Interrupt(source);
  Write(source, "other", 0);
  // A reboot in between: neither is active.
  for (const std::string& name : {lv, LvOf(source)}) {
    ASSERT_TRUE(lvm_.Apply(lvm::DeactivateLv{"vg0", name, 0}, Soon()).has_value());
  }
  StartWith(std::nullopt);
  const auto made = Copy(source);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(LvOf(made->volume.id), lv);
  ExpectContent(made->volume.id, "othereginning", "the end");
}

TEST_F(InterruptedCopiesTest, AnotherRequestBeginsAnew) {
  const std::string source = MakeSource();
  const std::string other = Make({.name = "other", .extents = 4});
  Write(other, "another", 0);
  const Asked asked[] = {{.name = "two", .source = {other}},
                         {.name = "two", .extents = 5, .source = {source}},
                         {.name = "two", .source = {source}, .parameters = {{"erase", "none"}}}};
  for (const Asked& one : asked) {
    StartWith(kSlow);
    const std::string lv = Interrupt(source);
    StartWith(std::nullopt);
    const std::string made = Make(one);
    EXPECT_NE(LvOf(made), lv);
    EXPECT_EQ(Read(made, 7, 0), one.source.id == other ? "another" : "the beg");
    EXPECT_TRUE(UntilLvs(3)) << "what was copied is erased";
    ASSERT_TRUE(engine_->volumes().Delete(made, Soon()).has_value());
    ASSERT_TRUE(UntilLvs(2));
  }
}

TEST_F(InterruptedCopiesTest, WithoutACallItIsErased) {
  const std::string source = MakeSource();
  Interrupt(source);
  const size_t before = erase_.Pieces().size();
  copy_keep_ = {};
  StartWith(std::nullopt);
  EXPECT_TRUE(UntilLvs(1));
  EXPECT_GT(erase_.Pieces().size(), before);
}

TEST_F(InterruptedCopiesTest, WhatWasBeingErasedIsNoCopy) {
  const std::string source = MakeSource();
  const std::string lv = Interrupt(source);
  // By a build that knows no unfinished copies.
  ASSERT_TRUE(lvm_.Apply(lvm::ChangeTags{"vg0", lv, {lvm::ErasedTag("abc:1")}, {}}, Soon()).has_value());
  StartWith(std::nullopt);
  EXPECT_TRUE(UntilLvs(1));
  const auto made = Copy(source);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  ExpectContent(made->volume.id, "the beginning", "the end");
}

TEST_F(InterruptedCopiesTest, WhatFailedAndIsBeingErasedIsNoCopy) {
  const std::string source = MakeSource();
  erase_.faults.FailAlways("Erase", Error(Code::kIo, "the disk fails"));
  StartWith(std::nullopt);
  lvm_.before.FailNth("ChangeTags", 2, Error(Code::kUnavailable, "no"));  // the commit that makes it ready
  ASSERT_FALSE(Copy(source).has_value());
  EXPECT_TRUE(Eventually([&] { return Unfinished().empty(); })) << "its erasing begins without the tag";
  EXPECT_EQ(LvCount(), 2U);
  Stop();
  erase_.faults.Clear();
  StartWith(std::nullopt);
  const auto made = Copy(source);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  ExpectContent(made->volume.id, "the beginning", "the end");
  EXPECT_TRUE(UntilLvs(2)) << "the failed one is erased";
}

TEST_F(InterruptedCopiesTest, WhatKeepsItFromGoingOnMayEnd) {
  const std::string source = MakeSource();
  const std::string lv = Interrupt(source);
  StartWith(std::nullopt);
  dm_.faults.FailNth("Open", 2, Error(Code::kBusy, "somebody has it open"));  // the copy
  EXPECT_FALSE(Copy(source).has_value());
  EXPECT_EQ(Unfinished(), lv) << "nothing was written to it";
  const auto made = Copy(source);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(LvOf(made->volume.id), lv);
}

TEST_F(InterruptedCopiesTest, ARaidCopyIsComparedOnlyIfItStayedActive) {
  for (const bool stays : {true, false}) {
    const std::string source = MakeSource();
    const Asked asked{.name = "two", .source = {source}, .parameters = {{"type", "raid1"}}};
    StartWith(kSlow);
    ASSERT_EQ(Create(asked, 2000).error().code(), Code::kUnavailable);
    Stop();
    const std::string lv = Unfinished();
    ASSERT_NE(lv, "");
    if (!stays) {
      ASSERT_TRUE(lvm_.Apply(lvm::DeactivateLv{"vg0", lv, 0}, Soon()).has_value());
    }
    std::atomic<int> compared = 0;
    steps_.on_step = [&](const std::string& step) {
      compared += step.ends_with("where they differ") ? 1 : 0;
    };
    StartWith(std::nullopt);
    const std::string made = Make(asked);
    EXPECT_EQ(compared, stays ? 1 : 0);
    steps_.on_step = nullptr;
    EXPECT_EQ(LvOf(made), lv);
    ExpectContent(made, "the beginning", "the end");
    ASSERT_TRUE(engine_->volumes().Delete(made, Soon()).has_value());
    ASSERT_TRUE(engine_->volumes().Delete(source, Soon()).has_value());
    ASSERT_TRUE(UntilLvs(0));
  }
}

TEST_F(InterruptedCopiesTest, AFailureAfterTheRestartErasesTheCopy) {
  const std::string source = MakeSource();
  Interrupt(source);
  StartWith(std::nullopt);
  lvm_.before.FailNth("ChangeTags", 1, Error(Code::kUnavailable, "no"));  // the commit that makes it ready
  EXPECT_EQ(Copy(source).error().code(), Code::kUnavailable);
  EXPECT_TRUE(UntilLvs(1));
  EXPECT_NE(Make({.name = "two", .source = {source}}), "");
}

TEST_F(InterruptedCopiesTest, ASnapshotHasTheTimeOfTheCallThatFinishedIt) {
  const std::string source = MakeSource();
  ASSERT_EQ(Snap(source, 2000).error().code(), Code::kUnavailable);
  Stop();
  const std::string lv = Unfinished();
  ASSERT_NE(lv, "");
  Write(source, "later", 0);
  const auto after = std::chrono::system_clock::now();
  StartWith(std::nullopt);
  const auto made = Snap(source, 20000);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(LvOf(made->snapshot.id), lv);
  EXPECT_GE(made->snapshot.cut, after) << "it has bytes that were written after the first call";
  const std::string restored = Make({.name = "restored", .source = {made->snapshot.id, true}});
  ExpectContent(restored, "later", "the end");
  const lvm::Snapshot group = *lvm_.Read("vg0", Soon());
  EXPECT_EQ(std::ranges::count_if(group->FindLv(lv)->tags,
                                  [](const std::string& tag) { return tag.starts_with("quarry.cut="); }),
            1);
}

TEST_F(InterruptedCopiesTest, AFileSystemGetsAUuidOfItsOwn) {
  StartWith(std::nullopt);
  const std::string source = Make({.name = "one", .extents = 40, .access = AccessType::kMount});
  ASSERT_TRUE(engine_->volumes().Stage({source, Path("/stage/v"), {}}, Soon()).has_value());
  ASSERT_TRUE(engine_->volumes().Unstage(source, Path("/stage/v"), Soon()).has_value());
  const Asked asked{.name = "two", .source = {source}, .access = AccessType::kMount};
  StartWith(Bytes{32 * 1024 * 1024});
  ASSERT_EQ(Create(asked, 2000).error().code(), Code::kUnavailable);
  Stop();
  const std::string lv = Unfinished();
  StartWith(std::nullopt);
  const std::string copy = Make(asked);
  EXPECT_EQ(LvOf(copy), lv);
  EXPECT_NE(mount_.ContentOf(DmUuidOf(copy)).uuid, mount_.ContentOf(DmUuidOf(source)).uuid);
}

TEST_F(InterruptedCopiesTest, OfAVolumeInUseGoesOnFromANewStore) {
  const Parameters cow = {{"inuse", "cow"}};
  const std::string source = MakeSource();
  const Capability block{.access = AccessType::kBlock};
  ASSERT_TRUE(engine_->volumes().Stage({source, Path("/stage/r"), block}, Soon()).has_value());
  ASSERT_TRUE(
      engine_->volumes().Publish({source, Path("/stage/r"), Path("/pods/r"), block}, Soon()).has_value());
  ASSERT_EQ(Snap(source, 2500, cow).error().code(), Code::kUnavailable);
  Stop();
  const std::string lv = Unfinished();
  ASSERT_NE(lv, "");
  Write(source, "other", 0);
  StartWith(std::nullopt);
  EXPECT_TRUE((*lvm_.Read("vg0", Soon()))->FindLv(LvOf(source))->independent) << "before the pool serves";
  // Without the parameter it cannot go on, and stays.
  EXPECT_EQ(Snap(source, 20000).error().code(), Code::kPrecondition);
  EXPECT_EQ(Unfinished(), lv);
  const auto made = Snap(source, 20000, cow);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(LvOf(made->snapshot.id), lv);
  EXPECT_TRUE(UntilLvs(2)) << "both stores are erased";
  const std::string restored = Make({.name = "restored", .source = {made->snapshot.id, true}});
  ExpectContent(restored, "other", "the end");
}

}  // namespace
}  // namespace quarry::engine
