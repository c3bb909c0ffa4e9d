#include "csi/trace_context.h"

#include <gtest/gtest.h>

#include <set>

namespace quarry::csi {
namespace {

const std::string kId = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kParent = "00f067aa0ba902b7";

TEST(TraceParent, TheTraceIdIsTaken) {
  EXPECT_EQ(ParseTraceParent("00-" + kId + "-" + kParent + "-01"), kId);
  EXPECT_EQ(ParseTraceParent("00-" + kId + "-" + kParent + "-00"), kId);
}

TEST(TraceParent, ALaterVersionMayHaveMore) {
  EXPECT_EQ(ParseTraceParent("01-" + kId + "-" + kParent + "-01-more"), kId);
  EXPECT_EQ(ParseTraceParent("01-" + kId + "-" + kParent + "-01"), kId);
  EXPECT_EQ(ParseTraceParent("01-" + kId + "-" + kParent + "-01more"), std::nullopt);
  EXPECT_EQ(ParseTraceParent("00-" + kId + "-" + kParent + "-01-more"), std::nullopt);
}

TEST(TraceParent, MalformedTextHasNoId) {
  const std::string zeroes(32, '0');
  for (const std::string& text :
       {std::string(), kId, "00-" + kId, "ff-" + kId + "-" + kParent + "-01",
        "00-" + zeroes + "-" + kParent + "-01", "00-" + kId + "-0000000000000000-01",
        "00-4BF92F3577b34da6a3ce929d0e0e4736-" + kParent + "-01", "00_" + kId + "-" + kParent + "-01",
        "00-" + kId + "-" + kParent + "_01", "00-" + kId + "x" + kParent + "-01",
        "0x-" + kId + "-" + kParent + "-01", "00-" + kId + "-" + kParent + "-0g"}) {
    EXPECT_EQ(ParseTraceParent(text), std::nullopt) << text;
  }
}

TEST(TraceId, NewIdsAreValidAndDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = NewTraceId();
    EXPECT_EQ(ParseTraceParent("00-" + id + "-" + kParent + "-01"), id);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 1000U);
}

}  // namespace
}  // namespace quarry::csi
