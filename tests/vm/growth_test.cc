// Volumes grow under load: a writer never stops while a file system, or the raw device, grows below it again
// and again. No write may fail, and no byte may be lost. Also: staging finishes the growth of a volume that
// grew while it was not in use.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "tests/vm/fixture.h"
#include "tests/vm/kit/writer.h"

namespace quarry::vm {
namespace {

constexpr int64_t kFirstSize = 320 * kMi;
constexpr int64_t kStep = 64 * kMi;
constexpr int kSteps = 3;

struct Case {
  std::string type;     // of the volume
  std::string content;  // file system, or "block"
};

class GrowthTest : public VmTest, public testing::WithParamInterface<Case> {
 protected:
  bool raw() const { return GetParam().content == "block"; }
  v1::VolumeCapability How() const { return raw() ? BlockCapability() : MountCapability(GetParam().content); }
  // The size that the kernel reports.
  int64_t SizeAt(const std::string& target) {
    if (!raw()) {
      const auto stats = Words(Tool({"stat", "-f", "-c", "%b %S", target}).out);
      return std::stoll(stats.at(0)) * std::stoll(stats.at(1));
    }
    const UniqueFd fd(::open(target.c_str(), O_RDONLY | O_CLOEXEC));
    uint64_t bytes = 0;
    return ::ioctl(fd.get(), BLKGETSIZE64, &bytes) == 0 ? static_cast<int64_t>(bytes) : -1;
  }
};

TEST_P(GrowthTest, GrowthUnderAWriterLosesNothing) {
  const v1::Volume volume = MustCreate({"grows", TypeParameters(GetParam().type), How(), kFirstSize});
  ASSERT_FALSE(volume.volume_id().empty());
  const std::string& id = volume.volume_id();
  const std::string staging = StagingPath("grows");
  const std::string target = TargetPath("grows");
  ASSERT_OK(client().Stage(volume, staging, How()));
  ASSERT_OK(client().Publish(volume, staging, target, How()));
  const int64_t before = SizeAt(target);
  Writer writer(target, raw());
  int64_t size = kFirstSize;
  for (int step = 0; step < kSteps; ++step) {
    size += kStep;
    const uint64_t turns = writer.turns();
    ASSERT_OK(client().Expand(id, size));
    ASSERT_OK(client().NodeExpand(id, target, staging, size));
    EXPECT_GE(SizeAt(target), before + (step + 1) * (kStep - kStep / 8));
    EXPECT_TRUE(Eventually([&] { return writer.turns() > turns + 8; })) << "the writer has stopped";
  }
  EXPECT_OK(writer.StopAndCheck());

  // Once more while the volume is not in use.
  ASSERT_OK(client().Unpublish(id, target));
  ASSERT_OK(client().Unstage(id, staging));
  size += kStep;
  ASSERT_OK(client().Expand(id, size));
  ASSERT_OK(client().Stage(volume, staging, How()));
  ASSERT_OK(client().Publish(volume, staging, target, How()));
  EXPECT_GE(SizeAt(target), before + (kSteps + 1) * (kStep - kStep / 8)) << "without NodeExpandVolume";
  EXPECT_OK(client().Unpublish(id, target));
  EXPECT_OK(client().Unstage(id, staging));
  EXPECT_OK(client().Delete(id));
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* type : {"linear", "raid1"}) {
    for (const char* content : {"ext4", "xfs", "btrfs", "block"}) {
      cases.push_back({type, content});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Of, GrowthTest, testing::ValuesIn(Cases()), [](const auto& instance) {
  return instance.param.type + "_" + instance.param.content;
});

}  // namespace
}  // namespace quarry::vm
