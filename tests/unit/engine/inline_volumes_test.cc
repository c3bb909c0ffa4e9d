// Inline volumes of pods on fakes with behaviour: publishing makes them and unpublishing erases them,
// whatever is killed in between. They are never taken for persistent volumes.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "engine/engine.h"
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
// A handle like those of kubelet: "csi-" and 64 hexadecimal digits.
const std::string kHandle = "csi-" + std::string(63, '0') + "a";
const std::string kTarget = "/pods/a";

AbsolutePath Path(const std::string& text) {
  return *AbsolutePath::Parse(text);
}

// A step watcher throws this at the moment when quarryd dies. No step is undone on the way out.
struct Killed {};

// Ends the call of the thread that armed it at its n-th moment. Every step has two moments, before and after.
class Killer final : public StepWatcher {
 public:
  void Arm(int moment) {
    thread_ = std::this_thread::get_id();
    left_ = moment;
  }
  void Disarm() { thread_ = {}; }
  void Before(const std::string& /*step*/) override { Moment(); }
  void After(const std::string& /*step*/) override { Moment(); }

 private:
  void Moment() {
    if (std::this_thread::get_id() == thread_ && --left_ == 0) {
      throw Killed();
    }
  }
  std::thread::id thread_;  // the eraser's steps do not count: the eraser never arms
  int left_ = 0;
};

