#include "engine/model/profile.h"

#include <gtest/gtest.h>

namespace quarry::engine {
namespace {

std::string Refusal(const Parameters& parameters) {
  const auto profile = Profile::Parse(parameters, "default");
  EXPECT_FALSE(profile.has_value());
  if (profile.has_value()) {
    return "";
  }
  EXPECT_EQ(profile.error().code(), Code::kInvalidArgument);
  return profile.error().message();
}

TEST(Profile, DefaultsToALinearVolumeOfTheDefaultPoolErasedWithZeroes) {
  const auto profile = Profile::Parse({}, "default");
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(profile->pool, "default");
  EXPECT_EQ(profile->geometry.type(), lvm::VolumeType::kLinear);
  EXPECT_EQ(profile->erase, ErasePolicy::kZero);
}

TEST(Profile, AcceptsTheExampleOfTheMesosDocumentation) {
  const auto profile = Profile::Parse({{"type", "raid5"}, {"stripes", "3"}, {"stripesize", "64"}}, "default");
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(profile->geometry.legs(), 4U);
  EXPECT_EQ(profile->geometry.stripe_size(), Bytes{65536});
}

TEST(Profile, NamesTheParameterItRefuses) {
  const std::vector<std::pair<Parameters, std::string>> cases = {
      {{{"typ", "linear"}}, "'typ'"},
      {{{"type", "raid7"}}, "'type'"},
      {{{"type", ""}}, "'type'"},
      {{{"type", "raid1"}, {"mirrors", "0"}}, "'mirrors'"},
      {{{"type", "raid1"}, {"mirrors", "two"}}, "'mirrors'"},
      {{{"type", "raid1"}, {"mirrors", "1 "}}, "'mirrors'"},
      {{{"type", "raid1"}, {"mirrors", "99999999999"}}, "'mirrors'"},
      {{{"type", "raid5"}, {"stripes", "1"}}, "stripes"},
      {{{"type", "raid5"}, {"stripesize", "3"}}, "stripesize"},
      {{{"type", "linear"}, {"stripes", "2"}}, "stripes"},
      {{{"sync", "maybe"}}, "'sync'"},
      {{{"integrity", "yes"}}, "'integrity'"},
      {{{"erase", "shred"}}, "'erase'"},
      {{{"pool", ""}}, "'pool'"},
      {{{"mkfsoptions", "-L\n-x"}}, "'mkfsoptions'"},
  };
  for (const auto& [parameters, name] : cases) {
    EXPECT_NE(Refusal(parameters).find(name), std::string::npos) << name << ": " << Refusal(parameters);
  }
}

TEST(Profile, IgnoresTheKeysThatKubernetesAdds) {
  EXPECT_TRUE(Profile::Parse({{"csi.storage.k8s.io/pvc/name", "x"}}, "default").has_value());
}

TEST(Profile, CanonicalTextRoundTrips) {
  const std::vector<Parameters> all = {
      {},
      {{"type", "raid1"}, {"mirrors", "2"}, {"regionsize", "4096"}, {"erase", "none"}, {"sync", "skip"}},
      {{"type", "striped"}, {"stripes", "3"}, {"stripesize", "128"}, {"mkfsoptions", "-i size=1024 -L a=b"}},
      {{"type", "raid10"}, {"stripes", "2"}, {"pool", "fast"}, {"erase", "discard"}},
      {{"type", "raid6"}},
  };
  for (const Parameters& parameters : all) {
    const auto profile = Profile::Parse(parameters, "default");
    ASSERT_TRUE(profile.has_value()) << profile.error().message();
    const auto again = Profile::FromCanonical(profile->Canonical());
    ASSERT_TRUE(again.has_value()) << again.error().message();
    EXPECT_EQ(again->Canonical(), profile->Canonical());
    EXPECT_EQ(Difference(profile->Canonical(), *again), std::nullopt);
  }
}

TEST(Profile, ExplicitDefaultsAreTheSameProfile) {
  const auto implied = Profile::Parse({{"type", "raid5"}}, "default");
  const auto spelt = Profile::Parse(
      {{"type", "raid5"}, {"stripes", "2"}, {"stripesize", "64"}, {"pool", "default"}}, "default");
  EXPECT_EQ(implied->Canonical(), spelt->Canonical());
}

TEST(Profile, DifferenceNamesParameterAndBothValues) {
  const auto was = Profile::Parse({{"type", "raid1"}}, "default")->Canonical();
  const auto is = *Profile::Parse({{"type", "raid1"}, {"erase", "none"}}, "default");
  const auto difference = Difference(was, is);
  ASSERT_TRUE(difference.has_value());
  EXPECT_NE(difference->find("'erase'"), std::string::npos);
  EXPECT_NE(difference->find("'zero'"), std::string::npos);
  EXPECT_NE(difference->find("'none'"), std::string::npos);
}

TEST(Profile, AParameterThatAnEarlierBuildOmittedIsTheDefault) {
  const auto now = Profile::Parse({{"type", "raid1"}}, "default");
  EXPECT_EQ(Difference("pool=default\ntype=raid1", *now), std::nullopt);
  EXPECT_NE(Difference("erase=none\npool=default\ntype=raid1", *now), std::nullopt);
  EXPECT_NE(Difference("pool=default\ntype=raid1\nmirrors=2", *now), std::nullopt);
}

TEST(Profile, AParameterOfALaterBuildIsKeptAndNoDifference) {
  const std::string later = "colour=red\npool=default\ntype=raid1";
  const auto recorded = Profile::FromCanonical(later);
  ASSERT_TRUE(recorded.has_value()) << recorded.error().message();
  EXPECT_EQ(recorded->geometry.type(), lvm::VolumeType::kRaid1);
  EXPECT_NE(recorded->Canonical().find("colour=red\n"), std::string::npos);
  EXPECT_EQ(Difference(later, *Profile::Parse({{"type", "raid1"}}, "default")), std::nullopt);
  EXPECT_NE(Difference(later, *Profile::Parse({{"type", "linear"}}, "default")), std::nullopt);
  EXPECT_FALSE(Profile::Parse({{"colour", "red"}}, "default").has_value()) << "no caller can ask for it";
}

TEST(Profile, ARecordedProfileThatDoesNotParseIsCorrupt) {
  EXPECT_EQ(Profile::FromCanonical("type=raid9").error().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace quarry::engine
