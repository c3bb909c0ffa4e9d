// mkfs and similar steps outlive their callers: a repeated call joins them, the volume is busy for other
// operations, and a stop ends them.
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>

#include "engine/engine.h"
#include "engine/pool/background_steps.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"
#include "tests/unit/engine/eventually.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

constexpr Bytes kExtent{4 * 1024 * 1024};

AbsolutePath Path(const std::string& text) {
  return *AbsolutePath::Parse(text);
}

// Blocks the first call of a method until Release(), or until that call ends.
class Holdup {
 public:
  Holdup(fakes::FakeMount& mount, const std::string& method) : mount_(mount) {
    mount_.SetOnCall([this, method](const std::string& name, const Call& call) {
      std::unique_lock lock(mutex_);
      if (name == method && !reached_) {
        reached_ = true;
        limit_ = call.Remaining();
        changed_.notify_all();
        changed_.wait(lock, call.stop, [this] { return released_; });
      }
    });
  }
  ~Holdup() {
    Release();
    mount_.SetOnCall(nullptr);
  }
  Holdup(const Holdup&) = delete;
  Holdup& operator=(const Holdup&) = delete;

  milliseconds AwaitLimit() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reached_; });
    return limit_;
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

 private:
  fakes::FakeMount& mount_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool reached_ = false;
  bool released_ = false;
  milliseconds limit_{0};
};

class BackgroundStepsTest : public testing::Test {
 protected:
  BackgroundStepsTest() {
    lvm_.AddGroup("vg0", kExtent, {{"/dev/a", Extents{200}}});
    fakes::Follow(lvm_, dm_);
    for (const char* path : {"/stage", "/pods"}) {
      mount_.AddDirectory(path);
    }
    Restart();
    id_ = Create("one");
  }

