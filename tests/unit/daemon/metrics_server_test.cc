#include "daemon/metrics_server.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include "daemon/metrics.h"
#include "tests/unit/daemon/temporary_directory.h"

namespace quarry::daemon {
namespace {

TEST(MetricsServer, ServesTheTextOnASocketAndTakesItAlong) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/metrics.sock";
  const auto address = ParseMetricsAddress("unix://" + path);
  ASSERT_TRUE(address.has_value());
  struct stat status{};
  {
    int asked = 0;
    auto server =
        MetricsServer::Start(*address, [&] { return "quarry_asked " + std::to_string(++asked) + "\n"; });
    ASSERT_TRUE(server.has_value()) << server.error().message();
    httplib::Client client(path);
    client.set_address_family(AF_UNIX);
    for (const char* wanted : {"quarry_asked 1\n", "quarry_asked 2\n"}) {
      const auto answer = client.Get("/metrics");
      ASSERT_TRUE(answer);
      EXPECT_EQ(answer->status, 200);
      EXPECT_EQ(answer->body, wanted);
      EXPECT_EQ(answer->get_header_value("Content-Type"), Metrics::kContentType);
    }
    EXPECT_EQ(client.Get("/")->status, 404);
    EXPECT_EQ(client.Post("/metrics", "x", "text/plain")->status, 404);
    EXPECT_FALSE(MetricsServer::Start(*address, [] { return ""; }).has_value()) << "somebody serves it";
  }
  EXPECT_NE(lstat(path.c_str(), &status), 0);
}

TEST(MetricsServer, ListensOnAPortAndSaysWhichItCouldNotHave) {
  for (int port = 20000 + getpid() % 20000, tries = 0; tries < 50; ++port, ++tries) {
    const auto address = ParseMetricsAddress("127.0.0.1:" + std::to_string(port));
    ASSERT_TRUE(address.has_value());
    const auto server = MetricsServer::Start(*address, [] { return "quarry_one 1\n"; });
    if (!server.has_value()) {
      continue;  // somebody else's
    }
    httplib::Client client("127.0.0.1", port);
    const auto answer = client.Get("/metrics");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->body, "quarry_one 1\n");
    break;
  }
  const auto nowhere = MetricsServer::Start(*ParseMetricsAddress("192.0.2.1:9808"), [] { return ""; });
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code(), Code::kUnavailable);
  EXPECT_EQ(nowhere.error().message(), "cannot listen on 192.0.2.1:9808");
}

}  // namespace
}  // namespace quarry::daemon
