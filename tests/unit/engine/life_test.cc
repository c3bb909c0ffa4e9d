// The whole life of a volume on fakes with behaviour: what callers see, and what a restart finds after every
// interruption.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "engine/engine.h"
#include "engine/model/catalog.h"
#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

constexpr Bytes kExtent{4 * 1024 * 1024};

AbsolutePath Path(const std::string& text) {
  return *AbsolutePath::Parse(text);
}

class LifeTest : public testing::Test {
 protected:
  LifeTest() {
    lvm_.AddGroup("vg0", kExtent,
                  {{"/dev/a", Extents{100}},
                   {"/dev/b", Extents{100}},
                   {"/dev/c", Extents{100}},
                   {"/dev/d", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory("/stage");
    mount_.AddDirectory("/pods");
    Restart();
  }

  // The state after kill -9: everything in memory is lost, LVM and the kernel are unchanged.
  void Restart() {
    MakeEngine();
    ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }

  void MakeEngine() {
    engine_.reset();
    EngineConfig config;
    config.pools = {{.name = "default", .group = "vg0"}};
    engine_ = std::make_unique<Engine>(config, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
  }

  static Call Soon() { return CallWithin(milliseconds(20000)); }

  Result<CreateResult> Create(const std::string& name, uint64_t extents, Parameters parameters = {},
                              AccessType access = AccessType::kMount) {
    return engine_->volumes().Create(
        {.name = name,
         .range = {Bytes{extents * kExtent.value}, Bytes{extents * kExtent.value}},
         .capabilities = {{.access = access}},
         .parameters = std::move(parameters)},
        Soon());
  }
  Status Stage(const std::string& id, const std::string& path = "/stage/v") {
    mount_.AddDirectory(path);
    return engine_->volumes().Stage({id, Path(path), {}}, Soon());
  }
  Status Publish(const std::string& id, const std::string& target, bool read_only = false,
                 AccessType access = AccessType::kMount) {
    return engine_->volumes().Publish({id, Path("/stage/v"), Path(target), {.access = access}, read_only},
                                      Soon());
  }
  Bytes Available(Parameters parameters = {}) {
    return engine_->volumes().Capacity({}, parameters, Soon())->available;
  }
  size_t LvCount() {
    const auto group = lvm_.Read("vg0", Soon());
    return (*group)->lvs.size();
  }
  // Waits for the eraser. The deadline only ends a test that would hang.
  void UntilErased(size_t lvs_left) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (LvCount() > lvs_left && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    EXPECT_EQ(LvCount(), lvs_left);
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
};

class StuckOnes final : public Subprocess {
 public:
  Result<Finished> Run(const Command& /*command*/, const Call& /*call*/) override {
    return Error(Code::kUnavailable, "runs nothing");
  }
  StuckChildren Stuck() override { return stuck; }
  StuckChildren stuck;
};

TEST_F(LifeTest, ProbeNamesStuckCommandsAndFailsIfThereAreTooMany) {
  StuckOnes children;
  EngineConfig config;
  config.pools = {{.name = "default", .group = "vg0"}};
  config.stuck_limit = 2;
  const fakes::FakeWorld world{
      .lvm = lvm_, .dm = dm_, .erase = erase_, .mount = mount_, .clock = clock_, .children = children};
  engine_ = std::make_unique<Engine>(config, world, log_);
  ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  EXPECT_EQ(engine_->lifecycle().Probe(Soon())->message, "");
  children.stuck = {{412, "lvm"}};
  auto probed = engine_->lifecycle().Probe(Soon());
  ASSERT_TRUE(probed.has_value());
  EXPECT_TRUE(probed->ready);
  EXPECT_NE(probed->message.find("412 lvm"), std::string::npos) << probed->message;
  EXPECT_EQ(engine_->lifecycle().NodeStatus(Soon())->front().figures.problem, "");
  children.stuck.emplace_back(431, "lvm");
  probed = engine_->lifecycle().Probe(Soon());
  ASSERT_FALSE(probed.has_value());
  EXPECT_EQ(probed.error().code(), Code::kPrecondition);
  EXPECT_NE(probed.error().message().find("412 lvm, 431 lvm"), std::string::npos);
  EXPECT_TRUE(engine_->volumes().List(0, "", Soon()).has_value()) << "reads go on";
  for (const std::string& problem : {engine_->lifecycle().NodeStatus(Soon())->front().figures.problem,
                                     engine_->lifecycle().Pools(Soon())->front().problem}) {
    EXPECT_NE(problem.find("412 lvm, 431 lvm"), std::string::npos) << "as monitoring hears it: " << problem;
  }
  children.stuck.clear();
  EXPECT_EQ(engine_->lifecycle().NodeStatus(Soon())->front().figures.problem, "");
}

TEST_F(LifeTest, FiguresCountEveryLegAndVolumesBeingErased) {
  const Bytes whole{400 * kExtent.value};
  auto pools = engine_->lifecycle().Pools(Soon());
  ASSERT_TRUE(pools.has_value());
  ASSERT_EQ(pools->size(), 1U);
  EXPECT_EQ(pools->front().pool, "default");
  EXPECT_EQ(pools->front().size, whole);
  EXPECT_EQ(pools->front().free, whole);
  const auto made = Create("one", 10, {{"type", "raid1"}});
  ASSERT_TRUE(made.has_value());
  pools = engine_->lifecycle().Pools(Soon());
  EXPECT_EQ(pools->front().volumes, 1U);
  EXPECT_EQ(pools->front().free, Bytes{(400 - 22) * kExtent.value}) << "two legs with their metadata";
  erase_.faults.FailAlways("Erase", Error(Code::kIo, "the disk is unwell"));
  ASSERT_TRUE(engine_->volumes().Delete(made->volume.id, Soon()).has_value());
  pools = engine_->lifecycle().Pools(Soon());
  EXPECT_EQ(pools->front().volumes, 0U);
  EXPECT_EQ(pools->front().erase_pending, Bytes{22 * kExtent.value});
}

TEST_F(LifeTest, AWholeLifeReturnsEveryByte) {
  const Bytes before = Available();
  const auto made = Create("one", 10);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  const std::string id = made->volume.id;
  EXPECT_TRUE(made->created);
  EXPECT_EQ(made->volume.size, Bytes{10 * kExtent.value});
  ASSERT_TRUE(Stage(id).has_value());
  const auto published = Publish(id, "/pods/a");
  ASSERT_TRUE(published.has_value()) << published.error().message();
  EXPECT_EQ(engine_->volumes().Delete(id, Soon()).error().code(), Code::kPrecondition);
  EXPECT_TRUE(engine_->volumes().Stats(id, "/pods/a", Soon()).has_value());
  ASSERT_TRUE(engine_->volumes().Unpublish(id, Path("/pods/a"), Soon()).has_value());
  EXPECT_FALSE(mount_.Exists("/pods/a"));
  ASSERT_TRUE(engine_->volumes().Unstage(id, Path("/stage/v"), Soon()).has_value());
  const auto deleted = engine_->volumes().Delete(id, Soon());
  ASSERT_TRUE(deleted.has_value()) << deleted.error().message();
  EXPECT_TRUE(deleted->deleted);
  EXPECT_TRUE(engine_->volumes().List(0, "", Soon())->volumes.empty());
  UntilErased(0);
  EXPECT_EQ(Available(), before);
  EXPECT_FALSE(erase_.Pieces().empty());
}

TEST_F(LifeTest, EveryNodeCallMayBeRepeated) {
  const std::string id = Create("one", 10)->volume.id;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Stage(id).has_value());
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Publish(id, "/pods/a").has_value());
  }
  EXPECT_EQ(mount_.Made().size(), 1U);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(engine_->volumes().Unpublish(id, Path("/pods/a"), Soon()).has_value());
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(engine_->volumes().Unstage(id, Path("/stage/v"), Soon()).has_value());
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
  }
}

// A mounted btrfs has its own device number, which no block device has.
TEST_F(LifeTest, AMountedBtrfsIsRecognised) {
  const Capability btrfs{.fs_type = "btrfs"};
  const auto made = engine_->volumes().Create(
      {.name = "b", .range = {Bytes{40 * kExtent.value}, {}}, .capabilities = {btrfs}, .parameters = {}},
      Soon());
  ASSERT_TRUE(made.has_value()) << made.error().message();
  const std::string id = made->volume.id;
  mount_.AddDirectory("/stage/v");
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(engine_->volumes().Stage({id, Path("/stage/v"), btrfs}, Soon()).has_value());
  }
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Publish(id, "/pods/a").has_value());
  }
  EXPECT_TRUE(engine_->volumes().Stats(id, "/pods/a", Soon())->used.has_value());
  ASSERT_TRUE(engine_->volumes().Unpublish(id, Path("/pods/a"), Soon()).has_value());
  EXPECT_FALSE(mount_.Exists("/pods/a"));
  ASSERT_TRUE(engine_->volumes().Unstage(id, Path("/stage/v"), Soon()).has_value());
  EXPECT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
}

