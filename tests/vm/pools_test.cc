// Three pools on three disks. One disk is pulled, later another one is made silent. The third pool serves as
// before, pods of the unreadable pools end, and each pool is served again when its disk returns, without a
// restart. Needs three disks.
#include <httplib.h>

#include <chrono>
#include <map>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using grpc::StatusCode;
using std::chrono::duration;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr char kMetrics[] = "/run/quarry-test/metrics.sock";
constexpr uint64_t kLength = 1 << 20;
constexpr int kPulled = 1;
constexpr int kSilent = 2;

void Vmctl(const std::string& verb, int disk) {
  const Outcome outcome = Tool({"vmctl", verb, std::to_string(disk)});
  ASSERT_TRUE(outcome.ok()) << outcome.err;
}

// The value of the metric's line, or -1 if there is none.
double Metric(const std::string& name) {
  httplib::Client http(kMetrics);
  http.set_address_family(AF_UNIX);
  http.set_read_timeout(20);
  const auto answer = http.Get("/metrics");
  for (const std::string& line : Lines(answer ? answer->body : "")) {
    if (line.starts_with(name + " ")) {
      return std::stod(line.substr(name.size() + 1));
    }
  }
  return -1;
}

double Readable(const std::string& pool) {
  return Metric("quarry_pool_readable{pool=\"" + pool + "\"}");
}

// A volume in use by a pod.
struct Pod {
  v1::Volume volume;
  v1::VolumeCapability capability;
  std::string staging, target;
};

class PoolsTest : public testing::Test {
 protected:
  // The pools that become unreadable come before the one that stays.
  void SetUp() override {
    ASSERT_EQ(DiskNodes().size(), 3U);
    const std::vector<std::string> names = {"pulled", "silent", "good"};
    for (size_t i = 0; i < names.size(); ++i) {
      groups_.push_back(
          std::make_unique<VolumeGroup>("vg" + names[i], std::vector{DiskNode(static_cast<int>(i) + 1)}));
      ASSERT_OK(groups_.back()->Make());
      options_.pools.resize(i);
      options_.pools.push_back(names[i] + "=vg" + names[i]);
    }
    options_.arguments = {std::string("--metrics-address=unix://") + kMetrics, "--ephemeral-max-size=1GiB",
                          "--repair-delay=3600"};
    Start();
    const auto node = client_.NodeInfo();
    ASSERT_OK(node);
    here_ = node.value.accessible_topology();
  }
  void TearDown() override {
    Tool({"vmctl", "return", std::to_string(kPulled)});
    Tool({"vmctl", "unstall", std::to_string(kSilent)});
    if (HasFailure() && quarryd_ != nullptr) {
      fprintf(stderr, "quarryd's log:\n%s\n", quarryd_->Log().c_str());
    }
  }

  void Start() {
    auto started = QuarrydProcess::Start(options_);
    ASSERT_OK(started);
    quarryd_ = std::move(*started);
    ASSERT_OK(quarryd_->WaitReady());
  }

  static v1::CreateVolumeRequest Request(const std::string& name, const std::string& pool,
                                         const v1::VolumeCapability& capability = MountCapability()) {
    return CsiClient::CreateRequest({name, {{"pool", pool}}, capability, 32 * kMi});
  }
  // The request of Kubernetes' provisioner when it has chosen this node.
  Reply<v1::CreateVolumeResponse> CreateJustHere(const std::string& name, const std::string& pool) {
    auto request = Request(name, pool);
    *request.mutable_accessibility_requirements()->add_requisite() = here_;
    return client_.Invoke(client_.controller(), &v1::Controller::Stub::CreateVolume, request);
  }
  Pod Use(const std::string& name, const std::string& pool, const v1::VolumeCapability& capability) {
    Pod pod{.volume = {},
            .capability = capability,
            .staging = "/run/quarry-test/mnt/" + name,
            .target = "/run/quarry-test/pod-" + name + "/volume"};
    Tool({"mkdir", "-p", pod.staging, "/run/quarry-test/pod-" + name});
    auto made = client_.Create({name, {{"pool", pool}}, capability, 32 * kMi});
    EXPECT_OK(made);
    pod.volume = made.value.volume();
    EXPECT_OK(client_.Stage(pod.volume, pod.staging, capability));
    EXPECT_OK(client_.Publish(pod.volume, pod.staging, pod.target, capability));
    return pod;
  }
  static bool IsMounted(const std::string& path) { return Tool({"mountpoint", "-q", path}).ok(); }
  void Unpublish(const Pod& pod) {
    EXPECT_OK(client_.Unpublish(pod.volume.volume_id(), pod.target));
    EXPECT_FALSE(IsMounted(pod.target));
  }
  void End(const Pod& pod) {
    Unpublish(pod);
    EXPECT_OK(client_.Unstage(pod.volume.volume_id(), pod.staging));
    EXPECT_FALSE(IsMounted(pod.staging));
  }
  static v1::NodePublishVolumeRequest Inline(const std::string& handle, const std::string& pool,
                                             const std::string& target) {
    v1::NodePublishVolumeRequest request;
    request.set_volume_id(handle);
    request.set_target_path(target);
    *request.mutable_volume_capability() = MountCapability();
    (*request.mutable_volume_context())["csi.storage.k8s.io/ephemeral"] = "true";
    (*request.mutable_volume_context())["size"] = "32MiB";
    (*request.mutable_volume_context())["pool"] = pool;
    return request;
  }

