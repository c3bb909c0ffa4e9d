// Disks of a RAID volume go, come back and die in every order. The volume never starts from legs that may
// lack acknowledged writes, unless an administrator decides so. It always starts if the legs prove that they
// lack nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "tests/unit/engine/repair_world.h"

namespace quarry::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// An array as the kernel keeps it: superblocks, and for each leg the number of its last write. It belongs to
// one volume, with a leg on each of `pvs`.
class FakeArray final : public dm::RaidLegsApi {
 public:
  FakeArray(lvm::Geometry geometry, std::vector<std::string> pvs) : geometry_(std::move(geometry)) {
    const auto count = static_cast<uint32_t>(pvs.size());
    for (uint32_t i = 0; i < count; ++i) {
      legs_.push_back({.pv = std::move(pvs[i]),
                       .word = {.legs = count, .role = i, .events = 3, .failed = std::vector<bool>(count)}});
    }
  }

  void SetThere(size_t leg, bool there) { legs_[leg].there = there; }
  bool IsThere(size_t leg) const { return legs_[leg].there; }
  void SetUnreadable(size_t leg) { legs_[leg].unreadable = true; }
  // Another process has used this leg without the others for a long time.
  void WentOnAlone(size_t leg) {
    legs_[leg].word.events += 100;
    for (size_t i = 0; i < legs_.size(); ++i) {
      legs_[leg].word.failed[i] = i != leg;
    }
  }
  const std::string& PvOf(size_t leg) const { return legs_[leg].pv; }

  // Starts from the readable legs as the kernel does: the freshest legs decide which other legs count.
  // Returns a letter for each leg, as device-mapper shows it; nullopt: the kernel refuses.
  std::optional<std::string> Start() {
    uint64_t most = 0;
    for (const Leg& leg : legs_) {
      most = leg.Reads() ? std::max(most, leg.word.events) : most;
    }
    std::vector<bool> out;
    for (size_t i = 0; i < legs_.size(); ++i) {
      out.push_back(!legs_[i].Reads() || std::ranges::any_of(legs_, [&](const Leg& leg) {
        return leg.Reads() && leg.word.events == most && leg.word.failed[i];
      }));
    }
    if (!Survives(geometry_, out)) {
      return std::nullopt;
    }
    out_ = out;
    running_ = true;
    events_ = most;
    Note();
    // Returned legs are rebuilt from the others.
    const uint64_t holds = Holds();
    for (size_t i = 0; i < legs_.size(); ++i) {
      if (out_[i] && legs_[i].Reads()) {
        out_[i] = false;
        legs_[i].holds = holds;
      }
    }
    Note();
    std::string letters;
    for (const bool lost : out_) {
      letters += lost ? 'D' : 'A';
    }
    return letters;
  }
  void Stop() { running_ = false; }

  // A write. It is acknowledged after its legs have recorded which legs did not get it.
  void Write() {
    std::vector<bool> out = out_;
    for (size_t i = 0; i < legs_.size(); ++i) {
      out[i] = out[i] || !legs_[i].there;
    }
    ASSERT_TRUE(running_ && Survives(geometry_, out)) << "the array accepts no writes";
    if (out != out_) {
      out_ = out;
      Note();
    }
    ++acknowledged_;
    for (size_t i = 0; i < legs_.size(); ++i) {
      legs_[i].holds = out_[i] ? legs_[i].holds : acknowledged_;
    }
  }
  // The number of acknowledged writes that are lost.
  uint64_t Lost() const { return acknowledged_ - Holds(); }
  uint64_t events() const { return events_; }
  // The administrator has accepted the loss.
  void AcceptLoss() { acknowledged_ = Holds(); }

  Result<dm::RaidSuperblock> Read(const dm::EraseRange& place) override {
    const Leg& leg = At(place);
    if (leg.unreadable) {
      return Error(Code::kIo, "Input/output error");
    }
    EXPECT_TRUE(leg.there);
    return leg.word;
  }
  Result<dm::RaidBitmap> ReadBitmap(const dm::EraseRange& place) override {
    return dm::RaidBitmap{.events = At(place).word.events, .region_size = 4096, .marked = {false}};
  }
  Status Write(const dm::EraseRange& place, const dm::RaidSuperblock& /*was*/,
               const dm::RaidStart& start) override {
    EXPECT_FALSE(running_);
    At(place).word.failed = start.left_out;
    At(place).word.events = start.events.value_or(At(place).word.events);
    return Ok();
  }

