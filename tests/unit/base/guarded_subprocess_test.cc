#include "base/guarded_subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Scripted final : public Subprocess {
 public:
  Result<Finished> Run(const Command& command, const Call& /*call*/) override {
    ran.push_back(command.argv.at(1));
    return Finished{.exit_status = 5, .out = "", .err = ""};
  }
  StuckChildren Stuck() override { return stuck; }

  std::vector<std::string> ran;
  StuckChildren stuck;
};

const Command kCommand{.argv = {"/sbin/lvm", "lvcreate"}, .env = {}, .input = ""};

TEST(GuardedSubprocess, RunsAndTellsWhileFewerThanTheLimitAreStuck) {
  Scripted inner;
  inner.stuck = {{412, "lvm"}};
  std::vector<std::string> told;
  GuardedSubprocess guarded(inner, 2, [&](const Command& command, std::chrono::duration<double> took) {
    EXPECT_GE(took.count(), 0);
    told.push_back(command.argv.at(1));
  });
  const auto finished = guarded.Run(kCommand, Call{});
  ASSERT_TRUE(finished.has_value());
  EXPECT_EQ(finished->exit_status, 5);
  EXPECT_EQ(inner.ran, std::vector<std::string>{"lvcreate"});
  EXPECT_EQ(told, inner.ran);
}

TEST(GuardedSubprocess, StartsNothingAtTheLimitAndNamesWhatIsStuck) {
  Scripted inner;
  inner.stuck = {{412, "lvm"}, {431, "lvm"}};
  GuardedSubprocess guarded(inner, 2);
  const auto refused = guarded.Run(kCommand, Call{});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kUnavailable);
  EXPECT_THAT(refused.error().message(),
              StartsWith("not started: 2 processes are stuck in the kernel (412 lvm, 431 lvm)"));
  EXPECT_TRUE(inner.ran.empty());
  inner.stuck.pop_back();
  EXPECT_TRUE(guarded.Run(kCommand, Call{}).has_value()) << "they have ended: work goes on";
}

TEST(TellOfStuck, SaysNothingOfNoneAndNamesAFewOfMany) {
  EXPECT_EQ(TellOfStuck({}), "");
  EXPECT_THAT(TellOfStuck({{7, "mkfs"}}), StartsWith("1 process is stuck in the kernel (7 mkfs): a disk"));
  const StuckChildren many(100, {7, "lvm"});
  EXPECT_THAT(TellOfStuck(many), HasSubstr("100 processes"));
  EXPECT_LT(TellOfStuck(many).size(), 200U);
}

}  // namespace
}  // namespace quarry
