// quarryd as a process: its socket, a second process, its settings, its end.
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/unique_fd.h"
#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using grpc::StatusCode;

class ProcessTest : public VmTest {};

TEST_F(ProcessTest, OnlyRootCanUseTheSocket) {
  struct stat found{};
  ASSERT_EQ(::lstat(kSocket, &found), 0);
  EXPECT_TRUE(S_ISSOCK(found.st_mode));
  EXPECT_EQ(found.st_mode & 0777, 0600U);
}

TEST_F(ProcessTest, AStaleSocketIsReplacedAndALiveOneIsNot) {
  KillAndRestart();  // leaves the socket of the killed process behind
  EXPECT_OK(client().Probe());

  auto second = QuarrydProcess::Start({});
  ASSERT_OK(second);
  const std::optional<int> status = (*second)->WaitExit(std::chrono::seconds(30));
  ASSERT_TRUE(status.has_value()) << "a second quarryd on a live socket must end";
  EXPECT_NE(*status, 0);
  EXPECT_NE((*second)->Log().find(kSocket), std::string::npos) << (*second)->Log();
  EXPECT_OK(client().Probe()) << "the first process goes on serving";
}

TEST_F(ProcessTest, AFileThatIsNoSocketIsNotReplaced) {
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

TEST_F(ProcessTest, TheSocketIsRemovedWhenQuarrydStops) {
  EXPECT_EQ(quarryd().Stop(), 0);
  EXPECT_NE(::access(kSocket, F_OK), 0);
  StartQuarryd();
}

TEST_F(ProcessTest, StoppingFinishesOrRefusesCallsInFlight) {
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
    // If the call finished, its volume exists. If it was refused, nothing is left of it.
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

int ConnectTo(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? fd
                                                                                                     : -1;
}

// A process that connects `count` times and sends nothing. Writes "y" to the pipe `tell` if all connections
// were made, otherwise "n".
pid_t ConnectOnly(int port, int count, int tell) {
  const pid_t pid = ::fork();
  if (pid != 0) {
    return pid;
  }
  bool all = true;
  for (int i = 0; i < count; ++i) {
    all = ConnectTo(port) >= 0 && all;
  }
  [[maybe_unused]] const ssize_t told = ::write(tell, all ? "y" : "n", 1);
  ::pause();
  ::_exit(0);
}

std::string Scrape(int port) {
  const UniqueFd fd(ConnectTo(port));
  constexpr std::string_view kAsk = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  std::string text;
  if (::write(fd.get(), kAsk.data(), kAsk.size()) == static_cast<ssize_t>(kAsk.size())) {
    std::array<char, 4096> buffer{};
    for (ssize_t got = 1; got > 0;) {
      got = ::read(fd.get(), buffer.data(), buffer.size());
      text.append(buffer.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
    }
  }
  return text;
}

TEST_F(ProcessTest, IdleMetricsConnectionsDelayNoCall) {
  constexpr int kPort = 9808;
  constexpr int kProcesses = 10;
  constexpr int kEach = 500;  // below the usual limit of descriptors; 5,000 in all
  EXPECT_EQ(quarryd().Stop(), 0);
  QuarrydOptions options;
  options.arguments = {"--metrics-address", "127.0.0.1:" + std::to_string(kPort)};
  StartQuarryd(options);
  const v1::Volume volume = MustCreate({"busy", {}, BlockCapability()});
  const std::string staging = StagingPath("busy");
  ASSERT_OK(client().Stage(volume, staging, BlockCapability()));
  const auto descriptors = [&] {
    const std::string folder = "/proc/" + std::to_string(quarryd().pid()) + "/fd";
    return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
  };
  const auto before = descriptors();
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd told(ends[0]);
  const UniqueFd tell(ends[1]);
  std::vector<pid_t> callers;
  for (int i = 0; i < kProcesses; ++i) {
    callers.push_back(ConnectOnly(kPort, kEach, tell.get()));
  }
  for (int i = 0; i < 20; ++i) {
    const std::string target = TargetPath("busy");
    EXPECT_OK(client().Publish(volume, staging, target, BlockCapability()));
    EXPECT_OK(client().Unpublish(volume.volume_id(), target));
    EXPECT_LE(descriptors(), before + 60) << "16 connections, and the descriptors of the calls";
  }
  for (int i = 0; i < kProcesses; ++i) {
    char said = 'n';
    EXPECT_EQ(::read(told.get(), &said, 1), 1);
    EXPECT_EQ(said, 'y');
  }
  EXPECT_NE(Scrape(kPort).find("quarry_pool_readable"), std::string::npos);
  for (const pid_t pid : callers) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  ASSERT_OK(client().Unstage(volume.volume_id(), staging));
  ASSERT_OK(client().Delete(volume.volume_id()));
}

// Each bad setting stops the start, with a line that names it.
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

TEST_F(ProcessTest, FlagsOverrideTheEnvironmentAndItOverridesTheFile) {
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
