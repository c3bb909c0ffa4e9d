// The configuration file that the Debian package installs, with everything in it switched on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "daemon/settings/options.h"
#include "tests/unit/daemon/temporary_directory.h"

namespace quarry::daemon {
namespace {

std::string Example() {
  std::stringstream text;
  text << std::ifstream(EXAMPLE_CONFIG).rdbuf();
  return text.str();
}

TEST(ExampleConfigTest, EveryValueIsValid) {
  const TemporaryDirectory directory;
  const std::string config = directory.path() + "/quarry.toml";
  // Prose has a blank after the '#', settings have none.
  std::ofstream(config) << std::regex_replace(Example(), std::regex("(^|\n)#(?=[^ \n])"), "$1");
  const auto loaded = Load({"--config", config}, {}, "1.2.3");
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  ASSERT_EQ(loaded->options.pools.size(), 2U);
  EXPECT_EQ(loaded->options.pools[0].group, "vg-data");
  EXPECT_EQ(loaded->options.pools[1].devices.size(), 2U);
  EXPECT_EQ(loaded->options.endpoint->str(), "/run/quarry/csi.sock");
}

TEST(ExampleConfigTest, NamesEverySetting) {
  const auto layer =
      ParseConfig(std::regex_replace(Example(), std::regex("(^|\n)#(?=[^ \n])"), "$1"), "example");
  ASSERT_TRUE(layer.has_value()) << layer.error().message();
  for (const Setting& setting : Settings()) {
    EXPECT_TRUE(layer->settings.contains(setting.name)) << setting.name;
  }
}

// quarryd then says what is missing, and the unit does not start it again.
TEST(ExampleConfigTest, AsInstalledItLacksTheEndpoint) {
  const auto loaded = Load({"--config", EXAMPLE_CONFIG}, {}, "1.2.3");
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(loaded.error().message(), testing::HasSubstr("--endpoint (CSI_ENDPOINT) is required"));
}

}  // namespace
}  // namespace quarry::daemon