  // The whole life of a volume of the remaining pool, and the node's other calls meanwhile.
  void ExpectGoodServes(const std::string& name) {
    const auto begin = steady_clock::now();
    const Pod pod = Use(name, "good", MountCapability("ext4"));
    ASSERT_FALSE(HasFailure());
    EXPECT_OK(WritePattern(pod.target + "/data", 3, kLength));
    EXPECT_OK(CheckPattern(pod.target + "/data", 3, kLength));
    EXPECT_OK(client_.Stats(pod.volume.volume_id(), pod.target));
    EXPECT_OK(client_.Expand(pod.volume.volume_id(), 48 * kMi));
    const auto probed = client_.Probe();
    EXPECT_OK(probed);
    EXPECT_TRUE(probed.value.ready().value());
    const auto capacity = client_.Capacity({{"pool", "good"}});
    EXPECT_OK(capacity);
    EXPECT_GT(capacity.value.available_capacity(), 0);
    End(pod);
    EXPECT_OK(client_.Delete(pod.volume.volume_id()));
    EXPECT_EQ(Metric("quarry_ready"), 1);
    EXPECT_EQ(Readable("good"), 1);
    const double took = duration<double>(steady_clock::now() - begin).count();
    printf("  a volume's life in the remaining pool: %.1f s\n", took);
    EXPECT_LT(took, 30) << "a call waited for another pool";
  }

  QuarrydOptions options_;
  std::vector<std::unique_ptr<VolumeGroup>> groups_;
  std::unique_ptr<QuarrydProcess> quarryd_;
  CsiClient client_{kSocket, seconds(60)};
  v1::Topology here_;
};

