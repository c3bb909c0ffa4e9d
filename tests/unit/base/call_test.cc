#include "base/call.h"

#include <gtest/gtest.h>

namespace quarry {
namespace {

using std::chrono::milliseconds;

TEST(Call, WithoutDeadlineNeverEnds) {
  const Call call;
  EXPECT_TRUE(call.Check("x").has_value());
  EXPECT_EQ(call.Remaining(), milliseconds::max());
}

TEST(Call, SaysWhyItEnded) {
  EXPECT_EQ(CallWithin(milliseconds(0)).Check("lvs").error().code(), Code::kTimeout);
  std::stop_source source;
  const Call call{.stop = source.get_token()};
  source.request_stop();
  const auto status = call.Check("lvs");
  EXPECT_EQ(status.error().code(), Code::kCancelled);
  EXPECT_NE(status.error().message().find("lvs"), std::string::npos);
}

TEST(Call, WithinOnlyShortens) {
  const Call call = CallWithin(milliseconds(50));
  EXPECT_EQ(call.Within(milliseconds(100000)).deadline, call.deadline);
  EXPECT_LE(call.Within(milliseconds(1)).deadline, call.deadline);
  EXPECT_EQ(CallWithin(milliseconds(0)).Remaining(), milliseconds(0));
}

}  // namespace
}  // namespace quarry
