// quarryd as a process: its socket, its neighbours, its settings, its end.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "base/unique_fd.h"
#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using grpc::StatusCode;

class ProcessTest : public VmTest {};

TEST_F(ProcessTest, TheSocketIsForRootAlone) {
  struct stat found{};
  ASSERT_EQ(::lstat(kSocket, &found), 0);
  EXPECT_TRUE(S_ISSOCK(found.st_mode));
  EXPECT_EQ(found.st_mode & 0777, 0600U);
}

TEST_F(ProcessTest, AStaleSocketIsReplacedAndALiveOneIsNot) {
  KillAndRestart();  // leaves the socket of the killed one behind
  EXPECT_OK(client().Probe());

  auto second = QuarrydProcess::Start({});
  ASSERT_OK(second);
  const std::optional<int> status = (*second)->WaitExit(std::chrono::seconds(30));
  ASSERT_TRUE(status.has_value()) << "a second quarryd on a live socket must end";
  EXPECT_NE(*status, 0);
  EXPECT_NE((*second)->Log().find(kSocket), std::string::npos) << (*second)->Log();
  EXPECT_OK(client().Probe()) << "the first goes on serving";
}

TEST_F(ProcessTest, WhatIsNoSocketIsNotReplaced) {
  const std::string path = "/run/quarry-test/precious.sock";
  std::ofstream(path) << "precious";
  QuarrydOptions options;
  options.socket = path;
  auto started = QuarrydProcess::Start(options);
  ASSERT_OK(started);
  const std::optional<int> status = (*started)->WaitExit(std::chrono::seconds(30));
  ASSERT_TRUE(status.has_value());
  EXPECT_NE(*status, 0);
  EXPECT_EQ(Trim(Tool({"cat", path}).out), "precious");
  ::unlink(path.c_str());
}

TEST_F(ProcessTest, TheSocketGoesWithTheProcess) {
  EXPECT_EQ(quarryd().Stop(), 0);
  EXPECT_NE(::access(kSocket, F_OK), 0);
  StartQuarryd();
}

TEST_F(ProcessTest, StoppingFinishesOrCleanlyRefusesWhatIsInFlight) {
  for (const int pause : {0, 300, 1200}) {
    const VolumeSpec spec{"in-flight-" + std::to_string(pause), TypeParameters("raid1")};
    Reply<v1::CreateVolumeResponse> reply;
    std::jthread caller([&] {
      CsiClient own(kSocket);
      reply = own.Create(spec);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    EXPECT_EQ(quarryd().Stop(), 0);
    caller.join();
    EXPECT_TRUE(reply.ok() || reply.code() == StatusCode::UNAVAILABLE ||
                reply.code() == StatusCode::CANCELLED)
        << reply.code() << ": " << reply.text();
    StartQuarryd();
    auto listed = client().List();
    ASSERT_OK(listed);
    // Finished means there; refused means that nothing is left of it.
    EXPECT_EQ(listed.value.size(), reply.ok() ? 1U : 0U);
    const v1::Volume volume = MustCreate(spec);
    if (reply.ok()) {
      EXPECT_EQ(volume.volume_id(), reply.value.volume().volume_id());
    }
    EXPECT_OK(client().Delete(volume.volume_id()));
    ASSERT_TRUE(ComesBackEmpty());
  }
}

TEST_F(ProcessTest, LogsAreJsonLinesWithoutSecrets) {
  v1::CreateVolumeRequest request = CsiClient::CreateRequest({"logged"});
  (*request.mutable_secrets())["password"] = "hunter2-hunter2";
  auto made = client().Invoke(client().controller(), &v1::Controller::Stub::CreateVolume, request);
  ASSERT_OK(made);
  EXPECT_OK(client().Delete(made.value.volume().volume_id()));
  const std::string log = quarryd().Log();
  EXPECT_EQ(log.find("hunter2"), std::string::npos);
  EXPECT_NE(log.find("CreateVolume"), std::string::npos);
  for (const std::string& line : Lines(log)) {
    EXPECT_TRUE(line.starts_with("{") && line.ends_with("}")) << line;
  }
}

// Settings that stop the start: with one line that names what is wrong.
TEST_F(ProcessTest, BadSettingsStopTheStart) {
  const std::string config = "/run/quarry-test/bad.toml";
  std::ofstream(config) << "[[pool]]\nname = \"main\"\nvg = \"vg\"\nreserved = \"1GiB\"\n";
  struct Case {
    QuarrydOptions options;
    std::string named;
  };
  QuarrydOptions base;
  base.socket = "/run/quarry-test/other.sock";
  std::vector<Case> cases(5, {base, ""});
  cases[0].options.arguments = {"--no-such-flag"};
  cases[0].named = "no-such-flag";
  cases[1].options.pools = {};
  cases[1].options.arguments = {"--config", config};
  cases[1].named = "reserved";
  cases[2].options.pools = {"main"};
  cases[2].named = "pool";
  cases[3].options.arguments = {"--mode", "sometimes"};
  cases[3].named = "sometimes";
  cases[4].options.socket = "relative.sock";
  cases[4].options.log = "/run/quarry-test/quarryd.log";
  cases[4].named = "endpoint";
  for (const Case& bad : cases) {
    SCOPED_TRACE(bad.named);
    auto started = QuarrydProcess::Start(bad.options);
    ASSERT_OK(started);
    const std::optional<int> status = (*started)->WaitExit(std::chrono::seconds(20));
    ASSERT_TRUE(status.has_value());
    EXPECT_NE(*status, 0);
    EXPECT_NE((*started)->Log().find(bad.named), std::string::npos) << (*started)->Log();
  }
}

TEST_F(ProcessTest, SettingsComeFromFileEnvironmentAndFlagInThatOrder) {
  const std::string config = "/run/quarry-test/good.toml";
  std::ofstream(config) << "driver-name = \"file.example.org\"\nnode-id = \"file\"\n"
                        << "[[pool]]\nname = \"main\"\nvg = \"vg\"\n";
  EXPECT_EQ(quarryd().Stop(), 0);
  QuarrydOptions options;
  options.pools = {};
  options.arguments = {"--config", config};
  StartQuarryd(options);
  EXPECT_EQ(client().PluginInfo().value.name(), "file.example.org");
  EXPECT_EQ(client().NodeInfo().value.node_id(), "file");
  EXPECT_EQ(quarryd().Stop(), 0);

  options.variables = {{"QUARRY_DRIVER_NAME", "environment.example.org"}, {"QUARRY_NODE_ID", "environment"}};
  options.arguments.insert(options.arguments.end(), {"--node-id", "flag"});
  StartQuarryd(options);
  EXPECT_EQ(client().PluginInfo().value.name(), "environment.example.org");
  EXPECT_EQ(client().NodeInfo().value.node_id(), "flag");
}

}  // namespace
}  // namespace quarry::vm
