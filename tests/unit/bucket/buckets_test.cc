// The life of buckets and of access to them.
#include <thread>

#include "tests/unit/bucket/buckets_fixture.h"

namespace quarry::bucket {
namespace {

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
  const auto smaller = TryCreate("logs", {{"size", "350MiB"}});
  ASSERT_FALSE(smaller.has_value());
  EXPECT_EQ(smaller.error().code(), Code::kAlreadyExists);
  EXPECT_THAT(smaller.error().message(), HasSubstr("'size'"));
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

TEST_F(BucketsTest, AListShowsWhatARoundCountedAndCountsOnlyWhatIsOld) {
  const auto objects = [&] { return buckets_->List(Soon())->front().content->objects; };
  Create("logs");
  std::ofstream(Link("logs") / "one") << "x";
  EXPECT_TRUE(buckets_->Round(Soon()));
  EXPECT_EQ(objects(), 1U);
  std::ofstream(Link("logs") / "two") << "x";
  EXPECT_EQ(objects(), 1U) << "it was counted a moment ago";
  EXPECT_TRUE(buckets_->Round(Soon()));
  EXPECT_EQ(objects(), 1U) << "neither does each round count";
  // Before the first round since a start, nothing was counted.
  Restart();
  EXPECT_TRUE(buckets_->Round(Soon()));
  EXPECT_EQ(objects(), 2U);
}

TEST_F(BucketsTest, ARoundCountsWhatIsOlderThanTheInterval) {
  count_interval_ = milliseconds(0);
  Restart();
  Create("logs");
  for (const uint64_t expected : {1U, 2U}) {
    std::ofstream(Link("logs") / std::to_string(expected)) << "x";
    // An interval lasts as long as counting does a few times over.
    for (int i = 0; i < 1000 && buckets_->CurrentFigures().buckets.front().content->objects != expected;
         ++i) {
      EXPECT_TRUE(buckets_->Round(Soon()));
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_EQ(buckets_->CurrentFigures().buckets.front().content->objects, expected);
  }
}

TEST_F(BucketsTest, WhatQuarryGatewaySaysIsToldWhileTheGatewayDoesNotServe) {
  const std::string id = Create("logs");
  std::ofstream(path_ / "s3/private/problem") << "it is version v1.7.0\n\x1b[2J" << std::string(2000, 'x');
  EXPECT_TRUE(buckets_->Round(Soon()));
  EXPECT_EQ(buckets_->Find(id, Soon())->problem, "") << "it serves";
  gateway_ = ErrnoError("connecting to the gateway", ECONNREFUSED);
  EXPECT_FALSE(buckets_->Round(Soon()));
  const std::string problem = buckets_->Find(id, Soon())->problem;
  EXPECT_THAT(problem, HasSubstr("quarry-gateway says: it is version v1.7.0"));
  EXPECT_LT(problem.size(), 700U);
  EXPECT_TRUE(std::ranges::all_of(problem, [](char c) { return c >= ' ' && c <= '~'; })) << problem;
  const auto made = TryCreate("other");
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message(), HasSubstr("version v1.7.0"));
  // The gateway's user may put anything there.
  fs::remove(path_ / "s3/private/problem");
  fs::create_symlink("/etc/hostname", path_ / "s3/private/problem");
  EXPECT_FALSE(buckets_->Round(Soon()));
  EXPECT_THAT(buckets_->Find(id, Soon())->problem, testing::Not(HasSubstr("quarry-gateway says")));
}

TEST_F(BucketsTest, AFullGatewayIsToldAndNeverRestarted) {
  full_interval_ = milliseconds(0);
  Restart();
  const std::string id = Create("logs");
  EXPECT_TRUE(buckets_->Round(Soon()));
  const std::string before = Environment();
  gateway_ = Error(Code::kBusy, "all slots are taken");
  for (int round = 0; round < 10; ++round) {
    EXPECT_FALSE(buckets_->Round(Soon()));
  }
  EXPECT_EQ(Environment(), before);
  EXPECT_TRUE(buckets_->CurrentFigures().gateway_full);
  EXPECT_FALSE(buckets_->CurrentFigures().gateway_healthy);
  const auto full = buckets_->Find(id, Soon());
  EXPECT_FALSE(full->serving);
  EXPECT_EQ(full->problem, "all slots are taken");
  EXPECT_TRUE(IsLinked("logs")) << "clients that have a slot go on";
  gateway_ = Ok();
  EXPECT_TRUE(buckets_->Round(Soon()));
  EXPECT_FALSE(buckets_->CurrentFigures().gateway_full);
  EXPECT_EQ(buckets_->Find(id, Soon())->problem, "");
}

// Each probe of a full gateway keeps a connection of it.
TEST_F(BucketsTest, AFullGatewayIsAskedSeldom) {
  full_interval_ = std::chrono::hours(1);
  Restart();
  gateway_ = Error(Code::kBusy, "all slots are taken");
  EXPECT_FALSE(buckets_->Round(Soon()));
  EXPECT_FALSE(buckets_->Round(Soon()));
  gateway_ = Ok();
  EXPECT_FALSE(buckets_->Round(Soon())) << "it was not asked again";
  // One slow answer alone does not make it wait.
  Restart();
  gateway_ = Error(Code::kBusy, "all slots are taken");
  EXPECT_FALSE(buckets_->Round(Soon()));
  gateway_ = Ok();
  EXPECT_TRUE(buckets_->Round(Soon()));
}

TEST_F(BucketsTest, AGatewayThatStartsIsNotRestarted) {
  const std::string before = Environment();
  gateway_ = ErrnoError("connecting to the gateway", ECONNREFUSED);
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(buckets_->Round(Soon()));
  }
  EXPECT_EQ(Environment(), before);
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
  Restart();
  EXPECT_TRUE(TryCreate("logs").has_value()) << "the request of its creation still finds it";
  EXPECT_TRUE(TryCreate("logs", {{"size", "800MiB"}}).has_value()) << "and so does its present size";
  EXPECT_EQ(TryCreate("logs", {{"size", "600MiB"}}).error().code(), Code::kAlreadyExists);
  EXPECT_THAT(mount_.Journal(), testing::Contains(HasSubstr("grow ")));
}

TEST_F(BucketsTest, ABucketIsComparedByTheParametersThatAreNamed) {
  const std::string logs = Create("logs", {{"type", "raid1"}, {"ondelete", "erase"}, {"erase", "none"}});
  const auto compared = [&](const Parameters& parameters) {
    return buckets_->Compare(logs, parameters, Soon());
  };
  for (const Parameters& same :
       {Parameters{}, Parameters{{"size", "400MiB"}}, Parameters{{"type", "raid1"}},
        Parameters{{"erase", "none"}, {"ondelete", "erase"}},
        Parameters{{"type", "raid1"}, {"mirrors", "1"}, {"durability", "sync"}, {"uploadttl", "7d"}}}) {
    const Status status = compared(same);
    EXPECT_TRUE(status.has_value()) << status.error().message();
  }
  for (const auto& [key, value] : Parameters{{"size", "300MiB"},
                                             {"type", "linear"},
                                             {"mirrors", "2"},
                                             {"erase", "zero"},
                                             {"ondelete", "refuse"},
                                             {"durability", "relaxed"},
                                             {"uploadttl", "1d"},
                                             {"colour", "red"},
                                             {"erase", "perhaps"},
                                             {"pool", "another"}}) {
    const Status status = compared({{key, value}});
    ASSERT_FALSE(status.has_value()) << key;
    EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(status.error().message(), HasSubstr(key));
  }
  EXPECT_EQ(buckets_->Compare("p.q" + std::string(26, 'a'), {}, Soon()).error().code(), Code::kNotFound);
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