class EphemeralTest : public testing::Test {
 protected:
  EphemeralTest() {
    lvm_.AddGroup("vg0", kExtent,
                  {{"/dev/a", Extents{100}},
                   {"/dev/b", Extents{100}},
                   {"/dev/c", Extents{100}},
                   {"/dev/d", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory("/pods");
    mount_.AddDirectory("/stage");
    Restart();
  }
  ~EphemeralTest() override { engine_.reset(); }

  // The state after kill -9: everything in memory is lost, LVM and the kernel are unchanged.
  void Restart(Bytes most = kGiB) {
    EngineConfig config;
    config.pools = {{.name = "default", .group = "vg0"}};
    config.ephemeral_max_size = most;
    RestartWith(config);
  }
  // A restart with these limits of the one pool.
  void RestartLimited(const EphemeralLimits& limits) {
    EngineConfig config;
    config.pools = {{.name = "default", .group = "vg0"}};
    config.pools.front().ephemeral = limits;
    RestartWith(config);
  }
  void RestartWith(const EngineConfig& config) {
    engine_.reset();
    fakes::FakeWorld world{lvm_, dm_, erase_, mount_, clock_};
    world.steps = &killer_;
    engine_ = std::make_unique<Engine>(config, world, log_);
    ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }
  void Reboot(Bytes most = kGiB) {
    engine_.reset();
    mount_.Reboot();
    lvm_.Reboot();
    dm_.Reboot();
    Restart(most);
  }

  static Call Soon() { return CallWithin(milliseconds(20000)); }

  static EphemeralRequest Request(const std::string& target = kTarget) {
    return {.publish = {.id = kHandle,
                        .staging_path = std::nullopt,
                        .target_path = Path(target),
                        .capability = {.access = AccessType::kMount}},
            .size = Bytes{10 * kExtent.value},
            .parameters = {{"csi.storage.k8s.io/ephemeral", "true"}}};
  }
  Status Publish(const EphemeralRequest& request = Request()) {
    return engine_->volumes().PublishEphemeral(request, Soon());
  }
  Status Unpublish(const std::string& target = kTarget) {
    return engine_->volumes().Unpublish(kHandle, Path(target), Soon());
  }
  Result<CreateResult> Create(const std::string& name) {
    return engine_->volumes().Create({.name = name,
                                      .range = {Bytes{10 * kExtent.value}, {}},
                                      .capabilities = {{.access = AccessType::kMount}},
                                      .parameters = {}},
                                     Soon());
  }
  void ExpectRefused(const EphemeralRequest& request, Code code, const std::string& words) {
    const Status refused = Publish(request);
    ASSERT_FALSE(refused.has_value()) << words;
    EXPECT_EQ(refused.error().code(), code) << refused.error().message();
    EXPECT_NE(refused.error().message().find(words), std::string::npos) << refused.error().message();
    EXPECT_EQ(LvCount(), 0U) << words;
    EXPECT_FALSE(mount_.Exists(kTarget)) << words;
  }
  std::vector<lvm::LogicalVolume> Lvs() { return (*lvm_.Read("vg0", Soon()))->lvs; }
  size_t LvCount() { return Lvs().size(); }
  // The number of LVs that are not being erased.
  size_t Alive() {
    const auto lvs = Lvs();
    return static_cast<size_t>(std::count_if(lvs.begin(), lvs.end(), [](const lvm::LogicalVolume& lv) {
      return !lv.hidden && std::find(lv.tags.begin(), lv.tags.end(), "quarry.erasing") == lv.tags.end();
    }));
  }
  std::string DmUuid() {
    const lvm::LogicalVolume lv = Lvs().front();
    return lvm::DmUuid((*lvm_.Read("vg0", Soon()))->uuid, lv.uuid);
  }
  void UntilErased() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (LvCount() > 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    EXPECT_EQ(LvCount(), 0U);
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  Killer killer_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EphemeralTest, AVolumeIsMadeByPublishingAndErasedByUnpublishing) {
  const Status published = Publish();
  ASSERT_TRUE(published.has_value()) << published.error().message();
  ASSERT_EQ(Lvs().size(), 1U);
  EXPECT_EQ(Lvs().front().size, Bytes{10 * kExtent.value});
  EXPECT_EQ(mount_.ContentOf(DmUuid()).type, "ext4");
  const auto stats = engine_->volumes().Stats(kHandle, kTarget, Soon());
  ASSERT_TRUE(stats.has_value()) << stats.error().message();
  EXPECT_TRUE(stats->available.has_value());
  ASSERT_TRUE(Unpublish().has_value());
  EXPECT_FALSE(mount_.Exists(kTarget));
  EXPECT_EQ(engine_->volumes().Stats(kHandle, kTarget, Soon()).error().code(), Code::kNotFound);
  UntilErased();
  Bytes erased;
  for (const auto& piece : erase_.Pieces()) {
    erased = erased + piece.length;
  }
  EXPECT_EQ(erased, Bytes{10 * kExtent.value});
}

TEST_F(EphemeralTest, AVolumeHasTheProfileOfItsContext) {
  EphemeralRequest request = Request();
  request.publish.capability.fs_type = "xfs";
  request.size = Bytes{320 * kMiB.value};
  request.parameters["type"] = "raid1";
  const Status published = Publish(request);
  ASSERT_TRUE(published.has_value()) << published.error().message();
  EXPECT_EQ(Lvs().size(), 5U) << "two legs with their metadata";
  ASSERT_EQ(mount_.Made().size(), 1U);
  EXPECT_EQ(mount_.Made().front().fs_type, "xfs");
  EXPECT_TRUE(Unpublish().has_value());
  UntilErased();
}

TEST_F(EphemeralTest, ARequestWithoutASizeGetsTheSmallerOfDefaultAndLimit) {
  for (const auto& [most, size] :
       {std::pair{Bytes{2 * kGiB.value}, kGiB}, {Bytes{50 * kMiB.value}, Bytes{48 * kMiB.value}}}) {
    Restart(most);
    EphemeralRequest request = Request();
    request.size = {};
    const Status published = Publish(request);
    ASSERT_TRUE(published.has_value()) << published.error().message();
    EXPECT_EQ(Lvs().front().size, size);
    ASSERT_TRUE(Unpublish().has_value());
    UntilErased();
  }
}

TEST_F(EphemeralTest, ARequestIsRefusedUnlessPermittedAndWithinTheLimit) {
  Restart(Bytes{0});
  ExpectRefused(Request(), Code::kInvalidArgument, "--ephemeral-max-size permits");
  ExpectRefused(Request(), Code::kInvalidArgument, "in pool 'default'");
  Restart(Bytes{9 * kExtent.value});
  ExpectRefused(Request(), Code::kInvalidArgument, "volume_context['size']: is 41943040 bytes");
  // The size is within the limit only until it is rounded up to whole extents.
  Restart(Bytes{10 * kExtent.value - 1});
  EphemeralRequest request = Request();
  request.size = Bytes{10 * kExtent.value - 2};
  ExpectRefused(request, Code::kOutOfRange, "--ephemeral-max-size");
  request.size = Bytes{UINT64_MAX};
  ExpectRefused(request, Code::kInvalidArgument, "volume_context['size']");
}

TEST_F(EphemeralTest, APoolWithItsOwnLimitsNeedsNoGeneralPermission) {
  RestartLimited({.most = Bytes{10 * kExtent.value}});
  EphemeralRequest request = Request();
  request.size = Bytes{11 * kExtent.value};
  ExpectRefused(request, Code::kInvalidArgument, "at most 41943040 (ephemeral of pool 'default')");
  request.size = {};
  ASSERT_TRUE(Publish(request).has_value());
  EXPECT_EQ(Lvs().front().size, Bytes{10 * kExtent.value});
}

TEST_F(EphemeralTest, APoolWithoutLimitsRefusesIfAnotherPoolHasSome) {
  lvm_.AddGroup("vg1", kExtent, {{"/dev/e", Extents{100}}});
  EngineConfig config;
  config.pools = {{.name = "default", .group = "vg0"}, {.name = "scratch", .group = "vg1"}};
  config.pools.back().ephemeral.most = kGiB;
  config.ephemeral_max_size = kGiB;
  RestartWith(config);
  ExpectRefused(Request(), Code::kInvalidArgument, "ephemeral of pool 'default'");
  EphemeralRequest request = Request();
  request.parameters["pool"] = "default";
  ExpectRefused(request, Code::kInvalidArgument, "ephemeral of pool 'default'");
  request.parameters["pool"] = "scratch";
  const Status published = Publish(request);
  EXPECT_TRUE(published.has_value()) << published.error().message();
}

TEST_F(EphemeralTest, AllLegsCountInTheTotalOfThePool) {
  RestartLimited({.most = kGiB, .total = Bytes{23 * kExtent.value}});
  EphemeralRequest mirrored = Request();
  mirrored.parameters["type"] = "raid1";
  mirrored.size = Bytes{11 * kExtent.value};  // two legs of 11 extents, and two extents of metadata
  ExpectRefused(mirrored, Code::kNoSpace, "ephemeral-total of pool 'default'");
  mirrored.size = Bytes{10 * kExtent.value};
  ASSERT_TRUE(Publish(mirrored).has_value());
  EphemeralRequest second = Request("/pods/b");
  second.publish.id = "csi-second";
  const Status refused = Publish(second);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kNoSpace);
  EXPECT_TRUE(Publish(mirrored).has_value()) << "one that is there is published again whatever the total";
}

TEST_F(EphemeralTest, VolumesBeingErasedCountInTheLimits) {
  RestartLimited({.most = kGiB, .most_volumes = 1});
  ASSERT_TRUE(Publish().has_value());
  EphemeralRequest second = Request("/pods/b");
  second.publish.id = "csi-second";
  const Status refused = Publish(second);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kNoSpace);
  EXPECT_NE(refused.error().message().find("ephemeral-max-count of pool 'default' is 1"), std::string::npos);
  ASSERT_TRUE(Create("persistent").has_value()) << "others are not held to it";
  ASSERT_TRUE(Publish().has_value()) << "one that is there is published again";
  ASSERT_TRUE(Unpublish().has_value());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (LvCount() > 1 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(Publish(second).has_value()) << "its room is there again";
}

TEST_F(EphemeralTest, OnlyAttributesThatThePoolNamesArePermitted) {
  RestartLimited({.most = kGiB, .attributes = {"size"}});
  for (const char* key : {"pool", "type", "erase", "colour"}) {
    EphemeralRequest request = Request();
    request.parameters[key] = "default";
    ExpectRefused(request, Code::kInvalidArgument,
                  fmt::format("volume_context['{}']: pods may not set it", key));
    ExpectRefused(request, Code::kInvalidArgument, "ephemeral-attributes of pool 'default' permits: size");
  }
  RestartLimited({.most = Bytes{10 * kExtent.value}, .attributes = {}});
  ExpectRefused(Request(), Code::kInvalidArgument, "volume_context['size']");
  EphemeralRequest request = Request();
  request.size = {};
  EXPECT_TRUE(Publish(request).has_value());
}

// sync=skip needs zeroed space, and the space would be zeroed before any limit is met.
TEST_F(EphemeralTest, SkippingTheSyncNeedsThePoolsPermission) {
  EphemeralRequest request = Request();
  request.parameters["type"] = "raid1";
  request.parameters["sync"] = "skip";
  ExpectRefused(request, Code::kInvalidArgument, "volume_context['sync']: pods may not set it");
  RestartLimited({.most = kGiB, .attributes = {"size", "sync", "type"}});
  EXPECT_TRUE(Publish(request).has_value());
}

TEST_F(EphemeralTest, RequestsThatMakeNoSenseAreRefused) {
  const auto with = [](const std::function<void(EphemeralRequest&)>& spoil) {
    EphemeralRequest request = Request();
    spoil(request);
    return request;
  };
  ExpectRefused(with([](auto& r) { r.publish.read_only = true; }), Code::kInvalidArgument, "readonly: ");
  ExpectRefused(with([](auto& r) { r.publish.capability.mode = AccessMode::kSingleNodeReaderOnly; }),
                Code::kInvalidArgument, "readonly: ");
  ExpectRefused(with([](auto& r) { r.publish.capability.access = AccessType::kBlock; }),
                Code::kInvalidArgument, "volume_capability: inline volumes are mounted");
  ExpectRefused(with([](auto& r) { r.publish.capability.fs_type = "ntfs"; }), Code::kInvalidArgument,
                "'ntfs'");
  ExpectRefused(with([](auto& r) { r.publish.id = "default.qaaaaaaaaaaaaaaaaaaaaaaaaaa"; }),
                Code::kInvalidArgument, "volume_id: has the form");
  ExpectRefused(with([](auto& r) { r.parameters["mkfsoptions"] = "-d /etc"; }), Code::kInvalidArgument,
                "volume_context['mkfsoptions']: is not for inline volumes");
  ExpectRefused(with([](auto& r) { r.parameters["colour"] = "red"; }), Code::kInvalidArgument, "['colour']");
  ExpectRefused(with([](auto& r) { r.parameters["type"] = "raid7"; }), Code::kInvalidArgument, "['type']");
  ExpectRefused(with([](auto& r) { r.parameters["pool"] = "elsewhere"; }), Code::kInvalidArgument,
                "no pool 'elsewhere'");
  Restart(Bytes{10000 * kExtent.value});
  ExpectRefused(with([](auto& r) { r.size = Bytes{500 * kExtent.value}; }), Code::kOutOfRange, "");
}

TEST_F(EphemeralTest, EveryCallMayBeRepeated) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Publish().has_value());
  }
  EXPECT_EQ(LvCount(), 1U);
  EXPECT_EQ(mount_.Made().size(), 1U);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Unpublish().has_value());
  }
  UntilErased();
  ASSERT_TRUE(Unpublish().has_value()) << "unknown is unpublished";
}

