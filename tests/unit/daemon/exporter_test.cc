// The metrics of a node on fakes: what each kind of disk reports, and what it does not.
#include "daemon/monitoring/exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "base/unix_socket.h"
#include "tests/fakes/fake_disk_health.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"
#include "tests/unit/bucket/buckets_fixture.h"
#include "tests/unit/engine/thin_node.h"

namespace quarry::daemon {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class ExporterTest : public ::testing::Test {
 protected:
  // The metrics of a pool with one disk that reports this.
  std::string TextWith(const udev::DiskHealth& health) {
    fakes::FakeLvm lvm;
    lvm.AddGroup("vg", Bytes{4 * kMiB.value}, {{"/dev/sda", Extents{50}}});
    lvm.SetMetadataRoom("vg", Bytes{40 * 1024});
    fakes::FakeDm dm;
    fakes::FakeErase erase;
    fakes::FakeMount mount(dm);
    const auto disks = std::make_shared<fakes::FakeDiskHealth>();
    disks->Say("/dev/sda", health);
    engine::EngineConfig config;
    config.pools = {{.name = "p", .group = "vg"}};
    engine::Engine engine(
        config,
        fakes::FakeWorld{
            .lvm = lvm, .dm = dm, .erase = erase, .mount = mount, .clock = clock_, .health = disks},
        log_);
    EXPECT_TRUE(engine.lifecycle().Start(CallWithin(seconds(20))).has_value());
    EXPECT_TRUE(engine.disks().PollDisks(CallWithin(seconds(20))).has_value());
    const Exporter exporter([] { return uint64_t{0}; });
    std::string text = exporter.Text(engine, fakes::NoCommands(), "1");
    (void)engine.lifecycle().Stop(CallWithin(seconds(20)));
    return text;
  }

