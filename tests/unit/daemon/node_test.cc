// quarryd and its surroundings: locks, socket, service manager, retries.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "daemon/locking/lock_holder.h"
#include "daemon/locking/node_lock.h"
#include "daemon/process/endpoint.h"
#include "daemon/process/notify.h"
#include "daemon/upkeep/starter.h"
#include "tests/unit/daemon/temporary_directory.h"

namespace quarry::daemon {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

bool Exists(const std::string& path) {
  struct stat status{};
  return lstat(path.c_str(), &status) == 0;
}

UniqueFd BoundSocket(const std::string& path, int type) {
  UniqueFd fd(socket(AF_UNIX, type, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

class ClaimingASocket : public ::testing::Test {
 protected:
  Status Claim() { return ClaimSocket(*AbsolutePath::Parse(path_)); }

  TemporaryDirectory directory_;
  std::string path_ = directory_.path() + "/csi.sock";
};

TEST_F(ClaimingASocket, AcceptsAFreePath) {
  EXPECT_TRUE(Claim().has_value());
}

TEST_F(ClaimingASocket, RemovesAStaleSocket) {
  BoundSocket(path_, SOCK_STREAM).Reset();
  ASSERT_TRUE(Exists(path_));
  EXPECT_TRUE(Claim().has_value());
  EXPECT_FALSE(Exists(path_));
}

TEST_F(ClaimingASocket, RefusesAServedSocketNamingTheProcess) {
  const UniqueFd server = BoundSocket(path_, SOCK_STREAM);
  ASSERT_EQ(listen(server.get(), 4), 0);
  const Status claimed = Claim();
  ASSERT_FALSE(claimed.has_value());
  EXPECT_EQ(claimed.error().code(), Code::kPrecondition);
  EXPECT_THAT(claimed.error().message(),
              AllOf(HasSubstr(path_), HasSubstr("pid " + std::to_string(getpid()))));
  EXPECT_TRUE(Exists(path_));
}

TEST_F(ClaimingASocket, RefusesASocketWhoseServerIsTooBusyToAnswer) {
  const UniqueFd server = BoundSocket(path_, SOCK_STREAM);
  ASSERT_EQ(listen(server.get(), 0), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  std::vector<UniqueFd> clients;
  int result = 0;
  while (result == 0 && clients.size() < 64) {
    clients.emplace_back(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
    result = connect(clients.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  ASSERT_EQ(errno, EAGAIN);
  const Status claimed = Claim();
  ASSERT_FALSE(claimed.has_value());
  EXPECT_EQ(claimed.error().code(), Code::kPrecondition);
  EXPECT_TRUE(Exists(path_));
}

TEST_F(ClaimingASocket, DoesNotTouchAFileThatIsNotASocket) {
  std::ofstream(path_) << "precious";
  EXPECT_THAT(Claim().error().message(), AllOf(HasSubstr(path_), HasSubstr("is not a socket")));
  EXPECT_TRUE(Exists(path_));
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(symlink("/etc/passwd", path_.c_str()), 0);
  EXPECT_FALSE(Claim().has_value());
  EXPECT_TRUE(Exists(path_));
}

TEST_F(ClaimingASocket, NamesAMissingDirectory) {
  const Status claimed = ClaimSocket(*AbsolutePath::Parse(directory_.path() + "/none/csi.sock"));
  ASSERT_FALSE(claimed.has_value());
  EXPECT_THAT(claimed.error().message(), HasSubstr(directory_.path() + "/none'"));
}

TEST(NodeLock, IsHeldByOneProcessAtATimeAndNamesThatProcess) {
  const TemporaryDirectory directory;
  const std::string locks = directory.path() + "/quarry/locks";
  auto held = NodeLock::Take(locks, "vg-a");
  ASSERT_TRUE(held.has_value()) << held.error().message();
  EXPECT_TRUE(NodeLock::Take(locks, "vg-b").has_value());

  const auto again = NodeLock::Take(locks, "vg-a");  // a flock is per open file, as in another process
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code(), Code::kPrecondition);
  EXPECT_THAT(again.error().message(), HasSubstr("pid " + std::to_string(getpid()) + " ("));

  {
    const NodeLock gone = std::move(*held);
  }
  EXPECT_TRUE(NodeLock::Take(locks, "vg-a").has_value());
}

TEST(NodeLock, OutlivesItsHolderInAProcessThatGotTheDescriptorAndNamesThatProcess) {
  const TemporaryDirectory directory;
  const std::string locks = directory.path() + "/quarry/locks";
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  pid_t child = -1;
  {
    const auto held = NodeLock::Take(locks, "vg-a");
    ASSERT_TRUE(held.has_value());
    child = fork();
    if (child == 0) {
      close(ends[1]);
      dup2(held->fd(), STDIN_FILENO);
      char byte = 0;
      (void)!read(ends[0], &byte, 1);
      _exit(0);
    }
  }
  const auto again = NodeLock::Take(locks, "vg-a");
  ASSERT_FALSE(again.has_value());
  EXPECT_THAT(again.error().message(), HasSubstr("pid " + std::to_string(child) + " ("));
  close(ends[1]);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(NodeLock::Take(locks, "vg-a").has_value());
  close(ends[0]);
}

TEST(NodeLock, NoticesThatItsFileIsGone) {
  const TemporaryDirectory directory;
  const auto lock = NodeLock::Take(directory.path(), "vg-a");
  ASSERT_TRUE(lock.has_value());
  EXPECT_TRUE(lock->IsThere());
  ASSERT_EQ(unlink(lock->path().c_str()), 0);
  EXPECT_FALSE(lock->IsThere());
  std::ofstream(lock->path()) << "another";
  EXPECT_FALSE(lock->IsThere());
}

TEST(NodeLock, IsForRootAloneAndReadsAsEmptyInput) {
  const TemporaryDirectory directory;
  const auto lock = NodeLock::Take(directory.path(), "vg-a");
  ASSERT_TRUE(lock.has_value());
  struct stat status{};
  ASSERT_EQ(stat(lock->path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
  char byte = 0;
  EXPECT_LE(read(lock->fd(), &byte, 1), 0);
}

TEST(NodeLock, OnAFolderWritesNothing) {
  const TemporaryDirectory directory;
  const auto lock = NodeLock::TakeFolder(directory.path());
  ASSERT_TRUE(lock.has_value()) << lock.error().message();
  const auto again = NodeLock::TakeFolder(directory.path());
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code(), Code::kPrecondition);
  EXPECT_THAT(again.error().message(), HasSubstr("pid " + std::to_string(getpid()) + " ("));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(LockHolder, FallsBackOnTheTextOfTheFile) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/vg-a.lock";
  const auto named = [&](const std::string& text) {
    std::ofstream(path) << text;
    const UniqueFd fd(open(path.c_str(), O_RDONLY));
    return LockHolder(fd.get(), path);
  };
  const std::string own = std::to_string(getpid());
  EXPECT_THAT(named(own + "\n"), HasSubstr("pid " + own + " (")) << "as earlier builds wrote it";
  EXPECT_THAT(named(DescribeSelf()), HasSubstr("pid " + own + " ("));
  EXPECT_EQ(named("7 pid:[1] quarry-x7k2p\n"), "a process of host or container 'quarry-x7k2p' (pid 7 there)");
  EXPECT_EQ(named(""), "another process");
}

TEST(NodeLock, EndsWithItsProcess) {
  const TemporaryDirectory directory;
  const pid_t child = fork();
  if (child == 0) {
    const auto held = NodeLock::Take(directory.path(), "vg-a");
    kill(getpid(), SIGKILL);
    _exit(held.has_value() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(NodeLock::Take(directory.path(), "vg-a").has_value());
}

TEST(NodeLock, KeepsPathsApartAndStaysInItsDirectory) {
  const TemporaryDirectory directory;
  const auto lock = NodeLock::Take(directory.path(), "socket-/run/csi.sock");
  ASSERT_TRUE(lock.has_value()) << lock.error().message();
  EXPECT_TRUE(Exists(directory.path() + "/socket-:run:csi.sock.lock"));
}

TEST(NodeLock, DoesNotFollowAPlantedLink) {
  const TemporaryDirectory directory;
  const std::string victim = directory.path() + "/victim";
  std::ofstream(victim) << "precious";
  ASSERT_EQ(symlink(victim.c_str(), (directory.path() + "/vg-a.lock").c_str()), 0);
  EXPECT_FALSE(NodeLock::Take(directory.path(), "vg-a").has_value());
  std::string text;
  EXPECT_TRUE(std::getline(std::ifstream(victim), text));
  EXPECT_EQ(text, "precious");
}

TEST(ProcessName, DescribesAProcessForPeople) {
  EXPECT_THAT(ProcessName(getpid()), HasSubstr("pid " + std::to_string(getpid()) + " ("));
  EXPECT_EQ(ProcessName(0), "another process");
  EXPECT_EQ(ProcessName(2147483647), "pid 2147483647");
}

std::string Receive(int fd) {
  std::array<char, 128> buffer{};
  const ssize_t got = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
  return got < 0 ? "nothing" : std::string(buffer.data(), static_cast<size_t>(got));
}

TEST(Notifier, SendsToAPathAndToAnAbstractName) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/notify";
  const UniqueFd by_path = BoundSocket(path, SOCK_DGRAM);
  EXPECT_TRUE(Notifier(path).Send("READY=1"));
  EXPECT_EQ(Receive(by_path.get()), "READY=1");

  const std::string name = "@quarry-test-" + std::to_string(getpid());
  const UniqueFd abstract(socket(AF_UNIX, SOCK_DGRAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
  ASSERT_EQ(bind(abstract.get(), reinterpret_cast<const sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())),
            0);
  EXPECT_TRUE(Notifier(name).Send("STOPPING=1"));
  EXPECT_EQ(Receive(abstract.get()), "STOPPING=1");
}

TEST(Notifier, DoesNotMindAMissingListener) {
  EXPECT_FALSE(Notifier("").Send("READY=1"));
  EXPECT_FALSE(Notifier("/nowhere/notify").Send("READY=1"));
  EXPECT_FALSE(Notifier(std::string(300, 'x')).Send("READY=1"));
}

// A Starter writes its log to a pipe here.
class Starting : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe(ends.data()), 0);
    read_.Reset(ends[0]);
    write_.Reset(ends[1]);
    log_.emplace(LogLevel::kInfo, LogFormat::kText, write_.get());
  }

  std::string Logged() {
    write_.Reset();
    std::string text;
    std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = read(read_.get(), buffer.data(), buffer.size())) > 0;) {
      text.append(buffer.data(), static_cast<size_t>(got));
    }
    return text;
  }

  static size_t Count(const std::string& text, const std::string& what) {
    size_t count = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
      ++count;
    }
    return count;
  }

  UniqueFd read_, write_;
  std::optional<Logger> log_;
};

TEST_F(Starting, RepeatsUntilItSucceedsAndLogsEachReasonOnce) {
  std::atomic<int> tries = 0;
  {
    const Starter starter(
        [&](const Call&) -> Status {
          const int number = ++tries;
          if (number < 6) {
            return Error(Code::kPrecondition,
                         number < 4 ? "volume group 'vg0' is missing" : "lvm is missing");
          }
          return Ok();
        },
        *log_, Backoff{milliseconds(1), milliseconds(4)});
    while (tries < 6) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_EQ(tries, 6);
  const std::string logged = Logged();
  EXPECT_EQ(Count(logged, "volume group 'vg0' is missing"), 1U);
  EXPECT_EQ(Count(logged, "lvm is missing"), 1U);
  EXPECT_EQ(Count(logged, " info    ready"), 1U);
}

TEST_F(Starting, StopsDuringAStartAndDuringAPause) {
  std::atomic<bool> running = false;
  auto hanging = std::make_unique<Starter>(
      [&](const Call& call) -> Status {
        running = true;
        while (call.Check("start").has_value()) {
          std::this_thread::sleep_for(milliseconds(1));
        }
        return call.Check("start");
      },
      *log_);
  while (!running) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  const auto begin = std::chrono::steady_clock::now();
  hanging.reset();

  auto pausing = std::make_unique<Starter>([](const Call&) -> Status { return Error(Code::kIo, "broken"); },
                                           *log_, Backoff{milliseconds(60000), milliseconds(60000)});
  std::this_thread::sleep_for(milliseconds(20));
  pausing.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace quarry::daemon