TEST_F(EphemeralTest, ARepeatedRequestWithOtherPropertiesIsRefused) {
  ASSERT_TRUE(Publish().has_value());
  EphemeralRequest larger = Request();
  larger.size = Bytes{11 * kExtent.value};
  EphemeralRequest striped = Request();
  striped.parameters["type"] = "striped";
  EphemeralRequest xfs = Request();
  xfs.publish.capability.fs_type = "xfs";
  for (const EphemeralRequest& other : {larger, striped, xfs}) {
    EXPECT_EQ(Publish(other).error().code(), Code::kAlreadyExists);
  }
  EXPECT_EQ(LvCount(), 1U);
}

TEST_F(EphemeralTest, AVolumeIsDeletedOnlyAfterItsLastTarget) {
  ASSERT_TRUE(Publish().has_value());
  ASSERT_TRUE(Publish(Request("/pods/b")).has_value());
  ASSERT_TRUE(Unpublish().has_value());
  EXPECT_TRUE(engine_->volumes().Stats(kHandle, "/pods/b", Soon()).has_value());
  ASSERT_TRUE(Unpublish("/pods/never").has_value());
  EXPECT_EQ(LvCount(), 1U);
  ASSERT_TRUE(Unpublish("/pods/b").has_value());
  UntilErased();
}

