// Registration with the kubelet, as a kubelet sees it: over the socket in its folder plugins_registry.
#include "csi/kubelet/registrar.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <pluginregistration/v1/registration.grpc.pb.h>

#include "base/mutex.h"
#include "base/unix_socket.h"
#include "tests/unit/read_all.h"

namespace quarry::csi::kubelet {
namespace {

namespace pb = ::pluginregistration;
using testing::HasSubstr;

class RegistrarTest : public testing::Test {
 protected:
  RegistrarTest() : folder_(MakeDirectory()), log_fd_(memfd_create("log", MFD_CLOEXEC)) {}
  ~RegistrarTest() override {
    registrar_.reset();
    std::filesystem::remove_all(folder_);
    close(log_fd_);
  }

  static std::string MakeDirectory() {
    std::string path = "/tmp/quarry-kubelet-XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    return path;
  }

  Status Start() {
    auto started = Registrar::Start({.socket = *AbsolutePath::Parse(socket_),
                                     .claim =
                                         [this](const AbsolutePath& path) {
                                           ++claims_;
                                           return Claim(path);
                                         },
                                     .driver_name = "quarry.csi.local",
                                     .endpoint = *AbsolutePath::Parse("/kubelet/plugins/q/csi.sock"),
                                     .observe =
                                         [this](const Registration& said) {
                                           const MutexLock lock(mutex_);
                                           seen_.push_back(said);
                                         },
                                     .first_patience = patience_},
                                    log_);
    if (!started.has_value()) {
      return std::unexpected(started.error());
    }
    registrar_ = std::move(*started);
    return Ok();
  }

  static Status Claim(const AbsolutePath& path) {
    if (std::filesystem::is_socket(path.str())) {
      std::filesystem::remove(path.str());
    }
    return std::filesystem::exists(path.str()) ? Status(Error(Code::kPrecondition, "not a socket")) : Ok();
  }

  // One question over a new connection, as the kubelet asks.
  grpc::Status Ask(pb::PluginInfo& info) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    return Stub()->GetInfo(&context, {}, &info);
  }

  void Tell(bool registered, const std::string& error) {
    pb::RegistrationStatus status;
    status.set_plugin_registered(registered);
    status.set_error(error);
    grpc::ClientContext context;
    pb::RegistrationStatusResponse response;
    const grpc::Status told = Stub()->NotifyRegistrationStatus(&context, status, &response);
    EXPECT_TRUE(told.ok()) << told.error_message();
  }

  std::unique_ptr<pb::Registration::Stub> Stub() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return pb::Registration::NewStub(
        grpc::CreateCustomChannel("unix:" + socket_, grpc::InsecureChannelCredentials(), arguments));
  }

