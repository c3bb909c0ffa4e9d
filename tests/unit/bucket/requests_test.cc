// What the gateway reports of its requests, and what is counted of it.
#include <sys/socket.h>
#include <sys/stat.h>

#include <thread>

#include "base/unix_socket.h"
#include "bucket/gateway_report.h"
#include "tests/unit/bucket/buckets_fixture.h"

namespace quarry::bucket {
namespace {

using What = GatewayReport::What;

std::string Line(const std::string& metric, const std::string& value, const std::string& tags) {
  return "versitygw." + metric + ":" + value + "|c|#service:quarry,method:PUT,api:s3," + tags;
}

TEST(ParseReport, ReadsWhatVersitygwSends) {
  const std::string put = Line("success_count", "3", "action:PutObject,bucket:logs,status:200");
  EXPECT_EQ(*ParseReport(put), (GatewayReport{.what = What::kRequests,
                                              .value = 3,
                                              .bucket = "logs",
                                              .operation = Operation::kPut,
                                              .code = CodeClass::k2xx}));
  const std::string refused = Line("failed_count", "1", "action:GetObject,bucket:logs,status:403|c:in-42");
  EXPECT_EQ(ParseReport(refused)->code, CodeClass::k4xx);
  EXPECT_EQ(ParseReport(refused)->operation, Operation::kGet);
  EXPECT_EQ(ParseReport(Line("bytes_written", "70", "action:UploadPart,bucket:a,status:200"))->what,
            What::kReceived);
  EXPECT_EQ(ParseReport(Line("bytes_read", "70", "action:GetObject,bucket:a,status:206"))->what, What::kSent);
  EXPECT_EQ(ParseReport(Line("object_created_count", "1", "action:PutObject,bucket:a,status:200"))->what,
            What::kOther);
  EXPECT_EQ(ParseReport(Line("failed_count", "1", "action:ActionUnDetected,status:503"))->bucket, "");
  EXPECT_EQ(ParseReport("datadog.dogstatsd.client.metrics:5|c|#client:go")->what, What::kOther);
}

TEST(ParseReport, EachActionHasItsOperation) {
  const std::vector<std::pair<const char*, Operation>> expected = {
      {"HeadObject", Operation::kHead},       {"UploadPart", Operation::kPut},
      {"DeleteObjects", Operation::kDelete},  {"ListObjectsV2", Operation::kList},
      {"PutBucketPolicy", Operation::kOther}, {"NoSuchAction", Operation::kOther}};
  for (const auto& [action, operation] : expected) {
    const std::string line =
        Line("success_count", "1", std::string("action:") + action + ",bucket:logs,status:200");
    EXPECT_EQ(ParseReport(line)->operation, operation) << action;
  }
}

TEST(ParseReport, RefusesWhatAClientMayHaveWritten) {
  const std::vector<std::string> bad = {
      "",
      "other.success_count:1|c|#action:PutObject,status:200",
      Line("success_count", "-1", "action:PutObject,status:200"),
      Line("success_count", "1.5", "action:PutObject,status:200"),
      Line("success_count", "9007199254740993", "action:PutObject,status:200"),
      Line("success_count", "99999999999999999999999", "action:PutObject,status:200"),
      Line("success_count", "", "action:PutObject,status:200"),
      Line("success_count", "1", "action:PutObject,bucket:a"),
      Line("success_count", "1", "bucket:a,status:200"),
      Line("success_count", "1", "action:PutObject,bucket:a,status:100"),
      Line("success_count", "1", "action:PutObject,bucket:a,status:600"),
      Line("success_count", "1", "action:PutObject,bucket:a,bucket:logs,status:200"),
      Line("success_count", "1", "action:PutObject,bucket:a,status:200,status:200"),
      Line("success_count", "1", "action:PutObject,bucket:a,b,status:200"),
      Line("success_count", "1", "action:PutObject,bucket:a|#status:200"),
      Line("success_count", "1", "action:PutObject,bucket:a|x,status:200"),
      "versitygw.success_count:1|g|#action:PutObject,status:200",
      "versitygw.success_count:1|c",
      "versitygw.success_count",
  };
  for (const std::string& line : bad) {
    const auto report = ParseReport(line);
    ASSERT_FALSE(report.has_value()) << line;
    EXPECT_EQ(report.error().code(), Code::kCorrupt) << line;
  }
}

TEST(RequestCounts, OnlyRequestsThatSucceededMoveBytes) {
  RequestCounts counts;
  Add({.what = What::kReceived, .value = 10, .code = CodeClass::k2xx}, counts);
  Add({.what = What::kReceived, .value = 100, .code = CodeClass::k5xx}, counts);
  Add({.what = What::kSent, .value = 7, .code = CodeClass::k2xx}, counts);
  EXPECT_EQ(counts.received, 10U);
  EXPECT_EQ(counts.sent, 7U);
}

// A gateway that sends to the socket, and a thread that counts.
class RequestsTest : public BucketsTest {
 protected:
  ~RequestsTest() override { StopCounting(); }
  void Count() {
    counter_ = std::jthread([this](const std::stop_token& stop) { buckets_->TakeReports(stop); });
  }
  void StopCounting() { counter_ = {}; }
  std::string Socket() const { return (path_ / "s3/reports.sock").string(); }
  // As versitygw: one descriptor, that is connected again after an error.
  void Send(const std::string& datagram) {
    const sockaddr_un to = *UnixAddress(*AbsolutePath::Parse(Socket()));
    const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(sendto(fd.get(), datagram.data(), datagram.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                     sizeof to),
              static_cast<ssize_t>(datagram.size()))
        << strerror(errno);
  }
  void SendPuts(const std::string& bucket, const std::string& number) {
    Send(Line("success_count", number, "action:PutObject,bucket:" + bucket + ",status:200") + "\n");
  }
  uint64_t Puts(const std::string& id) const {
    const Figures figures = buckets_->CurrentFigures();
    const auto found = figures.requests.find(id);
    return found == figures.requests.end() ? 0 : found->second.Of(Operation::kPut, CodeClass::k2xx);
  }
  template <typename Done>
  static bool Eventually(const Done& done) {
    for (int i = 0; i < 2000 && !done(); ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    return done();
  }

 private:
  std::jthread counter_;
};

TEST_F(RequestsTest, RequestsCountForTheBucketThatTheyName) {
  const std::string logs = Create("logs");
  const std::string other = Create("other");
  Count();
  Send(Line("success_count", "2", "action:PutObject,bucket:logs,status:200") + "\n" +
       Line("bytes_written", "8192", "action:PutObject,bucket:logs,status:200") + "\n" +
       Line("failed_count", "1", "action:GetObject,bucket:logs,status:403") + "\n" +
       Line("success_count", "5", "action:GetObject,bucket:other,status:200") + "\n");
  EXPECT_TRUE(Eventually(
      [&] { return buckets_->CurrentFigures().requests[other].Of(Operation::kGet, CodeClass::k2xx) == 5; }));
  const RequestCounts counts = buckets_->CurrentFigures().requests[logs];
  EXPECT_EQ(counts.Of(Operation::kPut, CodeClass::k2xx), 2U);
  EXPECT_EQ(counts.Of(Operation::kGet, CodeClass::k4xx), 1U);
  EXPECT_EQ(counts.received, 8192U);
  EXPECT_EQ(buckets_->CurrentFigures().refused_reports, 0U);
}

TEST_F(RequestsTest, ClientsCannotMakeItKeepMoreThanItsBuckets) {
  const std::string logs = Create("logs");
  Count();
  for (int i = 0; i < 1000; ++i) {
    SendPuts("bucket-" + std::to_string(i), "1");
  }
  Send("nonsense\n" + std::string(100, '\xFF') + "\n");
  Send(std::string(20'000, 'x'));  // larger than any datagram of the gateway
  SendPuts("logs", "1");
  EXPECT_TRUE(Eventually([&] { return Puts(logs) == 1; }));
  const Figures figures = buckets_->CurrentFigures();
  EXPECT_EQ(figures.requests.size(), 1U);
  EXPECT_EQ(figures.elsewhere.Of(Operation::kPut, CodeClass::k2xx), 1000U);
  EXPECT_EQ(figures.refused_reports, 2U);
}

TEST_F(RequestsTest, OnlyTheGatewaysUserMayReport) {
  struct stat found{};
  ASSERT_EQ(lstat(Socket().c_str(), &found), 0);
  EXPECT_TRUE(S_ISSOCK(found.st_mode));
  EXPECT_EQ(found.st_mode & 07777U, 0600U);
  EXPECT_EQ(found.st_uid, geteuid()) << "the fixture's gateway is this user";
}

TEST_F(RequestsTest, AnotherStartTakesTheSocketsPlaceAndCountsFromZero) {
  const std::string logs = Create("logs");
  Count();
  SendPuts("logs", "4");
  EXPECT_TRUE(Eventually([&] { return Puts(logs) == 4; }));
  StopCounting();
  Restart();
  (void)buckets_->Round(Soon());
  Count();
  SendPuts("logs", "1");
  EXPECT_TRUE(Eventually([&] { return Puts(logs) == 1; }));
}

TEST_F(RequestsTest, ADeletedBucketLeavesNoCountsToTheNextOfItsName) {
  const std::string logs = Create("logs", {{"ondelete", "erase"}});
  Count();
  SendPuts("logs", "4");
  EXPECT_TRUE(Eventually([&] { return Puts(logs) == 4; }));
  ASSERT_TRUE(buckets_->Delete(logs, Soon()).has_value());
  const std::string again = Create("logs");
  SendPuts("logs", "1");
  EXPECT_TRUE(Eventually([&] { return Puts(again) == 1; }));
}

}  // namespace
}  // namespace quarry::bucket