TEST_F(EphemeralTest, AVolumeInUseStaysAndTheErrorNamesTheUser) {
  ASSERT_TRUE(Publish().has_value());
  mount_.SetBusy(kTarget, "process 77 (dd)");
  const Status busy = Unpublish();
  ASSERT_FALSE(busy.has_value());
  EXPECT_NE(busy.error().message().find("process 77"), std::string::npos);
  EXPECT_EQ(Alive(), 1U);
  mount_.SetBusy(kTarget, "");
  ASSERT_TRUE(Unpublish().has_value());
  UntilErased();
}

// For every call that takes persistent volumes this volume does not exist, neither by its handle nor by its
// id.
TEST_F(EphemeralTest, AnInlineVolumeIsNoPersistentVolume) {
  ASSERT_TRUE(Publish().has_value());
  mount_.AddDirectory("/stage/v");
  EXPECT_TRUE(engine_->volumes().List(0, "", Soon())->volumes.empty());
  for (const std::string& id : {kHandle, lvm::VolumeId("default", Lvs().front().name)}) {
    EXPECT_EQ(engine_->volumes().Get(id, Soon()).error().code(), Code::kNotFound);
    EXPECT_FALSE(engine_->volumes().Delete(id, Soon())->deleted);
    EXPECT_EQ(engine_->volumes().Expand(id, {Bytes{20 * kExtent.value}, {}}, {}, Soon()).error().code(),
              Code::kNotFound);
    EXPECT_EQ(engine_->volumes().Stage({id, Path("/stage/v"), {}}, Soon()).error().code(), Code::kNotFound);
    EXPECT_EQ(engine_->volumes().Publish({id, std::nullopt, Path("/pods/b"), {}}, Soon()).error().code(),
              Code::kNotFound);
    EXPECT_EQ(
        engine_->volumes().Validate({id, {{.access = AccessType::kMount}}, {}, {}}, Soon()).error().code(),
        Code::kNotFound);
    EXPECT_FALSE(engine_->adoption().Release(id, false, Soon()).has_value());
    EXPECT_FALSE(engine_->volumes().NodeExpand({id, kTarget, "", {}}, Soon()).has_value());
  }
  EXPECT_EQ(
      engine_->volumes().Stats(lvm::VolumeId("default", Lvs().front().name), kTarget, Soon()).error().code(),
      Code::kNotFound);
  EXPECT_FALSE(
      engine_->adoption().Adopt({.group = "vg0", .lv_name = Lvs().front().name}, Soon()).has_value());
  ASSERT_TRUE(engine_->volumes()
                  .Unpublish(lvm::VolumeId("default", Lvs().front().name), Path(kTarget), Soon())
                  .has_value());
  EXPECT_EQ(Alive(), 1U);
  EXPECT_TRUE(engine_->volumes().Stats(kHandle, kTarget, Soon()).has_value()) << "none of these did anything";
}

