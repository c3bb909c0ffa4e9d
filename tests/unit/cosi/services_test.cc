#include <sys/stat.h>

#include <atomic>

#include <cosi/v1alpha1/cosi.grpc.pb.h>
#include <cosi/v1alpha2/cosi.grpc.pb.h>
#include <gmock/gmock.h>

#include "cosi/fields.h"
#include "tests/cosi/driver.h"
#include "tests/cosi/rules.h"
#include "tests/unit/cosi/cosi_harness.h"

namespace quarry::cosi {
namespace {

using cosi_check::Created;
using cosi_check::Driver;
using cosi_check::Granted;
using grpc::StatusCode;
using testing::HasSubstr;
using testing::Not;

const cosi_check::Map kSize = {{"size", "1GiB"}};

class CosiTest : public testing::TestWithParam<bool> {
 protected:
  Created Make(const std::string& name = "bucket-1") {
    Created made;
    const auto status = driver->Create({.name = name, .parameters = kSize}, made);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return made;
  }
  // The code of a create while buckets fail with `code`.
  StatusCode CodeOf(Code code) {
    harness.buckets.SetOnCall([code](const std::string&, const Call&) { return Error(code, "the reason"); });
    Created ignored;
    const auto status = driver->Create({.name = "bucket-1", .parameters = kSize}, ignored);
    EXPECT_EQ(status.error_message(), "the reason");
    EXPECT_EQ(status.error_details(), "");
    return status.error_code();
  }