TEST_F(LifeTest, ARepeatedCreateMatchesAndADifferentOneIsRefused) {
  const auto first = Create("one", 10);
  const auto again = Create("one", 10);
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(again->created);
  EXPECT_EQ(again->volume.id, first->volume.id);
  EXPECT_EQ(Create("one", 20).error().code(), Code::kAlreadyExists);
  EXPECT_EQ(Create("one", 10, {{"type", "raid1"}}).error().code(), Code::kAlreadyExists);
  EXPECT_EQ(Create("one", 10, {}, AccessType::kBlock).error().code(), Code::kAlreadyExists);
}

// Which node a volume belongs to that is not on this node.
class NodeIdTest : public LifeTest {
 protected:
  NodeIdTest() { BecomeNode("node-1"); }
  void BecomeNode(const std::string& node) {
    engine_.reset();
    EngineConfig config;
    config.pools = {{.name = "default", .group = "vg0"}};
    config.node = node;
    engine_ = std::make_unique<Engine>(config, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    EXPECT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }
  // The answer of every controller call about the volume.
  void ExpectOfAnother(const std::string& id) {
    const Capability mounted{.access = AccessType::kMount};
    const auto check = [&](const auto& answer) {
      ASSERT_FALSE(answer.has_value());
      EXPECT_EQ(answer.error().code(), Code::kPrecondition) << answer.error().message();
      EXPECT_NE(answer.error().message().find("its id names another"), std::string::npos)
          << answer.error().message();
    };
    check(engine_->volumes().Delete(id, Soon()));
    check(engine_->volumes().Expand(id, {Bytes{20 * kExtent.value}, {}}, {}, Soon()));
    check(engine_->volumes().Validate({id, {mounted}, {}, {}}, Soon()));
    check(engine_->volumes().Get(id, Soon()));
    EXPECT_EQ(Stage(id).error().code(), Code::kNotFound) << "the node's calls come to the right node";
    EXPECT_TRUE(engine_->volumes().Unstage(id, Path("/stage/v"), Soon()).has_value());
  }
  const std::string lv_ = "qaaaaaaaaaaaaaaaaaaaaaaaaaa";
};

TEST_F(NodeIdTest, AVolumeOfAnotherNodeIsNotReportedGone) {
  ExpectOfAnother(lvm::VolumeId("default", lv_, lvm::NodeHash("node-2")));
}

TEST_F(NodeIdTest, AMissingVolumeOfThisNodeOrOfNoNodeIsGone) {
  for (const std::string& id :
       {lvm::VolumeId("default", lv_, lvm::NodeHash("node-1")), lvm::VolumeId("default", lv_)}) {
    EXPECT_TRUE(engine_->volumes().Delete(id, Soon()).has_value()) << id;
    EXPECT_EQ(engine_->volumes().Get(id, Soon()).error().code(), Code::kNotFound);
    EXPECT_EQ(engine_->volumes().Expand(id, {Bytes{1}, {}}, {}, Soon()).error().code(), Code::kNotFound);
    EXPECT_EQ(
        engine_->volumes().Validate({id, {{.access = AccessType::kMount}}, {}, {}}, Soon()).error().code(),
        Code::kNotFound);
  }
}

TEST_F(NodeIdTest, ARenamedNodeServesItsOldVolumes) {
  const auto made = Create("v", 10);
  ASSERT_TRUE(made.has_value());
  const std::string id = made->volume.id;
  EXPECT_EQ(lvm::ParseVolumeId(id)->node_hash, lvm::NodeHash("node-1"));
  BecomeNode("node-2");
  EXPECT_EQ(Create("v", 10)->volume.id, id);
  ASSERT_TRUE(Stage(id).has_value());
  EXPECT_TRUE(engine_->volumes().Expand(id, {Bytes{20 * kExtent.value}, {}}, {}, Soon()).has_value());
  EXPECT_TRUE(engine_->volumes().Get(id, Soon()).has_value());
  ASSERT_TRUE(engine_->volumes().Unstage(id, Path("/stage/v"), Soon()).has_value());
  for (int i = 0; i < 2; ++i) {
    const auto deleted = engine_->volumes().Delete(id, Soon());
    ASSERT_TRUE(deleted.has_value()) << deleted.error().message();
    EXPECT_EQ(deleted->deleted, i == 0);
  }
  EXPECT_EQ(engine_->volumes().Get(id, Soon()).error().code(), Code::kNotFound);
}

TEST_F(NodeIdTest, AVolumeOfAnEarlierBuildIsServed) {
  BecomeNode("");
  const auto made = Create("v", 10);
  ASSERT_TRUE(made.has_value());
  BecomeNode("node-1");
  EXPECT_EQ(Create("v", 10)->volume.id, made->volume.id);
  EXPECT_TRUE(Stage(made->volume.id).has_value());
  ASSERT_TRUE(engine_->volumes().Unstage(made->volume.id, Path("/stage/v"), Soon()).has_value());
  EXPECT_TRUE(engine_->volumes().Delete(made->volume.id, Soon())->deleted);
}

// The profile was written by a build that knows one parameter more, or one less.
TEST_F(LifeTest, ARepeatedCreateFindsAVolumeOfAnotherBuild) {
  const auto made = Create("v", 10);
  ASSERT_TRUE(made.has_value());
  const lvm::LogicalVolume lv = (*lvm_.Read("vg0", Soon()))->lvs.front();
  auto tags = lvm::ParseTags(lv.tags);
  ASSERT_TRUE(tags.has_value() && tags->has_value());
  for (const char* profile :
       {"colour=red\nerase=zero\npool=default\nsync=full\ntype=linear", "pool=default\ntype=linear"}) {
    SCOPED_TRACE(profile);
    const std::vector<std::string> before = (*lvm_.Read("vg0", Soon()))->lvs.front().tags;
    (*tags)->profile = profile;
    std::vector<std::string> add = lvm::BuildTags(**tags);
    std::vector<std::string> remove = before;
    std::erase_if(add,
                  [&](const std::string& tag) { return std::ranges::find(before, tag) != before.end(); });
    const auto wanted = lvm::BuildTags(**tags);
    std::erase_if(remove,
                  [&](const std::string& tag) { return std::ranges::find(wanted, tag) != wanted.end(); });
    ASSERT_TRUE(lvm_.Apply(lvm::ChangeTags{"vg0", lv.name, add, remove}, Soon()).has_value());
    const auto again = Create("v", 10);
    ASSERT_TRUE(again.has_value()) << again.error().message();
    EXPECT_FALSE(again->created);
    EXPECT_EQ(Create("v", 10, {{"type", "striped"}}).error().code(), Code::kAlreadyExists);
    const auto confirmed = engine_->volumes().Validate(
        {made->volume.id, {{.access = AccessType::kMount}}, {{"type", "linear"}}, {}}, Soon());
    ASSERT_TRUE(confirmed.has_value());
    EXPECT_TRUE(confirmed->confirmed) << confirmed->message;
  }
  EXPECT_TRUE(Stage(made->volume.id).has_value());
  EXPECT_TRUE(
      engine_->volumes().Expand(made->volume.id, {Bytes{20 * kExtent.value}, {}}, {}, Soon()).has_value());
}

TEST_F(LifeTest, ARepeatedCreateFindsItsVolumeInAFormerDefaultPool) {
  lvm_.AddGroup("vg1", kExtent, {{"/dev/e", Extents{100}}});
  const auto made = Create("v", 10);
  ASSERT_TRUE(made.has_value());
  engine_.reset();
  EngineConfig config;
  config.pools = {{.name = "other", .group = "vg1"}, {.name = "default", .group = "vg0"}};
  engine_ = std::make_unique<Engine>(config, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
  ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  const auto again = Create("v", 10);
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_EQ(again->volume.id, made->volume.id);
  EXPECT_EQ(Create("v", 10, {{"pool", "other"}}).error().code(), Code::kAlreadyExists);
  const auto elsewhere = Create("w", 10);
  ASSERT_TRUE(elsewhere.has_value());
  EXPECT_EQ(elsewhere->volume.pool, "other");
}

TEST_F(LifeTest, NamesOfAnyScriptAreFoundAfterARestart) {
  const std::string name = "тёмный лес \xF0\x9F\x8C\xB2 'a\"b,c@d%";
  const auto made = Create(name, 5);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  Restart();
  EXPECT_EQ(Create(name, 5)->volume.id, made->volume.id);
}

TEST_F(LifeTest, EveryTypeSurvivesARestartUnchanged) {
  const std::vector<Parameters> types = {{},
                                         {{"type", "striped"}},
                                         {{"type", "raid0"}},
                                         {{"type", "raid1"}},
                                         {{"type", "raid4"}},
                                         {{"type", "raid5"}, {"stripes", "3"}},
                                         {{"type", "raid10"}}};
  std::map<std::string, Bytes> made;
  for (size_t i = 0; i < types.size(); ++i) {
    const auto volume = Create(fmt::format("v{}", i), 12, types[i]);
    ASSERT_TRUE(volume.has_value()) << volume.error().message();
    made[volume->volume.id] = volume->volume.size;
  }
  Restart();
  std::map<std::string, Bytes> listed;
  const auto page = engine_->volumes().List(0, "", Soon());
  for (const Volume& volume : page->volumes) {
    listed[volume.id] = volume.size;
  }
  EXPECT_EQ(listed, made);
}

// Fails the n-th LVM call of a create and of its undo, before or after its effect, which leaves the same as a
// kill at that point.
TEST_F(LifeTest, AnInterruptedCreateIsAllOrNothingAfterARestart) {
  int interrupted = 0;
  for (const char* method : {"Create", "Extend", "Read", "ChangeTags"}) {
    for (const bool after : {false, true}) {
      for (int nth = 1; nth <= 4; ++nth) {
        auto& faults = after ? lvm_.after : lvm_.before;
        faults.FailNth(method, nth, Error(Code::kIo, "killed"));
        lvm_.before.FailAlways("Remove", Error(Code::kIo, "killed"));
        const std::string name = fmt::format("{}-{}-{}", method, after, nth);
        const bool answered = Create(name, 10, {{"type", "raid1"}}).has_value();
        lvm_.before.Clear();
        lvm_.after.Clear();
        Restart();
        const auto listed = engine_->volumes().List(0, "", Soon())->volumes;
        ASSERT_LE(listed.size(), 1U);
        // raid1: the volume, two images and two metadata legs. Nothing else may be left.
        ASSERT_EQ(LvCount(), listed.size() * 5) << name;
        if (answered) {
          ASSERT_EQ(listed.size(), 1U) << name << ": an acknowledged volume is gone";
        } else {
          ++interrupted;
        }
        const auto again = Create(name, 10, {{"type", "raid1"}});
        ASSERT_TRUE(again.has_value()) << name << ": " << again.error().message();
        ASSERT_TRUE(engine_->volumes().Delete(again->volume.id, Soon()).has_value());
        UntilErased(0);
      }
    }
  }
  EXPECT_GE(interrupted, 6);
}

TEST_F(LifeTest, AnInterruptedDeleteLeavesTheVolumeOrNothing) {
  for (const char* method : {"Deactivate", "ChangeTags", "Remove"}) {
    for (const bool after : {false, true}) {
      const std::string name = fmt::format("{}-{}", method, after);
      const std::string id = Create(name, 10)->volume.id;
      (after ? lvm_.after : lvm_.before).FailAlways(method, Error(Code::kIo, "killed"));
      (void)engine_->volumes().Delete(id, Soon());
      engine_.reset();
      lvm_.before.Clear();
      lvm_.after.Clear();
      Restart();
      ASSERT_TRUE(engine_->volumes().Delete(id, Soon()).has_value()) << name;
      UntilErased(0);
    }
  }
}

TEST_F(LifeTest, AFailedEraseIsRetriedBeforeSpaceIsReleased) {
  const std::string id = Create("one", 10)->volume.id;
  erase_.faults.FailAlways("Erase", Error(Code::kIo, "bad disk"));
  ASSERT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
  const Bytes during = Available();
  EXPECT_EQ(LvCount(), 1U);
  erase_.faults.Clear();
  Restart();
  UntilErased(0);
  EXPECT_GT(Available(), during);
}

TEST_F(LifeTest, SpaceThatErasingWillFreeIsUnavailableNotExhausted) {
  const std::string id = Create("big", 390, {{"erase", "zero"}})->volume.id;
  erase_.faults.FailAlways("Erase", Error(Code::kIo, "slow"));
  ASSERT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
  EXPECT_EQ(Create("next", 390).error().code(), Code::kUnavailable);
  EXPECT_EQ(Create("never", 500).error().code(), Code::kOutOfRange);
}

TEST_F(LifeTest, AnInactiveVolumeIsNotDeactivated) {
  const std::string id = Create("one", 10, {{"erase", "zero"}, {"type", "raid1"}})->volume.id;
  ASSERT_TRUE(lvm_.Apply(lvm::DeactivateLv{"vg0", lvm::ParseVolumeId(id)->lv_name, 0}, Soon()).has_value());
  const int before = lvm_.before.Calls("Deactivate");
  ASSERT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
  UntilErased(0);
  EXPECT_EQ(lvm_.before.Calls("Deactivate"), before);
}

TEST_F(LifeTest, WithoutErasingADeletedVolumeIsGoneAtOnce) {
  const std::string id = Create("one", 10, {{"erase", "none"}})->volume.id;
  ASSERT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
  EXPECT_EQ(LvCount(), 0U);
  EXPECT_TRUE(erase_.Pieces().empty());
}

TEST_F(LifeTest, CapacityIsExactToOneGranule) {
  ASSERT_TRUE(Create("a", 30).has_value());
  ASSERT_TRUE(Create("b", 7, {{"type", "raid1"}}).has_value());
  for (const Parameters& profile : std::vector<Parameters>{{},
                                                           {{"type", "raid1"}},
                                                           {{"type", "striped"}, {"stripes", "3"}},
                                                           {{"type", "raid5"}},
                                                           {{"type", "raid10"}}}) {
    const auto capacity = engine_->volumes().Capacity({}, profile, Soon());
    const uint64_t most = capacity->available.value / kExtent.value;
    const uint64_t granule = capacity->minimum_size.value / kExtent.value;
    ASSERT_GT(most, 0U);
    EXPECT_EQ(Create("more", most + granule, profile).error().code(), Code::kNoSpace);
    const auto made = Create("most", most, profile);
    ASSERT_TRUE(made.has_value()) << made.error().message();
    Parameters none = profile;
    ASSERT_TRUE(engine_->volumes().Delete(made->volume.id, Soon()).has_value());
    UntilErased(6);  // a, and b with its four legs
  }
}

TEST_F(LifeTest, AHundredParallelCreatesFillSpaceForThirtySeven) {
  // 400 extents have space for exactly 37 volumes of 10 once 30 are taken.
  ASSERT_TRUE(Create("filler", 30).has_value());
  std::atomic<int> made = 0;
  std::atomic<int> exhausted = 0;
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < 100; ++i) {
      clients.emplace_back([&, i] {
        const auto volume = Create(fmt::format("v{}", i), 10);
        if (volume.has_value()) {
          ++made;
        } else if (volume.error().code() == Code::kNoSpace) {
          ++exhausted;
        } else {
          ADD_FAILURE() << volume.error().message();
        }
      });
    }
  }
  EXPECT_EQ(made, 37);
  EXPECT_EQ(exhausted, 63);
}