TEST_F(EphemeralTest, AnInlineAndAPersistentVolumeNeverShareAName) {
  ASSERT_TRUE(Publish().has_value());
  auto joined = Create(kHandle);
  ASSERT_FALSE(joined.has_value());
  EXPECT_EQ(joined.error().code(), Code::kAlreadyExists);
  EXPECT_NE(joined.error().message().find("pod's inline volume"), std::string::npos);
  ASSERT_TRUE(Unpublish().has_value());
  UntilErased();

  const auto persistent = Create(kHandle);
  ASSERT_TRUE(persistent.has_value()) << persistent.error().message();
  const Status refused = Publish();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kAlreadyExists);
  ASSERT_TRUE(Unpublish().has_value());
  EXPECT_TRUE(engine_->volumes().Get(persistent->volume.id, Soon()).has_value())
      << "unpublishing its name is not deleting it";
}

// After a reboot kubelet publishes again for a pod that still exists, whatever the limit is by then.
TEST_F(EphemeralTest, DataSurvivesARebootForThePodThatReturns) {
  ASSERT_TRUE(Publish().has_value());
  const std::string name = Lvs().front().name;
  Reboot(Bytes{0});
  ASSERT_EQ(LvCount(), 1U) << "nothing is deleted by guess";
  const Status published = Publish();
  ASSERT_TRUE(published.has_value()) << published.error().message();
  EXPECT_EQ(Lvs().front().name, name);
  EXPECT_EQ(mount_.Made().size(), 1U) << "formatted once";
  Reboot();
  ASSERT_TRUE(Unpublish().has_value()) << "and for one that does not";
  UntilErased();
}