 private:
  struct Leg {
    std::string pv;
    dm::RaidSuperblock word;
    uint64_t holds = 0;
    bool there = true;
    bool unreadable = false;
    bool Reads() const { return there && !unreadable; }
  };
  Leg& At(const dm::EraseRange& place) {
    const auto leg = std::ranges::find(legs_, place.pv_uuid, &Leg::pv);
    EXPECT_NE(leg, legs_.end()) << place.pv_uuid;
    return *leg;
  }
  // The last write that all legs in use have.
  uint64_t Holds() const {
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < legs_.size(); ++i) {
      least = out_[i] ? least : std::min(least, legs_[i].holds);
    }
    return least;
  }
  void Note() {
    ++events_;
    for (size_t i = 0; i < legs_.size(); ++i) {
      if (!out_[i]) {
        legs_[i].word.events = events_;
        legs_[i].word.failed = out_;
      }
    }
  }

  lvm::Geometry geometry_;
  std::vector<Leg> legs_;
  std::vector<bool> out_;  // legs out of the array while it runs, or when it last ran
  bool running_ = false;
  uint64_t events_ = 3;  // of the array when it last ran
  uint64_t acknowledged_ = 0;
};

enum class Then {
  kStarts,  // by itself, with every acknowledged write
  kAsks,    // after a decision by an administrator
  kWaits,   // only after its disks return; no decision helps
};

struct Fault {
  std::string name;
  std::string type;
  // Words: "w": writes are acknowledged; "0-", "0+": the disk of leg 0 goes, comes back; "0c": it comes back
  // and the group was changed without it; "0e": reading its superblock fails; "reboot"; "stop": the volume is
  // deactivated, quarryd continues; "start": a pod uses the volume again; "hand": an administrator activates
  // the volume by hand, writes to it and deactivates it.
  std::string script;
  Then then;
};

void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.type << ": " << fault.script;
}

class StaleLegs : public MendingTest, public testing::WithParamInterface<Fault> {
 protected:
  void SetUp() override {
    const auto made =
        engine_->volumes().Create({.name = "one",
                                   .range = {Bytes{100 * kMiB.value}, {}},
                                   .capabilities = {{.access = AccessType::kBlock}},
                                   .parameters = {{"type", GetParam().type}, {"erase", "none"}}},
                                  Soon());
    ASSERT_TRUE(made.has_value()) << made.error().message();
    id_ = made->volume.id;
    const auto geometry = lvm::Geometry::Make({.type = *lvm::ParseVolumeType(GetParam().type)});
    ASSERT_TRUE(geometry.has_value());
    array_ = std::make_unique<FakeArray>(*geometry, Legs(id_));
    raid_legs_ = array_.get();
    Restart();
    ASSERT_TRUE(Stage().has_value());
    Started();
    array_->Write();
  }

  Status Stage() {
    return engine_->volumes().Stage({.id = id_,
                                     .staging_path = *AbsolutePath::Parse("/staging"),
                                     .capability = {.access = AccessType::kBlock}},
                                    Soon());
  }
  bool IsActive() { return dm_.Find(DmUuidOf(id_))->has_value(); }
  void Deactivate() {
    lvm_.Reboot();
    dm_.Reboot();
    array_->Stop();
  }
  void Restart() {
    Deactivate();
    Begin({});
  }
  // LVM has activated the volume.
  void Started() {
    const auto letters = array_->Start();
    ASSERT_TRUE(letters.has_value()) << "the kernel would have refused";
    SetLegs(id_, *letters);
  }

  void Play(const std::string& word) {
    const auto leg = static_cast<size_t>(word[0] - '0');
    if (word == "w") {
      array_->Write();
    } else if (word == "reboot") {
      Restart();
    } else if (word == "stop") {
      Deactivate();
    } else if (word == "start") {
      ASSERT_TRUE(Stage().has_value());
      Started();
    } else if (word == "hand") {
      ASSERT_TRUE(array_->Start().has_value());
      array_->Write();
      array_->Stop();
    } else if (word[1] == 'e') {
      array_->SetUnreadable(leg);
    } else if (word[1] == 'c') {
      array_->SetThere(leg, true);
      lvm_.ReturnDisk("vg0", array_->PvOf(leg));
    } else {
      array_->SetThere(leg, word[1] == '+');
      SetMissing(array_->PvOf(leg), word[1] == '-');
    }
  }
  // Nothing of the volume is changed, however long its disks stay away.
  void ExpectLeftAlone() {
    const std::vector<std::string> legs = Legs(id_);
    const size_t disks = Group()->pvs.size();
    Mend();
    Pass(std::chrono::hours(24));
    const RepairReport report = Mend();
    for (const std::string& step : report.done) {
      EXPECT_THAT(step, HasSubstr("back into group"));
    }
    EXPECT_THAT(Mend(RepairCause::kAsked).done, IsEmpty())
        << "a repair without ids applies to all volumes and decides nothing";
    EXPECT_EQ(Legs(id_), legs);
    EXPECT_EQ(Group()->pvs.size(), disks);
    EXPECT_FALSE(IsActive());
    EXPECT_EQ(ConditionOf(id_), "failed");
  }

