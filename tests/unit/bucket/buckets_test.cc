// Buckets on an engine whose LVM and kernel are fakes, and in real folders.
#include "bucket/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/scratch_folder.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::bucket {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::HasSubstr;

// Dies, as quarryd would, at a step that begins with `at`.
class Death final : public engine::StepWatcher {
 public:
  struct Killed {};
  void Before(const std::string& step) override { Look(step, true); }
  void After(const std::string& step) override { Look(step, false); }
  void At(std::string step, bool before) {
    at_ = std::move(step);
    before_ = before;
  }

 private:
  void Look(const std::string& step, bool before) {
    if (!at_.empty() && step.starts_with(at_) && before == before_) {
      at_.clear();
      throw Killed();
    }
  }
  std::string at_;
  bool before_ = false;
};

class BucketsTest : public testing::Test {
 protected:
  BucketsTest() {
    lvm_.AddGroup("vg0", Bytes{4 * kMiB.value}, {{"/dev/a", Extents{1000}}, {"/dev/b", Extents{1000}}});
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory((path_ / "s3/volumes").string());
    Restart();
  }

  // The state after kill -9.
  void Restart() {
    buckets_.reset();
    engine_.reset();
    engine_ = std::make_unique<engine::Engine>(
        engine::EngineConfig{.pools = {{.name = "p", .group = "vg0", .reserve = {}}}},
        fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
    auto made = Buckets::Make({.folder = *AbsolutePath::Parse((path_ / "s3").string()),
                               .spare = *AbsolutePath::Parse((path_ / "spare/root").string()),
                               .gateway = {geteuid(), getegid()},
                               .settings = {.listen = "127.0.0.1:7070", .region = "us-east-1"},
                               .url = "http://127.0.0.1:7070",
                               .probe = [this] { return gateway_; },
                               .is_mount_point = [](const AbsolutePath&) { return true; },
                               .steps = &death_},
                              *engine_, log_);
    ASSERT_TRUE(made.has_value()) << made.error().message();
    buckets_ = std::move(*made);
  }
  void Reboot() {
    buckets_.reset();
    engine_.reset();
    dm_.Reboot();
    mount_.Reboot();
    for (const auto& entry : fs::directory_iterator(path_ / "s3/root")) {
      if (entry.is_symlink()) {
        fs::remove(entry);
      }
    }
    fs::remove(path_ / "s3/iam/users.json");
    fs::remove(path_ / "s3/gateway.env");
    Restart();
  }
  static Call Soon() { return CallWithin(milliseconds(20000)); }

  Result<CreateResult> TryCreate(const std::string& name, Parameters more = {}) {
    more.try_emplace("size", "400MiB");
    return buckets_->Create({.name = name, .parameters = std::move(more)}, Soon());
  }
  std::string Create(const std::string& name, Parameters more = {}) {
    const auto made = TryCreate(name, std::move(more));
    EXPECT_TRUE(made.has_value()) << made.error().message();
    return made.has_value() ? made->bucket.id : "";
  }
  std::string Grant(const std::string& account, const std::vector<AccessedBucket>& to) {
    const auto granted = buckets_->Grant({.account = account, .buckets = to}, Soon());
    EXPECT_TRUE(granted.has_value()) << granted.error().message();
    return granted.has_value() ? granted->secret_key : "";
  }
  fs::path Link(const std::string& name) const { return path_ / "s3/root" / name; }
  bool IsLinked(const std::string& name) const { return fs::is_directory(Link(name)); }
  // What the gateway knows: accounts, and the policy of a bucket.
  nlohmann::json Users() const {
    std::ifstream file(path_ / "s3/iam/users.json");
    return nlohmann::json::parse(file)["accessAccounts"];
  }
  std::string Policy(const std::string& name) const {
    std::string text(65536, '\0');
    const ssize_t n = getxattr((Link(name)).c_str(), "user.policy", text.data(), text.size());
    return text.substr(0, n < 0 ? 0 : static_cast<size_t>(n));
  }
  bool MayUse(const std::string& account, const std::string& name) const {
    return Users().contains(account) && Policy(name).find('"' + account + '"') != std::string::npos;
  }
  std::string Environment() const {
    std::ifstream file(path_ / "s3/gateway.env");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const ScratchFolder folder_ =
      ScratchFolder::Make((fs::temp_directory_path() / "quarry-buckets-XXXXXX").string()).value();
  const fs::path path_ = folder_.path();
  fakes::FakeDm dm_;
  fakes::FakeLvm lvm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  Death death_;
  Status gateway_ = Ok();
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Buckets> buckets_;
};

TEST_F(BucketsTest, ANewBucketIsMountedAndLinked) {
  const auto made = TryCreate("logs");
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_TRUE(made->created);
  EXPECT_TRUE(made->bucket.serving);
  EXPECT_EQ(made->bucket.name, "logs");
  EXPECT_TRUE(IsLinked("logs"));
  const auto again = TryCreate("logs");
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(again->created);
  EXPECT_EQ(again->bucket.id, made->bucket.id);
  const auto status = engine_->lifecycle().NodeStatus(Soon());
  EXPECT_THAT(status->front().volumes.front().mount_options, HasSubstr("sync"));
  EXPECT_THAT(status->front().volumes.front().mount_options, HasSubstr("nodev"));
}

TEST_F(BucketsTest, AnotherBucketOfTheNameIsRefused) {
  Create("logs");
  const auto other = TryCreate("logs", {{"ondelete", "erase"}});
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code(), Code::kAlreadyExists);
  EXPECT_THAT(other.error().message(), HasSubstr("ondelete"));
  EXPECT_EQ(TryCreate("logs", {{"type", "raid1"}}).error().code(), Code::kAlreadyExists);
  EXPECT_EQ(TryCreate("logs", {{"size", "900MiB"}}).error().code(), Code::kAlreadyExists);
  EXPECT_EQ(TryCreate("big", {{"size", "900GiB"}}).error().code(), Code::kNoSpace);
  EXPECT_EQ(TryCreate("odd", {{"colour", "red"}}).error().code(), Code::kInvalidArgument);
}

TEST_F(BucketsTest, WithoutItsGatewayABucketIsNotServed) {
  gateway_ = Error(Code::kUnavailable, "connection refused");
  const auto made = TryCreate("logs");
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), Code::kUnavailable);
  EXPECT_THAT(made.error().message(), HasSubstr("quarry-gateway"));
  gateway_ = Ok();
  EXPECT_FALSE(TryCreate("logs")->created) << "the repetition joins";
}

