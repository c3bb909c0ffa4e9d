#include "ctl/trace_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::ctl {
namespace {

namespace pb = ::quarry::admin::v1;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TracePage : public ::testing::Test {
 protected:
  pb::ListCallsResponse::Call& Add(const std::string& trace, const std::string& volume, int64_t took_us) {
    auto& call = *calls_.add_calls();
    call.set_trace_id(trace);
    call.set_method("CreateVolume");
    call.set_version("v1");
    call.set_volume_id(volume);
    call.set_began_at_us(1'700'000'000'123'456);
    call.set_took_us(took_us);
    call.set_code("ok");
    return call;
  }
  static void Step(pb::ListCallsResponse::Call& call, const std::string& text, int64_t from, int64_t took) {
    auto& step = *call.add_steps();
    step.set_text(text);
    step.set_from_us(from);
    step.set_took_us(took);
  }

  pb::ListCallsResponse calls_;
};

TEST_F(TracePage, TheFilterSelectsByTraceVolumeAndDuration) {
  Add("aaaa1111", "v1", 5000);
  Add("bbbb2222", "v2", 900'000);
  EXPECT_EQ(Filtered(calls_, {}).calls_size(), 2);
  EXPECT_EQ(Filtered(calls_, {.id = "bbbb"}).calls(0).volume_id(), "v2");
  EXPECT_EQ(Filtered(calls_, {.id = "v1"}).calls(0).trace_id(), "aaaa1111");
  EXPECT_EQ(Filtered(calls_, {.id = "bb"}).calls_size(), 0);
  EXPECT_EQ(Filtered(calls_, {.slow = milliseconds(900)}).calls_size(), 1);
  EXPECT_EQ(Filtered(calls_, {.slow = milliseconds(901)}).calls_size(), 0);
  EXPECT_EQ(Filtered(calls_, {.id = "v1", .slow = milliseconds(900)}).calls_size(), 0);
}

TEST_F(TracePage, AStepWithinAnotherIsIndented) {
  auto& call = Add("aaaa1111", "v1", 100'000);
  Step(call, "inner", 11'000, 5000);
  Step(call, "outer", 10'000, 50'000);
  Step(call, "after", 60'000, 20'000);
  call.set_forgotten_steps(3);
  EXPECT_THAT(DrawSteps(calls_), HasSubstr("        10.0        50.0  outer\n"
                                           "        11.0         5.0    inner\n"
                                           "        60.0        20.0  after\n"
                                           "  and 3 more steps, which were not recorded\n"));
}

TEST_F(TracePage, TheLongestStepIsAnInnermostOne) {
  auto& call = Add("aaaa1111", "v1", 100'000);
  Step(call, "inner", 11'000, 5000);
  Step(call, "outer", 10'000, 50'000);
  EXPECT_THAT(DrawCalls(calls_),
              AllOf(HasSubstr("2023-11-14 22:13:20.123Z       100.0 ms  ok"),
                    HasSubstr("trace aaaa1111, longest step 5.0 ms: inner\n"), Not(HasSubstr("outer"))));
}

TEST_F(TracePage, ARunningCallIsNamedSo) {
  Add("aaaa1111", "a\x1b[2J", 5000).clear_code();
  EXPECT_THAT(DrawCalls(calls_), AllOf(HasSubstr("running"), HasSubstr("a?[2J")));
  EXPECT_THAT(DrawSteps(calls_), AllOf(HasSubstr("running after 5.0 ms"), HasSubstr("  no steps\n")));
}

TEST_F(TracePage, NothingIsSaidToBeNothing) {
  EXPECT_EQ(DrawCalls(calls_), "no such call is remembered\n");
  EXPECT_EQ(DrawSteps(calls_), "no such call is remembered\n");
}

}  // namespace
}  // namespace quarry::ctl