// quarryd cannot undo anything when it is killed. The next call must continue with, or remove, what was left.
TEST_F(EphemeralTest, APublicationKilledAnywhereIsFinishedByItsRepetition) {
  int moment = 1;
  for (bool killed = true; killed; ++moment) {
    ASSERT_LT(moment, 100);
    killer_.Arm(moment);
    killed = false;
    try {
      ASSERT_TRUE(Publish().has_value());
    } catch (const Killed&) {
      killed = true;
    }
    killer_.Disarm();
    moment % 2 == 0 ? Restart() : Reboot();
    const Status published = Publish();
    ASSERT_TRUE(published.has_value()) << moment << ": " << published.error().message();
    ASSERT_EQ(LvCount(), 1U) << moment;
    ASSERT_TRUE(engine_->volumes().Stats(kHandle, kTarget, Soon()).has_value()) << moment;
    ASSERT_TRUE(Unpublish().has_value());
    UntilErased();
  }
  EXPECT_GT(moment, 12) << "create, verify, tag, tag, mkfs, tag, target, mount";
}

TEST_F(EphemeralTest, APublicationKilledAnywhereIsUndoneByUnpublishing) {
  int moment = 1;
  for (bool killed = true; killed; ++moment) {
    ASSERT_LT(moment, 100);
    killer_.Arm(moment);
    killed = false;
    try {
      ASSERT_TRUE(Publish().has_value());
    } catch (const Killed&) {
      killed = true;
    }
    killer_.Disarm();
    Restart();
    const Status gone = Unpublish();
    ASSERT_TRUE(gone.has_value()) << moment << ": " << gone.error().message();
    ASSERT_FALSE(mount_.Exists(kTarget)) << moment;
    UntilErased();
  }
  EXPECT_GT(moment, 12);
}