  // Waits for half a minute at most.
  template <typename Condition>
  static bool Eventually(const Condition& condition) {
    for (int i = 0; i < 300 && !condition(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return condition();
  }

  std::vector<Registration> Seen() {
    const MutexLock lock(mutex_);
    return seen_;
  }

  std::string Logged() const { return ReadAll(log_fd_); }

  bool LogHas(const std::string& text) const { return Logged().find(text) != std::string::npos; }

  const std::string folder_;
  const std::string socket_ = folder_ + "/plugins_registry/quarry.csi.local-reg.sock";
  const int log_fd_;
  std::chrono::milliseconds patience_{60000};
  std::atomic<int> claims_ = 0;
  const Logger log_{LogLevel::kDebug, LogFormat::kJson, log_fd_};
  Mutex mutex_;
  std::vector<Registration> seen_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Registrar> registrar_;
};

TEST_F(RegistrarTest, SaysWhichDriverAnswersWhere) {
  ASSERT_TRUE(Start().has_value());
  struct stat status{};
  ASSERT_EQ(stat(socket_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  pb::PluginInfo info;
  const grpc::Status asked = Ask(info);
  ASSERT_TRUE(asked.ok()) << asked.error_message();
  EXPECT_EQ(info.type(), "CSIPlugin");
  EXPECT_EQ(info.name(), "quarry.csi.local");
  EXPECT_EQ(info.endpoint(), "/kubelet/plugins/q/csi.sock");
  EXPECT_THAT(info.supported_versions(), testing::ElementsAre("1.0.0"));
}

// The bytes and paths that the kubelet's own definition gives.
TEST_F(RegistrarTest, SpeaksTheKubeletsWireFormat) {
  pb::PluginInfo info;
  ASSERT_TRUE(
      info.ParseFromString("\x0a\x01t\x12\x01n\x1a\x01"
                           "e\x22\x03"
                           "1.0\x22\x03"
                           "1.1"));
  EXPECT_EQ(info.type() + info.name() + info.endpoint(), "tne");
  EXPECT_THAT(info.supported_versions(), testing::ElementsAre("1.0", "1.1"));
  pb::RegistrationStatus status;
  ASSERT_TRUE(
      status.ParseFromString("\x08\x01\x12\x01"
                             "e"));
  EXPECT_TRUE(status.plugin_registered());
  EXPECT_EQ(status.error(), "e");
  EXPECT_STREQ(pb::Registration::service_full_name(), "pluginregistration.Registration");
}

TEST_F(RegistrarTest, GoesOnServingAKubeletThatRefuses) {
  ASSERT_TRUE(Start().has_value());
  Tell(false, "the node is \"not\" known yet");
  Tell(false, std::string(100000, 'x'));
  Tell(true, "");
  const auto seen = Seen();
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_FALSE(seen[0].registered);
  EXPECT_EQ(seen[0].refusals, 0U);
  EXPECT_FALSE(seen[2].registered);
  EXPECT_EQ(seen[2].refusals, 2U);
  EXPECT_TRUE(seen[3].registered);
  EXPECT_EQ(seen[3].refusals, 2U);
  EXPECT_THAT(Logged(), HasSubstr("refused to register this driver\",\"error\":\"the node is"));
  EXPECT_THAT(Logged(), HasSubstr("the kubelet has registered this driver"));
  EXPECT_LT(Logged().size(), 10000U);
}

TEST_F(RegistrarTest, BindsItsSocketAnewIfItIsRemovedWithItsFolder) {
  ASSERT_TRUE(Start().has_value());
  std::filesystem::remove_all(folder_ + "/plugins_registry");
  pb::PluginInfo info;
  EXPECT_TRUE(Eventually([&] { return Ask(info).ok(); }));
  EXPECT_EQ(info.name(), "quarry.csi.local");
  EXPECT_TRUE(Eventually([&] { return LogHas("the registration socket is in place again"); })) << Logged();
}

TEST_F(RegistrarTest, IsNotRegisteredOnceTheSocketIsGone) {
  ASSERT_TRUE(Start().has_value());
  Tell(true, "");
  EXPECT_TRUE(Seen().back().registered);
  std::filesystem::remove(socket_);
  EXPECT_TRUE(Eventually([&] { return !Seen().back().registered; }));
}

TEST_F(RegistrarTest, ReplacesASocketThatADeadProcessPutInItsPlace) {
  ASSERT_TRUE(Start().has_value());
  std::filesystem::remove(socket_);
  const int other = socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un address = *UnixAddress(*AbsolutePath::Parse(socket_));
  ASSERT_EQ(bind(other, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(other);
  pb::PluginInfo info;
  EXPECT_TRUE(Eventually([&] { return Ask(info).ok(); }));
}

// Kubelets before 1.36 ask a socket once.
TEST_F(RegistrarTest, MakesItsSocketAnewForAKubeletThatDoesNotAskAgain) {
  patience_ = std::chrono::milliseconds(200);
  ASSERT_TRUE(Start().has_value());
  pb::PluginInfo info;
  ASSERT_TRUE(Ask(info).ok());
  Tell(false, "no UID yet");
  EXPECT_TRUE(Eventually([&] { return LogHas("the registration socket is made anew"); }));
  EXPECT_TRUE(Eventually([&] { return Ask(info).ok(); }));
  EXPECT_FALSE(LogHas("in place again"));
}

TEST_F(RegistrarTest, KeepsItsSocketForAKubeletThatAsksAgain) {
  patience_ = std::chrono::seconds(2);
  ASSERT_TRUE(Start().has_value());
  Tell(false, "no UID yet");
  pb::PluginInfo info;
  ASSERT_TRUE(Ask(info).ok());
  std::this_thread::sleep_for(patience_ * 2);
  EXPECT_FALSE(LogHas("made anew"));
}

TEST_F(RegistrarTest, LeavesAFileInItsPlaceAlone) {
  ASSERT_TRUE(Start().has_value());
  std::filesystem::remove(socket_);
  std::ofstream(socket_) << "another's";
  EXPECT_TRUE(Eventually([&] { return LogHas("cannot be bound"); })) << Logged();
  registrar_.reset();
  std::string text;
  std::ifstream(socket_) >> text;
  EXPECT_EQ(text, "another's");
}

TEST_F(RegistrarTest, LeavesItsSocketToTheNextStart) {
  ASSERT_TRUE(Start().has_value());
  registrar_.reset();
  EXPECT_TRUE(std::filesystem::is_socket(socket_));
  pb::PluginInfo info;
  EXPECT_FALSE(Ask(info).ok());
  ASSERT_TRUE(Start().has_value());
  EXPECT_TRUE(Ask(info).ok());
}

TEST_F(RegistrarTest, MakesTheFolderAsTheKubeletDoes) {
  const mode_t before = umask(077);
  const Status started = Start();
  umask(before);
  ASSERT_TRUE(started.has_value()) << started.error().message();
  struct stat status{};
  ASSERT_EQ(stat((folder_ + "/plugins_registry").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0755U);
}

TEST_F(RegistrarTest, WaitsForTheKubeletsFolder) {
  std::filesystem::remove(folder_);
  ASSERT_TRUE(Start().has_value());
  EXPECT_THAT(Logged(), HasSubstr("the kubelet's root folder '" + folder_ + "'"));
  std::filesystem::create_directory(folder_);
  pb::PluginInfo info;
  EXPECT_TRUE(Eventually([&] { return Ask(info).ok(); }));
}

// A refusal is still being waited out when the socket is lost.
TEST_F(RegistrarTest, PausesBetweenAttemptsToBind) {
  patience_ = std::chrono::milliseconds(100);
  ASSERT_TRUE(Start().has_value());
  Tell(false, "no UID yet");
  std::filesystem::remove(socket_);
  std::ofstream(socket_) << "another's";
  const int before = claims_;
  std::this_thread::sleep_for(std::chrono::seconds(6));
  EXPECT_LE(claims_ - before, 3);
}

}  // namespace
}  // namespace quarry::csi::kubelet
