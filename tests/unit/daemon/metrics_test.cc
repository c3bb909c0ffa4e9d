#include "daemon/monitoring/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace quarry::daemon {
namespace {

using ::testing::HasSubstr;

TEST(Metrics, CountsTimingsByLabelInBucketsOfSeconds) {
  Metrics metrics;
  const auto timings = metrics.AddTimings("quarry_t_seconds", "How long");
  timings({{"verb", "lvcreate"}}, std::chrono::milliseconds(20));
  timings({{"verb", "lvcreate"}}, std::chrono::milliseconds(300));
  timings({{"verb", "lvs"}}, std::chrono::seconds(100));
  const std::string text = metrics.Text({});
  EXPECT_THAT(text, HasSubstr("# TYPE quarry_t_seconds histogram\n"));
  EXPECT_THAT(text, HasSubstr("quarry_t_seconds_count{verb=\"lvcreate\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("quarry_t_seconds_bucket{verb=\"lvcreate\",le=\"0.01\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("quarry_t_seconds_bucket{verb=\"lvcreate\",le=\"0.5\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("quarry_t_seconds_bucket{verb=\"lvs\",le=\"60\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("quarry_t_seconds_bucket{verb=\"lvs\",le=\"+Inf\"} 1\n"));
}

TEST(Metrics, WritesGaugesAsGiven) {
  const Metrics metrics;
  const std::string text =
      metrics.Text({{"quarry_free_bytes", "Room", {{{{"pool", "a\"b\n"}}, 1024}, {{{"pool", "c"}}, 0}}}});
  EXPECT_THAT(text, HasSubstr("# HELP quarry_free_bytes Room\n# TYPE quarry_free_bytes gauge\n"));
  EXPECT_THAT(text, HasSubstr("quarry_free_bytes{pool=\"a\\\"b\\n\"} 1024\n"));
  EXPECT_THAT(text, HasSubstr("quarry_free_bytes{pool=\"c\"} 0\n"));
}

TEST(Metrics, AGaugeThatCountsIsWrittenAsACounter) {
  const std::string text = Metrics().Text({{"quarry_errors_total", "Errors", {{{}, 7}}, true}});
  EXPECT_THAT(text, HasSubstr("# TYPE quarry_errors_total counter\nquarry_errors_total 7\n"));
}

TEST(Metrics, MayBeObservedFromAnyThread) {
  Metrics metrics;
  const auto timings = metrics.AddTimings("quarry_t_seconds", "How long");
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int k = 0; k < 500; ++k) {
          timings({{"k", std::to_string(k % 7)}}, std::chrono::milliseconds(1));
          (void)metrics.Text({});
        }
      });
    }
  }
  EXPECT_THAT(metrics.Text({}), HasSubstr("quarry_t_seconds_count{k=\"0\"} 288\n"));
}

}  // namespace
}  // namespace quarry::daemon
