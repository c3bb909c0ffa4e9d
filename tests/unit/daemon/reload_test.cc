#include "daemon/reload.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"

namespace quarry::daemon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class ReloadTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe(ends_.data()), 0); }
  void TearDown() override {
    close(ends_[0]);
    close(ends_[1]);
  }

  // The lines that a reload logged.
  std::string Reloaded(const LoadAgain& load_again) {
    const Logger log(LogLevel::kInfo, LogFormat::kText, ends_[1]);
    const Appliers appliers = {{"trim-hours", [this](const Options& options) {
                                  applied_.push_back(options.trim_interval.count());
                                }}};
    outcome_ = Reload(load_again, appliers, given_, log);
    std::array<char, 4096> text{};
    const ssize_t got = read(ends_[0], text.data(), text.size());
    return got < 0 ? "" : std::string(text.data(), static_cast<size_t>(got));
  }

  GivenSettings given_ = {{"fsck", "off"}, {"trim-hours", "1"}};
  std::vector<int64_t> applied_;
  Result<csi::Reloaded> outcome_ = csi::Reloaded();
  std::array<int, 2> ends_{};
};

TEST_F(ReloadTest, AppliesWhatItCanAndNamesWhatNeedsARestart) {
  Loaded after;
  after.given = {{"fsck", "preen"}, {"trim-hours", "7"}};
  after.options.trim_interval = std::chrono::hours(7);
  EXPECT_THAT(Reloaded([&] { return after; }), AllOf(HasSubstr("needs a restart"), HasSubstr("fsck"),
                                                     HasSubstr("is in force"), HasSubstr("trim-hours")));
  EXPECT_THAT(applied_, testing::ElementsAre(7));
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_THAT(outcome_->in_force, testing::ElementsAre("trim-hours"));
  EXPECT_THAT(outcome_->needs_restart, testing::ElementsAre("fsck"));
  EXPECT_THAT(given_, UnorderedElementsAre(Pair("fsck", "off"), Pair("trim-hours", "7")));
  // Only what still differs is named again.
  EXPECT_THAT(Reloaded([&] { return after; }), AllOf(HasSubstr("fsck"), Not(HasSubstr("trim-hours"))));
  EXPECT_THAT(applied_, testing::SizeIs(1));
}

TEST_F(ReloadTest, AnInvalidFileChangesNothing) {
  const auto before = given_;
  EXPECT_THAT(Reloaded([]() -> Result<Loaded> {
                return Error(Code::kInvalidArgument, "quarry.toml: line 2: unknown key");
              }),
              AllOf(HasSubstr("nothing was changed"), HasSubstr("line 2: unknown key")));
  EXPECT_THAT(applied_, IsEmpty());
  EXPECT_EQ(given_, before);
  ASSERT_FALSE(outcome_.has_value());
  EXPECT_EQ(outcome_.error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace quarry::daemon