TEST_F(LifeTest, TwoParallelCreatesOfOneNameMakeOneVolume) {
  std::set<std::string> ids;
  std::mutex mutex;
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < 8; ++i) {
      clients.emplace_back([&] {
        auto made = Create("same", 10);
        while (!made.has_value() && made.error().code() == Code::kBusy) {
          made = Create("same", 10);
        }
        const std::lock_guard lock(mutex);
        ids.insert(made.has_value() ? made->volume.id : made.error().message());
      });
    }
  }
  EXPECT_EQ(ids.size(), 1U);
  EXPECT_EQ(LvCount(), 1U);
}

TEST_F(LifeTest, AFailedReadIsNeverTakenForAbsence) {
  const std::string id = Create("one", 10)->volume.id;
  lvm_.before.FailAlways("Read", Error(Code::kTimeout, "a stuck disk"));
  EXPECT_EQ(engine_->volumes().Delete(id, Soon()).error().code(), Code::kTimeout);
  EXPECT_EQ(Create("one", 10).error().code(), Code::kTimeout);
  EXPECT_EQ(engine_->volumes().Get(id, Soon()).error().code(), Code::kTimeout);
  lvm_.before.Clear();
  EXPECT_TRUE(engine_->volumes().Get(id, Soon()).has_value());
  lvm_.RemoveGroup("vg0");
  EXPECT_EQ(engine_->volumes().Delete(id, Soon()).error().code(), Code::kUnavailable);
  EXPECT_EQ(engine_->lifecycle().Probe(Soon()).error().code(), Code::kPrecondition);
}

