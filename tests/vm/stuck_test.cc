// A disk that does not answer at all: LVM commands for it hang and cannot be killed. They are counted and
// named, no more are started beyond the limit, and calls that need neither that disk nor LVM go on.
#include <httplib.h>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using grpc::StatusCode;
using std::chrono::seconds;

constexpr char kMetrics[] = "/run/quarry-test/metrics.sock";
constexpr uint64_t kLength = 1 << 20;

std::string Metrics() {
  httplib::Client http(kMetrics);
  http.set_address_family(AF_UNIX);
  const auto answer = http.Get("/metrics");
  return answer && answer->status == 200 ? answer->body : std::string();
}

// The value of the line that begins with `name`, or -1 if there is none.
double Metric(const std::string& name) {
  for (const std::string& line : Lines(Metrics())) {
    if (line.starts_with(name + " ")) {
      return std::stod(line.substr(name.size() + 1));
    }
  }
  return -1;
}

class StuckTest : public VmTest {
 protected:
  bool StartsQuarryd() const override { return false; }

  // A volume that has no extent on the first disk.
  v1::Volume AwayFromTheFirstDisk() {
    v1::Volume found;
    for (int i = 0; i < 64 && found.volume_id().empty() && !HasFailure(); ++i) {
      const v1::Volume made = MustCreate({"v" + std::to_string(i), {}, MountCapability("ext4"), 256 * kMi});
      const auto legs = group().LegDevices(LvOf(made));
      EXPECT_OK(legs);
      if (legs.has_value() && !legs->front().contains(group().devices().front())) {
        found = made;
      } else {
        others_.push_back(made.volume_id());
      }
    }
    return found;
  }

  std::vector<std::string> others_;
};

TEST_F(StuckTest, StuckProcessesAreCountedAndLimitedWhileOtherCallsGoOn) {
  QuarrydOptions options;
  options.arguments = {"--stuck-limit=2", std::string("--metrics-address=unix://") + kMetrics};
  StartQuarryd(options);
  const v1::Volume well = AwayFromTheFirstDisk();
  ASSERT_FALSE(well.volume_id().empty());
  const std::string staging = StagingPath("well");
  const std::string target = TargetPath("well");
  ASSERT_OK(client().Stage(well, staging, MountCapability("ext4")));
  ASSERT_OK(client().Publish(well, staging, target, MountCapability("ext4")));
  ASSERT_OK(WritePattern(target + "/data", 5, kLength));
  EXPECT_EQ(Metric("quarry_stuck_processes"), 0);
  EXPECT_EQ(Metric("quarry_pool_volumes{pool=\"main\"}"), static_cast<double>(others_.size() + 1));
  EXPECT_GT(Metric("quarry_profile_capacity_bytes{pool=\"main\",profile=\"raid1\"}"), 0);
  EXPECT_GE(Metric("quarry_rpc_duration_seconds_count{code=\"OK\",method=\"CreateVolume\",service=\"csi.v1."
                   "Controller\"}"),
            1)
      << Metrics();
  EXPECT_GE(Metric("quarry_lvm_command_duration_seconds_count{verb=\"lvcreate\"}"), 1);

  ASSERT_TRUE(Tool({"vmctl", "stall", "1"}).ok());
  CsiClient hurried(kSocket, seconds(8));
  std::string last;
  EXPECT_TRUE(Eventually(
      [&] {
        const auto made = hurried.Create({"late"});
        EXPECT_FALSE(made.ok()) << "a create succeeded while a disk does not answer";
        last = made.text();
        printf("  CreateVolume: %d %s\n", made.code(), last.substr(0, 200).c_str());
        return last.find("not started: 2 processes are stuck in the kernel") != std::string::npos;
      },
      240))
      << last;
  const auto stuck_are = [](int count) {  // metrics may be a second old
    return Eventually([&] { return Metric("quarry_stuck_processes") == count; });
  };
  EXPECT_TRUE(stuck_are(2));
  EXPECT_TRUE(Fails(client().Probe(), StatusCode::FAILED_PRECONDITION, "stuck in the kernel"));
  EXPECT_OK(client().List());
  EXPECT_OK(CheckPattern(target + "/data", 5, kLength));
  EXPECT_OK(client().Stats(well.volume_id(), target));
  EXPECT_OK(client().Unpublish(well.volume_id(), target));
  EXPECT_OK(client().Unstage(well.volume_id(), staging));
  EXPECT_TRUE(stuck_are(2)) << "one of these calls started a process that hangs";

  ASSERT_TRUE(Tool({"vmctl", "unstall", "1"}).ok());
  EXPECT_TRUE(Eventually([&] { return client().Probe().ok(); })) << client().Probe().text();
  EXPECT_TRUE(stuck_are(0));
  const v1::Volume late = MustCreate({"late"});
  others_.push_back(late.volume_id());
  others_.push_back(well.volume_id());
  for (const std::string& id : others_) {
    EXPECT_OK(client().Delete(id));
  }
}

}  // namespace
}  // namespace quarry::vm