  CosiHarness harness;
  std::unique_ptr<Driver> driver =
      GetParam() ? cosi_check::MakeV1alpha2(harness.channel) : cosi_check::MakeV1alpha1(harness.channel);
};

TEST_P(CosiTest, KeepsEveryRule) {
  const cosi_check::Settings settings{.parameters = kSize,
                                      .other_parameters = {{"size", "2GiB"}},
                                      .smaller_parameters = {{"size", "512MiB"}},
                                      .prefix = "check-"};
  for (const auto& finding : CheckRules(*driver, settings)) {
    EXPECT_EQ(finding.problem, "") << finding.rule;
  }
  EXPECT_TRUE(harness.buckets.List(Call{})->empty()) << "the check leaves nothing behind";
}

TEST_P(CosiTest, ErrorsHaveTheCodesOfTheInterface) {
  EXPECT_EQ(CodeOf(Code::kInvalidArgument), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(CodeOf(Code::kUnsupported), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(CodeOf(Code::kAlreadyExists), StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(CodeOf(Code::kBusy), StatusCode::ABORTED);
  EXPECT_EQ(CodeOf(Code::kNoSpace), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(CodeOf(Code::kUnavailable), StatusCode::UNAVAILABLE);
  EXPECT_EQ(CodeOf(Code::kPrecondition), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(CodeOf(Code::kIo), StatusCode::INTERNAL);
  EXPECT_EQ(CodeOf(Code::kOutOfRange), GetParam() ? StatusCode::INVALID_ARGUMENT : StatusCode::OUT_OF_RANGE);
}

TEST_P(CosiTest, ABucketWithObjectsIsRefusedWithTheReason) {
  const Created made = Make();
  harness.buckets.PutObjects(made.id, 3);
  const auto status = driver->Delete(made.id);
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("3 objects"));
}

TEST_P(CosiTest, SecretsAndParametersAreNeverLogged) {
  const Created made = Make();
  Granted granted, refused;
  ASSERT_TRUE(driver->Grant({.name = "ba-1", .buckets = {{.id = made.id}}}, granted).ok());
  EXPECT_FALSE(
      driver
          ->Grant({.name = "ba-2", .buckets = {{.id = made.id}}, .parameters = {{"pass", "word-9"}}}, refused)
          .ok());
  Created ignored;
  EXPECT_FALSE(driver->Create({.name = "bucket-2", .parameters = {{"size", "word-9"}}}, ignored).ok() &&
               harness.Logged().empty());
  ASSERT_NE(granted.secret_key, "");
  EXPECT_THAT(harness.Logged(), HasSubstr("DriverGrantBucketAccess"));
  EXPECT_THAT(harness.Logged(), HasSubstr("account ba-1"));
  EXPECT_THAT(harness.Logged(), Not(HasSubstr(granted.secret_key)));
  for (const csi::CallFacts& call : harness.history.Calls()) {
    EXPECT_THAT(call.volume, Not(HasSubstr(granted.secret_key)));
  }
}

TEST_P(CosiTest, CallsAreKeptForTheTraceUnderTheirVersion) {
  Make();
  ASSERT_FALSE(harness.history.Calls().empty());
  EXPECT_EQ(harness.history.Calls()[0].method, "DriverCreateBucket");
  EXPECT_EQ(harness.history.Calls()[0].version, GetParam() ? "cosi.v1alpha2" : "cosi.v1alpha1");
}

TEST_P(CosiTest, ACallWithoutADeadlineGetsOne) {
  std::atomic<bool> limited = false;
  harness.buckets.SetOnCall([&limited](const std::string&, const Call& call) {
    limited = call.deadline != SteadyTime::max();
    return Ok();
  });
  Make();
  EXPECT_TRUE(limited);
}

INSTANTIATE_TEST_SUITE_P(Versions, CosiTest, testing::Bool(),
                         [](const auto& param_info) { return param_info.param ? "v1alpha2" : "v1alpha1"; });

// The name in the request is what clients of v1alpha1 are told, so it has to be the bucket's.
TEST(CosiNamesTest, S3ClientsUseTheNameOfTheRequest) {
  CosiHarness harness;
  const auto driver = cosi_check::MakeV1alpha2(harness.channel);
  Created made;
  ASSERT_TRUE(driver->Create({.name = "bucket-1", .parameters = kSize}, made).ok());
  EXPECT_EQ(made.reach.bucket, "bucket-1");
  EXPECT_NE(made.id, "bucket-1");
  EXPECT_EQ(made.reach.endpoint, "http://127.0.0.1:7070");
}

TEST(CosiVersionsTest, ABucketOfOneVersionIsServedInTheOther) {
  CosiHarness harness;
  const auto older = cosi_check::MakeV1alpha1(harness.channel),
             newer = cosi_check::MakeV1alpha2(harness.channel);
  Created made, found;
  ASSERT_TRUE(older->Create({.name = "bucket-1", .parameters = kSize}, made).ok());
  ASSERT_TRUE(newer->GetExisting({.id = made.id}, found).ok());
  EXPECT_EQ(found.id, made.id);
  Granted one, two;
  ASSERT_TRUE(older->Grant({.name = "ba-1", .buckets = {{.id = made.id}}}, one).ok());
  ASSERT_TRUE(newer->Grant({.name = "ba-1", .buckets = {{.id = made.id}}}, two).ok());
  EXPECT_EQ(one.secret_key, two.secret_key);
}

TEST(CosiAccessTest, AccessModesOfBothVersionsReachTheBuckets) {
  CosiHarness harness;
  const auto older = cosi_check::MakeV1alpha1(harness.channel),
             newer = cosi_check::MakeV1alpha2(harness.channel);
  Created made;
  ASSERT_TRUE(older->Create({.name = "bucket-1", .parameters = kSize}, made).ok());
  Granted ignored;
  ASSERT_TRUE(
      older->Grant({.name = "a", .buckets = {{made.id}}, .parameters = {{"access", "wo"}}}, ignored).ok());
  ASSERT_TRUE(newer->Grant({.name = "b", .buckets = {{made.id, cosi_check::kReadOnly}}}, ignored).ok());
  ASSERT_TRUE(older->Grant({.name = "c", .buckets = {{made.id}}}, ignored).ok());
  const auto accounts = harness.buckets.Find(made.id, Call{})->accounts;
  ASSERT_EQ(accounts.size(), 3U);
  EXPECT_EQ(accounts[0].access, bucket::Access::kWriteOnly);
  EXPECT_EQ(accounts[1].access, bucket::Access::kReadOnly);
  EXPECT_EQ(accounts[2].access, bucket::Access::kReadWrite);
  EXPECT_EQ(older->Grant({.name = "d", .buckets = {{made.id}}, .parameters = {{"access", "all"}}}, ignored)
                .error_code(),
            StatusCode::INVALID_ARGUMENT);
}

TEST(CosiVersionsTest, AnExistingBucketMustHaveTheParametersThatAreNamed) {
  CosiHarness harness;
  const auto driver = cosi_check::MakeV1alpha2(harness.channel);
  Created made, found;
  ASSERT_TRUE(
      driver->Create({.name = "bucket-1", .parameters = {{"size", "1GiB"}, {"ondelete", "erase"}}}, made)
          .ok());
  EXPECT_TRUE(driver->GetExisting({.id = made.id}, found).ok());
  EXPECT_TRUE(driver->GetExisting({.id = made.id, .parameters = {{"ondelete", "erase"}}}, found).ok());
  const auto other = driver->GetExisting({.id = made.id, .parameters = {{"ondelete", "refuse"}}}, found);
  EXPECT_EQ(other.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(other.error_message(), HasSubstr("ondelete"));
  // A bucket that does not exist is NOT_FOUND, whatever its parameters would be.
  EXPECT_EQ(driver->GetExisting({.id = "p.9", .parameters = {{"colour", "red"}}}, found).error_code(),
            StatusCode::NOT_FOUND);
}

TEST(CosiVersionsTest, ARevocationWithoutAnAccountNamesTheRemedy) {
  CosiHarness harness;
  const auto driver = cosi_check::MakeV1alpha1(harness.channel);
  Created made;
  ASSERT_TRUE(driver->Create({.name = "bucket-1", .parameters = kSize}, made).ok());
  const auto refused = driver->Revoke({.account = "", .buckets = {made.id}});
  EXPECT_EQ(refused.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("account_id"));
  EXPECT_THAT(refused.error_message(), HasSubstr("quarryctl bucket revoke"));
}

TEST(CosiServerTest, OnlyItsOwnerReachesTheSocket) {
  const CosiHarness harness;
  struct stat facts{};
  ASSERT_EQ(stat(harness.socket().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);
}

TEST(CosiServerTest, ASocketOfAnotherNameIsRefused) {
  CosiHarness harness;
  const Logger log(LogLevel::kError, LogFormat::kJson, 2);
  const auto server = Server::Start({.socket = *AbsolutePath::Parse("/tmp/cosi"), .driver_name = "a.b"},
                                    harness.buckets, harness.history, log);
  ASSERT_FALSE(server.has_value());
  EXPECT_THAT(server.error().message(), HasSubstr(".sock"));
}

TEST(CosiFieldsTest, DriverNamesBeginTheirLabelsWithLetters) {
  for (const char* good : {"a", "n-1.s3.quarry.local", "abc.d"}) {
    EXPECT_TRUE(CheckDriverName(good).has_value()) << good;
  }
  for (const char* bad : {"", "1a", "a.1b", "a..b", ".a", "a.", "a-.b", "-a", "A", "a_b",
                          "a123456789a123456789a123456789a123456789a123456789a123456789a123"}) {
    EXPECT_FALSE(CheckDriverName(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace quarry::cosi
