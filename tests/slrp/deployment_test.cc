// Tests that Mesos would accept deploy/mesos, and that what Mesos would refuse is refused.
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/slrp/deployment.h"

namespace quarry::slrp {
namespace {

using testing::HasSubstr;

std::string Deployed(const std::string& name) {
  const char* root = std::getenv("QUARRY_DEPLOY");
  auto text = ReadFile(std::string(root != nullptr ? root : "deploy") + "/mesos/" + name);
  EXPECT_TRUE(text.has_value()) << text.error().message();
  return text.has_value() ? *text : "";
}

TEST(Deployment, HasAProfileForEveryTypeAsFileSystemAndAsBlockDevice) {
  const auto profiles = ParseProfiles(Deployed("profiles.json"));
  ASSERT_TRUE(profiles.has_value()) << profiles.error().message();
  std::map<std::string, int> types;
  std::set<std::string> accesses;
  for (const Profile& profile : *profiles) {
    ++types[profile.parameters.at("type") +
            (profile.parameters.contains("mirrors") ? profile.parameters.at("mirrors") : "")];
    accesses.insert(profile.capability.block ? "block" : profile.capability.fs_type);
    // Mesos allows no change of a profile, only new ones. So the names have an edition.
    EXPECT_TRUE(profile.name.ends_with("-v1")) << profile.name;
  }
  EXPECT_THAT(accesses, testing::ElementsAre("block", "ext4", "xfs"));
  const std::map<std::string, int> expected = {{"linear", 3}, {"striped", 3}, {"raid11", 3}, {"raid12", 3},
                                               {"raid5", 3},  {"raid6", 3},   {"raid101", 3}};
  EXPECT_EQ(types, expected);
}

TEST(Deployment, NamesOnePluginTypeEverywhere) {
  const auto provider = ParseProvider(Deployed("provider.json"));
  ASSERT_TRUE(provider.has_value()) << provider.error().message();
  const auto profiles = ParseProfiles(Deployed("profiles.json"));
  ASSERT_TRUE(profiles.has_value()) << profiles.error().message();
  for (const Profile& profile : *profiles) {
    EXPECT_EQ(profile.plugin_type, provider->plugin_type) << profile.name;
  }
  EXPECT_EQ(provider->reconcile_seconds, 10);
  EXPECT_THAT(provider->command, HasSubstr("--patient"));
  const auto isolator = ParseIsolatorPlugin(Deployed("volume-csi.json"));
  ASSERT_TRUE(isolator.has_value()) << isolator.error().message();
  EXPECT_EQ(isolator->type, provider->plugin_type);
  EXPECT_FALSE(isolator->target_path_exists);
}

TEST(Deployment, LoadsTheModuleThatTheAgentIsToldToUse) {
  const std::string flags = Deployed("agent.env");
  const std::string modules = Deployed("modules.json");
  const std::string adaptor = "org_apache_mesos_UriDiskProfileAdaptor";
  EXPECT_THAT(flags, HasSubstr("MESOS_DISK_PROFILE_ADAPTOR=" + adaptor + "\n"));
  EXPECT_THAT(modules, HasSubstr("\"" + adaptor + "\""));
  EXPECT_THAT(modules, HasSubstr("/etc/mesos-quarry/profiles.json"));
  for (const char* needed : {"filesystem/linux", "volume/csi", "MESOS_LAUNCHER=linux"}) {
    EXPECT_THAT(flags, HasSubstr(needed));
  }
  // The isolator's list of devices cannot name devices that do not exist yet.
  EXPECT_THAT(flags, testing::Not(HasSubstr("cgroups/devices")));
}

TEST(Profiles, EitherSpellingOfProtobufIsAccepted) {
  const auto profiles = ParseProfiles(R"({"profileMatrix": {"p": {
      "csiPluginTypeSelector": {"pluginType": "a.b"},
      "volumeCapabilities": {"mount": {"fsType": "xfs", "mountFlags": ["noatime"]},
                             "accessMode": {"mode": "SINGLE_NODE_WRITER"}},
      "createParameters": {"type": "raid5", "stripes": "3", "stripesize": "64"}, "unknown": 1}}})");
  ASSERT_TRUE(profiles.has_value()) << profiles.error().message();
  const Capability expected{.block = false, .fs_type = "xfs", .mount_flags = {"noatime"}};
  EXPECT_EQ(profiles->front().capability, expected);
  EXPECT_EQ(profiles->front().parameters.at("stripesize"), "64");
}

std::string ProfileWith(const std::string& selector, const std::string& capability,
                        const std::string& parameters) {
  return R"({"profile_matrix": {"p": {)" + selector + R"("volume_capabilities": )" + capability +
         R"(, "create_parameters": )" + parameters + "}}}";
}

TEST(Profiles, ThatMesosWouldRefuseAreRefused) {
  const std::string selector = R"("csi_plugin_type_selector": {"plugin_type": "a"}, )";
  const std::string capability = R"({"block": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}})";
  ASSERT_TRUE(ParseProfiles(ProfileWith(selector, capability, "{}")).has_value());
  const std::pair<std::string, std::string> cases[] = {
      {"", "no JSON object"},
      {"{}", "profile_matrix"},
      {ProfileWith("", capability, "{}"), "selector"},
      {ProfileWith(selector + R"("resource_provider_selector": {}, )", capability, "{}"), "selector"},
      {ProfileWith(selector, R"({"block": {}})", "{}"), "access_mode"},
      {ProfileWith(selector, R"({"block": {}, "access_mode": {"mode": "UNKNOWN"}})", "{}"), "access_mode"},
      {ProfileWith(selector, R"({"access_mode": {"mode": "SINGLE_NODE_WRITER"}})", "{}"), "mount and block"},
      {ProfileWith(selector, capability, R"({"stripes": 3})"), "stripes"},
      {ProfileWith(selector,
                   R"({"mount": {"mount_flags": [")" + std::string(4097, 'x') +
                       R"("]}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}})",
                   "{}"),
       "mount_flags"},
  };
  for (const auto& [json, words] : cases) {
    const auto parsed = ParseProfiles(json);
    ASSERT_FALSE(parsed.has_value()) << json;
    EXPECT_THAT(parsed.error().message(), HasSubstr(words));
  }
}

TEST(Providers, ThatMesosWouldRefuseAreRefused) {
  const std::string good = Deployed("provider.json");
  const std::pair<std::string, std::string> spoils[] = {
      {"org.apache.mesos.rp.local.storage", "org.apache.mesos.rp.local.memory"},
      {"\"quarry\"", "\"quarry-1\""},
      {"local.csi.quarry", "local.csi.quarry-x"},
      {"local.csi.quarry", "local..quarry"},
      {"\"CONTROLLER_SERVICE\",", ""},
      {"\"command\"", "\"comand\""},
  };
  for (const auto& [what, with] : spoils) {
    std::string spoilt = good;
    const size_t at = spoilt.find(what);
    ASSERT_NE(at, std::string::npos) << what;
    spoilt.replace(at, what.size(), with);
    EXPECT_FALSE(ParseProvider(spoilt).has_value()) << what << " as " << with;
  }
  EXPECT_FALSE(ParseIsolatorPlugin(R"({"type": "a", "name": "b", "target_path_root": "/x"})").has_value());
  EXPECT_FALSE(ReadFile("/nonexistent/file").has_value());
}

}  // namespace
}  // namespace quarry::slrp
