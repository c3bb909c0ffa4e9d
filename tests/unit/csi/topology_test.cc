#include "csi/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::csi {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string k63(63, 'a');
const std::string k64(64, 'a');

NodeTopology Here() {
  return {"quarry.csi.local", "node-1"};
}
const Segments kHere{{"quarry.csi.local/node", "node-1"}};
const Segments kThere{{"quarry.csi.local/node", "node-2"}};

TEST(DriverName, IsALowerCaseDomainName) {
  for (const std::string& good :
       {std::string("quarry.csi.local"), std::string("a"), std::string("x-1.y2"), k63}) {
    EXPECT_TRUE(CheckDriverName(good).has_value()) << good;
  }
  for (const std::string& bad :
       {std::string(), k64, std::string("Quarry.local"), std::string("-a.b"), std::string("a-.b"),
        std::string("a..b"), std::string(".a"), std::string("a."), std::string("a_b"), std::string("a/b"),
        std::string("a b")}) {
    EXPECT_FALSE(CheckDriverName(bad).has_value()) << bad;
  }
}

TEST(NodeId, IsATopologyValue) {
  for (const std::string& good :
       {std::string("node-1"), std::string("Node_1.example.com"), std::string("1"), k63}) {
    EXPECT_TRUE(CheckNodeId(good).has_value()) << good;
  }
  for (const std::string& bad : {std::string(), k64, std::string("-node"), std::string("node."),
                                 std::string("a b"), std::string("n/1"), std::string("n\xC3\xA9")}) {
    EXPECT_FALSE(CheckNodeId(bad).has_value()) << bad;
  }
}

TEST(NodeTopology, IsReachableFromHereAndFromAnywhereButNotFromElsewhere) {
  EXPECT_EQ(Here().segments(), kHere);
  EXPECT_TRUE(Here().Matches(kHere));
  EXPECT_TRUE(Here().Matches({}));
  EXPECT_FALSE(Here().Matches(kThere));
  EXPECT_FALSE(Here().Matches({{"quarry.csi.local/node", "node-1"}, {"quarry.csi.local/zone", "z"}}));
  EXPECT_FALSE(Here().Matches({{"other.driver/node", "node-1"}}));
}

TEST(NodeTopology, IsRequestedAloneOnlyIfEachPlaceIsThisNode) {
  EXPECT_TRUE(Here().IsJustHere({kHere}));
  EXPECT_TRUE(Here().IsJustHere({kHere, kHere}));
  EXPECT_FALSE(Here().IsJustHere({})) << "anywhere";
  EXPECT_FALSE(Here().IsJustHere({{}})) << "anywhere";
  EXPECT_FALSE(Here().IsJustHere({kHere, kThere}));
  EXPECT_FALSE(Here().IsJustHere({kThere}));
}

TEST(CheckRequirement, AcceptsRequirementsThatIncludeThisNode) {
  EXPECT_TRUE(Here().CheckRequirement("r", {}, {}).has_value());
  EXPECT_TRUE(Here().CheckRequirement("r", {kHere}, {}).has_value());
  EXPECT_TRUE(Here().CheckRequirement("r", {kThere, kHere}, {kThere}).has_value());
}

TEST(CheckRequirement, TakesPreferredPlacesAsAWish) {
  EXPECT_TRUE(Here().CheckRequirement("r", {}, {kThere}).has_value());
}

TEST(CheckRequirement, ReportsNoSpaceForOtherNodes) {
  const Status checked = Here().CheckRequirement("accessibility_requirements", {kThere}, {kHere});
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().code(), Code::kNoSpace);
  EXPECT_THAT(checked.error().message(), StartsWith("accessibility_requirements.requisite: "));
  EXPECT_THAT(checked.error().message(), HasSubstr("quarry.csi.local/node=node-1"));
}

TEST(CheckRequirement, NamesTheMalformedPlace) {
  const std::pair<Segments, const char*> bad[] = {
      {{{"", "v"}}, "'' is not a topology key"},
      {{{"/node", "v"}}, "'/node' is not a topology key"},
      {{{"a/b/c", "v"}}, "'a/b/c' is not a topology key"},
      {{{"Upper.case/node", "v"}}, "is not a topology key"},
      {{{"-x", "v"}}, "'-x' is not a topology key"},
      {{{k64, "v"}}, "is not a topology key"},
      {{{k64 + "/node", "v"}}, "is not a topology key"},
      {{{"zone", ""}}, "the value of 'zone' must be"},
      {{{"zone", k64}}, "the value of 'zone' must be"},
      {{{"zone", "a/b"}}, "the value of 'zone' must be"},
      {{{"zone", "v"}, {"Zone", "v"}}, "occurs twice"},
  };
  for (const auto& [place, message] : bad) {
    for (const bool preferred : {false, true}) {
      const Status checked = preferred ? Here().CheckRequirement("r", {}, {kHere, place})
                                       : Here().CheckRequirement("r", {kHere, place}, {});
      ASSERT_FALSE(checked.has_value()) << message;
      EXPECT_EQ(checked.error().code(), Code::kInvalidArgument);
      EXPECT_THAT(checked.error().message(),
                  StartsWith(preferred ? "r.preferred[1].segments: " : "r.requisite[1]."));
      EXPECT_THAT(checked.error().message(), HasSubstr(message));
    }
  }
}

}  // namespace
}  // namespace quarry::csi