TEST_F(BucketsTest, AHangingGatewayIsRestartedOnce) {
  const std::string before = Environment();
  EXPECT_THAT(before, HasSubstr("QUARRY_GENERATION=1\n"));
  gateway_ = Error(Code::kTimeout, "no answer");
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(buckets_->Round(Soon()));
  }
  EXPECT_THAT(Environment(), HasSubstr("QUARRY_GENERATION=2\n"));
  EXPECT_FALSE(buckets_->CurrentFigures().gateway_healthy);
  gateway_ = Ok();
  EXPECT_TRUE(buckets_->Round(Soon()));
  EXPECT_TRUE(buckets_->CurrentFigures().gateway_healthy);
  const std::string now = Environment();
  Restart();
  EXPECT_EQ(Environment(), now) << "a restart of quarryd leaves the gateway alone";
}

TEST_F(BucketsTest, AGrantIsAKeyOfItsOwnThatARepetitionKeeps) {
  const std::string logs = Create("logs");
  const std::string secret = Grant("app", {{logs, Access::kReadWrite}});
  EXPECT_EQ(secret.size(), 48U);
  EXPECT_EQ(Grant("app", {{logs, Access::kReadWrite}}), secret);
  EXPECT_NE(Grant("other", {{logs, Access::kReadOnly}}), secret);
  EXPECT_TRUE(MayUse("app", "logs"));
  EXPECT_EQ(Users()["app"]["secret"], secret);
  const auto changed = buckets_->Grant({.account = "app", .buckets = {{logs, Access::kReadOnly}}}, Soon());
  ASSERT_FALSE(changed.has_value());
  EXPECT_EQ(changed.error().code(), Code::kAlreadyExists);
  const auto nowhere = buckets_->Grant(
      {.account = "app2", .buckets = {{"p.q" + std::string(26, 'a'), Access::kReadOnly}}}, Soon());
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code(), Code::kNotFound);
  EXPECT_EQ(
      buckets_->Grant({.account = "a/b", .buckets = {{logs, Access::kReadOnly}}}, Soon()).error().code(),
      Code::kInvalidArgument);
}