TEST_F(LifeTest, PagesListEveryVolumeOnceDespiteChanges) {
  std::set<std::string> made;
  for (int i = 0; i < 7; ++i) {
    made.insert(Create(fmt::format("v{}", i), 3)->volume.id);
  }
  std::set<std::string> seen;
  std::string token;
  do {
    const auto page = engine_->volumes().List(2, token, Soon());
    ASSERT_TRUE(page.has_value());
    EXPECT_LE(page->volumes.size(), 2U);
    for (const Volume& volume : page->volumes) {
      EXPECT_TRUE(seen.insert(volume.id).second);
    }
    token = page->next_token;
  } while (!token.empty());
  EXPECT_EQ(seen, made);
  EXPECT_EQ(engine_->volumes().List(2, "invalid-token", Soon()).error().code(), Code::kStaleToken);
}

TEST_F(LifeTest, AGrowthReachesItsSizeAndNeverShrinks) {
  const std::string id = Create("one", 10, {{"type", "raid1"}})->volume.id;
  const auto grown = engine_->volumes().Expand(id, {Bytes{20 * kExtent.value}, {}}, std::nullopt, Soon());
  ASSERT_TRUE(grown.has_value()) << grown.error().message();
  EXPECT_EQ(grown->size, Bytes{20 * kExtent.value});
  EXPECT_TRUE(grown->node_expansion_required);
  EXPECT_EQ(engine_->volumes().Get(id, Soon())->size, grown->size);
  EXPECT_EQ(engine_->volumes().Expand(id, {Bytes{kExtent.value}, {}}, std::nullopt, Soon())->size,
            grown->size);
  EXPECT_EQ(
      engine_->volumes().Expand(id, {Bytes{1}, Bytes{kExtent.value}}, std::nullopt, Soon()).error().code(),
      Code::kOutOfRange);
  EXPECT_EQ(engine_->volumes().Expand(id, {Bytes{90 * kExtent.value}, {}}, std::nullopt, Soon())->size,
            Bytes{90 * kExtent.value});
  EXPECT_EQ(
      engine_->volumes().Expand(id, {Bytes{100 * kExtent.value}, {}}, std::nullopt, Soon()).error().code(),
      Code::kOutOfRange);
}

