// The program itself: exit statuses, output, socket, signals. Its volume group does not exist, which is
// enough to serve Probe. Needs root for the locks in /run.
#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <csi/v1/csi.grpc.pb.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <pluginregistration/v1/registration.grpc.pb.h>
#include <quarry/admin/v1/admin.grpc.pb.h>

#include "base/subprocess.h"
#include "base/unique_fd.h"
#include "daemon/locking/node_lock.h"
#include "lvm/run/lvm_config.h"
#include "tests/unit/daemon/temporary_directory.h"

namespace quarry::daemon {
namespace {

namespace pb = ::csi::v1;
namespace admin = ::quarry::admin::v1;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using Variables = std::vector<std::pair<std::string, std::string>>;

// Runs quarryd until it exits.
Finished RunToEnd(std::vector<std::string> args, Variables environment = {}) {
  SpawnSubprocess subprocess;
  args.insert(args.begin(), QUARRYD);
  auto finished =
      subprocess.Run({.argv = std::move(args), .env = std::move(environment)}, CallWithin(seconds(60)));
  EXPECT_TRUE(finished.has_value()) << finished.error().message();
  return finished.has_value() ? std::move(*finished) : Finished{};
}

// Expects one line with its newline.
void ExpectOneLine(const std::string& text) {
  EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
}

TEST(QuarrydCheck, NamesEveryProblemOnALineAndStartsNothing) {
  TemporaryDirectory directory;
  const std::string state = directory.path() + "/state";
  const Finished bad = RunToEnd({"--check", "--log-level=loud", "--fsck=maybe"});
  EXPECT_EQ(bad.exit_status, 1);
  EXPECT_THAT(bad.out, AllOf(HasSubstr("problem: --log-level: must be one of"),
                             HasSubstr("problem: --fsck: must be one of"), HasSubstr("2 problems\n")));
  EXPECT_THAT(bad.err, IsEmpty());
  const Finished lacking = RunToEnd({"--check", "--endpoint=unix://" + directory.path() + "/none/csi.sock",
                                     "--state-dir=" + state, "--pool=p=no-such-group,reserve=1GiB"},
                                    {{"QUARRY_NODE_ID", "n1"}, {"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}});
  EXPECT_EQ(lacking.exit_status, 1);
  EXPECT_THAT(
      lacking.out,
      AllOf(HasSubstr("pool p: volume group no-such-group, reserve 1 GiB\n"), HasSubstr("node id: n1"),
            HasSubstr("problem: endpoint: there is no directory '" + directory.path() + "/none'"),
            HasSubstr("problem: pool p: "), HasSubstr("node-id = n1 (QUARRY_NODE_ID)")));
  EXPECT_FALSE(std::filesystem::exists(state));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "something was left behind";
}

TEST(QuarrydStart, StopsAtABadSettingWithOneLineThatNamesItAndStatus2) {
  const std::string endpoint = "--endpoint=unix:///tmp/none/csi.sock";
  const std::pair<std::vector<std::string>, const char*> rows[] = {
      {{endpoint, "--pool=p=vg", "--no-such-flag"}, "--no-such-flag"},
      {{endpoint, "--pool=p=vg", "--log-level=loud"}, "--log-level: must be one of"},
      {{endpoint}, "no pool is configured"},
      {{"--pool=p=vg"}, "--endpoint (CSI_ENDPOINT) is required"},
      {{endpoint, "--pool=p=vg", "--config=/nowhere/quarry.toml"}, "/nowhere/quarry.toml"},
      {{endpoint, "--pool=p=vg", "--mode=a\nb"}, "--mode: must be one of"},
  };
  for (const auto& [args, message] : rows) {
    const Finished finished = RunToEnd(args);
    EXPECT_EQ(finished.exit_status, 2) << message;
    EXPECT_THAT(finished.err, AllOf(StartsWith("quarryd: "), HasSubstr(message)));
    ExpectOneLine(finished.err);
    EXPECT_THAT(finished.out, IsEmpty());
  }
  const Finished environment = RunToEnd({endpoint, "--pool=p=vg"}, {{"QUARRY_LOG_FORMAT", "xml"}});
  EXPECT_EQ(environment.exit_status, 2);
  EXPECT_THAT(environment.err, HasSubstr("QUARRY_LOG_FORMAT: must be one of json, text, is 'xml'"));
  const Finished endpoint_variable = RunToEnd({"--pool=p=vg"}, {{"CSI_ENDPOINT", "tcp://0.0.0.0:1"}});
  EXPECT_EQ(endpoint_variable.exit_status, 2);
  EXPECT_THAT(endpoint_variable.err, HasSubstr("CSI_ENDPOINT: must be unix:///"));
}

TEST(QuarrydStart, NamesTheUnknownKeyOfTheFile) {
  const TemporaryDirectory directory;
  const std::string config = directory.path() + "/quarry.toml";
  std::ofstream(config) << "endpoint = \"unix:///tmp/x.sock\"\nlog-levle = \"info\"\n";
  const Finished finished = RunToEnd({"--config", config});
  EXPECT_EQ(finished.exit_status, 2);
  EXPECT_EQ(finished.err, "quarryd: --config: " + config + ": line 2: unknown key 'log-levle'\n");
}

TEST(QuarrydStart, PrintsVersionAndHelp) {
  const Finished version = RunToEnd({"--version"});
  EXPECT_EQ(version.exit_status, 0);
  EXPECT_THAT(version.out, StartsWith("quarryd "));
  ExpectOneLine(version.out);
  const Finished help = RunToEnd({"--help"});
  EXPECT_EQ(help.exit_status, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("--endpoint"), HasSubstr("CSI_ENDPOINT"), HasSubstr("--pool")));
  EXPECT_THAT(help.err, IsEmpty());
}

// A running quarryd, on a volume group of this test's own that does not exist.
class Quarryd : public ::testing::Test {
 protected:
  // Mounts a folder of its own as LVM's lock folder, as deployment.md asks of containers: this test may run
  // in one.
  static void SetUpTestSuite() {
    if (geteuid() != 0) {
      return;
    }
    const std::string folder = lvm::LvmConfig().locking_dir;
    std::filesystem::create_directories(folder);
    ASSERT_EQ(unshare(CLONE_NEWNS), 0) << std::strerror(errno);
    ASSERT_EQ(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0) << std::strerror(errno);
    ASSERT_EQ(mount(folder.c_str(), folder.c_str(), nullptr, MS_BIND, nullptr), 0) << std::strerror(errno);
  }

  void SetUp() override {
    if (geteuid() != 0) {
      GTEST_SKIP() << "needs root for " << kLockDirectory;
    }
    notify_.Reset(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, notify_path_.c_str(), notify_path_.size() + 1);
    ASSERT_EQ(bind(notify_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }

  void TearDown() override {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    const std::string locks = std::string(kLockDirectory) + "/";
    unlink((locks + "vg-" + group_ + ".lock").c_str());
    for (const std::string& path :
         {socket_path_, admin_path_, registration_path_, directory_.path() + "/second.sock"}) {
      std::string socket_lock = "socket-" + path + ".lock";
      std::replace(socket_lock.begin(), socket_lock.end(), '/', ':');
      unlink((locks + socket_lock).c_str());
    }
  }

  std::vector<std::string> Args(const std::string& group, const std::string& socket_path) {
    return {"--endpoint=unix://" + socket_path, "--pool=p=" + group,
            "--state-dir=" + directory_.path() + "/state", "--node-id=node-1"};
  }

  // What quarryd tells the kubelet about itself.
  grpc::Status AskForRegistration(pluginregistration::PluginInfo& info) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const auto channel =
        grpc::CreateChannel("unix:" + registration_path_, grpc::InsecureChannelCredentials());
    return pluginregistration::Registration::NewStub(channel)->GetInfo(&context, {}, &info);
  }

  // Starts quarryd and waits until it is ready to be probed.
  void Start(const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = Args(group_, socket_path_);
    args.insert(args.end(), more.begin(), more.end());
    args.insert(args.begin(), QUARRYD);
    std::string notify = "NOTIFY_SOCKET=" + notify_path_;
    std::array<char*, 2> environment = {notify.data(), nullptr};
    std::vector<char*> argv;
    for (std::string& arg : args) {
      argv.push_back(arg.data());
    }
    argv.push_back(nullptr);
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {  // only calls that are safe after a fork of a process with threads
      const int log = open(log_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      dup2(log, 1);
      dup2(log, 2);
      setsid();  // the terminal of whoever runs this test is not quarryd's
      if (terminal_ >= 0) {
        ioctl(terminal_, TIOCSCTTY, 0);
      }
      execve(QUARRYD, argv.data(), environment.data());
      _exit(127);
    }
    ASSERT_EQ(Notified(), "READY=1") << Log();
  }

  // The next message to the service manager; waits up to a minute.
  std::string Notified() {
    timeval patience{.tv_sec = 60, .tv_usec = 0};
    setsockopt(notify_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    std::array<char, 256> buffer{};
    const ssize_t got = recv(notify_.get(), buffer.data(), buffer.size(), 0);
    return got < 0 ? "nothing" : std::string(buffer.data(), static_cast<size_t>(got));
  }

  int WaitForExit() {
    int status = 0;
    for (int i = 0; i < 6000; ++i) {
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return -1000;
  }

  bool LogSays(const std::string& words) {
    for (int i = 0; i < 600 && Log().find(words) == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return Log().find(words) != std::string::npos;
  }

  std::string Log() {
    std::stringstream text;
    text << std::ifstream(log_path_).rdbuf();
    return text.str();
  }

  bool Exists(const std::string& path) {
    struct stat status{};
    return lstat(path.c_str(), &status) == 0;
  }

  TemporaryDirectory directory_;
  const std::string socket_path_ = directory_.path() + "/csi.sock";
  const std::string admin_path_ = directory_.path() + "/state/admin.sock";
  const std::string registration_path_ =
      directory_.path() + "/kubelet/plugins_registry/quarry.csi.local-reg.sock";
  const std::string notify_path_ = directory_.path() + "/notify";
  const std::string log_path_ = directory_.path() + "/log";
  const std::string group_ = "quarry-test-" + std::to_string(getpid());
  UniqueFd notify_;
  pid_t pid_ = -1;
  int terminal_ = -1;  // becomes the controlling terminal of the next Start(); -1: it has none
};

TEST_F(Quarryd, ServesProbeWhileItsVolumeGroupIsMissingAndNamesIt) {
  Start();
  struct stat status{};
  ASSERT_EQ(stat(socket_path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  ASSERT_EQ(stat(admin_path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);

  const auto channel = grpc::CreateChannel("unix:" + socket_path_, grpc::InsecureChannelCredentials());
  const auto identity = pb::Identity::NewStub(channel);
  EXPECT_TRUE(LogSays("not ready yet"));
  EXPECT_THAT(Log(), testing::AnyOf(HasSubstr("'" + group_ + "'"), HasSubstr("LVM is not installed")));
  grpc::ClientContext probing;
  pb::ProbeResponse response;
  const grpc::Status probed = identity->Probe(&probing, {}, &response);
  if (probed.ok()) {  // LVM cannot say that the group is missing if it may not open the disks
    EXPECT_TRUE(response.has_ready() && !response.ready().value());
    EXPECT_THAT(Log(), HasSubstr("\"code\":\"unavailable\""));
  } else {
    EXPECT_EQ(probed.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(probed.error_message(), testing::AnyOf(HasSubstr(group_), HasSubstr("LVM is not installed")));
  }

  grpc::ClientContext context;
  pb::ListVolumesResponse list;
  EXPECT_EQ(pb::Controller::NewStub(channel)->ListVolumes(&context, {}, &list).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(Quarryd, StopsOnRequestAndRemovesItsSocket) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Start();
    ASSERT_EQ(kill(pid_, signal), 0);
    EXPECT_EQ(WaitForExit(), 0) << Log();
    EXPECT_EQ(Notified(), "STOPPING=1");
    EXPECT_FALSE(Exists(socket_path_));
    EXPECT_FALSE(Exists(admin_path_));
  }
}

TEST_F(Quarryd, ReadsItsConfigurationAgainOnRequest) {
  const std::string config = directory_.path() + "/quarry.toml";
  const auto write = [&config](const std::string& text) { std::ofstream(config) << text; };
  write("log-level = \"warning\"\n");
  Start({"--config=" + config});
  write(
      "log-level = \"info\"\nhealth-interval = 7\ntrim-hours = 5\non-change = \"/bin/true\"\nstatsd-address "
      "= "
      "\"udp://127.0.0.1:9\"\nfsck = \"preen\"\n");
  ASSERT_EQ(kill(pid_, SIGHUP), 0);
  EXPECT_TRUE(LogSays("the configuration was read again")) << Log();
  EXPECT_THAT(Log(), HasSubstr(R"("a changed setting needs a restart of quarryd","setting":"fsck")"));
  for (const std::string setting : {"health-interval", "log-level", "on-change", "statsd-address"}) {
    EXPECT_THAT(Log(), HasSubstr("\"a changed setting is in force\",\"setting\":\"" + setting + "\""));
  }
  write("log-level = \"loud\"\n");
  ASSERT_EQ(kill(pid_, SIGHUP), 0);
  EXPECT_TRUE(LogSays("the configuration is invalid, so nothing was changed")) << Log();
  ASSERT_EQ(kill(pid_, SIGTERM), 0);
  EXPECT_EQ(WaitForExit(), 0) << Log();
  EXPECT_THAT(Log(), HasSubstr("stopping"));  // at info: the invalid file changed nothing
}

TEST_F(Quarryd, SaysWhatAReloadPutInForceAndWhatItCouldNot) {
  const std::string config = directory_.path() + "/quarry.toml";
  const auto write = [&config](const std::string& text) { std::ofstream(config) << text; };
  write("");
  Start({"--config=" + config});
  const auto stub =
      admin::Admin::NewStub(grpc::CreateChannel("unix:" + admin_path_, grpc::InsecureChannelCredentials()));
  admin::ReloadResponse answer;
  const auto reload = [&] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(60));
    return stub->Reload(&context, {}, &answer);
  };
  ASSERT_TRUE(reload().ok());
  EXPECT_THAT(answer.in_force(), IsEmpty());
  EXPECT_THAT(answer.needs_restart(), IsEmpty());
  write("health-interval = 7\nfsck = \"preen\"\n");
  ASSERT_TRUE(reload().ok());
  EXPECT_THAT(answer.in_force(), testing::ElementsAre("health-interval"));
  EXPECT_THAT(answer.needs_restart(), testing::ElementsAre("fsck"));
  write("health-interval = \"often\"\n");
  const grpc::Status refused = reload();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), AllOf(HasSubstr("health-interval"), HasSubstr("nothing was changed")));
  ASSERT_EQ(kill(pid_, SIGUSR1), 0) << "the signal with which quarryd wakes itself means nothing from others";
  ASSERT_EQ(kill(pid_, SIGTERM), 0);
  EXPECT_EQ(WaitForExit(), 0) << Log();
}

TEST_F(Quarryd, StopsInOrderWhenItsTerminalEnds) {
  UniqueFd master(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(master.valid());
  ASSERT_EQ(grantpt(master.get()) | unlockpt(master.get()), 0);
  const UniqueFd terminal(open(ptsname(master.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(terminal.valid());
  terminal_ = terminal.get();
  Start();
  master.Reset();
  EXPECT_EQ(WaitForExit(), 0) << Log();
  EXPECT_FALSE(Exists(socket_path_));
}

TEST_F(Quarryd, LeavesNothingNextToItsSocket) {
  Start();
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("csi.sock", "notify", "log", "state"));
}

TEST_F(Quarryd, LogsOnlyJsonLines) {
  Start();
  ASSERT_EQ(kill(pid_, SIGTERM), 0);
  EXPECT_EQ(WaitForExit(), 0);
  std::istringstream lines(Log());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_THAT(line, AllOf(StartsWith("{\"ts\":\""), testing::EndsWith("}")));
  }
  EXPECT_GE(count, 3);
}

TEST_F(Quarryd, ReplacesTheSocketOfAKilledQuarryd) {
  Start();
  ASSERT_EQ(kill(pid_, SIGKILL), 0);
  EXPECT_EQ(WaitForExit(), -SIGKILL);
  ASSERT_TRUE(Exists(socket_path_));
  Start();
  const auto channel = grpc::CreateChannel("unix:" + socket_path_, grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  pb::GetPluginInfoResponse info;
  EXPECT_TRUE(pb::Identity::NewStub(channel)->GetPluginInfo(&context, {}, &info).ok());
}

TEST_F(Quarryd, WaitsForAVolumeGroupOfAnotherQuarrydAndNamesIt) {
  const auto other = NodeLock::Take(kLockDirectory, "vg-" + group_);
  ASSERT_TRUE(other.has_value()) << other.error().message();
  Start();
  EXPECT_TRUE(LogSays("volume group '" + group_ + "' belongs to another quarryd")) << Log();
  EXPECT_THAT(Log(), HasSubstr("pid " + std::to_string(getpid()) + " (quarryd_test)"));
  const auto channel = grpc::CreateChannel("unix:" + socket_path_, grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  pb::ProbeResponse response;
  const grpc::Status probed = pb::Identity::NewStub(channel)->Probe(&context, {}, &response);
  EXPECT_EQ(probed.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(probed.error_message(), HasSubstr("pid " + std::to_string(getpid())));
  EXPECT_FALSE(Exists(directory_.path() + "/state/pools/" + group_ + "/pv.new"));
  EXPECT_EQ(waitpid(pid_, nullptr, WNOHANG), 0) << "it waits";
}

TEST_F(Quarryd, ContinuesOnceTheVolumeGroupIsFree) {
  {
    const auto other = NodeLock::Take(kLockDirectory, "vg-" + group_);
    ASSERT_TRUE(other.has_value());
    Start();
    EXPECT_TRUE(LogSays("belongs to another quarryd")) << Log();
  }
  EXPECT_TRUE(LogSays("LVM") || LogSays("lvm")) << "it looks for the group now:\n" << Log();
}

TEST_F(Quarryd, RefusesASocketThatAnotherProcessServes) {
  Start();
  const Finished second = RunToEnd(Args(group_ + "-2", socket_path_));
  EXPECT_EQ(second.exit_status, 1);
  EXPECT_THAT(second.err, AllOf(HasSubstr(socket_path_), HasSubstr("pid " + std::to_string(pid_))));
  EXPECT_TRUE(Exists(socket_path_));
  unlink((std::string(kLockDirectory) + "/vg-" + group_ + "-2.lock").c_str());
}

TEST_F(Quarryd, StaysRegisteredWithTheKubeletFromOneStartToTheNext) {
  const std::string kubelet = "--kubelet-dir=" + directory_.path() + "/kubelet";
  std::filesystem::create_directory(directory_.path() + "/kubelet");
  for (int i = 0; i < 2; ++i) {
    Start({kubelet});
    pluginregistration::PluginInfo info;
    const grpc::Status asked = AskForRegistration(info);
    ASSERT_TRUE(asked.ok()) << asked.error_message();
    EXPECT_EQ(info.name(), "quarry.csi.local");
    EXPECT_EQ(info.endpoint(), socket_path_);
    if (i == 0) {
      const Finished second = RunToEnd([&] {
        auto args = Args(group_, directory_.path() + "/second.sock");
        args.insert(args.end(), {kubelet, "--admin-endpoint=off"});
        return args;
      }());
      EXPECT_EQ(second.exit_status, 1);
      EXPECT_THAT(second.err, AllOf(HasSubstr(registration_path_), HasSubstr("--kubelet-dir")));
    }
    ASSERT_EQ(kill(pid_, SIGTERM), 0);
    EXPECT_EQ(WaitForExit(), 0) << Log();
    EXPECT_EQ(Notified(), "STOPPING=1");
    EXPECT_TRUE(Exists(registration_path_));
  }
}

TEST_F(Quarryd, ServesWithoutTheKubeletsFolder) {
  Start({"--kubelet-dir=" + directory_.path() + "/kubelet"});
  EXPECT_TRUE(LogSays("the kubelet's root folder '" + directory_.path() + "/kubelet'")) << Log();
}

TEST_F(Quarryd, DoesNotReplaceAFileAtTheSocketsPath) {
  std::ofstream(socket_path_) << "precious";
  const Finished finished = RunToEnd(Args(group_, socket_path_));
  EXPECT_EQ(finished.exit_status, 1);
  EXPECT_THAT(finished.err, HasSubstr("is not a socket"));
  std::string text;
  EXPECT_TRUE(std::getline(std::ifstream(socket_path_), text));
  EXPECT_EQ(text, "precious");
}

TEST_F(Quarryd, NamesTheMissingDirectoryOfItsSocket) {
  const Finished finished = RunToEnd(Args(group_, directory_.path() + "/none/csi.sock"));
  EXPECT_EQ(finished.exit_status, 1);
  EXPECT_THAT(finished.err, HasSubstr(directory_.path() + "/none"));
}

}  // namespace
}  // namespace quarry::daemon