TEST_F(BucketsTest, GrantsSurviveAReboot) {
  const std::string logs = Create("logs");
  const std::string media = Create("media");
  const std::string secret = Grant("app", {{logs, Access::kReadWrite}, {media, Access::kReadOnly}});
  Reboot();
  EXPECT_FALSE(IsLinked("logs")) << "nothing is served before it is mounted";
  EXPECT_TRUE(buckets_->Round(Soon()));
  EXPECT_TRUE(MayUse("app", "logs"));
  EXPECT_TRUE(MayUse("app", "media"));
  EXPECT_EQ(Users()["app"]["secret"], secret);
  EXPECT_EQ(Grant("app", {{media, Access::kReadOnly}, {logs, Access::kReadWrite}}), secret);
  const auto found = buckets_->Find(logs, Soon());
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->accounts.size(), 1U);
  EXPECT_EQ(found->accounts[0].id, "app");
}

TEST_F(BucketsTest, ARestartCutsNobodyOff) {
  Create("aaa");
  const std::string last = Create("zzz");
  Grant("app", {{last, Access::kReadWrite}});
  Restart();
  EXPECT_TRUE(MayUse("app", "zzz")) << "the gateway serves on";
  ASSERT_TRUE(buckets_->Round(Soon()));
  EXPECT_TRUE(MayUse("app", "zzz"));
  const auto users = path_ / "s3/iam/users.json";
  std::ofstream(users) << UsersText({{"ghost", "hush"}});
  Restart();
  ASSERT_TRUE(buckets_->Round(Soon()));
  EXPECT_FALSE(Users().contains("ghost")) << "an account without a record ends with the first round";
  EXPECT_TRUE(MayUse("app", "zzz"));
}

TEST_F(BucketsTest, WhatIsRevokedStaysRevoked) {
  const std::string logs = Create("logs");
  const std::string media = Create("media");
  const std::string secret = Grant("app", {{logs, Access::kReadWrite}, {media, Access::kReadOnly}});
  ASSERT_TRUE(buckets_->Revoke("app", {logs}, Soon()).has_value());
  EXPECT_FALSE(MayUse("app", "logs"));
  EXPECT_TRUE(MayUse("app", "media"));
  EXPECT_EQ(Grant("app", {{media, Access::kReadOnly}}), secret) << "what is left is what it has now";
  ASSERT_TRUE(buckets_->Revoke("app", {logs, media}, Soon()).has_value());
  ASSERT_TRUE(buckets_->Revoke("app", {media}, Soon()).has_value());
  ASSERT_TRUE(buckets_->Revoke("nobody", {logs}, Soon()).has_value());
  ASSERT_TRUE(buckets_->Revoke("app", {"p.q" + std::string(26, 'a')}, Soon()).has_value());
  EXPECT_FALSE(Users().contains("app"));
  Reboot();
  ASSERT_TRUE(buckets_->Round(Soon()));
  EXPECT_FALSE(Users().contains("app"));
  EXPECT_FALSE(MayUse("app", "media"));
  EXPECT_NE(Grant("app", {{logs, Access::kReadWrite}}), secret);
}