TEST_F(PoolsTest, AnUnreadablePoolFailsOnlyItsOwnCalls) {
  const Pod kept = Use("kept", "good", MountCapability("ext4"));
  ASSERT_OK(WritePattern(kept.target + "/data", 5, kLength));
  std::map<std::string, Pod> pods;
  for (const std::string pool : {"pulled", "silent"}) {
    pods[pool + "-mounted"] = Use(pool + "-mounted", pool, MountCapability("ext4"));
    pods[pool + "-raw"] = Use(pool + "-raw", pool, BlockCapability());
  }
  pods["late-mounted"] = Use("late-mounted", "pulled", MountCapability("xfs"));
  pods["late-raw"] = Use("late-raw", "pulled", BlockCapability());
  Tool({"mkdir", "-p", "/run/quarry-test/pod-inline"});
  const std::string inline_target = "/run/quarry-test/pod-inline/volume";
  ASSERT_OK(client_.Invoke(client_.node(), &v1::Node::Stub::NodePublishVolume,
                           Inline("csi-inline", "pulled", inline_target)));
  ASSERT_FALSE(HasFailure());

  printf("One disk is pulled.\n");
  ASSERT_NO_FATAL_FAILURE(Vmctl("pull", kPulled));
  EXPECT_TRUE(Eventually([&] { return Readable("pulled") == 0; }));
  ASSERT_NO_FATAL_FAILURE(ExpectGoodServes("pulled-1"));
  const auto nothing = client_.Capacity({{"pool", "pulled"}});
  EXPECT_OK(nothing);
  EXPECT_EQ(nothing.value.available_capacity(), 0);
  EXPECT_TRUE(Fails(CreateJustHere("no", "pulled"), StatusCode::RESOURCE_EXHAUSTED, "pulled"));
  EXPECT_FALSE(client_.List().ok()) << "a list without the pool's volumes would report them deleted";
  End(pods["pulled-mounted"]);
  End(pods["pulled-raw"]);
  EXPECT_OK(client_.Unpublish("csi-inline", inline_target));
  EXPECT_FALSE(IsMounted(inline_target));

  printf("quarryd is killed.\n");
  quarryd_->Kill();
  const auto killed = steady_clock::now();
  ASSERT_NO_FATAL_FAILURE(Start());
  printf("  ready again after %.1f s\n", duration<double>(steady_clock::now() - killed).count());
  EXPECT_EQ(Readable("pulled"), 0);
  ASSERT_NO_FATAL_FAILURE(ExpectGoodServes("pulled-2"));
  End(pods["late-mounted"]);
  End(pods["late-raw"]);
  EXPECT_TRUE(Fails(CreateJustHere("no", "pulled"), StatusCode::RESOURCE_EXHAUSTED, "pulled"));
  EXPECT_TRUE(Fails(
      client_.Invoke(client_.controller(), &v1::Controller::Stub::CreateVolume, Request("no", "pulled")),
      StatusCode::UNAVAILABLE, "pulled"));
  EXPECT_OK(CheckPattern(kept.target + "/data", 5, kLength));

  printf("Another disk does not answer.\n");
  ASSERT_NO_FATAL_FAILURE(Vmctl("stall", kSilent));
  ASSERT_NO_FATAL_FAILURE(ExpectGoodServes("silent-1"));
  EXPECT_EQ(Readable("silent"), 0);
  EXPECT_EQ(Readable("pulled"), 0);
  Unpublish(pods["silent-mounted"]);
  End(pods["silent-raw"]);
  ASSERT_NO_FATAL_FAILURE(ExpectGoodServes("silent-2"));
  EXPECT_OK(CheckPattern(kept.target + "/data", 5, kLength));

  printf("quarryd is killed again.\n");
  quarryd_->Kill();
  const auto again_killed = steady_clock::now();
  ASSERT_NO_FATAL_FAILURE(Start());
  printf("  ready again after %.1f s\n", duration<double>(steady_clock::now() - again_killed).count());
  ASSERT_NO_FATAL_FAILURE(ExpectGoodServes("silent-3"));
  EXPECT_EQ(Readable("silent"), 0);
  EXPECT_OK(CheckPattern(kept.target + "/data", 5, kLength));

  printf("Both disks return.\n");
  const pid_t process = quarryd_->pid();
  ASSERT_NO_FATAL_FAILURE(Vmctl("unstall", kSilent));
  EXPECT_TRUE(Eventually([&] { return Readable("silent") == 1; }));
  End(pods["silent-mounted"]);
  ASSERT_NO_FATAL_FAILURE(Vmctl("return", kPulled));
  EXPECT_TRUE(Eventually([&] { return Readable("pulled") == 1; }));
  EXPECT_EQ(quarryd_->pid(), process);
  EXPECT_TRUE(quarryd_->Running());
  EXPECT_OK(client_.List());
  const Pod again = Use("again", "pulled", MountCapability("ext4"));
  End(again);
  EXPECT_OK(client_.Delete(again.volume.volume_id()));
  for (const auto& [name, pod] : pods) {
    EXPECT_OK(client_.Delete(pod.volume.volume_id())) << name;
  }
  End(kept);
  EXPECT_OK(client_.Delete(kept.volume.volume_id()));
  for (const auto& group : groups_) {
    if (group->name() != "vgpulled") {
      EXPECT_TRUE(Eventually([&] { return group->Lvs().has_value() && group->Lvs()->empty(); }))
          << group->name();
    }
  }
  EXPECT_EQ(quarryd_->Stop(), 0);
}

}  // namespace
}  // namespace quarry::vm
