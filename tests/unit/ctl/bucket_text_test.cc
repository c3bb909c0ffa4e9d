#include "ctl/bucket_text.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "ctl/bucket_client.h"

namespace quarry::ctl {
namespace {

namespace pb = ::quarry::admin::v1;

pb::ListBucketsResponse TwoBuckets() {
  pb::ListBucketsResponse list;
  list.set_url("http://127.0.0.1:7070");
  list.set_region("us-east-1");
  auto& photos = *list.add_buckets();
  photos.set_bucket_id("p.2");
  photos.set_name("photos");
  photos.set_size_bytes(10LL << 30);
  photos.set_type("raid1");
  photos.set_serving(true);
  photos.mutable_content()->set_used_bytes(1 << 20);
  photos.mutable_content()->set_objects(1);
  for (const auto& [id, access] : {std::pair("app", "rw"), std::pair("reader", "ro")}) {
    auto& account = *photos.add_accounts();
    account.set_account_id(id);
    account.set_access(access);
  }
  auto& backup = *list.add_buckets();
  backup.set_bucket_id("p.1");
  backup.set_name("backup");
  backup.set_size_bytes(1LL << 30);
  backup.set_type("linear");
  backup.set_problem("its disk is missing");
  return list;
}

TEST(BucketTextTest, TheTableShowsAccountsAndWhatIsWrong) {
  EXPECT_EQ(BucketTable(TwoBuckets()),
            "NAME    SIZE    TYPE    USED   OBJECTS  STATE    ACCOUNTS\n"
            "backup  1 GiB   linear                  absent\n"
            "photos  10 GiB  raid1   1 MiB  1        serving  app (rw), reader (ro)\n"
            "bucket 'backup': its disk is missing\n");
  EXPECT_EQ(BucketTable({}), "there are no buckets\n");
}

TEST(BucketTextTest, TheListAsJsonLeavesOutWhatIsUnknown) {
  const auto document = nlohmann::json::parse(BucketListJson(TwoBuckets()));
  EXPECT_EQ(document["url"], "http://127.0.0.1:7070");
  EXPECT_EQ(document["buckets"][0]["content"]["objects"], 1);
  EXPECT_EQ(document["buckets"][0]["accounts"][1]["access"], "ro");
  EXPECT_FALSE(document["buckets"][1].contains("content"));
  EXPECT_EQ(document["buckets"][1]["problem"], "its disk is missing");
}

TEST(BucketTextTest, AGrantIsTheEnvironmentOfAnS3Client) {
  pb::GrantBucketResponse granted;
  granted.set_access_key_id("app");
  granted.set_secret_access_key("abc");
  granted.set_url("https://edge1:7070");
  granted.set_region("eu-1");
  granted.add_buckets()->set_name("photos");
  EXPECT_EQ(GrantText(granted),
            "bucket photos at https://edge1:7070\n"
            "AWS_ENDPOINT_URL=https://edge1:7070\n"
            "AWS_DEFAULT_REGION=eu-1\n"
            "AWS_ACCESS_KEY_ID=app\n"
            "AWS_SECRET_ACCESS_KEY=abc\n");
  EXPECT_EQ(nlohmann::json::parse(GrantJson(granted))["secret_access_key"], "abc");
}

TEST(BucketTextTest, ASummaryCountsObjectsIfTheyAreKnown) {
  const auto list = TwoBuckets();
  EXPECT_EQ(BucketSummary(list.buckets(0)), "photos (10 GiB raid1, 1 object)");
  EXPECT_EQ(BucketSummary(list.buckets(1)), "backup (1 GiB linear)");
}

TEST(PickBucketTest, ABucketIsFoundByNameOrId) {
  const auto list = TwoBuckets();
  EXPECT_EQ(PickBucket(list, "photos")->bucket_id(), "p.2");
  EXPECT_EQ(PickBucket(list, "p.1")->name(), "backup");
  EXPECT_EQ(PickBucket(list, "none").error().code(), Code::kNotFound);
  auto twins = list;
  *twins.add_buckets() = list.buckets(0);
  twins.mutable_buckets(2)->set_bucket_id("q.1");
  EXPECT_EQ(PickBucket(twins, "photos").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(PickBucket(twins, "q.1")->name(), "photos");
}

}  // namespace
}  // namespace quarry::ctl