TEST_F(LifeTest, NodeExpandGrowsTheFileSystemToItsDevice) {
  const std::string id = Create("one", 10)->volume.id;
  ASSERT_TRUE(Stage(id).has_value());
  ASSERT_TRUE(Publish(id, "/pods/a").has_value());
  ASSERT_TRUE(
      engine_->volumes().Expand(id, {Bytes{20 * kExtent.value}, {}}, std::nullopt, Soon()).has_value());
  EXPECT_EQ(*engine_->volumes().NodeExpand({id, "/pods/a", "", {}}, Soon()), Bytes{20 * kExtent.value});
  EXPECT_EQ(engine_->volumes()
                .NodeExpand({id, "/pods/a", "", {Bytes{30 * kExtent.value}, {}}}, Soon())
                .error()
                .code(),
            Code::kOutOfRange);
  EXPECT_EQ(engine_->volumes().NodeExpand({id, "some/path", "", {}}, Soon()).error().code(), Code::kNotFound);
  // As a growth leaves it that was killed before its commit: the rest may be another volume's.
  EXPECT_TRUE(dm_.SetSize(ReadCatalog("default", *lvm_.Read("vg0", Soon())).ById(id)->DmUuid(),
                          Bytes{21 * kExtent.value})
                  .has_value());
  EXPECT_EQ(engine_->volumes().NodeExpand({id, "/pods/a", "", {}}, Soon()).error().code(),
            Code::kUnavailable);
}