  void Restart() {
    engine_.reset();
    engine_ = std::make_unique<Engine>(EngineConfig{.pools = {{.name = "main", .group = "vg0"}}},
                                       fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    EXPECT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }
  static Call Soon() { return CallWithin(std::chrono::seconds(60)); }
  // A call whose caller has left already.
  static Call Gone() {
    std::stop_source stop;
    stop.request_stop();
    Call call = Soon();
    call.stop = stop.get_token();
    return call;
  }
  // Makes a call, and cancels the call once it is blocked.
  static Status Leave(Holdup& holdup, const std::function<Status(const Call&)>& make) {
    std::stop_source stop;
    Call call = Soon();
    call.stop = stop.get_token();
    auto made = std::async(std::launch::async, [&] { return make(call); });
    holdup.AwaitLimit();
    stop.request_stop();
    return made.get();
  }
  Status StageAndLeave(Holdup& holdup, std::optional<uint32_t> group = std::nullopt) {
    return Leave(holdup, [&](const Call& call) { return Stage(id_, call, group); });
  }

  std::string Create(const std::string& name) {
    const auto made = engine_->volumes().Create(
        {.name = name, .range = {ToBytes(Extents{8}, kExtent), {}}, .capabilities = {{}}, .parameters = {}},
        Soon());
    EXPECT_TRUE(made.has_value());
    return made->volume.id;
  }
  Status Stage(const std::string& id, const Call& call, std::optional<uint32_t> group = std::nullopt) {
    return engine_->volumes().Stage({id, Path("/stage/" + id.substr(id.size() - 8)), {.mount_group = group}},
                                    call);
  }
  void ExpectGoesOn(const Status& status) {
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(CodeName(status.error().code()), "unavailable") << status.error().message();
    EXPECT_NE(status.error().message().find("has been running for"), std::string::npos)
        << status.error().message();
    EXPECT_NE(status.error().message().find(id_), std::string::npos) << status.error().message();
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
  std::string id_;
};

TEST_F(BackgroundStepsTest, MkfsOutlivesItsCallerAndARepeatedCallJoinsIt) {
  Holdup holdup(mount_, "Make");
  ExpectGoesOn(Stage(id_, CallWithin(std::chrono::seconds(4))));
  EXPECT_GT(holdup.AwaitLimit(), std::chrono::minutes(20)) << "the deadline is its own";
  ExpectGoesOn(Stage(id_, Gone()));
  auto repeated = std::async(std::launch::async, [&] { return Stage(id_, Soon()); });
  holdup.Release();
  const Status staged = repeated.get();
  ASSERT_TRUE(staged.has_value()) << staged.error().message();
  EXPECT_EQ(mount_.Made().size(), 1U);
}

TEST_F(BackgroundStepsTest, ARepeatedPublishJoinsTheStep) {
  Holdup holdup(mount_, "Make");
  const PublishRequest request{.id = id_,
                               .staging_path = std::nullopt,
                               .target_path = Path("/pods/a"),
                               .capability = {},
                               .read_only = false};
  ExpectGoesOn(Leave(holdup, [&](const Call& call) { return engine_->volumes().Publish(request, call); }));
  ExpectGoesOn(engine_->volumes().Publish(request, Gone()));
  holdup.Release();
  EXPECT_TRUE(engine_->volumes().Publish(request, Soon()).has_value());
  EXPECT_EQ(mount_.Made().size(), 1U);
}

TEST_F(BackgroundStepsTest, OnlyTheVolumeOfTheStepIsBusy) {
  Holdup holdup(mount_, "Make");
  ExpectGoesOn(StageAndLeave(holdup));
  const auto deleted = engine_->volumes().Delete(id_, Soon());
  ASSERT_FALSE(deleted.has_value());
  EXPECT_EQ(CodeName(deleted.error().code()), "busy");
  EXPECT_EQ(CodeName(engine_->volumes()
                         .Expand(id_, {ToBytes(Extents{9}, kExtent), {}}, std::nullopt, Soon())
                         .error()
                         .code()),
            "busy");
  EXPECT_EQ(CodeName(engine_->volumes().Unstage(id_, Path("/stage/x"), Soon()).error().code()), "busy");
  const std::string other = Create("two");
  EXPECT_TRUE(Stage(other, Soon()).has_value());
  EXPECT_TRUE(engine_->volumes().Delete(Create("three"), Soon()).has_value());
  holdup.Release();
  ASSERT_TRUE(Stage(id_, Soon()).has_value());
  EXPECT_EQ(CodeName(engine_->volumes().Delete(id_, Soon()).error().code()), "precondition")
      << "it is staged now";
}

TEST_F(BackgroundStepsTest, AFailureWithoutACallerIsReportedOnceThenRetried) {
  Holdup holdup(mount_, "Make");
  mount_.faults.FailNth("MakeInterrupted", 1, Error(Code::kIo, "a bad block"));
  ExpectGoesOn(StageAndLeave(holdup));
  holdup.Release();
  const Status told = Stage(id_, Soon());
  ASSERT_FALSE(told.has_value());
  EXPECT_EQ(CodeName(told.error().code()), "io");
  EXPECT_NE(told.error().message().find("a bad block"), std::string::npos);
  ASSERT_TRUE(Stage(id_, Soon()).has_value());
  EXPECT_TRUE(mount_.Made().back().overwrite);
}

TEST_F(BackgroundStepsTest, AStopEndsTheStepAndTheNextStartRepeatsIt) {
  Holdup holdup(mount_, "Make");
  ExpectGoesOn(StageAndLeave(holdup));
  ASSERT_TRUE(engine_->lifecycle().Stop(Soon()).has_value());
  EXPECT_EQ(mount_.Made().size(), 0U) << "it was stopped, not waited out";
  Restart();
  ASSERT_TRUE(Stage(id_, Soon()).has_value());
  EXPECT_TRUE(mount_.Made().back().overwrite);
}

TEST_F(BackgroundStepsTest, TheStepEndsWithItsEngine) {
  Holdup holdup(mount_, "Make");
  ExpectGoesOn(StageAndLeave(holdup));
  Restart();
  EXPECT_TRUE(Stage(id_, Soon()).has_value());
  EXPECT_EQ(mount_.Made().size(), 1U);
}

// An open device, for example.
TEST(BackgroundStepsAloneTest, AStepHoldsNothingAfterItsEnd) {
  KeyLocks locks;
  auto guard = locks.TryLock(LockKey::Volume("one"), "test");
  ASSERT_TRUE(guard.has_value());
  BackgroundSteps steps;
  std::promise<void> may_end;
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = held;
  const auto work = [held = std::move(held), end = may_end.get_future().share()](const Call&) -> Status {
    end.wait();
    return Ok();
  };
  {
    const Status left = steps.Run(
        "one", [] { return "work"; }, milliseconds(20000), work, *guard, CallWithin(milliseconds(600)));
    EXPECT_FALSE(left.has_value()) << "the caller has left";
  }
  may_end.set_value();
  ASSERT_TRUE(steps.Join("two", CallWithin(milliseconds(1000))).has_value());
  EXPECT_TRUE(Eventually([&] { return watched.use_count() == 1; })) << "the test's own work has the last one";
}

TEST_F(BackgroundStepsTest, GivingToAGroupOutlivesItsCaller) {
  Holdup holdup(mount_, "GiveToGroup");
  ExpectGoesOn(StageAndLeave(holdup, 7));
  EXPECT_EQ(CodeName(engine_->volumes().Unstage(id_, Path("/stage/x"), Soon()).error().code()), "busy");
  holdup.Release();
  ASSERT_TRUE(Stage(id_, Soon(), 7).has_value());
  EXPECT_EQ(mount_.AccessOf("/stage/" + id_.substr(id_.size() - 8)).gid, 7U);
}

}  // namespace
}  // namespace quarry::engine
