// A disk reports itself failing: new volumes avoid it, and its volumes report it. When the disk withdraws the
// report, everything is as before. Needs three NVMe disks.
#include <httplib.h>

#include <set>

#include <nlohmann/json.hpp>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kMetrics[] = "/run/quarry-test/metrics.sock";
constexpr int kReliabilityDegraded = 4;

class WearTest : public VmTest {
 protected:
  bool StartsQuarryd() const override { return false; }
  void SetUp() override {
    VmTest::SetUp();
    QuarrydOptions options;
    options.arguments = {"--health-interval=1", std::string("--metrics-address=unix://") + kMetrics};
    StartQuarryd(options);
  }
  void TearDown() override {
    for (const int number : warned_) {
      Warn(number, 0);
    }
    VmTest::TearDown();
  }

  void Warn(int number, int bits) {
    const Outcome done = Tool({"vmctl", "warn", std::to_string(number), std::to_string(bits)});
    ASSERT_TRUE(done.ok()) << done.err;
    warned_.insert(number);
  }

  static json Ask(const std::string& what) {
    const Outcome told = Tool({"quarryctl", what, "--json", "--endpoint", kAdminEndpoint});
    EXPECT_TRUE(told.ok()) << told.err;
    return json::parse(told.out, nullptr, false);
  }
  // The disk's row from quarryctl.
  static json Row(int number) {
    for (const json& row : Ask("devices")) {
      if (row.value("serial", "") == "quarry" + std::to_string(number)) {
        return row;
      }
    }
    return json::object();
  }
  static json Disk(const std::string& pv_uuid) {
    const json status = Ask("status");
    for (const json& disk : status.at("pools").at(0).at("disks")) {
      if (disk.value("pv_uuid", "") == pv_uuid) {
        return disk;
      }
    }
    return json::object();
  }
  static std::string ConditionOf(const v1::Volume& volume) {
    const json status = Ask("status");
    for (const json& row : status.at("pools").at(0).at("volumes")) {
      if (row.value("volume_id", "") == volume.volume_id()) {
        return row.value("condition", "") + ": " + row.value("detail", "");
      }
    }
    return "";
  }
  static double Metric(const std::string& name) {
    httplib::Client http(kMetrics);
    http.set_address_family(AF_UNIX);
    const auto answer = http.Get("/metrics");
    for (const std::string& line : Lines(answer ? answer->body : "")) {
      if (line.starts_with(name + " ")) {
        return std::stod(line.substr(name.size() + 1));
      }
    }
    return -1;
  }
  std::set<std::string> DevicesOf(const v1::Volume& volume) const {
    std::set<std::string> out;
    const auto legs = group().LegDevices(LvOf(volume));
    EXPECT_OK(legs);
    for (const auto& leg : legs.has_value() ? *legs : std::vector<std::set<std::string>>()) {
      out.insert(leg.begin(), leg.end());
    }
    return out;
  }
  int64_t Capacity() {
    const auto capacity = client().Capacity();
    EXPECT_OK(capacity);
    return capacity.value.available_capacity();
  }
  // The number of log lines that contain both texts.
  size_t Logged(const std::string& one, const std::string& other) {
    size_t count = 0;
    for (const std::string& line : Lines(quarryd().Log())) {
      count += line.find(one) != std::string::npos && line.find(other) != std::string::npos ? 1 : 0;
    }
    return count;
  }

  std::set<int> warned_;
};

TEST_F(WearTest, AFailingDiskIsExcludedAndReportedUntilItRecovers) {
  const v1::Volume there = MustCreate({"there", TypeParameters("linear"), MountCapability(), 24 * kMi});
  ASSERT_FALSE(HasFailure());
  const std::string node = *DevicesOf(there).begin();
  int number = 1;
  while (number < 3 && DiskNode(number) != node) {
    ++number;
  }
  // The disk's report while it is healthy.
  ASSERT_TRUE(Eventually([&] { return Row(number)["health"].is_object(); })) << Row(number).dump();
  const json well = Row(number);
  EXPECT_EQ(well["health"]["critical_warning"], 0);
  EXPECT_GT(well["health"]["temperature_celsius"], 0);
  EXPECT_LT(well["health"]["temperature_celsius"], 100);
  EXPECT_EQ(well["health"]["percentage_used"], 0);
  const std::string pv = well.value("pv_uuid", "");
  ASSERT_EQ(Disk(pv)["state"], "ok");
  const std::string labels = R"({pool="main",pv=")" + pv + R"(")";
  EXPECT_EQ(Metric("quarry_disk_critical_warning" + labels + R"(,warning="reliability"})"), 0);
  EXPECT_GE(Metric("quarry_disk_media_errors_total" + labels + "}"), 0);
  const int64_t before = Capacity();

  Warn(number, kReliabilityDegraded);
  ASSERT_TRUE(Eventually([&] { return Disk(pv)["state"] == "failing"; })) << Disk(pv).dump();
  EXPECT_THAT(Disk(pv).value("detail", ""), HasSubstr("not reliable"));
  EXPECT_THAT(Row(number).value("reason", ""), HasSubstr("it is failing"));
  EXPECT_EQ(Row(number)["health"]["critical_warning"], kReliabilityDegraded);
  const std::string warning = "quarry_disk_critical_warning" + labels + R"(,warning="reliability"})";
  EXPECT_TRUE(Eventually([&] { return Metric(warning) == 1; })) << "a page may be one second old";
  EXPECT_THAT(ConditionOf(there), HasSubstr("degraded: leg 0 of 1 lies on a disk that is failing"));
  EXPECT_LT(Capacity(), before * 3 / 4) << "the space of a failing disk counts as capacity";
  for (int i = 0; i < 3; ++i) {
    const std::string type = i % 2 == 0 ? "linear" : "raid1";
    const v1::Volume made =
        MustCreate({"v" + std::to_string(i), TypeParameters(type), MountCapability(), 24 * kMi});
    ASSERT_FALSE(HasFailure());
    EXPECT_FALSE(DevicesOf(made).contains(node)) << type;
    EXPECT_THAT(ConditionOf(made), Not(HasSubstr("failing")));
  }
  EXPECT_TRUE(Fails(client().Create({"wide", TypeParameters("raid5"), MountCapability(), 24 * kMi}),
                    grpc::StatusCode::RESOURCE_EXHAUSTED, "excluded as failing: PV " + pv));
  EXPECT_TRUE(Eventually([&] { return Logged("condition has changed", there.volume_id()) == 1; }));

  Warn(number, 0);
  ASSERT_TRUE(Eventually([&] { return Disk(pv)["state"] == "ok"; })) << Disk(pv).dump();
  EXPECT_EQ(ConditionOf(there), "healthy: ");
  const v1::Volume wide = MustCreate({"wide", TypeParameters("raid5"), MountCapability(), 24 * kMi});
  ASSERT_FALSE(HasFailure());
  EXPECT_TRUE(DevicesOf(wide).contains(node));
  EXPECT_TRUE(Eventually([&] { return Logged("condition has changed", there.volume_id()) == 2; }));
  EXPECT_EQ(Logged("disk health changed", pv), 2U) << "one line for each change";
  const auto rest = client().List();
  ASSERT_OK(rest);
  for (const v1::Volume& volume : rest.value) {
    EXPECT_OK(client().Delete(volume.volume_id()));
  }
}

}  // namespace
}  // namespace quarry::vm
