// quarry.admin.v1.Buckets over the admin socket, as quarryctl sees it.
#include <gmock/gmock.h>
#include <quarry/admin/v1/buckets.grpc.pb.h>

#include "tests/cosi/memory_buckets.h"
#include "tests/unit/csi/service_harness.h"

namespace quarry::csi {
namespace {

namespace admin = ::quarry::admin::v1;
using testing::HasSubstr;
using testing::Not;

class BucketAdminTest : public testing::Test {
 protected:
  cosi_check::MemoryBuckets buckets;
  ServiceHarness harness{{.buckets = &buckets}};
  std::unique_ptr<admin::Buckets::Stub> stub = admin::Buckets::NewStub(
      grpc::CreateChannel("unix:" + harness.admin_socket, grpc::InsecureChannelCredentials()));

  std::string Make(const std::string& name) {
    admin::CreateBucketRequest request;
    admin::CreateBucketResponse response;
    request.set_name(name);
    (*request.mutable_parameters())["size"] = "1GiB";
    const auto status = ServiceHarness::Do(&admin::Buckets::Stub::CreateBucket, *stub, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.bucket().bucket_id();
  }
  grpc::Status Grant(const std::string& account, const std::string& id, const std::string& access,
                     admin::GrantBucketResponse& response) {
    admin::GrantBucketRequest request;
    request.set_account(account);
    auto& row = *request.add_buckets();
    row.set_bucket_id(id);
    row.set_access(access);
    return ServiceHarness::Do(&admin::Buckets::Stub::GrantBucket, *stub, request, &response);
  }
  admin::ListBucketsResponse List() {
    admin::ListBucketsResponse response;
    EXPECT_TRUE(
        ServiceHarness::Do(&admin::Buckets::Stub::ListBuckets, *stub, admin::ListBucketsRequest(), &response)
            .ok());
    return response;
  }
};

TEST_F(BucketAdminTest, ARepeatedCreateSaysThatTheBucketWasThere) {
  admin::CreateBucketRequest request;
  admin::CreateBucketResponse first, second;
  request.set_name("photos");
  (*request.mutable_parameters())["size"] = "1GiB";
  ASSERT_TRUE(ServiceHarness::Do(&admin::Buckets::Stub::CreateBucket, *stub, request, &first).ok());
  ASSERT_TRUE(ServiceHarness::Do(&admin::Buckets::Stub::CreateBucket, *stub, request, &second).ok());
  EXPECT_TRUE(first.created());
  EXPECT_FALSE(second.created());
  EXPECT_EQ(first.bucket().bucket_id(), second.bucket().bucket_id());
  EXPECT_EQ(first.bucket().size_bytes(), 1LL << 30);
}

TEST_F(BucketAdminTest, AGrantTellsKeysAndEndpointOnceAndAgain) {
  const std::string id = Make("photos");
  admin::GrantBucketResponse first, second;
  ASSERT_TRUE(Grant("reader", id, "ro", first).ok());
  ASSERT_TRUE(Grant("reader", id, "ro", second).ok());
  EXPECT_EQ(first.url(), "http://127.0.0.1:7070");
  EXPECT_EQ(first.region(), "us-east-1");
  EXPECT_EQ(first.access_key_id(), "reader");
  EXPECT_NE(first.secret_access_key(), "");
  EXPECT_EQ(first.secret_access_key(), second.secret_access_key());
  EXPECT_THAT(harness.Logged(), HasSubstr("account reader"));
  EXPECT_THAT(harness.Logged(), Not(HasSubstr(first.secret_access_key())));
  EXPECT_EQ(Grant("reader", id, "rw", second).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(Grant("other", id, "all", second).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Grant("", id, "rw", second).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(BucketAdminTest, AListHasAccountsAndContentsAndNoSecret) {
  const std::string id = Make("photos");
  admin::GrantBucketResponse granted;
  ASSERT_TRUE(Grant("writer", id, "wo", granted).ok());
  buckets.PutObjects(id, 7);
  const auto list = List();
  ASSERT_EQ(list.buckets_size(), 1);
  EXPECT_EQ(list.buckets(0).name(), "photos");
  EXPECT_EQ(list.buckets(0).content().objects(), 7);
  ASSERT_EQ(list.buckets(0).accounts_size(), 1);
  EXPECT_EQ(list.buckets(0).accounts(0).account_id(), "writer");
  EXPECT_EQ(list.buckets(0).accounts(0).access(), "wo");
  EXPECT_THAT(list.SerializeAsString(), Not(HasSubstr(granted.secret_access_key())));
}

TEST_F(BucketAdminTest, ARevokedAccountIsGoneFromTheList) {
  const std::string id = Make("photos");
  admin::GrantBucketResponse granted;
  ASSERT_TRUE(Grant("writer", id, "", granted).ok());
  admin::RevokeBucketRequest request;
  admin::RevokeBucketResponse ignored;
  request.set_account_id("writer");
  EXPECT_EQ(ServiceHarness::Do(&admin::Buckets::Stub::RevokeBucket, *stub, request, &ignored).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  request.add_bucket_ids(id);
  EXPECT_TRUE(ServiceHarness::Do(&admin::Buckets::Stub::RevokeBucket, *stub, request, &ignored).ok());
  EXPECT_EQ(List().buckets(0).accounts_size(), 0);
}

TEST_F(BucketAdminTest, ABucketGrowsAndIsDeleted) {
  const std::string id = Make("photos");
  admin::GrowBucketRequest grow;
  admin::GrowBucketResponse grown;
  grow.set_bucket_id(id);
  EXPECT_EQ(ServiceHarness::Do(&admin::Buckets::Stub::GrowBucket, *stub, grow, &grown).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  grow.set_size_bytes(2LL << 30);
  ASSERT_TRUE(ServiceHarness::Do(&admin::Buckets::Stub::GrowBucket, *stub, grow, &grown).ok());
  EXPECT_EQ(grown.size_bytes(), 2LL << 30);
  admin::DeleteBucketRequest request;
  request.set_bucket_id(id);
  EXPECT_TRUE(ServiceHarness::Do(&admin::Buckets::Stub::DeleteBucket, *stub, request).ok());
  EXPECT_TRUE(ServiceHarness::Do(&admin::Buckets::Stub::DeleteBucket, *stub, request).ok());
  EXPECT_EQ(List().buckets_size(), 0);
}

TEST_F(BucketAdminTest, ALostBucketIsDeletedOnlyIfTheRequestSaysSo) {
  const std::string lost = Make("photos"), fine = Make("music");
  buckets.LoseDisk(lost);
  admin::DeleteBucketRequest request;
  request.set_bucket_id(lost);
  EXPECT_EQ(ServiceHarness::Do(&admin::Buckets::Stub::DeleteBucket, *stub, request).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  request.set_lost(true);
  EXPECT_TRUE(ServiceHarness::Do(&admin::Buckets::Stub::DeleteBucket, *stub, request).ok());
  request.set_bucket_id(fine);
  EXPECT_EQ(ServiceHarness::Do(&admin::Buckets::Stub::DeleteBucket, *stub, request).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(List().buckets_size(), 1);
}

TEST(BucketAdminOffTest, AQuarrydWithoutBucketsNamesTheSetting) {
  const ServiceHarness harness;
  const auto stub = admin::Buckets::NewStub(
      grpc::CreateChannel("unix:" + harness.admin_socket, grpc::InsecureChannelCredentials()));
  const auto status =
      ServiceHarness::Do(&admin::Buckets::Stub::ListBuckets, *stub, admin::ListBucketsRequest());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("--s3-listen"));
}

}  // namespace
}  // namespace quarry::csi
