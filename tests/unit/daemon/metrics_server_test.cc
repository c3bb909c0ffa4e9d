#include "daemon/monitoring/metrics_server.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <list>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include "base/unique_fd.h"
#include "daemon/monitoring/http_request.h"
#include "daemon/monitoring/metrics.h"
#include "tests/unit/daemon/temporary_directory.h"

namespace quarry::daemon {
namespace {

using std::chrono::steady_clock;

// A server on a free port of this host.
struct OnPort {
  std::unique_ptr<MetricsServer> server;
  int port = 0;
};
OnPort Serve(const std::function<std::string()>& text, const std::function<std::string()>& problem = {}) {
  for (int port = 20000 + getpid() % 20000, tries = 0; tries < 50; ++port, ++tries) {
    auto server =
        MetricsServer::Start(*ParseMetricsAddress("127.0.0.1:" + std::to_string(port)), {text, problem});
    if (server.has_value()) {
      return {std::move(*server), port};
    }
  }
  ADD_FAILURE() << "no free port";
  return {};
}

int Descriptors() {
  int count = 0;
  DIR* const directory = opendir("/proc/self/fd");
  while (directory != nullptr && readdir(directory) != nullptr) {
    ++count;
  }
  closedir(directory);
  return count;
}

// A process that connects `count` times, sends nothing, and keeps the connections until it is ended.
class IdleCallers {
 public:
  IdleCallers(int port, int count) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      const bool all = Connect(port, count);
      [[maybe_unused]] const ssize_t told = write(ends[1], all ? "y" : "n", 1);
      pause();
      _exit(0);
    }
    close(ends[1]);
    told_.Reset(ends[0]);
  }
  ~IdleCallers() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  IdleCallers(const IdleCallers&) = delete;
  IdleCallers& operator=(const IdleCallers&) = delete;
  // Waits until all connections are made. False: the process could not make them.
  bool Connected() const {
    char told = 'n';
    return read(told_.get(), &told, 1) == 1 && told == 'y';
  }

 private:
  static bool Connect(int port, int count) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < count; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM, 0);
      if (fd < 0 || connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        return false;
      }
    }
    return true;
  }

  pid_t pid_ = -1;
  UniqueFd told_;
};

TEST(MetricsServer, IdleConnectionsHoldFewDescriptorsAndKeepNoScrapeAway) {
  constexpr int kProcesses = 10;
  constexpr int kEach = 500;  // 5,000 in all; each process stays below the usual limit of 1,024
  const OnPort on = Serve([] { return "quarry_one 1\n"; });
  ASSERT_NE(on.server, nullptr);
  const int before = Descriptors();
  std::list<IdleCallers> callers;
  for (int i = 0; i < kProcesses; ++i) {
    callers.emplace_back(on.port, kEach);
  }
  const auto scrape = [&] {
    httplib::Client client("127.0.0.1", on.port);
    client.set_connection_timeout(30);
    client.set_read_timeout(30);
    const auto answer = client.Get("/metrics");
    return answer && answer->body == "quarry_one 1\n";
  };
  // A slow caller may be disconnected like the idle ones, but not each time.
  bool answered = false;
  for (int i = 0; i < 10 && !answered; ++i) {
    answered = scrape();
  }
  EXPECT_TRUE(answered) << "while they connect";
  for (const IdleCallers& one : callers) {
    EXPECT_TRUE(one.Connected());
  }
  EXPECT_TRUE(scrape());
  EXPECT_LE(Descriptors(), before + static_cast<int>(MetricsServer::kMostConnections) + 2 * kProcesses);
}

TEST(MetricsServer, OneTextAnswersAllRequestsWithinASecond) {
  std::atomic<int> made = 0;
  const OnPort on = Serve([&] { return "quarry_made " + std::to_string(++made) + "\n"; });
  ASSERT_NE(on.server, nullptr);
  const auto begin = steady_clock::now();
  int asked = 0;
  while (steady_clock::now() - begin < 2 * MetricsServer::kFresh || asked < 10) {
    httplib::Client client("127.0.0.1", on.port);
    const auto answer = client.Get("/metrics");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->body, "quarry_made " + std::to_string(made) + "\n");
    ++asked;
  }
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(steady_clock::now() - begin).count();
  EXPECT_GE(made, 2) << "it is made again";
  EXPECT_LE(made, seconds + 1);
}