  std::unique_ptr<FakeArray> array_;
  std::string id_;
};

TEST_P(StaleLegs, NoAcknowledgedWriteIsLostWithoutADecision) {
  std::istringstream script(GetParam().script);
  for (std::string word; script >> word;) {
    Play(word);
  }
  if (GetParam().then == Then::kStarts) {
    Mend();  // takes returned disks back
    const Status staged = Stage();
    ASSERT_TRUE(staged.has_value()) << staged.error().message();
    Started();
    EXPECT_EQ(array_->Lost(), 0U);
    EXPECT_NE(ConditionOf(id_), "failed");
    return;
  }
  const Status refused = Stage();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_THAT(refused.error().message(), HasSubstr(id_));
  EXPECT_EQ(ConditionOf(id_), "failed") << "before the next repair round";
  ExpectLeftAlone();
  const Status still = Stage();
  ASSERT_FALSE(still.has_value());
  if (GetParam().then == Then::kWaits) {
    EXPECT_THAT(Mend(RepairCause::kAsked, {id_}).obstacles, testing::Not(IsEmpty()));
    EXPECT_FALSE(IsActive());
    return;
  }
  EXPECT_THAT(still.error().message(), HasSubstr("quarryctl repair " + id_));
  const auto status = engine_->lifecycle().NodeStatus(Soon());
  ASSERT_TRUE(status.has_value());
  EXPECT_THAT(status->front().volumes.front().detail, HasSubstr("quarryctl repair " + id_));
  EXPECT_EQ(engine_->upkeep().Repair(RepairCause::kAsked, Soon(), {"default.nobody"}).error().code(),
            Code::kNotFound);

  lvm_.before.FailNth("Repair", 1, Error(Code::kTimeout, "not yet"));
  EXPECT_THAT(Mend(RepairCause::kAsked, {id_}).done, testing::Contains(HasSubstr("as asked for")));
  ASSERT_TRUE(IsActive());
  Started();
  array_->AcceptLoss();
  array_->Write();
  EXPECT_TRUE(Stage().has_value());
  // From now on the superblocks show which legs count.
  Restart();
  EXPECT_TRUE(Stage().has_value());
  Started();
  // The chosen legs are away, and the overruled legs are back. These lack later writes.
  Deactivate();
  for (size_t leg = 0; leg < Legs(id_).size(); ++leg) {
    array_->SetThere(leg, !array_->IsThere(leg));
    SetMissing(array_->PvOf(leg), !array_->IsThere(leg));
  }
  Restart();
  EXPECT_FALSE(Stage().has_value());
  EXPECT_FALSE(IsActive());
  // The overruled legs have seen more changes than the legs in use, and still do not count.
  for (size_t leg = 0; leg < Legs(id_).size(); ++leg) {
    array_->SetThere(leg, true);
    SetMissing(array_->PvOf(leg), false);
  }
  Restart();
  const Status again = Stage();
  ASSERT_TRUE(again.has_value()) << again.error().message();
  Started();
  EXPECT_EQ(array_->Lost(), 0U);
}

// Whenever LVM reloads the table, even while the volume is in use, the kernel follows the leg with more
// changes.
class LegThatIsBack : public StaleLegs {};

TEST_P(LegThatIsBack, IsNotTakenBackIfItWentOnAlone) {
  array_->SetThere(0, false);
  SetMissing(array_->PvOf(0));
  array_->Write();
  SetLegs(id_, "DA");
  array_->SetThere(0, true);
  array_->WentOnAlone(0);
  SetMissing(array_->PvOf(0), false);
  lvm_.before.Clear();
  const RepairReport report = Mend();
  EXPECT_THAT(report.done, IsEmpty());
  EXPECT_THAT(report.obstacles, testing::Contains(HasSubstr("leg 0 is back and went on without")));
  EXPECT_THAT(Mend(RepairCause::kAsked, {id_}).done, IsEmpty()) << "the volume is in use";
  const auto grown = engine_->volumes().Expand(id_, {Bytes{200 * kMiB.value}, {}}, {}, Soon());
  ASSERT_FALSE(grown.has_value());
  EXPECT_EQ(grown.error().code(), Code::kPrecondition);
  EXPECT_THAT(grown.error().message(), HasSubstr("not reloaded"));
  Pass(std::chrono::hours(24));
  EXPECT_THAT(Mend().done, IsEmpty()) << "the leg is not rebuilt elsewhere either";
}

