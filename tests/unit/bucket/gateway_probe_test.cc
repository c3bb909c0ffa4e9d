// The probe against servers that answer as the gateway does, and as it must not.
#include "bucket/gateway_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "base/scratch_folder.h"

namespace quarry::bucket {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kPatience{20'000};  // longer than an answer takes on the slowest machine
constexpr milliseconds kPatient{4'000};    // for one answer that comes after one that does not
constexpr milliseconds kShort{300};        // for answers that do not come

// A gateway with slots, by versitygw's rules: /healthz needs none.
class Gateway {
 public:
  explicit Gateway(std::unique_ptr<httplib::Server> server) : server_(std::move(server)) {
    server_->Get("/healthz", [this](const httplib::Request&, httplib::Response& response) {
      Wait(&Gateway::hangs_);
      response.status = 200;
    });
    server_->Get("/xn--quarry-probe", [this](const httplib::Request&, httplib::Response& response) {
      Wait(&Gateway::full_);
      response.status = status_;
      response.set_content(body_, "application/xml");
    });
    port_ = server_->bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_->listen_after_bind(); });
    while (!server_->is_running()) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  ~Gateway() {
    Set(false, false);
    server_->stop();
    thread_.join();
  }
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  void Set(bool full, bool hangs) {
    const std::lock_guard lock(mutex_);
    full_ = full;
    hangs_ = hangs;
    changed_.notify_all();
  }
  void Answer(int status, std::string body) {
    status_ = status;
    body_ = std::move(body);
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

 private:
  void Wait(bool Gateway::* condition) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !(this->*condition); });
  }

  std::unique_ptr<httplib::Server> server_;
  int port_ = 0, status_ = 404;
  std::string body_ = "<Error><Code>NoSuchBucket</Code></Error>";
  std::mutex mutex_;
  std::condition_variable changed_;
  bool full_ = false, hangs_ = false;
  std::thread thread_;
};

class GatewayPortTest : public testing::Test {
 protected:
  GatewayPortTest() { std::signal(SIGPIPE, SIG_IGN); }
  std::unique_ptr<httplib::Server> Server(bool tls) {
    if (!tls) {
      return std::make_unique<httplib::Server>();
    }
    const std::string certificate = folder_.path() + "/cert.pem", key = folder_.path() + "/key.pem";
    const std::string make =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=any "
        "-out " +
        certificate + " -keyout " + key + " 2>/dev/null";
    EXPECT_EQ(std::system(make.c_str()), 0);  // NOLINT(cert-env33-c)
    return std::make_unique<httplib::SSLServer>(certificate.c_str(), key.c_str());
  }

 private:
  const ScratchFolder folder_ = ScratchFolder::Make(testing::TempDir() + "probe_XXXXXX").value();
};

class GatewayProbeTest : public GatewayPortTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(WithAndWithoutTls, GatewayProbeTest, testing::Bool());

TEST_P(GatewayProbeTest, AGatewayWithAFreeSlotServes) {
  const Gateway gateway(Server(GetParam()));
  const Status probed = ProbeGateway(gateway.address(), GetParam(), kPatience);
  EXPECT_TRUE(probed.has_value()) << probed.error().message();
}

TEST_P(GatewayProbeTest, AGatewayWithoutAFreeSlotIsFull) {
  Gateway gateway(Server(GetParam()));
  gateway.Set(true, false);
  const Status full = ProbeGateway(gateway.address(), GetParam(), kPatient);
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code(), Code::kBusy) << full.error().message();
  EXPECT_THAT(full.error().message(), HasSubstr("slots"));
}

TEST_P(GatewayProbeTest, AGatewayThatHangsIsNotCalledFull) {
  Gateway gateway(Server(GetParam()));
  gateway.Set(true, true);
  const Status hangs = ProbeGateway(gateway.address(), GetParam(), kShort);
  ASSERT_FALSE(hangs.has_value());
  EXPECT_EQ(hangs.error().code(), Code::kTimeout) << hangs.error().message();
}

TEST_P(GatewayProbeTest, TooManyRequestsMeanFull) {
  Gateway gateway(Server(GetParam()));
  gateway.Answer(503, "<Error><Code>SlowDown</Code></Error>");
  EXPECT_EQ(ProbeGateway(gateway.address(), GetParam(), kPatience).error().code(), Code::kBusy);
}

TEST_P(GatewayProbeTest, AnotherProgramIsNotTheGateway) {
  Gateway gateway(Server(GetParam()));
  for (const auto& [status, body] : std::vector<std::pair<int, std::string>>{{200, "hello"}, {404, ""}}) {
    gateway.Answer(status, body);
    const Status probed = ProbeGateway(gateway.address(), GetParam(), kPatience);
    ASSERT_FALSE(probed.has_value()) << status;
    EXPECT_EQ(probed.error().code(), Code::kUnavailable);
    EXPECT_THAT(probed.error().message(), HasSubstr(std::to_string(status)));
  }
}

TEST_F(GatewayPortTest, APortWithoutTlsDoesNotServeTls) {
  const Gateway gateway(Server(false));
  const Status probed = ProbeGateway(gateway.address(), true, kPatience);
  ASSERT_FALSE(probed.has_value());
  EXPECT_EQ(probed.error().code(), Code::kUnavailable) << probed.error().message();
  EXPECT_THAT(probed.error().message(), HasSubstr("TLS"));
}

TEST_F(GatewayPortTest, APortWithTlsServesNothingElse) {
  const Gateway gateway(Server(true));
  EXPECT_FALSE(ProbeGateway(gateway.address(), false, kPatience).has_value());
}

TEST_F(GatewayPortTest, APortWhereNothingListensSaysSo) {
  std::string address;
  {
    const Gateway gateway(Server(false));
    address = gateway.address();
  }
  for (const bool tls : {false, true}) {
    const Status probed = ProbeGateway(address, tls, kPatience);
    ASSERT_FALSE(probed.has_value());
    EXPECT_EQ(probed.error().sys_errno(), ECONNREFUSED);
  }
}

}  // namespace
}  // namespace quarry::bucket