TEST_F(LifeTest, APublishedRawDeviceIsHeldByTheNextProcessToo) {
  const std::string id = Create("raw", 10, {}, AccessType::kBlock)->volume.id;
  ASSERT_TRUE(
      engine_->volumes().Stage({id, Path("/stage/v"), {.access = AccessType::kBlock}}, Soon()).has_value());
  const auto published = Publish(id, "/pods/dev", false, AccessType::kBlock);
  ASSERT_TRUE(published.has_value()) << published.error().message();
  EXPECT_EQ(engine_->volumes().Delete(id, Soon()).error().code(), Code::kPrecondition);
  Restart();
  const auto refused = engine_->volumes().Delete(id, Soon());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  ASSERT_TRUE(engine_->volumes().Unpublish(id, Path("/pods/dev"), Soon()).has_value());
  EXPECT_FALSE(mount_.Exists("/pods/dev"));
  EXPECT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
}

TEST_F(LifeTest, ARebootDoesNotFormatAVolumeAgain) {
  const std::string id = Create("one", 10)->volume.id;
  ASSERT_TRUE(Stage(id).has_value());
  lvm_.Reboot();
  dm_.Reboot();
  mount_.Reboot();
  Restart();
  ASSERT_TRUE(Stage(id).has_value());
  EXPECT_EQ(mount_.Made().size(), 1U);
}