TEST_F(BucketsTest, APolicyWithoutARecordIsReplaced) {
  const std::string logs = Create("logs");
  Grant("app", {{logs, Access::kReadWrite}});
  fs::remove(fs::canonical(Link("logs")).parent_path() / "grants/app.json");
  Restart();
  ASSERT_TRUE(buckets_->Round(Soon()));
  EXPECT_FALSE(MayUse("app", "logs"));
  EXPECT_THAT(Policy("logs"), testing::Not(HasSubstr("app")));
}

TEST_F(BucketsTest, ABucketWithObjectsIsKept) {
  const std::string logs = Create("logs");
  std::ofstream(Link("logs") / "object") << "x";
  const Status refused = buckets_->Delete(logs, Soon());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_THAT(refused.error().message(), HasSubstr("1 objects"));
  EXPECT_TRUE(IsLinked("logs"));
  fs::remove(Link("logs") / "object");
  ASSERT_TRUE(buckets_->Delete(logs, Soon()).has_value());
  EXPECT_FALSE(fs::is_symlink(Link("logs")));
  EXPECT_EQ(buckets_->Find(logs, Soon()).error().code(), Code::kNotFound);
  EXPECT_TRUE(buckets_->Delete(logs, Soon()).has_value()) << "a repetition";
}

TEST_F(BucketsTest, ADeletedBucketTakesItsAccountsAlong) {
  const std::string logs = Create("logs", {{"ondelete", "erase"}});
  Grant("app", {{logs, Access::kReadWrite}});
  std::ofstream(Link("logs") / "object") << "x";
  const Status deleted = buckets_->Delete(logs, Soon());
  ASSERT_TRUE(deleted.has_value()) << deleted.error().message();
  EXPECT_FALSE(Users().contains("app"));
  EXPECT_THAT(*buckets_->List(Soon()), testing::IsEmpty());
}

TEST_F(BucketsTest, AVolumeThatIsNoBucketIsNobodysBucket) {
  const auto volume = engine_->volumes().Create({.name = "data",
                                                 .range = {Bytes{40 * kMiB.value}, {}},
                                                 .capabilities = {{.fs_type = "ext4"}},
                                                 .parameters = {}},
                                                Soon());
  ASSERT_TRUE(volume.has_value());
  EXPECT_EQ(buckets_->Find(volume->volume.id, Soon()).error().code(), Code::kNotFound);
  EXPECT_TRUE(buckets_->Delete(volume->volume.id, Soon()).has_value());
  EXPECT_TRUE(engine_->volumes().Get(volume->volume.id, Soon()).has_value()) << "and it is still there";
}

TEST_F(BucketsTest, ABucketGrowsWhileItServes) {
  const std::string logs = Create("logs");
  const auto grown = buckets_->Grow(logs, Bytes{800 * kMiB.value}, Soon());
  ASSERT_TRUE(grown.has_value()) << grown.error().message();
  EXPECT_EQ(*grown, Bytes{800 * kMiB.value});
  EXPECT_EQ(*buckets_->Grow(logs, Bytes{1}, Soon()), Bytes{800 * kMiB.value}) << "never smaller";
  EXPECT_TRUE(TryCreate("logs").has_value()) << "the request of its creation still finds it";
  EXPECT_THAT(mount_.Journal(), testing::Contains(HasSubstr("grow ")));
}

TEST_F(BucketsTest, OneThatCannotBeMountedBlocksNoOther) {
  const std::string lost = Create("a-lost");
  Create("b-fine");
  Reboot();
  // Something that is not Quarry's is in the place of data/.
  const fs::path top = path_ / "s3/volumes" / lost.substr(lost.rfind('.') + 1);
  fs::rename(top / "data", top / "data-of-old");
  std::ofstream(top / "data") << "x";
  EXPECT_FALSE(buckets_->Round(Soon()));
  EXPECT_FALSE(fs::exists(Link("a-lost")));
  EXPECT_TRUE(IsLinked("b-fine"));
  const auto found = buckets_->Find(lost, Soon());
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->serving);
  EXPECT_THAT(found->problem, HasSubstr("no folder"));
  EXPECT_EQ(
      buckets_->Grant({.account = "app", .buckets = {{lost, Access::kReadOnly}}}, Soon()).error().code(),
      Code::kUnavailable);
  EXPECT_EQ(buckets_->Revoke("app", {lost}, Soon()).error().code(), Code::kUnavailable)
      << "its record is out of reach";
}

