#include "daemon/settings/changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Changes, SettingsThatDifferAppearOrVanishAreNamedOnce) {
  const GivenSettings before = {{"fsck", "off"}, {"log-level", "info"}, {"mode", "all"}};
  const GivenSettings after = {{"erase-rate", "1G"}, {"log-level", "debug"}, {"mode", "all"}};
  EXPECT_THAT(DifferingSettings(before, after), ElementsAre("erase-rate", "fsck", "log-level"));
  EXPECT_THAT(DifferingSettings(after, after), IsEmpty());
}

TEST(Changes, ASettingIsTakenOverAlsoIfItVanished) {
  GivenSettings to = {{"a", "1"}, {"b", "2"}};
  TakeOver("a", {{"a", "3"}}, to);
  TakeOver("b", {{"a", "3"}}, to);
  EXPECT_THAT(to, ElementsAre(std::pair<const std::string, std::string>{"a", "3"}));
}

}  // namespace
}  // namespace quarry::daemon