TEST_F(LifeTest, MkfsIsRepeatedOnlyIfItWasInterrupted) {
  const std::string id = Create("one", 10)->volume.id;
  mount_.faults.FailNth("MakeInterrupted", 1, Error(Code::kTimeout, "killed"));
  EXPECT_FALSE(Stage(id).has_value());
  Restart();
  const auto staged = Stage(id);
  ASSERT_TRUE(staged.has_value()) << staged.error().message();
  ASSERT_TRUE(engine_->volumes().Unstage(id, Path("/stage/v"), Soon()).has_value());
  mount_.SetContent(dm_.Devices().front().uuid, {});
  EXPECT_EQ(Stage(id).error().code(), Code::kCorrupt);
}

TEST_F(LifeTest, UnpublishNeverTouchesAnotherMount) {
  const std::string one = Create("one", 10)->volume.id;
  const std::string two = Create("two", 10)->volume.id;
  ASSERT_TRUE(Stage(one).has_value());
  ASSERT_TRUE(Publish(one, "/pods/a").has_value());
  EXPECT_TRUE(engine_->volumes().Unpublish(two, Path("/pods/a"), Soon()).has_value());
  EXPECT_TRUE(engine_->volumes().Unpublish("unknown", Path("/pods/a"), Soon()).has_value());
  EXPECT_TRUE(engine_->volumes().Stats(one, "/pods/a", Soon()).has_value());
  EXPECT_TRUE(engine_->volumes().Unpublish(two, Path("/pods/never"), Soon()).has_value());
}

TEST_F(LifeTest, UnmanagedVolumesAreInvisibleAndUntouched) {
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {
    lvm::LogicalVolume lv;
    lv.name = "root";
    lv.uuid = "foreign";
    lv.size = Bytes{10 * kExtent.value};
    lv.segment_type = "linear";
    lvm::Segment segment;
    segment.type = "linear";
    segment.logical = {Extents{0}, Extents{10}};
    segment.areas = {{group.pvs.front().uuid, "", {Extents{0}, Extents{10}}}};
    lv.segments = {segment};
    group.lvs.push_back(lv);
  });
  Restart();
  EXPECT_TRUE(engine_->volumes().List(0, "", Soon())->volumes.empty());
  EXPECT_FALSE(engine_->volumes().Delete("default.root", Soon())->deleted);
  EXPECT_FALSE(engine_->volumes().Delete("root", Soon())->deleted);
  EXPECT_EQ(LvCount(), 1U);
  EXPECT_EQ(Available(), Bytes{390 * kExtent.value});
}

TEST_F(LifeTest, AMissingKernelTargetMeansNoCapacityAndARefusal) {
  dm_.SetTarget("raid", false);
  const auto capacity = engine_->volumes().Capacity({}, {{"type", "raid1"}}, Soon());
  EXPECT_EQ(capacity->available, Bytes{0});
  EXPECT_NE(capacity->reason.find("raid"), std::string::npos);
  EXPECT_EQ(Create("one", 10, {{"type", "raid1"}}).error().code(), Code::kInvalidArgument);
}