TEST_F(EphemeralTest, AnUnpublicationKilledAnywhereIsFinishedWhenRepeated) {
  int moment = 1;
  for (bool killed = true; killed; ++moment) {
    ASSERT_LT(moment, 100);
    ASSERT_TRUE(Publish().has_value());
    killer_.Arm(moment);
    killed = false;
    try {
      ASSERT_TRUE(Unpublish().has_value());
    } catch (const Killed&) {
      killed = true;
    }
    killer_.Disarm();
    moment % 2 == 0 ? Restart() : Reboot();
    const Status gone = Unpublish();
    ASSERT_TRUE(gone.has_value()) << moment << ": " << gone.error().message();
    ASSERT_FALSE(mount_.Exists(kTarget)) << moment;
    UntilErased();
  }
  EXPECT_GT(moment, 8) << "umount, target, deactivate, tag";
}

// Kubelet forgets a volume whose publication failed for good, and never unpublishes it.
TEST_F(EphemeralTest, AVolumeWhosePublicationFailsForGoodIsRemoved) {
  for (const char* step : {"Make", "MakeInterrupted", "Mount", "Mounts", "MakeDirectory"}) {
    mount_.faults.FailAlways(step, Error(Code::kIo, "broken"));
    EXPECT_EQ(Publish().error().code(), Code::kIo) << step;
    mount_.faults.Clear();
    EXPECT_EQ(Alive(), 0U) << step;
    UntilErased();
  }
  for (const char* step : {"Create", "Read", "ChangeTags"}) {
    for (int nth = 1; nth <= 3; ++nth) {
      for (const bool after : {false, true}) {
        (after ? lvm_.after : lvm_.before).FailNth(step, nth, Error(Code::kIo, "broken"));
        const bool published = Publish().has_value();
        lvm_.before.Clear();
        lvm_.after.Clear();
        if (published) {
          ASSERT_TRUE(Unpublish().has_value());
        }
        ASSERT_TRUE(Publish().has_value()) << step << nth << after;
        ASSERT_TRUE(Unpublish().has_value());
        UntilErased();
      }
    }
  }
}

TEST_F(EphemeralTest, AVolumeIsKeptIfTheCallerWillAskAgain) {
  for (const Code code :
       {Code::kTimeout, Code::kUnavailable, Code::kCancelled, Code::kBusy, Code::kNoSpace}) {
    mount_.faults.FailAlways("Make", Error(code, "not now"));
    EXPECT_EQ(Publish().error().code(), code);
    mount_.faults.Clear();
    ASSERT_EQ(Alive(), 1U) << CodeName(code);
  }
  ASSERT_TRUE(Publish().has_value());
}

TEST_F(EphemeralTest, AVolumeThatMayHoldDataIsNeverRemoved) {
  ASSERT_TRUE(Publish().has_value());
  Reboot();
  mount_.faults.FailAlways("Mount", Error(Code::kIo, "broken"));
  EXPECT_EQ(Publish().error().code(), Code::kUnavailable) << "who forgets it would never unpublish it";
  mount_.faults.Clear();
  EXPECT_EQ(Alive(), 1U);
  ASSERT_TRUE(Publish().has_value());
  EXPECT_EQ(mount_.Made().size(), 1U);
}

// The volume may be in the group that is gone.
TEST_F(EphemeralTest, AVolumeIsNotForgottenWhileItsPoolIsUnreadable) {
  ASSERT_TRUE(Publish().has_value());
  lvm_.before.FailAlways("Read", Error(Code::kNotFound, "no such group"));
  EXPECT_EQ(Publish().error().code(), Code::kUnavailable);
  lvm_.before.Clear();
  ASSERT_TRUE(Unpublish().has_value());
}