// quarryd was killed after the tag was written, and then the other leg returned. Later losses are judged as
// usual.
TEST_P(LegThatIsBack, ADecisionThatAKillInterruptedIsNoObstacleLater) {
  Deactivate();
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
    std::ranges::find(group.lvs, lvm::ParseVolumeId(id_)->lv_name, &lvm::LogicalVolume::name)
        ->tags.push_back("quarry.overruled=1");
  });
  Restart();
  ASSERT_TRUE(Stage().has_value());
  Started();
  EXPECT_GE(array_->events(), kOverruled);
  Play("1-");
  Play("w");
  Restart();
  const Status again = Stage();
  ASSERT_TRUE(again.has_value()) << again.error().message();
  Started();
  EXPECT_EQ(array_->Lost(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Repair, LegThatIsBack, testing::Values(Fault{"InUse", "raid1", "", Then::kWaits}),
                         [](const auto& test) { return test.param.name; });

const Fault kFaults[] = {
    // The main scenario: the last writes are on leg 1 alone.
    {"OlderLegIsBackTheNewerIsDead", "raid1", "0- w reboot 0+ 1-", Then::kAsks},
    {"TheSameWithTheOtherLeg", "raid1", "1- w reboot 1+ 0-", Then::kAsks},
    {"TheSameWithoutAReboot", "raid1", "0- w stop 0+ 1-", Then::kAsks},
    {"TheSameAndTheGroupWasChanged", "raid1", "0- w reboot 1- 0c", Then::kAsks},
    {"TheNewerCannotBeRead", "raid1", "0- w reboot 0+ 1e", Then::kAsks},
    {"TheNewerWasStartedAgainAndAgain", "raid1", "0- w stop start stop start stop start w stop 0+ 1-",
     Then::kAsks},
    // Both legs are present, and each has writes that the other lacks.
    {"TheOlderWasStartedByHand", "raid1", "0- w reboot 0+ 1- hand 1+", Then::kAsks},
    {"HalvesDiverged", "raid10", "0- 2- w reboot 0+ 2+ 1- 3- hand 1+ 3+", Then::kAsks},
    // Leg 0 has every write, but nothing on it proves that: leg 0 cannot distinguish these two scenarios from
    // the main scenario.
    {"ALegDiesWhileItIsStopped", "raid1", "reboot 1-", Then::kAsks},
    {"ALegCannotBeReadAfterAReboot", "raid1", "w reboot 1e", Then::kAsks},
    // The remaining leg has recorded the loss.
    {"ALegDiesAndItIsWrittenTo", "raid1", "1- w reboot", Then::kStarts},
    {"ALegDiesAndItIsStopped", "raid1", "1- w stop", Then::kStarts},
    {"ALegThatFailedBeforeCannotBeRead", "raid1", "1- w reboot 1+ 1e", Then::kStarts},
    {"BothAreThere", "raid1", "0- w reboot 0+", Then::kStarts},
    {"BothAreThereAndTheGroupWasChanged", "raid1", "0- w reboot 0c", Then::kStarts},
    {"TheNewerIsBackInTime", "raid1", "0- w reboot 0+ 1- 1+", Then::kStarts},
    {"NothingHappens", "raid1", "w reboot", Then::kStarts},
    // With parity, at least one of the legs that suffice has always been there.
    {"OlderLegIsBackANewerIsDead", "raid5", "0- w reboot 0+ 1-", Then::kWaits},
    {"OlderLegIsBackANewerIsDeadWithoutAReboot", "raid5", "0- w stop 0+ 2-", Then::kWaits},
    {"OlderLegIsBackANewerCannotBeRead", "raid5", "0- w reboot 0+ 1e", Then::kWaits},
    {"OlderLegIsBackBothNewerAreDead", "raid5", "0- w reboot 0+ 1- 2-", Then::kWaits},
    {"ALegDiesWhileItIsStopped", "raid5", "w reboot 1-", Then::kStarts},
    {"ALegCannotBeReadAfterAReboot", "raid5", "w reboot 1e", Then::kStarts},
    {"ALegDiesAndItIsWrittenTo", "raid5", "1- w reboot", Then::kStarts},
    {"AllAreThere", "raid5", "0- w reboot 0+", Then::kStarts},
    {"AllAreThereAndTheGroupWasChanged", "raid5", "0- w reboot 0c", Then::kStarts},
    {"TwoAreGone", "raid5", "reboot 0- 1-", Then::kWaits},
    {"HalfOfItIsOlder", "raid10", "0- 2- w reboot 0+ 2+ 1- 3-", Then::kAsks},
    {"OneOfAPairIsOlder", "raid10", "0- w reboot 0+ 1-", Then::kWaits},
    {"OneIsDead", "raid10", "w reboot 1-", Then::kStarts},
};

INSTANTIATE_TEST_SUITE_P(Repair, StaleLegs, testing::ValuesIn(kFaults),
                         [](const auto& test) { return test.param.type + "_" + test.param.name; });

}  // namespace
}  // namespace quarry::engine
