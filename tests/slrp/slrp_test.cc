// Tests of the simulator: in every generation it finds no violation in a correct plugin, and it catches each
// rule that a plugin breaks.
#include <stdlib.h>

#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/slrp/fake_plugin.h"
#include "tests/slrp/scenario.h"

namespace quarry::slrp {
namespace {

// One life of a provider over the fake plugin, and its outcome.
class Life {
 public:
  explicit Life(const Generation& generation) : generation_(generation) {
    std::string path = "/tmp/quarry-slrp-XXXXXX";
    directory_ = mkdtemp(path.data());
  }
  ~Life() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  const Report& Run(Fault fault, double time_scale = 1) {
    FakeWorld world;
    world.volumes["fake/old"] = {"fake/old", "not ours", 4 << 20, {{"made", "before"}}};
    auto plugin = std::make_unique<FakePlugin>(world, socket(), fault);
    Scenario scenario{.disks = 8, .published = 3, .destroyed = 8};
    scenario.adopt = {{"fake/old", "linear"}};
    scenario.kill = [&] {
      plugin.reset();
      plugin = std::make_unique<FakePlugin>(world, socket(), fault);
    };
    Books books;
    {
      Provider provider(Options(time_scale), books, report_);
      BeforeReboot(provider, books, scenario);
    }
    EXPECT_TRUE(books.Save(directory_ + "/books").has_value());
    plugin.reset();
    plugin = std::make_unique<FakePlugin>(world, socket(), fault, /*restarted=*/true);
    books = *Books::Load(directory_ + "/books");
    Provider provider(Options(time_scale), books, report_);
    AfterReboot(provider, books, scenario);
    left_ = world.volumes.size();
    return report_;
  }
  const Report& RunWithoutPlugin() {
    Books books;
    Provider provider(Options(0.002), books, report_);
    BeforeReboot(provider, books, {});
    return report_;
  }
  size_t left() const { return left_; }

 private:
  std::string socket() const { return directory_ + "/endpoint.sock"; }
  ProviderOptions Options(double time_scale) const {
    ProviderOptions options;
    options.generation = generation_;
    options.socket = socket();
    options.mount_root = directory_ + "/mounts";
    options.prefix = "op";
    options.profiles = {{"linear", "", {.fs_type = "xfs"}, {{"type", "linear"}}},
                        {"mirror", "", {.block = true}, {{"type", "raid1"}}}};
    options.time_scale = time_scale;
    options.backoff = std::chrono::milliseconds(50);
    options.looks_at_mounts = false;
    return options;
  }

  const Generation generation_;
  std::string directory_;
  Report report_;
  size_t left_ = 0;
};

std::set<std::string> Rules(const Report& report) {
  std::set<std::string> rules;
  for (const Violation& violation : report.violations()) {
    rules.insert(violation.rule);
  }
  return rules;
}

class EveryGeneration : public testing::TestWithParam<Generation> {};

TEST_P(EveryGeneration, FindsNoViolationInACorrectPlugin) {
  Life life(GetParam());
  const Report& report = life.Run(Fault::kNone);
  EXPECT_TRUE(report.violations().empty()) << report.Text();
  EXPECT_GE(report.counts()["created"], 8);
  EXPECT_GE(report.counts()["recovered"], 2);
  EXPECT_EQ(report.counts()["refused"], 1);
  EXPECT_EQ(report.counts()["adopted"], 1);
  // Without a retry, a call that the kill interrupts may leave a volume that the provider does not know.
  if (GetParam().retries) {
    EXPECT_EQ(life.left(), 0U);
  }
}

struct Case {
  Fault fault;
  std::string rule;
  const char* only = "";  // the only generation that has the rule
};

TEST_P(EveryGeneration, CatchesEveryBrokenRule) {
  const Case cases[] = {
      {Fault::kOtherVersion, "version", "1.5"},
      {Fault::kProbeFails, "probe"},
      {Fault::kNoController, "services"},
      {Fault::kListFails, "list"},
      {Fault::kPages, "whole_list"},
      {Fault::kListsTwice, "duplicate"},
      {Fault::kLosesVolumes, "missing"},
      {Fault::kKeepsDeleted, "undead"},
      {Fault::kRoundsSizes, "size"},
      {Fault::kChangesContext, "context"},
      {Fault::kCapacityFails, "capacity"},
      {Fault::kPromisesNonsense, "capacity"},
      {Fault::kRefusesCreate, "operation"},
      {Fault::kMakesTwice, "repeat"},
      {Fault::kAborts, "repeat"},
      {Fault::kDeletesOnce, "repeat"},
      {Fault::kNeverConfirms, "validate"},
      {Fault::kDoesNotEcho, "validate", "1.8"},
      {Fault::kPublishFails, "publish"},
      {Fault::kForgetsPublish, "recover"},
      {Fault::kStrictUnpublish, "unpublish"},
      {Fault::kOtherTarget, "target"},
  };
  std::set<std::string> covered = {"socket", "slow"};  // have tests of their own below
  for (const Case& each : cases) {
    covered.insert(each.rule);
    if (*each.only != '\0' && GetParam().name != each.only) {
      continue;
    }
    Life life(GetParam());
    const Report& report = life.Run(each.fault);
    EXPECT_THAT(Rules(report), testing::Contains(each.rule)) << static_cast<int>(each.fault) << '\n'
                                                             << report.Text();
  }
  for (const Rule& rule : kRules) {
    EXPECT_TRUE(covered.contains(std::string(rule.name))) << rule.name << " is never broken here";
  }
}

TEST_P(EveryGeneration, CatchesAMissingSocket) {
  Life life(GetParam());
  EXPECT_EQ(Rules(life.RunWithoutPlugin()), std::set<std::string>{"socket"});
}

INSTANTIATE_TEST_SUITE_P(Mesos, EveryGeneration, testing::ValuesIn(kGenerations), [](const auto& parameter) {
  return std::string("Mesos_1_") + std::string(parameter.param.name.substr(2));
});

TEST(Generation18, CatchesAReconciliationLongerThanItsInterval) {
  Life life(*FindGeneration("1.8"));
  EXPECT_THAT(Rules(life.Run(Fault::kSlow, 0.05)), testing::Contains("slow"));
}

TEST(Generation18, FallsBackToV0) {
  Life life(*FindGeneration("1.11"));
  const Report& report = life.Run(Fault::kNoV1);
  EXPECT_TRUE(report.violations().empty()) << report.Text();
}

TEST(Generation16, FindGenerationMapsEachNameToItsApi) {
  EXPECT_EQ(FindGeneration("1.4"), nullptr);
  EXPECT_EQ(FindGeneration("1.9")->api, Api::kV1);
  EXPECT_EQ(FindGeneration("1.6")->api, Api::kV0);
}

}  // namespace
}  // namespace quarry::slrp
