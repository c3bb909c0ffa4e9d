// Parameters, names and texts of buckets.
#include "bucket/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "bucket/gateway_probe.h"
#include "bucket/grant_record.h"
#include "bucket/names.h"

namespace quarry::bucket {
namespace {

using testing::HasSubstr;

TEST(BucketNames, AreThoseOfS3) {
  for (const char* good : {"abc", "a.b-c", "0ab", "logs-2025", "10.0.0"}) {
    EXPECT_TRUE(CheckBucketName(good).has_value()) << good;
  }
  for (const char* bad :
       {"", "ab", "Abc", "a_b", "-ab", "ab-", ".ab", "ab.", "a..b", "10.0.0.1", "a/b", "xn--ab", ".vgwlocks",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    const Status checked = CheckBucketName(bad);
    ASSERT_FALSE(checked.has_value()) << bad;
    EXPECT_EQ(checked.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(checked.error().message(), HasSubstr(bad));
  }
}

TEST(AccountNames, AreSafeAsFilesAndKeys) {
  EXPECT_TRUE(CheckAccountName("ba-3f2c8e4a-0000-4000-8000-000000000000").has_value());
  for (const std::string bad : {"", ".x", "a/b", "..", "a b", "quarry", std::string(129, 'a').c_str()}) {
    EXPECT_FALSE(CheckAccountName(bad).has_value()) << bad;
  }
}

TEST(BucketSettings, SurviveTheTag) {
  const auto wish = ParseRequest({.name = "logs",
                                  .parameters = {{"size", "1GiB"},
                                                 {"type", "raid1"},
                                                 {"ondelete", "erase"},
                                                 {"durability", "relaxed"},
                                                 {"uploadttl", "12h"}}});
  ASSERT_TRUE(wish.has_value()) << wish.error().message();
  EXPECT_EQ(wish->settings.size, kGiB);
  EXPECT_EQ(wish->volume, (Parameters{{"type", "raid1"}}));
  EXPECT_EQ(wish->settings.Canonical(),
            "durability=relaxed\nname=logs\nondelete=erase\nsize=1073741824\nuploadttl=43200");
  EXPECT_EQ(*Settings::FromCanonical(wish->settings.Canonical()), wish->settings);
  EXPECT_TRUE(Settings::FromCanonical(wish->settings.Canonical() + "\nlater=1").has_value());
  EXPECT_EQ(Settings::FromCanonical("name=logs\nondelete=never").error().code(), Code::kCorrupt);
  EXPECT_EQ(Settings::FromCanonical("ondelete=erase").error().code(), Code::kCorrupt);
}

TEST(BucketSettings, AreTheSameWithTheSizeOfTheFirstRequest) {
  const auto differs = [](Bytes recorded, Bytes present, Bytes asked) {
    return Difference({.name = "logs", .size = recorded}, present, {.name = "logs", .size = asked});
  };
  const Bytes two{2 * kGiB.value}, three{3 * kGiB.value};
  EXPECT_EQ(differs(two, two, two), std::nullopt);
  EXPECT_EQ(differs(two, three, two), std::nullopt) << "it has grown since";
  EXPECT_EQ(differs(two, three, three), std::nullopt) << "as it is now";
  EXPECT_THAT(differs(two, two, kGiB).value_or(""), HasSubstr("parameter 'size' is 1073741824 bytes"));
  EXPECT_THAT(differs(two, three, kGiB).value_or(""), HasSubstr("was 2147483648 bytes when"));
  EXPECT_NE(differs(two, two, three), std::nullopt);
  // A bucket of a build that did not record it.
  const auto older = Settings::FromCanonical("durability=sync\nname=logs\nondelete=refuse\nuploadttl=604800");
  ASSERT_TRUE(older.has_value());
  EXPECT_EQ(older->size, Bytes{});
  EXPECT_EQ(differs(older->size, two, kGiB), std::nullopt);
  EXPECT_NE(differs(older->size, two, three), std::nullopt);
  EXPECT_EQ(Settings::FromCanonical("name=logs\nsize=large").error().code(), Code::kCorrupt);
}

TEST(BucketSettings, DefaultToWhatIsSafe) {
  const auto wish = ParseRequest({.name = "logs", .parameters = {{"size", "1GiB"}}});
  ASSERT_TRUE(wish.has_value());
  EXPECT_EQ(wish->settings.on_delete, OnDelete::kRefuse);
  EXPECT_EQ(wish->settings.durability, Durability::kSync);
}

TEST(BucketSettings, NameTheParameterThatIsWrong) {
  const std::map<std::string, std::string> bad = {
      {"size", "many"}, {"ondelete", "maybe"}, {"durability", "some"}, {"uploadttl", "7w"}};
  for (const auto& [key, value] : bad) {
    Parameters parameters = {{"size", "1GiB"}};
    parameters[key] = value;
    const auto wish = ParseRequest({.name = "logs", .parameters = parameters});
    ASSERT_FALSE(wish.has_value()) << key;
    EXPECT_EQ(wish.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(wish.error().message(), HasSubstr(key));
  }
  for (const Parameters& without : {Parameters{}, Parameters{{"size", "0"}}}) {
    EXPECT_THAT(ParseRequest({.name = "logs", .parameters = without}).error().message(), HasSubstr("size"));
  }
}

TEST(GrantRecords, SurviveTheirFile) {
  const GrantRecord record{.account = "app",
                           .secret = NewSecret(),
                           .access = Access::kReadOnly,
                           .all = {{"p.q1", Access::kReadOnly}},
                           .granted = 1700000000123};
  EXPECT_EQ(*ParseGrant(ToText(record)), record);
  auto older = nlohmann::json::parse(ToText(record));
  older.erase("granted");
  EXPECT_EQ(ParseGrant(older.dump())->granted, 0) << "a record of an earlier version is the older one";
  EXPECT_NE(NewSecret(), NewSecret());
  EXPECT_EQ(NewSecret().size(), 48U);
}

TEST(GrantRecords, ThatAreTornTellNoSecret) {
  const std::string text =
      ToText({.account = "app", .secret = "hush", .all = {{"p.q1", Access::kReadWrite}}});
  for (size_t length = 0; length + 2 < text.size(); ++length) {
    const auto parsed = ParseGrant(text.substr(0, length));
    ASSERT_FALSE(parsed.has_value()) << length;
    EXPECT_EQ(parsed.error().code(), Code::kCorrupt);
    EXPECT_THAT(parsed.error().message(), testing::Not(HasSubstr("hush")));
  }
}

TEST(Policies, LetEachAccountDoWhatItMay) {
  const auto policy = nlohmann::json::parse(
      PolicyText("logs", {{"a", Access::kReadWrite}, {"b", Access::kReadOnly}, {"c", Access::kWriteOnly}}));
  const auto may = [&](const std::string& account, const std::string& action) {
    for (const auto& statement : policy["Statement"]) {
      if (statement["Effect"] == "Allow" && statement["Principal"]["AWS"].front() == account) {
        const auto& actions = statement["Action"];
        return std::find(actions.begin(), actions.end(), action) != actions.end();
      }
    }
    return false;
  };
  EXPECT_TRUE(may("a", "s3:GetObject") && may("a", "s3:PutObject") && may("a", "s3:DeleteObject"));
  EXPECT_TRUE(may("b", "s3:GetObject") && may("b", "s3:ListBucket"));
  EXPECT_FALSE(may("b", "s3:PutObject") || may("b", "s3:DeleteObject"));
  EXPECT_TRUE(may("c", "s3:PutObject"));
  EXPECT_FALSE(may("c", "s3:GetObject") || may("c", "s3:ListBucket") || may("c", "s3:DeleteObject"));
  EXPECT_FALSE(may("d", "s3:GetObject"));
  const auto& hidden = policy["Statement"].front();
  EXPECT_EQ(hidden["Effect"], "Deny");
  EXPECT_EQ(hidden["Resource"], "arn:aws:s3:::logs/.sgwtmp/*");
}

TEST(ListenAddresses, AreNumeric) {
  EXPECT_EQ(ParseListen("127.0.0.1:7070")->port, "7070");
  EXPECT_EQ(ParseListen("[::1]:7070")->host, "::1");
  for (const char* bad :
       {"", "7070", ":7070", "localhost:7070", "127.0.0.1:0", "127.0.0.1:70000", "::1:7070"}) {
    EXPECT_FALSE(ParseListen(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace quarry::bucket