// The tags may have been written by a newer build.
TEST_F(EphemeralTest, AVolumeWithUnreadableTagsIsUnmountedAndKept) {
  ASSERT_TRUE(Publish().has_value());
  const auto set_version = [&](const std::string& from, const std::string& to) {
    lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
      std::ranges::replace(group.lvs.front().tags, "quarry.v=" + from, "quarry.v=" + to);
    });
  };
  set_version("1", "9");
  EXPECT_EQ(Publish().error().code(), Code::kUnavailable) << "kubelet is not to forget it";
  EXPECT_TRUE(Unpublish().has_value());
  EXPECT_FALSE(mount_.Exists(kTarget));
  EXPECT_EQ(LvCount(), 1U);
  set_version("9", "1");
  ASSERT_TRUE(Publish().has_value());
  ASSERT_TRUE(Unpublish().has_value());
  UntilErased();
}

// "Already exists" is final: kubelet would forget the mounted volume.
TEST_F(EphemeralTest, UnreadableTagsInAnotherPoolAreUnavailableNotFinal) {
  lvm_.AddGroup("vg1", kExtent, {{"/dev/x", Extents{100}}});
  EngineConfig config;
  config.pools = {{.name = "default", .group = "vg0"}, {.name = "other", .group = "vg1"}};
  config.ephemeral_max_size = kGiB;
  RestartWith(config);
  EphemeralRequest request = Request();
  request.parameters["pool"] = "other";
  ASSERT_TRUE(Publish(request).has_value());
  lvm_.Edit("vg1", [&](lvm::VolumeGroup& group) {
    std::ranges::replace(group.lvs.front().tags, std::string("quarry.v=1"), std::string("quarry.v=9"));
  });
  ASSERT_FALSE(engine_->volumes().List(0, "", Soon())->volumes.size() > 0);  // reads the pool
  EXPECT_EQ(Publish().error().code(), Code::kUnavailable);
}

TEST_F(EphemeralTest, AVolumeInAnUnreadablePoolIsUnmountedAndDeletedLater) {
  ASSERT_TRUE(Publish().has_value());
  lvm_.before.FailAlways("Read", Error(Code::kTimeout, "the disks are silent"));
  EXPECT_TRUE(Unpublish().has_value());
  EXPECT_FALSE(mount_.Exists(kTarget));
  lvm_.before.Clear();
  EXPECT_EQ(Alive(), 1U);
  ASSERT_TRUE(engine_->upkeep().Repair(RepairCause::kEvent, Soon()).has_value());
  UntilErased();
}

// The pod cannot remove the snapshot, and a user would not know why the pod does not end.
TEST_F(EphemeralTest, ASnapshottedVolumeIsUnmountedAndDeletedLater) {
  ASSERT_TRUE(Publish().has_value());
  const std::string name = Lvs().front().name;
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
    lvm::LogicalVolume backup{.name = "backup", .uuid = "theirs"};
    const lvm::PhysicalVolume& pv = group.pvs.back();
    backup.segments = {{.type = "linear",
                        .logical = {{0}, {4}},
                        .areas = {{pv.uuid, "", {pv.free.back().end() - Extents{4}, {4}}}}}};
    backup.origin = name;
    backup.independent = false;
    group.lvs.front().independent = false;
    group.lvs.push_back(std::move(backup));
  });
  mount_.SetBusy(kTarget, "process 77 (dd)");
  EXPECT_FALSE(Unpublish().has_value()) << "what is in use stays";
  mount_.SetBusy(kTarget, "");
  for (int i = 0; i < 2; ++i) {
    const Status gone = Unpublish();
    ASSERT_TRUE(gone.has_value()) << gone.error().message();
    EXPECT_FALSE(mount_.Exists(kTarget));
    ASSERT_TRUE(engine_->upkeep().Repair(RepairCause::kEvent, Soon()).has_value());
    EXPECT_EQ(LvCount(), 2U);
  }
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {
    std::erase_if(group.lvs, [](const auto& lv) { return lv.name == "backup"; });
    group.lvs.front().independent = true;
  });
  ASSERT_TRUE(engine_->upkeep().Repair(RepairCause::kEvent, Soon()).has_value());
  UntilErased();
}

}  // namespace
}  // namespace quarry::engine