TEST_F(BucketsTest, ALinkOfAnEarlierProcessGoesWithItsBucket) {
  const std::string lost = Create("lost");
  buckets_.reset();
  const fs::path top = path_ / "s3/volumes" / lost.substr(lost.rfind('.') + 1);
  fs::rename(top / "data", top / "data-of-old");
  std::ofstream(top / "data") << "x";
  Restart();
  EXPECT_TRUE(fs::is_symlink(Link("lost")));
  EXPECT_FALSE(buckets_->Round(Soon()));
  EXPECT_FALSE(fs::is_symlink(Link("lost")));
}

TEST_F(BucketsTest, AStrayLinkGoes) {
  fs::create_symlink("../volumes/gone/data", Link("gone"));
  Create("logs");
  ASSERT_TRUE(buckets_->Round(Soon()));
  EXPECT_FALSE(fs::is_symlink(Link("gone")));
  EXPECT_TRUE(IsLinked("logs"));
}

// Every step of every call: after the death, a repetition ends as if nothing had happened.
TEST_F(BucketsTest, ADeathAtAnyStepChangesNoSecretAndLetsNobodyIn) {
  const std::string logs = Create("logs", {{"ondelete", "erase"}});
  const std::string kept = Grant("kept", {{logs, Access::kReadOnly}});
  const auto dies = [&](const std::string& step, bool before, const std::function<void()>& call) {
    SCOPED_TRACE(fmt::format("{} {}", before ? "before" : "after", step));
    death_.At(step, before);
    EXPECT_THROW(call(), Death::Killed);
    Reboot();
    EXPECT_TRUE(buckets_->Round(Soon()));
    EXPECT_EQ(Users()["kept"]["secret"], kept);
    EXPECT_TRUE(MayUse("kept", "logs"));
  };
  for (const bool before : {true, false}) {
    for (const std::string step : {"keep grant", "write users.json", "set policy"}) {
      std::string known;
      dies(step, before, [&] { (void)buckets_->Grant({"app", {{logs, Access::kReadWrite}}}, Soon()); });
      if (Users().contains("app")) {
        known = Users()["app"]["secret"];  // committed: a repetition must give the same
      }
      const std::string secret = Grant("app", {{logs, Access::kReadWrite}});
      EXPECT_TRUE(known.empty() || known == secret);
      EXPECT_TRUE(MayUse("app", "logs"));
      ASSERT_TRUE(buckets_->Revoke("app", {logs}, Soon()).has_value());
      EXPECT_FALSE(Users().contains("app"));
    }
    for (const std::string step : {"forget grant", "set policy", "write users.json"}) {
      Grant("app", {{logs, Access::kReadWrite}});
      dies(step, before, [&] { (void)buckets_->Revoke("app", {logs}, Soon()); });
      const bool committed = step != "forget grant" || !before;
      EXPECT_EQ(MayUse("app", "logs"), !committed);
      ASSERT_TRUE(buckets_->Revoke("app", {logs}, Soon()).has_value());
      EXPECT_FALSE(MayUse("app", "logs"));
    }
    for (const std::string step : {"link", "set policy", "write users.json"}) {
      dies(step, before, [&] { (void)TryCreate("fresh"); });
      EXPECT_TRUE(IsLinked("fresh")) << "finished by the next start";
      ASSERT_TRUE(buckets_->Delete(Create("fresh"), Soon()).has_value());
    }
    dies("unlink", before, [&] { (void)buckets_->Delete(logs, Soon()); });
    EXPECT_TRUE(IsLinked("logs")) << "not deleted yet";
  }
  ASSERT_TRUE(buckets_->Delete(logs, Soon()).has_value());
  EXPECT_TRUE(Users().empty());
}

}  // namespace
}  // namespace quarry::bucket
