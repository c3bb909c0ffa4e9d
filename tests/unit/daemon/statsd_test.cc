#include "daemon/monitoring/statsd.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <atomic>
#include <cstring>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "base/unix_socket.h"
#include "daemon/monitoring/metrics.h"
#include "tests/unit/daemon/temporary_directory.h"

namespace quarry::daemon {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ParseStatsdAddress, AcceptsUdpAndUnixDatagrams) {
  const auto udp = ParseStatsdAddress("udp://[::1]:8125");
  ASSERT_TRUE(udp.has_value());
  EXPECT_EQ(udp->host, "::1");
  EXPECT_EQ(udp->port, "8125");
  EXPECT_EQ(ParseStatsdAddress("udp://statsd.example.com:8125")->host, "statsd.example.com");
  EXPECT_EQ(ParseStatsdAddress("unixgram:///run/d.sock")->socket->str(), "/run/d.sock");
  for (const char* wrong : {"", "127.0.0.1:8125", "udp://", "udp://:8125", "udp://host", "udp://host:0",
                            "udp://host:65536", "udp://::1:8125", "udp://h:x", "tcp://h:1", "unixgram://x"}) {
    EXPECT_FALSE(ParseStatsdAddress(wrong).has_value()) << wrong;
  }
}

TEST(StatsdLines, GaugesAreSentAsTheyAreAndCountersAsWhatWasAdded) {
  Metrics metrics;
  const auto timings = metrics.AddTimings("quarry_t_seconds", "How long");
  std::vector<Gauge> gauges = {{"quarry_ready", "Ready", {{{}, 1}}},
                               {"quarry_pool_free_bytes", "Free", {{{{"pool", "a,b"}, {"x", "c"}}, 1.5e12}}},
                               {"quarry_disk_temperature_celsius", "Temperature", {{{}, -3}}},
                               {"quarry_disk_media_errors_total", "Errors", {{{{"pv", "u"}}, 900}}, true}};
  StatsdLines lines;
  EXPECT_THAT(lines.Next(metrics.Text(gauges)),
              ElementsAre("quarry_ready:1|g", "quarry_pool_free_bytes:1500000000000|g|#pool:a_b,x:c",
                          "quarry_disk_temperature_celsius:0|g", "quarry_disk_temperature_celsius:-3|g"));
  gauges.resize(1);
  gauges.push_back({"quarry_disk_media_errors_total", "Errors", {{{{"pv", "u"}}, 903}}, true});
  timings({{"verb", "lvs"}}, milliseconds(500));
  timings({{"verb", "lvs"}}, milliseconds(250));
  EXPECT_THAT(lines.Next(metrics.Text(gauges)),
              ElementsAre("quarry_t_seconds_count:2|c|#verb:lvs", "quarry_t_seconds_sum:0.75|c|#verb:lvs",
                          "quarry_ready:1|g", "quarry_disk_media_errors_total:3|c|#pv:u"));
  EXPECT_THAT(lines.Next(metrics.Text(gauges)), ElementsAre("quarry_ready:1|g")) << "nothing was added";
}

TEST(StatsdLines, LinesThatAreNoSamplesAreLeftOut) {
  StatsdLines lines;
  EXPECT_THAT(lines.Next("# TYPE a gauge\na\na{\na{b} 1\na{b=\"c} 1\na NaN\na x\n\n"), IsEmpty());
}

TEST(PackLines, JoinsLinesUpToTheLimit) {
  EXPECT_THAT(PackLines({"aa", "bb", "cc", "dddddddd", "e"}, 5),
              ElementsAre("aa\nbb", "cc", "dddddddd", "e"));
  EXPECT_THAT(PackLines({}, 5), IsEmpty());
}

// The text of the next datagram, within a minute.
std::string Receive(int fd) {
  timeval limit{.tv_sec = 60, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  std::array<char, 4096> buffer{};
  const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
  return got < 0 ? "" : std::string(buffer.data(), static_cast<size_t>(got));
}

TEST(SendToStatsd, SendsByUdp) {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const auto to = ParseStatsdAddress("udp://127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  ASSERT_TRUE(to.has_value());
  const Logger log(LogLevel::kError, LogFormat::kText);
  std::atomic<int> pages = 0;
  const auto sender = SendToStatsd(
      *to,
      [&pages] {
        const std::string value = std::to_string(10 * ++pages);
        return "# TYPE g gauge\ng 1\n# TYPE c counter\nc " + value + "\n";
      },
      log, milliseconds(10));
  EXPECT_EQ(Receive(fd.get()), "g:1|g");
  EXPECT_EQ(Receive(fd.get()), "g:1|g\nc:10|c");
}

TEST(SendToStatsd, AStopDoesNotWaitForALookUp) {
  const auto to = ParseStatsdAddress("udp://statsd.example.com:8125");
  ASSERT_TRUE(to.has_value());
  const Logger log(LogLevel::kError, LogFormat::kText);
  std::promise<void> begun;
  const auto answer = std::make_shared<std::promise<void>>();
  auto sender = SendToStatsd(
      *to, [] { return std::string("# TYPE g gauge\ng 7\n"); }, log, milliseconds(10),
      [&begun, wait = answer->get_future().share()](const std::string& host, const std::string&) {
        EXPECT_EQ(host, "statsd.example.com");
        begun.set_value();
        wait.wait();
        return Result<HostAddress>(Error(Code::kUnavailable, "late"));
      });
  begun.get_future().wait();
  sender.request_stop();
  sender.join();  // would wait for ever
  answer->set_value();
}

TEST(SendToStatsd, SendsToASocketThatAppearsLater) {
  const TemporaryDirectory directory;
  const auto to = ParseStatsdAddress("unixgram://" + directory.path() + "/d.sock");
  ASSERT_TRUE(to.has_value());
  const Logger log(LogLevel::kError, LogFormat::kText);
  std::atomic<int> pages = 0;
  const auto sender = SendToStatsd(
      *to,
      [&pages] {
        ++pages;
        return "# TYPE g gauge\ng 7\n";
      },
      log, milliseconds(10));
  while (pages < 2) {
    std::this_thread::yield();
  }
  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto address = UnixAddress(*to->socket);
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)), 0);
  EXPECT_EQ(Receive(fd.get()), "g:7|g");
}

}  // namespace
}  // namespace quarry::daemon