  const SystemClock clock_;
  const Logger log_{LogLevel::kError, LogFormat::kText};
};

TEST_F(ExporterTest, ANvmeDiskHasSpareBlocksAndNoSectors) {
  const std::string text = TextWith(
      {.critical_warning = udev::kSpareLow, .available_spare = 50, .percentage_used = 25, .temperature = 40});
  EXPECT_THAT(text, AllOf(ContainsRegex("quarry_disk_available_spare_ratio\\{.*\\} 0.5\n"),
                          ContainsRegex("quarry_disk_percentage_used_ratio\\{.*\\} 0.25\n"),
                          ContainsRegex("quarry_disk_critical_warning\\{.*warning=\"spare\"\\} 1\n"),
                          Not(HasSubstr("quarry_disk_reallocated_sectors{")),
                          Not(HasSubstr("quarry_disk_grown_defects{"))));
}

TEST_F(ExporterTest, ASataDiskHasSectorsAndNoSpareBlocks) {
  udev::DiskHealth health{.source = udev::HealthSource::kAta, .critical_warning = udev::kReliabilityDegraded};
  health.temperature = 33;
  health.reallocated_sectors = 5;
  health.pending_sectors = 0;
  health.has_wear = false;
  const std::string text = TextWith(health);
  EXPECT_THAT(text, AllOf(ContainsRegex("quarry_disk_reallocated_sectors\\{.*\\} 5\n"),
                          ContainsRegex("quarry_disk_pending_sectors\\{.*\\} 0\n"),
                          ContainsRegex("quarry_disk_temperature_celsius\\{.*\\} 33\n"),
                          ContainsRegex("quarry_disk_critical_warning\\{.*warning=\"reliability\"\\} 1\n")));
  EXPECT_THAT(
      text, AllOf(Not(HasSubstr("quarry_disk_available_spare_ratio{")),
                  Not(HasSubstr("quarry_disk_media_errors_total{")),
                  Not(HasSubstr("quarry_disk_percentage_used_ratio{")),
                  Not(HasSubstr("quarry_disk_uncorrectable_sectors{")), Not(HasSubstr("warning=\"spare\""))));
}

TEST_F(ExporterTest, APoolHasItsFullestMetadataArea) {
  EXPECT_THAT(TextWith({}), AllOf(ContainsRegex("quarry_pool_metadata_free_bytes\\{pool=\"p\"\\} [1-9]"),
                                  ContainsRegex("quarry_pool_metadata_size_bytes\\{pool=\"p\"\\} [1-9]")));
}

TEST(StoreMetricsTest, AStoreHasItsFiguresAndItsMode) {
  engine::ThinNode node;
  node.Write(node.Make("one", 10), {0, 3});
  node.Restart({engine::ThinNode::Wanted("fast", 40), engine::ThinNode::Wanted("vast", 4000)});
  const Exporter exporter([] { return uint64_t{0}; });
  const auto text = [&] { return exporter.Text(*node.engine, fakes::NoCommands(), "1"); };
  const auto line = [](const std::string& metric, const std::string& store, uint64_t value) {
    return metric + "{pool=\"default\",store=\"" + store + "\"} " + std::to_string(value) + "\n";
  };
  EXPECT_THAT(text(), AllOf(HasSubstr(line("quarry_store_healthy", "fast", 1)),
                            HasSubstr(line("quarry_store_size_bytes", "fast", 160 * kMiB.value)),
                            HasSubstr(line("quarry_store_promised_bytes", "fast", 40 * kMiB.value)),
                            HasSubstr(line("quarry_store_free_bytes", "fast", 120 * kMiB.value)),
                            HasSubstr(line("quarry_store_volumes", "fast", 1)),
                            HasSubstr(line("quarry_store_degraded_legs", "fast", 0)),
                            HasSubstr(line("quarry_store_data_used_bytes", "fast", 2 * 131072)),
                            HasSubstr(line("quarry_store_metadata_used_bytes", "fast", 10 * 4096)),
                            HasSubstr(line("quarry_store_metadata_size_bytes", "fast", 1024 * 4096))));
  EXPECT_THAT(text(),
              AllOf(HasSubstr("quarry_store_mode{mode=\"rw\",pool=\"default\",store=\"fast\"} 1\n"),
                    HasSubstr("quarry_store_mode{mode=\"not-made\",pool=\"default\",store=\"vast\"} 1\n"),
                    HasSubstr(line("quarry_store_healthy", "vast", 0)),
                    Not(HasSubstr("quarry_store_size_bytes{pool=\"default\",store=\"vast\"}"))));
  node.dm.ChangeThinPool(node.PoolUuid(), [](auto& pool) { pool.mode = dm::ThinPoolStatus::Mode::kFailed; });
  EXPECT_THAT(text(),
              AllOf(HasSubstr("quarry_store_mode{mode=\"failed\",pool=\"default\",store=\"fast\"} 1\n"),
                    HasSubstr(line("quarry_store_healthy", "fast", 0)),
                    HasSubstr(line("quarry_store_free_bytes", "fast", 0)),
                    Not(HasSubstr("quarry_store_data_used_bytes{"))));
}

class BucketMetricsTest : public bucket::BucketsTest {
 protected:
  // What quarryd shows once the gateway's reports have been counted.
  std::string TextAfter(const std::string& reports) {
    std::string text;
    const std::jthread counter([&](const std::stop_token& stop) { buckets_->TakeReports(stop); });
    const std::string socket = (path_ / "s3/reports.sock").string();
    const sockaddr_un to = *UnixAddress(*AbsolutePath::Parse(socket));
    const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    EXPECT_GT(sendto(fd.get(), reports.data(), reports.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                     sizeof to),
              0);
    const Exporter exporter([] { return uint64_t{0}; });
    // The last report is none.
    for (int i = 0; i < 2000 && text.find("quarry_s3_gateway_refused_reports_total 1") == std::string::npos;
         ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      text = exporter.Text(*engine_, fakes::NoCommands(), "1", buckets_.get());
    }
    return text;
  }
};

TEST_F(BucketMetricsTest, ABucketHasItsRequestsByOperationAndStatus) {
  Create("logs");
  const std::string text = TextAfter(
      "versitygw.success_count:3|c|#action:PutObject,bucket:logs,status:200\n"
      "versitygw.bytes_written:4096|c|#action:PutObject,bucket:logs,status:200\n"
      "versitygw.failed_count:2|c|#action:GetObject,bucket:logs,status:403\n"
      "versitygw.failed_count:5|c|#action:GetObject,bucket:ghost,status:404\n"
      "nonsense\n");
  const auto line = [](const char* operation, const char* code, const char* number) {
    return std::string("quarry_bucket_requests_total{bucket=\"logs\",code=\"") + code + "\",operation=\"" +
           operation + "\",pool=\"p\"} " + number + "\n";
  };
  EXPECT_THAT(text, AllOf(HasSubstr("# TYPE quarry_bucket_requests_total counter\n"),
                          HasSubstr(line("put", "2xx", "3")), HasSubstr(line("get", "4xx", "2")),
                          HasSubstr(line("list", "5xx", "0"))));
  EXPECT_THAT(text, AllOf(HasSubstr("quarry_bucket_received_bytes_total{bucket=\"logs\",pool=\"p\"} 4096\n"),
                          HasSubstr("quarry_bucket_sent_bytes_total{bucket=\"logs\",pool=\"p\"} 0\n"),
                          HasSubstr("quarry_s3_gateway_other_requests_total{code=\"4xx\"} 5\n"),
                          Not(HasSubstr("ghost"))));
}

TEST_F(BucketMetricsTest, AFullGatewayIsNotHealthy) {
  const Exporter exporter([] { return uint64_t{0}; });
  gateway_ = Error(Code::kBusy, "all slots are taken");
  (void)buckets_->Round(Soon());
  EXPECT_THAT(exporter.Text(*engine_, fakes::NoCommands(), "1", buckets_.get()),
              AllOf(HasSubstr("quarry_s3_gateway_healthy 0\n"), HasSubstr("quarry_s3_gateway_full 1\n")));
}

}  // namespace
}  // namespace quarry::daemon
