// A node with many volumes in use reboots, and every pod returns at the same moment. Before runs, the harness
// cuts the power and boots the guest, After runs. REBOOT_VOLUMES is the number of volumes, 24 by default.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

constexpr uint64_t kDataLength = 256 << 10;
constexpr char kPlaces[] = "/root/reboot";

// No VmTest: the group must outlive this process.
class Reboot : public testing::Test {
 protected:
  void Start() {
    auto started = QuarrydProcess::Start({});
    ASSERT_OK(started);
    quarryd_ = std::move(*started);
    ASSERT_OK(quarryd_->WaitReady(std::chrono::seconds(120)));
  }

  static size_t Count() {
    const char* text = std::getenv("REBOOT_VOLUMES");
    return text == nullptr ? 24 : std::stoul(text);
  }
  // Linear and raid1, with a file system and raw.
  static VolumeSpec Spec(size_t i) {
    return {"v" + std::to_string(i), TypeParameters(i % 4 < 3 ? "linear" : "raid1"),
            i % 2 == 0 ? MountCapability("ext4") : BlockCapability(), 8 * kMi};
  }
  static std::string Staging(size_t i) { return std::string(kPlaces) + "/staging-" + std::to_string(i); }
  static std::string Target(size_t i) { return std::string(kPlaces) + "/target-" + std::to_string(i); }
  static std::string Data(size_t i) {
    return Spec(i).capability.has_block() ? Target(i) : Target(i) + "/data";
  }

  static grpc::Status Use(CsiClient& client, const v1::Volume& volume, size_t i) {
    const VolumeSpec spec = Spec(i);
    if (auto staged = client.Stage(volume, Staging(i), spec.capability); !staged.ok()) {
      return staged.status;
    }
    return client.Publish(volume, Staging(i), Target(i), spec.capability).status;
  }

  std::unique_ptr<QuarrydProcess> quarryd_;
  CsiClient client_{kSocket};
};

TEST_F(Reboot, Before) {
  VolumeGroup group(kGroup, DiskNodes());
  group.Keep();
  ASSERT_OK(group.Make());
  Start();
  for (size_t i = 0; i < Count(); ++i) {
    auto made = client_.Create(Spec(i));
    ASSERT_OK(made);
    ASSERT_TRUE(Tool({"mkdir", "-p", Staging(i)}).ok());
    const grpc::Status used = Use(client_, made.value.volume(), i);
    ASSERT_TRUE(used.ok()) << used.error_message();
    ASSERT_OK(WritePattern(Data(i), i + 1, kDataLength));
  }
  ASSERT_TRUE(Sh(std::string("sync -f ") + kPlaces).ok());
  (void)quarryd_.release();  // the power cut ends it
}

TEST_F(Reboot, After) {
  VolumeGroup group(kGroup, DiskNodes());
  Start();
  auto listed = client_.List();
  ASSERT_OK(listed);
  ASSERT_EQ(listed.value.size(), Count());
  std::vector<v1::Volume> volumes(Count());
  for (size_t i = 0; i < Count(); ++i) {
    auto again = client_.Create(Spec(i));  // a repeated create returns the same volume
    ASSERT_OK(again);
    volumes[i] = again.value.volume();
  }
  ASSERT_EQ(client_.List().value.size(), Count());

  std::vector<double> seconds(Count());
  std::vector<grpc::Status> got(Count());
  {
    std::barrier all(static_cast<std::ptrdiff_t>(Count()));
    std::vector<std::jthread> pods;
    for (size_t i = 0; i < Count(); ++i) {
      pods.emplace_back([&, i] {
        CsiClient own(kSocket, std::chrono::minutes(10));
        all.arrive_and_wait();
        const auto begin = steady_clock::now();
        got[i] = Use(own, volumes[i], i);
        seconds[i] = duration<double>(steady_clock::now() - begin).count();
      });
    }
  }
  for (size_t i = 0; i < Count(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(got[i].ok()) << got[i].error_code() << ": " << got[i].error_message();
    EXPECT_OK(CheckPattern(Data(i), i + 1, kDataLength));
  }
  std::ranges::sort(seconds);
  printf("  %zu volumes staged and published at once: median %.2f s, p99 %.2f s, the last %.2f s\n", Count(),
         seconds[Count() / 2], seconds[std::min(Count() - 1, Count() * 99 / 100)], seconds.back());
  for (size_t i = 0; i < Count(); ++i) {
    EXPECT_OK(client_.Unpublish(volumes[i].volume_id(), Target(i)));
    EXPECT_OK(client_.Unstage(volumes[i].volume_id(), Staging(i)));
    EXPECT_OK(client_.Delete(volumes[i].volume_id()));
  }
  EXPECT_TRUE(Eventually([&] { return group.Lvs().has_value() && group.Lvs()->empty(); }, 600))
      << Tool({"lvs", "-a", kGroup}).out;
  EXPECT_EQ(quarryd_->Stop(), 0);
}

}  // namespace
}  // namespace quarry::vm
