// What a service manager's watchdog hears, over a real datagram socket.
#include "daemon/process/watchdog.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "tests/unit/daemon/temporary_directory.h"

namespace quarry::daemon {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr milliseconds kLong{10000};

// The socket of a service manager.
class Manager {
 public:
  Manager() : path_(directory_.path() + "/notify") {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    fd_ = UniqueFd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }

  const std::string& path() const { return path_; }

  // The next message, or "" if none comes within `limit`.
  std::string Hear(milliseconds limit) const {
    pollfd polled{fd_.get(), POLLIN, 0};
    if (poll(&polled, 1, static_cast<int>(limit.count())) != 1) {
      return "";
    }
    char buffer[256];
    const ssize_t got = recv(fd_.get(), buffer, sizeof(buffer), 0);
    return got < 0 ? "" : std::string(buffer, static_cast<size_t>(got));
  }
  void ForgetWhatCame() const {
    while (!Hear(milliseconds(0)).empty()) {
    }
  }

 private:
  const TemporaryDirectory directory_;
  const std::string path_;
  UniqueFd fd_;
};

class WatchdogTest : public ::testing::Test {
 protected:
  const Manager manager_;
  const Logger log_{LogLevel::kError, LogFormat::kText};
  const Notifier notifier_{manager_.path(), milliseconds(400)};  // a round each 100 ms
};

TEST_F(WatchdogTest, HearsAgainAndAgainThatQuarrydWorks) {
  const auto thread = KeepWatchdogQuiet(notifier_, log_, [](milliseconds) { return true; });
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(manager_.Hear(kLong), "WATCHDOG=1");
  }
}

TEST_F(WatchdogTest, GivesTheCheckAQuarterOfTheLimit) {
  std::atomic<int64_t> given = 0;
  const auto thread = KeepWatchdogQuiet(notifier_, log_, [&](milliseconds limit) {
    given = limit.count();
    return true;
  });
  EXPECT_EQ(manager_.Hear(kLong), "WATCHDOG=1");
  EXPECT_EQ(given, 100);
}

TEST_F(WatchdogTest, HearsNothingWhileQuarrydDoesNotAnswer) {
  std::atomic<bool> works = true;
  const auto thread = KeepWatchdogQuiet(notifier_, log_, [&](milliseconds) { return works.load(); });
  EXPECT_EQ(manager_.Hear(kLong), "WATCHDOG=1");
  works = false;
  // A round may be under way.
  (void)manager_.Hear(milliseconds(200));
  manager_.ForgetWhatCame();
  EXPECT_EQ(manager_.Hear(milliseconds(600)), "");
  works = true;
  EXPECT_EQ(manager_.Hear(kLong), "WATCHDOG=1");
}

TEST_F(WatchdogTest, HearsNothingWhileTheCheckHangs) {
  std::atomic<bool> hangs = true;
  const auto thread = KeepWatchdogQuiet(notifier_, log_, [&](milliseconds) {
    hangs.wait(true);
    return true;
  });
  EXPECT_EQ(manager_.Hear(milliseconds(600)), "");
  hangs = false;
  hangs.notify_all();
  EXPECT_EQ(manager_.Hear(kLong), "WATCHDOG=1");
}

TEST_F(WatchdogTest, NoThreadRunsWithoutAWatchdog) {
  const Notifier notifier(manager_.path());
  EXPECT_FALSE(KeepWatchdogQuiet(notifier, log_, [](milliseconds) { return true; }).joinable());
}

TEST(NotifierTest, TakesTheWatchdogOfThisProcessOnly) {
  using Environment = std::map<std::string, std::string>;
  const auto limit = [](const Environment& environment) { return Notifier::From(environment, 7).watchdog(); };
  EXPECT_EQ(limit({{"WATCHDOG_USEC", "180000000"}, {"WATCHDOG_PID", "7"}}), microseconds(180000000));
  EXPECT_EQ(limit({{"WATCHDOG_USEC", "5"}}), microseconds(5));
  EXPECT_EQ(limit({{"WATCHDOG_USEC", "5"}, {"WATCHDOG_PID", "8"}}), std::nullopt);
  EXPECT_EQ(limit({{"WATCHDOG_USEC", "5"}, {"WATCHDOG_PID", "x"}}), std::nullopt);
  for (const char* wrong : {"", "0", "-5", "5s", "x", "99999999999999999999"}) {
    EXPECT_EQ(limit({{"WATCHDOG_USEC", wrong}}), std::nullopt) << wrong;
  }
  EXPECT_EQ(limit({}), std::nullopt);
}

}  // namespace
}  // namespace quarry::daemon
