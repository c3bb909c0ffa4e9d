// Several pools, some of them missing (pulled) or silent. Such a pool costs its own calls and nothing else,
// wherever it stands in the configuration.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "engine/engine.h"
#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"
#include "tests/unit/engine/eventually.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr Bytes kExtent{4 * 1024 * 1024};
const std::string kHandle = "csi-" + std::string(63, '0') + "a";
// The name part of ids of volumes that never existed.
const std::string kNobody = "qaaaaaaaaaaaaaaaaaaaaaaaaaa";

AbsolutePath Path(const std::string& text) {
  return *AbsolutePath::Parse(text);
}

bool Eventually(const auto& holds) {
  return engine::Eventually(holds, seconds(30));
}

// "bad" comes first, so requests that name no pool get it.
class PoolsTest : public testing::Test {
 protected:
  PoolsTest() {
    lvm_.AddGroup("vg-bad", kExtent, {{"/dev/a", Extents{100}}});
    lvm_.AddGroup("vg-good", kExtent, {{"/dev/b", Extents{100}}, {"/dev/c", Extents{100}}});
    lvm_.AddGroup("vg-last", kExtent, {{"/dev/d", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    for (const char* path : {"/stage", "/pods"}) {
      mount_.AddDirectory(path);
    }
  }
  ~PoolsTest() override {
    engine_.reset();
    close(log_pipe_[0]);
    close(log_pipe_[1]);
  }

  static Call Soon() { return CallWithin(seconds(20)); }
  static std::array<int, 2> Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    return ends;
  }

  // As after kill -9: the memory of quarryd is lost, and the world is unchanged.
  Status Restart(const std::vector<std::string>& names = {"bad", "good", "last"}) {
    engine_.reset();
    EngineConfig config;
    for (const std::string& name : names) {
      config.pools.push_back({.name = name, .group = groups_.at(name)});
    }
    config.ephemeral_max_size = kGiB;
    engine_ = std::make_unique<Engine>(config, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    return engine_->lifecycle().Start(Soon());
  }

  Result<CreateResult> Create(const std::string& name, const std::string& pool, bool elsewhere = false,
                              AccessType access = AccessType::kMount, uint64_t extents = 10) {
    Parameters parameters;
    if (!pool.empty()) {
      parameters["pool"] = pool;
    }
    return engine_->volumes().Create({.name = name,
                                      .range = {Bytes{extents * kExtent.value}, {}},
                                      .capabilities = {{.access = access}},
                                      .parameters = parameters,
                                      .elsewhere = elsewhere},
                                     Soon());
  }
  std::string MustCreate(const std::string& name, const std::string& pool,
                         AccessType access = AccessType::kMount) {
    Result<CreateResult> made = Error(Code::kInternal, "");
    // The space of raw volumes is zeroed first, so a create may have to be repeated.
    EXPECT_TRUE(Eventually([&] { return (made = Create(name, pool, false, access)).has_value(); }))
        << made.error().message();
    return made.has_value() ? made->volume.id : "";
  }
  // Stages and publishes at "/stage/NAME" and "/pods/NAME".
  void Use(const std::string& id, const std::string& name, AccessType access = AccessType::kMount) {
    mount_.AddDirectory("/stage/" + name);
    const Status staged = engine_->volumes().Stage({id, Path("/stage/" + name), {.access = access}}, Soon());
    ASSERT_TRUE(staged.has_value()) << staged.error().message();
    const Status published = engine_->volumes().Publish(
        {id, Path("/stage/" + name), Path("/pods/" + name), {.access = access}, false}, Soon());
    ASSERT_TRUE(published.has_value()) << published.error().message();
  }
  void EndUse(const std::string& id, const std::string& name) {
    const Status unpublished = engine_->volumes().Unpublish(id, Path("/pods/" + name), Soon());
    EXPECT_TRUE(unpublished.has_value()) << unpublished.error().message();
    const Status unstaged = engine_->volumes().Unstage(id, Path("/stage/" + name), Soon());
    EXPECT_TRUE(unstaged.has_value()) << unstaged.error().message();
    EXPECT_FALSE(IsMounted("/pods/" + name));
    EXPECT_FALSE(IsMounted("/stage/" + name));
  }
  bool IsMounted(const std::string& path) { return mount_.Mounts()->At(Path(path)) != nullptr; }
  // Expects that the good pool is served, whatever happens to the others.
  void ExpectGoodServes(const std::string& name) {
    const auto begin = steady_clock::now();
    const std::string id = MustCreate(name, "good");
    ASSERT_NO_FATAL_FAILURE(Use(id, name));
    EXPECT_TRUE(engine_->volumes().Stats(id, "/pods/" + name, Soon()).has_value());
    EXPECT_TRUE(
        engine_->volumes().Expand(id, {Bytes{12 * kExtent.value}, {}}, std::nullopt, Soon()).has_value());
    EndUse(id, name);
    EXPECT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
    EXPECT_TRUE(engine_->volumes().Capacity({}, {{"pool", "good"}}, Soon())->available > Bytes{0});
    const auto probed = engine_->lifecycle().Probe(Soon());
    EXPECT_TRUE(probed.has_value() && probed->ready);
    EXPECT_LT(steady_clock::now() - begin, seconds(15)) << "it waited for another pool";
  }
  EphemeralRequest Inline(const std::string& pool) {
    return {.publish = {.id = kHandle,
                        .staging_path = std::nullopt,
                        .target_path = Path("/pods/inline"),
                        .capability = {.access = AccessType::kMount}},
            .size = Bytes{10 * kExtent.value},
            .parameters = {{"pool", pool}}};
  }
  size_t LvsOf(const std::string& group) {
    const auto read = lvm_.Read(group, Soon());
    return read.has_value() ? (*read)->lvs.size() : 0;
  }
  void AddHalfMade(const std::string& group) {
    lvm_.Edit(group, [](lvm::VolumeGroup& now) {
      lvm::LogicalVolume lv;
      lv.name = lvm::NewLvName();
      lv.uuid = "uuid-of-" + lv.name;
      lv.size = kExtent;
      lv.segment_type = "linear";
      lv.tags = {std::string(lvm::kCreatingTag)};
      lvm::Segment segment;
      segment.type = "linear";
      segment.logical = {Extents{0}, Extents{1}};
      segment.areas = {{now.pvs.front().uuid, "", {now.pvs.front().free.front().first, Extents{1}}}};
      lv.segments = {segment};
      now.lvs.push_back(lv);
    });
  }
  // An unmanaged logical volume, as an administrator makes it by hand.
  void AddTheirs(const std::string& group, const std::string& name) {
    const auto now = *lvm_.Read(group, Soon());
    const auto geometry = *lvm::Geometry::Make({});
    const auto placement = lvm::Place(lvm::FreeSpaceOf(*now), geometry, Extents{16}, *now);
    ASSERT_TRUE(placement.has_value()) << placement.error().message();
    ASSERT_TRUE(
        lvm_.Apply(
                lvm::CreateLv{
                    .group = group, .name = name, .geometry = geometry, .step = placement->steps.front()},
                Soon())
            .has_value());
  }
  // The log so far.
  std::string Logged() {
    std::string text;
    std::array<char, 65536> buffer{};
    log_.Info("end of what was logged");
    while (text.find("end of what was logged") == std::string::npos) {
      const ssize_t got = read(log_pipe_[0], buffer.data(), buffer.size());
      text.append(buffer.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
    }
    return text;
  }

  const std::map<std::string, std::string> groups_ = {
      {"bad", "vg-bad"}, {"good", "vg-good"}, {"last", "vg-last"}, {"renamed", "vg-bad"}};
  std::array<int, 2> log_pipe_ = Pipe();  // before the log
  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kInfo, LogFormat::kText, log_pipe_[1]};
  std::unique_ptr<Engine> engine_;
};

TEST_F(PoolsTest, PoolsAfterAFailedPoolAreStartedAndServed) {
  lvm_.SetAway("vg-bad", true);
  AddHalfMade("vg-good");
  AddHalfMade("vg-last");
  const Status started = Restart();
  ASSERT_FALSE(started.has_value());
  EXPECT_NE(started.error().message().find("pool 'bad'"), std::string::npos) << started.error().message();
  EXPECT_EQ(LvsOf("vg-good"), 0U);
  EXPECT_EQ(LvsOf("vg-last"), 0U);
  ASSERT_NO_FATAL_FAILURE(ExpectGoodServes("one"));
  EXPECT_TRUE(Create("two", "last").has_value());
  EXPECT_EQ(Create("three", "bad").error().code(), Code::kUnavailable);
  EXPECT_EQ(Create("three", "").error().code(), Code::kUnavailable);
}

TEST_F(PoolsTest, AFailedPoolIsServedOnceItsGroupIsThere) {
  lvm_.SetAway("vg-bad", true);
  ASSERT_FALSE(Restart().has_value());
  EXPECT_FALSE(engine_->lifecycle().StartPool("bad", Soon()).has_value());
  lvm_.SetAway("vg-bad", false);
  ASSERT_TRUE(engine_->lifecycle().StartPool("bad", Soon()).has_value());
  EXPECT_TRUE(Create("three", "bad").has_value());
  EXPECT_EQ(engine_->lifecycle().StartPool("none", Soon()).error().code(), Code::kInvalidArgument);
}

TEST_F(PoolsTest, APoolLostWhileServedCostsOnlyItsOwnCallsAndReturns) {
  ASSERT_TRUE(Restart().has_value());
  const std::string id = MustCreate("there", "bad");
  lvm_.SetAway("vg-bad", true);
  ASSERT_NO_FATAL_FAILURE(ExpectGoodServes("one"));
  EXPECT_EQ(Create("three", "bad").error().code(), Code::kPrecondition);
  EXPECT_EQ(engine_->volumes().Delete(id, Soon()).error().code(), Code::kUnavailable);
  lvm_.SetAway("vg-bad", false);
  EXPECT_TRUE(Create("three", "bad").has_value());
  EXPECT_TRUE(engine_->volumes().Delete(id, Soon())->deleted);
}

TEST_F(PoolsTest, ASilentPoolDoesNotDelayOtherPools) {
  ASSERT_TRUE(Restart().has_value());
  lvm_.SetGroupSilent("vg-bad", true);
  lvm_.SetGroupSilent("vg-last", true);
  ASSERT_NO_FATAL_FAILURE(ExpectGoodServes("one"));
  ASSERT_NO_FATAL_FAILURE(ExpectGoodServes("two"));
  lvm_.SetGroupSilent("vg-bad", false);
  lvm_.SetGroupSilent("vg-last", false);
  EXPECT_TRUE(Create("three", "bad").has_value());
}

TEST_F(PoolsTest, ASilentPoolDoesNotDelayTheRepairsOfOtherPools) {
  ASSERT_TRUE(Restart().has_value());
  lvm_.SetGroupSilent("vg-bad", true);
  std::atomic<bool> ended = false;
  std::jthread repairing([&](const std::stop_token& stop) {
    (void)engine_->upkeep().Repair(RepairCause::kDisks, Call{.stop = stop}, {}, "bad");
    ended = true;
  });
  const auto good = engine_->upkeep().Repair(RepairCause::kDisks, Soon(), {}, "good");
  ASSERT_TRUE(good.has_value());
  EXPECT_TRUE(good->obstacles.empty());
  EXPECT_FALSE(ended);
  lvm_.SetGroupSilent("vg-bad", false);
}

TEST_F(PoolsTest, AStartWarnsAboutVolumesThatNameAnotherNode) {
  const auto start_as = [&](const std::string& node) {
    engine_.reset();
    engine_ =
        std::make_unique<Engine>(EngineConfig{.pools = {{.name = "good", .group = "vg-good"}}, .node = node},
                                 fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    EXPECT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
    return Logged();
  };
  start_as("one");
  MustCreate("volume", "good");
  EXPECT_EQ(start_as("one").find("name another node"), std::string::npos);
  EXPECT_NE(start_as("renamed").find("name another node"), std::string::npos);
}

TEST_F(PoolsTest, ASilentPoolDoesNotPreventOthersFromStarting) {
  lvm_.SetGroupSilent("vg-bad", true);
  engine_.reset();
  EngineConfig config;
  config.pools = {{.name = "bad", .group = "vg-bad"}, {.name = "good", .group = "vg-good"}};
  engine_ = std::make_unique<Engine>(config, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
  std::jthread starting(
      [&](const std::stop_token& stop) { (void)engine_->lifecycle().StartPool("bad", Call{.stop = stop}); });
  ASSERT_TRUE(engine_->lifecycle().StartPool("good", Soon()).has_value());
  ASSERT_NO_FATAL_FAILURE(ExpectGoodServes("one"));
  lvm_.SetGroupSilent("vg-bad", false);
  EXPECT_TRUE(Eventually([&] { return Create("late", "bad").has_value(); }));
}

TEST_F(PoolsTest, ANameIsLookedUpInTheNamedPoolAndInReadablePools) {
  ASSERT_TRUE(Restart().has_value());
  MustCreate("one", "last");
  lvm_.SetAway("vg-bad", true);
  EXPECT_EQ(Create("one", "good").error().code(), Code::kAlreadyExists);
  const std::string id = MustCreate("two", "good");
  const auto again = Create("two", "good");
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(again->created);
  EXPECT_EQ(again->volume.id, id);
}

TEST_F(PoolsTest, AnIdIsGoneOnlyIfItsOwnPoolSaysSo) {
  ASSERT_TRUE(Restart().has_value());
  EXPECT_FALSE(engine_->volumes().Delete("bad." + kNobody, Soon())->deleted);
  EXPECT_EQ(engine_->volumes().Delete("older." + kNobody, Soon()).error().code(), Code::kPrecondition);
  EXPECT_FALSE(engine_->volumes().Delete("no id of ours", Soon())->deleted);
  lvm_.SetAway("vg-bad", true);
  EXPECT_FALSE(engine_->volumes().Delete("good." + kNobody, Soon())->deleted);
  EXPECT_EQ(engine_->volumes().Get("good." + kNobody, Soon()).error().code(), Code::kNotFound);
  EXPECT_EQ(engine_->volumes().Delete("bad." + kNobody, Soon()).error().code(), Code::kUnavailable);
  EXPECT_EQ(engine_->volumes().Delete("older." + kNobody, Soon()).error().code(), Code::kUnavailable);
  EXPECT_EQ(engine_->volumes().Get("bad." + kNobody, Soon()).error().code(), Code::kUnavailable);
}

TEST_F(PoolsTest, AVolumeOfARenamedPoolIsFoundWhileAnotherPoolIsLost) {
  ASSERT_TRUE(Restart().has_value());
  const std::string id = MustCreate("one", "bad");
  lvm_.SetAway("vg-last", true);
  ASSERT_FALSE(Restart({"renamed", "good", "last"}).has_value());
  EXPECT_TRUE(engine_->volumes().Get(id, Soon()).has_value());
  EXPECT_TRUE(engine_->volumes().Delete(id, Soon())->deleted);
}

TEST_F(PoolsTest, AVolumeDeletedFromARenamedPoolIsGone) {
  ASSERT_TRUE(Restart().has_value());
  const std::string id = MustCreate("one", "bad");
  ASSERT_TRUE(Restart({"renamed", "good", "last"}).has_value());
  EXPECT_TRUE(engine_->volumes().Delete(id, Soon())->deleted);
  ASSERT_TRUE(Eventually([&] { return LvsOf("vg-bad") == 0; }));
  const auto again = engine_->volumes().Delete(id, Soon());
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_FALSE(again->deleted);
}

TEST_F(PoolsTest, PodsOfAPoolRemovedFromTheConfigurationEnd) {
  ASSERT_TRUE(Restart().has_value());
  const std::string mounted = MustCreate("mounted", "bad");
  const std::string raw = MustCreate("raw", "bad", AccessType::kBlock);
  const std::string other = MustCreate("other", "bad");
  AddTheirs("vg-bad", "theirs");
  const auto adopted =
      engine_->adoption().Adopt({.group = "vg-bad", .lv_name = "theirs", .fs_type = "ext4"}, Soon());
  ASSERT_TRUE(adopted.has_value()) << adopted.error().message();
  ASSERT_NO_FATAL_FAILURE(Use(mounted, "mounted"));
  ASSERT_NO_FATAL_FAILURE(Use(raw, "raw", AccessType::kBlock));
  ASSERT_NO_FATAL_FAILURE(Use(adopted->volume.id, "adopted"));
  ASSERT_TRUE(Restart({"good", "last"}).has_value());
  ASSERT_TRUE(engine_->volumes().Unpublish(other, Path("/pods/mounted"), Soon()).has_value());
  ASSERT_TRUE(engine_->volumes().Unstage(other, Path("/stage/mounted"), Soon()).has_value());
  EXPECT_TRUE(IsMounted("/pods/mounted") && IsMounted("/stage/mounted")) << "it is another volume's";
  EndUse(mounted, "mounted");
  EndUse(raw, "raw");
  EndUse(adopted->volume.id, "adopted");
}

TEST_F(PoolsTest, AVolumeOfAPoolRemovedFromTheConfigurationIsNotGone) {
  ASSERT_TRUE(Restart().has_value());
  const std::string id = MustCreate("one", "bad");
  ASSERT_TRUE(Restart({"good", "last"}).has_value());
  const auto refused = engine_->volumes().Delete(id, Soon());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  for (const char* words : {"pool 'bad'", "Configure the pool again", "lvremove"}) {
    EXPECT_NE(refused.error().message().find(words), std::string::npos) << refused.error().message();
  }
  EXPECT_EQ(LvsOf("vg-bad"), 1U);
  ASSERT_TRUE(Restart().has_value());
  EXPECT_TRUE(engine_->volumes().Delete(id, Soon())->deleted);
}

TEST_F(PoolsTest, ListFailsWhileAPoolCannotBeRead) {
  ASSERT_TRUE(Restart().has_value());
  MustCreate("one", "good");
  lvm_.SetAway("vg-bad", true);
  EXPECT_EQ(engine_->volumes().List(0, "", Soon()).error().code(), Code::kUnavailable);
  lvm_.SetAway("vg-bad", false);
  EXPECT_TRUE(Eventually([&] { return engine_->volumes().List(0, "", Soon()).has_value(); }));
}

// Before and after a restart. After it, quarryd knows only the name of the lost group.
TEST_F(PoolsTest, PodsOfALostPoolEnd) {
  ASSERT_TRUE(Restart().has_value());
  std::vector<std::string> ids;
  for (const std::string& name : std::vector<std::string>{"mounted", "raw", "mounted2", "raw2"}) {
    const AccessType access = name.starts_with("raw") ? AccessType::kBlock : AccessType::kMount;
    ids.push_back(MustCreate(name, "bad", access));
    ASSERT_NO_FATAL_FAILURE(Use(ids.back(), name, access));
  }
  lvm_.SetAway("vg-bad", true);
  EndUse(ids[0], "mounted");
  EndUse(ids[1], "raw");
  ASSERT_FALSE(Restart().has_value());
  EndUse(ids[2], "mounted2");
  EndUse(ids[3], "raw2");
  EndUse(ids[3], "raw2");
  for (const dm::Device& device : dm_.Devices()) {
    EXPECT_EQ(dm_.OpenCount(device.uuid), 0U) << device.name << " is held";
  }
}

TEST_F(PoolsTest, PodsOfASilentPoolEndAtOnce) {
  ASSERT_TRUE(Restart().has_value());
  const std::string id = MustCreate("one", "bad");
  ASSERT_NO_FATAL_FAILURE(Use(id, "one"));
  lvm_.SetGroupSilent("vg-bad", true);
  const auto begin = steady_clock::now();
  EndUse(id, "one");
  EXPECT_LT(steady_clock::now() - begin, seconds(10));
  lvm_.SetGroupSilent("vg-bad", false);
}

TEST_F(PoolsTest, AMountNotProvenToBeTheVolumesIsNotUnmounted) {
  ASSERT_TRUE(Restart().has_value());
  const std::string one = MustCreate("one", "bad");
  const std::string two = MustCreate("two", "bad");
  const std::string good = MustCreate("three", "good");
  ASSERT_NO_FATAL_FAILURE(Use(one, "one"));
  ASSERT_NO_FATAL_FAILURE(Use(good, "three"));
  mount_.AddDirectory("/pods/other");
  mount_.AddForeignMount("/pods/other", "tmpfs", "tmpfs");
  lvm_.SetAway("vg-bad", true);
  ASSERT_FALSE(Restart().has_value());
  for (const std::string& id : {two, good, "bad." + kNobody}) {
    EXPECT_TRUE(engine_->volumes().Unpublish(id, Path("/pods/one"), Soon()).has_value());
    EXPECT_TRUE(engine_->volumes().Unstage(id, Path("/stage/one"), Soon()).has_value());
  }
  for (const std::string& id : {one, kHandle}) {
    for (const char* path : {"/pods/three", "/pods/other"}) {
      EXPECT_TRUE(engine_->volumes().Unpublish(id, Path(path), Soon()).has_value());
    }
  }
  for (const char* path : {"/pods/one", "/stage/one", "/pods/three", "/stage/three", "/pods/other"}) {
    EXPECT_TRUE(IsMounted(path)) << path;
  }
}

TEST_F(PoolsTest, AnInlineVolumeOfALostPoolIsDeletedWhenThePoolReturns) {
  ASSERT_TRUE(Restart().has_value());
  ASSERT_TRUE(engine_->volumes().PublishEphemeral(Inline("bad"), Soon()).has_value());
  lvm_.SetAway("vg-bad", true);
  ASSERT_TRUE(engine_->volumes().Unpublish(kHandle, Path("/pods/inline"), Soon()).has_value());
  EXPECT_FALSE(IsMounted("/pods/inline"));
  ASSERT_TRUE(engine_->volumes().Unpublish(kHandle, Path("/pods/inline"), Soon()).has_value());
  (void)engine_->upkeep().Repair(RepairCause::kEvent, Soon());
  lvm_.SetAway("vg-bad", false);
  EXPECT_EQ(LvsOf("vg-bad"), 1U);
  EXPECT_TRUE(Eventually([&] {
    (void)engine_->upkeep().Repair(RepairCause::kEvent, Soon());
    return LvsOf("vg-bad") == 0;
  }));
}

TEST_F(PoolsTest, AnInlineVolumeOfAPoolNeverReadIsUnmounted) {
  ASSERT_TRUE(Restart().has_value());
  ASSERT_TRUE(engine_->volumes().PublishEphemeral(Inline("bad"), Soon()).has_value());
  lvm_.SetAway("vg-bad", true);
  ASSERT_FALSE(Restart().has_value());
  ASSERT_TRUE(engine_->volumes().Unpublish(kHandle, Path("/pods/inline"), Soon()).has_value());
  EXPECT_FALSE(IsMounted("/pods/inline"));
  lvm_.SetAway("vg-bad", false);
  ASSERT_TRUE(engine_->lifecycle().StartPool("bad", Soon()).has_value());
  EXPECT_TRUE(Eventually([&] {
    (void)engine_->upkeep().Repair(RepairCause::kEvent, Soon());
    return LvsOf("vg-bad") == 0;
  }));
}

TEST_F(PoolsTest, AnInlineVolumeThatIsPublishedAgainStays) {
  ASSERT_TRUE(Restart().has_value());
  ASSERT_TRUE(engine_->volumes().PublishEphemeral(Inline("bad"), Soon()).has_value());
  lvm_.SetAway("vg-bad", true);
  ASSERT_TRUE(engine_->volumes().Unpublish(kHandle, Path("/pods/inline"), Soon()).has_value());
  lvm_.SetAway("vg-bad", false);
  ASSERT_TRUE(engine_->volumes().PublishEphemeral(Inline("bad"), Soon()).has_value());
  for (int i = 0; i < 3; ++i) {
    (void)engine_->upkeep().Repair(RepairCause::kEvent, Soon());
  }
  EXPECT_TRUE(IsMounted("/pods/inline"));
  EXPECT_EQ(LvsOf("vg-bad"), 1U);
}

TEST_F(PoolsTest, InlineVolumesOfOtherPoolsAreMadeAndDeleted) {
  lvm_.SetAway("vg-bad", true);
  ASSERT_FALSE(Restart().has_value());
  const Status published = engine_->volumes().PublishEphemeral(Inline("good"), Soon());
  ASSERT_TRUE(published.has_value()) << published.error().message();
  EXPECT_TRUE(engine_->volumes().Stats(kHandle, "/pods/inline", Soon()).has_value());
  ASSERT_TRUE(engine_->volumes().Unpublish(kHandle, Path("/pods/inline"), Soon()).has_value());
  EXPECT_TRUE(Eventually([&] { return LvsOf("vg-good") == 0; }));
}

TEST_F(PoolsTest, ProbeIsReadyWhileAnyPoolServesAndNamesTheOthers) {
  ASSERT_TRUE(Restart().has_value());
  EXPECT_EQ(engine_->lifecycle().Probe(Soon())->message, "");
  lvm_.SetAway("vg-bad", true);
  auto probed = engine_->lifecycle().Probe(Soon());
  ASSERT_TRUE(probed.has_value());
  EXPECT_TRUE(probed->ready);
  EXPECT_NE(probed->message.find("pool 'bad'"), std::string::npos) << probed->message;
  EXPECT_EQ(probed->message.find("pool 'good'"), std::string::npos) << probed->message;
  lvm_.SetAway("vg-good", true);
  lvm_.SetAway("vg-last", true);
  EXPECT_TRUE(Eventually([&] { return !engine_->lifecycle().Probe(Soon()).has_value(); }));
  EXPECT_EQ(engine_->lifecycle().Probe(Soon()).error().code(), Code::kPrecondition);
  ASSERT_FALSE(Restart().has_value());
  EXPECT_EQ(engine_->lifecycle().Probe(Soon()).error().code(), Code::kPrecondition);
  lvm_.SetAway("vg-last", false);
  ASSERT_TRUE(engine_->lifecycle().StartPool("last", Soon()).has_value());
  EXPECT_TRUE(engine_->lifecycle().Probe(Soon())->ready);
}

TEST_F(PoolsTest, StatusHasEveryPoolAndAFailedVolumeHidesNoOther) {
  ASSERT_TRUE(Restart().has_value());
  for (const char* name : {"one", "two"}) {
    ASSERT_TRUE(engine_->volumes()
                    .Create({.name = name,
                             .range = {Bytes{4 * kExtent.value}, {}},
                             .capabilities = {{}},
                             .parameters = {{"pool", "good"}, {"type", "raid1"}}},
                            Soon())
                    .has_value());
  }
  lvm_.SetAway("vg-bad", true);
  dm_.faults.FailNth("Raid", 1, Error(Code::kIo, "the ioctl failed"));
  const auto pools = engine_->lifecycle().NodeStatus(Soon());
  ASSERT_TRUE(pools.has_value()) << pools.error().message();
  ASSERT_EQ(pools->size(), 3U);
  EXPECT_NE((*pools)[0].figures.problem, "");
  EXPECT_TRUE((*pools)[0].largest.empty());
  EXPECT_EQ((*pools)[1].figures.problem, "");
  ASSERT_EQ((*pools)[1].volumes.size(), 2U);
  std::map<std::string, std::string> details;
  for (const VolumeStatus& volume : (*pools)[1].volumes) {
    details[volume.condition] = volume.detail;
  }
  ASSERT_EQ(details.size(), 2U);
  EXPECT_TRUE(details.contains("healthy"));
  EXPECT_NE(details["unknown"].find("the ioctl failed"), std::string::npos);
  EXPECT_EQ((*pools)[1].largest.at(lvm::VolumeType::kLinear),
            engine_->volumes().Capacity({}, {{"pool", "good"}}, Soon())->available);
  EXPECT_EQ((*pools)[2].figures.problem, "");
}

TEST_F(PoolsTest, ListIncludesAVolumeWhoseHealthIsUnknown) {
  ASSERT_TRUE(Restart().has_value());
  ASSERT_TRUE(engine_->volumes()
                  .Create({.name = "one",
                           .range = {Bytes{4 * kExtent.value}, {}},
                           .capabilities = {{}},
                           .parameters = {{"pool", "good"}, {"type", "raid1"}}},
                          Soon())
                  .has_value());
  dm_.faults.FailNth("Raid", 1, Error(Code::kIo, "the ioctl failed"));
  const auto listed = engine_->volumes().List(0, "", Soon(), Show::kHealth);
  ASSERT_TRUE(listed.has_value()) << listed.error().message();
  ASSERT_EQ(listed->volumes.size(), 1U);
  EXPECT_NE(listed->volumes[0].health->note.find("the ioctl failed"), std::string::npos);
}

TEST_F(PoolsTest, StatusIsReportedWhetherOrNotTheStartSucceeded) {
  lvm_.SetAway("vg-bad", true);
  ASSERT_FALSE(Restart().has_value());
  auto pools = engine_->lifecycle().NodeStatus(Soon());
  ASSERT_TRUE(pools.has_value());
  EXPECT_NE(pools->front().figures.problem, "");
  EXPECT_EQ(pools->back().figures.problem, "");

  engine_.reset();
  EngineConfig config;
  config.pools = {{.name = "bad", .group = "vg-bad"}};
  engine_ = std::make_unique<Engine>(config, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
  pools = engine_->lifecycle().NodeStatus(Soon());
  ASSERT_TRUE(pools.has_value());
  EXPECT_NE(pools->front().figures.problem.find("starting"), std::string::npos);
}

TEST_F(PoolsTest, CapacityOfABrokenPoolIsZero) {
  const auto capacity = [&] { return engine_->volumes().Capacity({}, {{"pool", "bad"}}, Soon()); };
  ASSERT_TRUE(Restart().has_value());
  EXPECT_TRUE(capacity()->available > Bytes{0});
  lvm_.SetAway("vg-bad", true);
  ASSERT_TRUE(capacity().has_value());
  EXPECT_EQ(capacity()->available, Bytes{0});
  EXPECT_NE(capacity()->reason, "");
  (void)Create("one", "bad");
  const std::string logged = Logged();
  const size_t told = logged.find("a pool became unavailable");
  ASSERT_NE(told, std::string::npos) << logged;
  EXPECT_EQ(logged.find("a pool became unavailable", told + 1), std::string::npos) << "logged once";

  ASSERT_FALSE(Restart().has_value());
  ASSERT_TRUE(capacity().has_value());
  EXPECT_EQ(capacity()->available, Bytes{0});
  EXPECT_NE(capacity()->reason, "");

  lvm_.SetAway("vg-bad", false);
  ASSERT_TRUE(engine_->lifecycle().StartPool("bad", Soon()).has_value());
  lvm_.SetGroupSilent("vg-bad", true);
  EXPECT_FALSE(capacity().has_value()) << "the pool could not be read in time";
  lvm_.SetGroupSilent("vg-bad", false);
  EXPECT_TRUE(Eventually([&] { return capacity().has_value() && capacity()->available > Bytes{0}; }));
}

TEST_F(PoolsTest, AMissingPoolSendsCreatesToOtherNodesIfThereAreAny) {
  ASSERT_TRUE(Restart().has_value());
  MustCreate("was there", "bad");
  lvm_.SetAway("vg-bad", true);
  EXPECT_EQ(Create("was there", "bad", true).error().code(), Code::kNoSpace);
  EXPECT_EQ(Create("one", "bad", true).error().code(), Code::kNoSpace);
  EXPECT_EQ(Create("one", "bad", false).error().code(), Code::kPrecondition);
  ASSERT_FALSE(Restart().has_value());
  EXPECT_EQ(Create("was there", "bad", true).error().code(), Code::kNoSpace);
  EXPECT_EQ(Create("one", "bad", false).error().code(), Code::kUnavailable);

  lvm_.SetAway("vg-bad", false);
  ASSERT_TRUE(engine_->lifecycle().StartPool("bad", Soon()).has_value());
  const auto found = Create("was there", "bad", true);
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->created);
  const std::string logged = Logged();
  EXPECT_NE(logged.find("was there"), std::string::npos) << "the orphan is logged";
  EXPECT_NE(logged.find("sent to other nodes"), std::string::npos) << logged;
  EXPECT_TRUE(Create("one", "bad", true)->created);
}

TEST_F(PoolsTest, ASilentPoolSendsNoCreateElsewhere) {
  ASSERT_TRUE(Restart().has_value());
  lvm_.SetGroupSilent("vg-bad", true);
  const auto made = engine_->volumes().Create({.name = "one",
                                               .range = {kExtent, {}},
                                               .capabilities = {{}},
                                               .parameters = {{"pool", "bad"}},
                                               .elsewhere = true},
                                              CallWithin(seconds(3)));
  EXPECT_EQ(made.error().code(), Code::kTimeout) << "the volume may be there";
  lvm_.SetGroupSilent("vg-bad", false);
}

TEST_F(PoolsTest, WhatThisNodeLacksSendsCreatesToOtherNodes) {
  ASSERT_TRUE(Restart().has_value());
  const auto code = [&](bool elsewhere, uint64_t extents) {
    const auto made = Create("one", "good", elsewhere, AccessType::kMount, extents);
    return made.has_value() ? "made" : std::string(CodeName(made.error().code()));
  };
  EXPECT_EQ(code(false, 5000), "out_of_range") << "more than the group would have if it were empty";
  EXPECT_EQ(code(true, 5000), "no_space");
  MustCreate("most", "good");
  lvm_.Happen("vg-good", [](lvm::VolumeGroup& group) { group.pvs.back().missing = true; });
  EXPECT_EQ(code(false, 10), "precondition") << "a disk is missing";
  EXPECT_EQ(code(true, 10), "no_space");
  EXPECT_TRUE(Create("most", "good", true).has_value()) << "an existing volume is found";
  lvm_.Happen("vg-good", [](lvm::VolumeGroup& group) { group.pvs.back().missing = false; });
  dm_.SetTarget("linear", false);
  EXPECT_EQ(code(false, 10), "invalid_argument");
  EXPECT_EQ(code(true, 10), "no_space");
}

TEST_F(PoolsTest, AnUnconfiguredPoolSendsCreatesToOtherNodes) {
  ASSERT_TRUE(Restart().has_value());
  const std::string id = MustCreate("was there", "bad");
  ASSERT_TRUE(Restart({"renamed", "good", "last"}).has_value());
  EXPECT_EQ(Create("one", "bad", false).error().code(), Code::kInvalidArgument);
  const auto refused = Create("one", "bad", true);
  EXPECT_EQ(refused.error().code(), Code::kNoSpace);
  EXPECT_NE(refused.error().message().find("no pool 'bad'"), std::string::npos) << refused.error().message();
  const auto found = Create("was there", "bad", true);
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_EQ(found->volume.id, id) << "an existing volume is found";
  lvm_.SetAway("vg-last", true);
  EXPECT_EQ(Create("one", "bad", true).error().code(), Code::kUnavailable) << "the volume may be there";
}

TEST_F(PoolsTest, ACreateWaitsForErasedSpaceOnlyIfThatIsSoon) {
  ASSERT_TRUE(Restart().has_value());
  const auto made = Create("all", "last", false, AccessType::kMount, 100);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  std::atomic<bool> erasing = false;
  std::atomic<bool> go_on = false;
  erase_.OnPiece([&](const auto& /*piece*/) {
    erasing = true;
    go_on.wait(false);
  });
  ASSERT_TRUE(engine_->volumes().Delete(made->volume.id, Soon()).has_value());
  ASSERT_TRUE(Eventually([&] { return erasing.load(); }));
  const auto next = [&](bool elsewhere) {
    auto refused = Create("next", "last", elsewhere, AccessType::kMount, 50);
    EXPECT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().message().find("still being erased"), std::string::npos);
    return refused.error().code();
  };
  EXPECT_EQ(next(false), Code::kUnavailable);
  EXPECT_EQ(next(true), Code::kNoSpace) << "the time is unknown";
  go_on = true;
  go_on.notify_all();
  EXPECT_TRUE(Eventually([&] { return Create("next", "last", true, AccessType::kMount, 50).has_value(); }));
}

TEST_F(PoolsTest, ACreateAtTheVolumeLimitWaitsOnlyIfErasingEndsSoon) {
  ASSERT_TRUE(Restart().has_value());
  const std::string id = MustCreate("one", "last");
  lvm_.Edit("vg-last", [](lvm::VolumeGroup& group) { group.max_lvs = 1; });
  std::atomic<bool> erasing = false;
  std::atomic<bool> go_on = false;
  erase_.OnPiece([&](const auto& /*piece*/) {
    erasing = true;
    go_on.wait(false);
  });
  ASSERT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
  ASSERT_TRUE(Eventually([&] { return erasing.load(); }));
  EXPECT_EQ(Create("next", "last", false).error().code(), Code::kUnavailable);
  EXPECT_EQ(Create("next", "last", true).error().code(), Code::kNoSpace) << "the time is unknown";
  go_on = true;
  go_on.notify_all();
  EXPECT_TRUE(Eventually([&] { return Create("next", "last", true).has_value(); }));
}

TEST_F(PoolsTest, AnUnfinishedVolumeThatStaysSendsNoCreateElsewhere) {
  ASSERT_TRUE(Restart().has_value());
  lvm_.after.FailNth("Create", 1, Error(Code::kNoSpace, "no room in the metadata area"));
  lvm_.before.FailNth("Remove", 1, Error(Code::kUnavailable, "the lock is taken"));
  EXPECT_EQ(Create("one", "good", true).error().code(), Code::kUnavailable);
  lvm_.after.FailNth("Create", 1, Error(Code::kNoSpace, "no room in the metadata area"));
  EXPECT_EQ(Create("two", "good", true).error().code(), Code::kNoSpace)
      << "the unfinished volume was removed";
}

}  // namespace
}  // namespace quarry::engine