class NewPoolTest : public LifeTest {
 protected:
  Status StartOn(const std::vector<std::string>& devices) {
    EngineConfig config;
    config.pools = {{.name = "new", .group = "vg1"}};
    for (const std::string& device : devices) {
      config.pools.front().devices.push_back({.path = device});
    }
    config.extent_size = kMiB;
    engine_ = std::make_unique<Engine>(config, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    return engine_->lifecycle().Start(Soon());
  }
};

TEST_F(NewPoolTest, AGroupIsMadeOfBlankDisksOnce) {
  for (const char* device : {"/dev/x", "/dev/y"}) {
    lvm_.AddBlankDisk({device, Extents{50}});
    mount_.SetDiskContent(device, {});
  }
  ASSERT_TRUE(StartOn({"/dev/x", "/dev/y"}).has_value());
  EXPECT_EQ((*lvm_.Read("vg1", Soon()))->extent_size, kMiB);
  EXPECT_EQ(Available(), Bytes{100 * kMiB.value});
  mount_.SetDiskContent("/dev/x", {mount::Content::Kind::kOther, "LVM2_member", ""});
  EXPECT_TRUE(StartOn({"/dev/x", "/dev/y"}).has_value());
}

TEST_F(NewPoolTest, AGroupIsNotMadeOfADiskThatHoldsData) {
  lvm_.AddBlankDisk({"/dev/x", Extents{50}});
  lvm_.AddBlankDisk({"/dev/y", Extents{50}});
  mount_.SetDiskContent("/dev/x", {});
  mount_.SetDiskContent("/dev/y", {mount::Content::Kind::kFilesystem, "xfs", "u"});
  const auto refused = StartOn({"/dev/x", "/dev/y"});
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_NE(refused.error().message().find("/dev/y is not blank: it holds xfs"), std::string::npos);
  EXPECT_EQ(lvm_.Read("vg1", Soon()).error().code(), Code::kNotFound);
  EXPECT_EQ(engine_->lifecycle().Probe(Soon()).error().code(), Code::kPrecondition);
  EXPECT_EQ(StartOn({"/dev/x", "/dev/z"}).error().code(), Code::kPrecondition);
}

TEST_F(LifeTest, CallsAreRefusedAfterStop) {
  ASSERT_TRUE(engine_->lifecycle().Stop(Soon()).has_value());
  EXPECT_EQ(Create("late", 10).error().code(), Code::kUnavailable);
  EXPECT_FALSE(engine_->lifecycle().Probe(Soon())->ready);
}

TEST_F(LifeTest, ACallDuringTheStartWaitsForIt) {
  MakeEngine();
  EXPECT_FALSE(engine_->lifecycle().Probe(Soon())->ready);
  auto created = std::async(std::launch::async, [&] { return Create("early", 10); });
  EXPECT_EQ(created.wait_for(milliseconds(50)), std::future_status::timeout);
  ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  EXPECT_TRUE(created.get().has_value());
}

TEST_F(LifeTest, ACallWaitsForAStartOnlyUntilItsDeadline) {
  MakeEngine();
  const auto listed = engine_->volumes().List(0, "", CallWithin(milliseconds(20)));
  EXPECT_EQ(listed.error().code(), Code::kUnavailable);
  EXPECT_NE(listed.error().message().find("starting"), std::string::npos);
}

TEST_F(LifeTest, CallsAfterAFailedStartSayWhyUntilAStartSucceeds) {
  MakeEngine();
  lvm_.before.FailAlways("Read", Error(Code::kIo, "the disk does not answer"));
  auto waiting = std::async(std::launch::async, [&] { return engine_->volumes().List(0, "", Soon()); });
  EXPECT_FALSE(engine_->lifecycle().Start(Soon()).has_value());
  const auto refused = waiting.get();
  EXPECT_EQ(refused.error().code(), Code::kUnavailable);
  EXPECT_NE(refused.error().message().find("the disk does not answer"), std::string::npos);
  EXPECT_EQ(engine_->volumes().List(0, "", Soon()).error().code(), Code::kUnavailable);
  lvm_.before.Clear();
  ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  EXPECT_TRUE(engine_->volumes().List(0, "", Soon()).has_value());
}

TEST_F(LifeTest, StopWaitsForCallsInFlight) {
  std::atomic<bool> inside = false;
  lvm_.SetOnCall([&](const std::string& method) {
    if (method == "Create") {
      inside = true;
      inside.notify_all();
      std::this_thread::sleep_for(milliseconds(300));
    }
  });
  bool made = false;
  std::jthread client([&] { made = Create("one", 10).has_value(); });
  inside.wait(false);
  EXPECT_TRUE(engine_->lifecycle().Stop(Soon()).has_value());
  client.join();
  EXPECT_TRUE(made);
}

}  // namespace
}  // namespace quarry::engine