TEST(HttpRequest, IsReadAsFarAsAScrapeNeeds) {
  EXPECT_EQ(ReadHttpRequest(""), HttpAsked::kIncomplete);
  EXPECT_EQ(ReadHttpRequest("GET /metrics HTTP/1.1\r\nHost: a\r\n"), HttpAsked::kIncomplete);
  EXPECT_EQ(ReadHttpRequest("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), HttpAsked::kMetrics);
  EXPECT_EQ(ReadHttpRequest("GET /metrics?x=1 HTTP/1.0\r\n\r\n"), HttpAsked::kMetrics);
  EXPECT_EQ(ReadHttpRequest("GET /readyz?verbose HTTP/1.1\r\n\r\n"), HttpAsked::kReadiness);
  EXPECT_EQ(ReadHttpRequest("GET /metricsx HTTP/1.1\r\n\r\n"), HttpAsked::kNothingHere);
  EXPECT_EQ(ReadHttpRequest("HEAD /metrics HTTP/1.1\r\n\r\n"), HttpAsked::kOtherMethod);
  for (const char* wrong : {"\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n", " /metrics HTTP/1.1\r\n\r\n",
                            "GET HTTP/1.1\r\n\r\n", "GET /metrics SMTP\r\n\r\n"}) {
    EXPECT_EQ(ReadHttpRequest(wrong), HttpAsked::kMalformed) << wrong;
  }
  EXPECT_EQ(ReadHttpRequest(std::string(kLongestRequest + 1, 'G')), HttpAsked::kMalformed);
}

TEST(MetricsServer, SaysWhetherItIsReadyAndWhyNot) {
  std::string problem = "pool 'main': the volume group 'vg' does not exist";
  const OnPort on = Serve([] { return ""; }, [&] { return problem; });
  ASSERT_NE(on.server, nullptr);
  httplib::Client client("127.0.0.1", on.port);
  auto answer = client.Get("/readyz");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 503);
  EXPECT_EQ(answer->body, problem + "\n");
  problem.clear();
  const auto limit = steady_clock::now() + 10 * MetricsServer::kFresh;
  do {
    answer = client.Get("/readyz");
    ASSERT_TRUE(answer);
  } while (answer->status != 200 && steady_clock::now() < limit);
  EXPECT_EQ(answer->status, 200) << "the answer is kept too long";
}

TEST(MetricsServer, ServesTheTextOnASocketAndRemovesTheSocket) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/metrics.sock";
  const auto address = ParseMetricsAddress("unix://" + path);
  ASSERT_TRUE(address.has_value());
  struct stat status{};
  {
    int asked = 0;
    auto server = MetricsServer::Start(
        *address, {[&] { return "quarry_asked " + std::to_string(++asked) + "\n"; }, {}});
    ASSERT_TRUE(server.has_value()) << server.error().message();
    httplib::Client client(path);
    client.set_address_family(AF_UNIX);
    const auto answer = client.Get("/metrics");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->body, "quarry_asked 1\n");
    EXPECT_EQ(answer->get_header_value("Content-Type"), Metrics::kContentType);
    EXPECT_EQ(client.Get("/")->status, 404);
    EXPECT_EQ(client.Post("/metrics", "x", "text/plain")->status, 405);
    EXPECT_FALSE(MetricsServer::Start(*address, {}).has_value()) << "another server has the address";
  }
  EXPECT_NE(lstat(path.c_str(), &status), 0);
}

TEST(MetricsServer, ListensOnAPortAndNamesAPortThatIsTaken) {
  const OnPort on = Serve([] { return "quarry_one 1\n"; });
  ASSERT_NE(on.server, nullptr);
  httplib::Client client("127.0.0.1", on.port);
  const auto answer = client.Get("/metrics");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "quarry_one 1\n");
  const auto nowhere = MetricsServer::Start(*ParseMetricsAddress("192.0.2.1:9808"), {});
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code(), Code::kUnavailable);
  EXPECT_THAT(nowhere.error().message(), testing::StartsWith("cannot listen on 192.0.2.1:9808: "));
}

}  // namespace
}  // namespace quarry::daemon
