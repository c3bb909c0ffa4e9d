// How the node calls handle paths through links, device nodes that a tenant made, and a file system that does
// not grow.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/engine.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {
namespace {

using ::testing::HasSubstr;

constexpr Bytes kExtent{4 * 1024 * 1024};

AbsolutePath Path(const std::string& text) {
  return *AbsolutePath::Parse(text);
}

// The orchestrator's folder is /kubelet, a link to /data/kubelet.
class NodePathsTest : public testing::Test {
 protected:
  NodePathsTest() {
    lvm_.AddGroup("vg0", kExtent, {{"/dev/a", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory("/data/kubelet/plugins");
    mount_.AddDirectory("/data/kubelet/pods");
    mount_.AddLink("/kubelet", "/data/kubelet");
    Restart();
  }

  void Restart() {
    engine_ = std::make_unique<Engine>(EngineConfig{.pools = {{.name = "main", .group = "vg0"}}},
                                       fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    EXPECT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }
  static Call Soon() { return CallWithin(std::chrono::seconds(20)); }
  std::string Create(AccessType access = AccessType::kMount) {
    const auto made = engine_->volumes().Create({.name = "v",
                                                 .range = {ToBytes(Extents{8}, kExtent), {}},
                                                 .capabilities = {{.access = access}},
                                                 .parameters = {}},
                                                Soon());
    EXPECT_TRUE(made.has_value());
    return made->volume.id;
  }
  Status Stage(const std::string& id, const std::string& path = "/kubelet/plugins/v") {
    return engine_->volumes().Stage({id, Path(path), {}}, Soon());
  }
  Status Unstage(const std::string& id, const std::string& path = "/kubelet/plugins/v") {
    return engine_->volumes().Unstage(id, Path(path), Soon());
  }
  Status Publish(const std::string& id, const std::string& target, Capability capability = {}) {
    return engine_->volumes().Publish({id, Path("/kubelet/plugins/v"), Path(target), capability, false},
                                      Soon());
  }
  Status Unpublish(const std::string& id, const std::string& target) {
    return engine_->volumes().Unpublish(id, Path(target), Soon());
  }
  static std::string Words(const Status& status) {
    return status.has_value() ? "" : status.error().message();
  }
  size_t MountsOf(const std::string& fs_type) {
    const auto table = mount_.Mounts();
    return static_cast<size_t>(std::count_if(table->entries().begin(), table->entries().end(),
                                             [&](const auto& entry) { return entry.fs_type == fs_type; }));
  }
  std::string Logged() const {
    std::array<char, 8192> text{};
    const ssize_t length = pread(log_fd_.get(), text.data(), text.size(), 0);
    return {text.data(), static_cast<size_t>(std::max<ssize_t>(length, 0))};
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  UniqueFd log_fd_{memfd_create("log", MFD_CLOEXEC)};
  Logger log_{LogLevel::kWarning, LogFormat::kText, log_fd_.get()};
  std::unique_ptr<Engine> engine_;
};

constexpr Capability kRaw{.access = AccessType::kBlock};

TEST_F(NodePathsTest, AMountedVolumeLivesBehindALinkedFolder) {
  const std::string id = Create();
  const size_t before = MountsOf("ext4");
  for (int i = 0; i < 2; ++i) {
    const Status staged = Stage(id);
    ASSERT_TRUE(staged.has_value()) << Words(staged);
    EXPECT_EQ(MountsOf("ext4"), before + 1);
  }
  for (int i = 0; i < 2; ++i) {
    const Status published = Publish(id, "/kubelet/pods/a");
    ASSERT_TRUE(published.has_value()) << Words(published);
    EXPECT_EQ(MountsOf("ext4"), before + 2);
  }
  ASSERT_TRUE(
      engine_->volumes().Expand(id, {ToBytes(Extents{16}, kExtent), {}}, std::nullopt, Soon()).has_value());
  for (const char* path : {"/kubelet/pods/a", "/data/kubelet/pods/a", "/kubelet/plugins/v"}) {
    EXPECT_TRUE(engine_->volumes().Stats(id, path, Soon()).has_value()) << path;
    EXPECT_TRUE(engine_->volumes().NodeExpand({id, path, {}}, Soon()).has_value()) << path;
  }
  EXPECT_EQ(engine_->volumes().Stats(id, "/kubelet/pods/b", Soon()).error().code(), Code::kNotFound);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Unpublish(id, "/kubelet/pods/a").has_value());
    EXPECT_EQ(MountsOf("ext4"), before + 1);
    EXPECT_FALSE(mount_.Exists("/data/kubelet/pods/a"));
  }
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Unstage(id).has_value());
    EXPECT_EQ(MountsOf("ext4"), before);
  }
  EXPECT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
}

TEST_F(NodePathsTest, ARawVolumeLivesBehindALinkedFolder) {
  const std::string id = Create(AccessType::kBlock);
  ASSERT_TRUE(engine_->volumes().Stage({id, Path("/kubelet/plugins/v"), kRaw}, Soon()).has_value());
  for (int i = 0; i < 2; ++i) {
    const Status published = Publish(id, "/kubelet/pods/dev", kRaw);
    ASSERT_TRUE(published.has_value()) << Words(published);
  }
  EXPECT_TRUE(engine_->volumes().Stats(id, "/kubelet/pods/dev", Soon()).has_value());
  EXPECT_EQ(engine_->volumes().Delete(id, Soon()).error().code(), Code::kPrecondition);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Unpublish(id, "/kubelet/pods/dev").has_value());
    EXPECT_FALSE(mount_.Exists("/data/kubelet/pods/dev"));
    ASSERT_TRUE(Unstage(id).has_value());
  }
  EXPECT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
}

TEST_F(NodePathsTest, AMountBehindADeadLinkIsNotForgotten) {
  const std::string id = Create();
  ASSERT_TRUE(Stage(id).has_value());
  ASSERT_TRUE(Publish(id, "/kubelet/pods/a").has_value());
  mount_.AddLink("/kubelet", "/nowhere");
  for (const Status& refused :
       {Unstage(id), Unpublish(id, "/kubelet/pods/a"), Stage(id), Publish(id, "/kubelet/pods/a")}) {
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), Code::kPrecondition) << Words(refused);
    EXPECT_THAT(Words(refused), HasSubstr("/kubelet leads nowhere"));
  }
  EXPECT_THAT(Words(Unstage(id)), HasSubstr("mounted at /data/kubelet/"));
  EXPECT_EQ(engine_->volumes().Stats(id, "/kubelet/pods/a", Soon()).error().code(), Code::kNotFound);
  mount_.RemoveLink("/kubelet");
  EXPECT_EQ(Unstage(id).error().code(), Code::kPrecondition) << "still mounted";
  mount_.AddLink("/kubelet", "/data/kubelet");
  ASSERT_TRUE(Unpublish(id, "/kubelet/pods/a").has_value());
  ASSERT_TRUE(Unstage(id).has_value());
  mount_.RemoveLink("/kubelet");
  EXPECT_TRUE(Unstage(id).has_value()) << "nothing is mounted anywhere";
  mount_.AddLink("/kubelet", "/nowhere");
  EXPECT_TRUE(Unstage(id).has_value());
  EXPECT_TRUE(Unpublish(id, "/kubelet/pods/a").has_value());
}

TEST_F(NodePathsTest, UnpublishingAMissingFolderIgnoresOtherPods) {
  const std::string id = Create();
  ASSERT_TRUE(Stage(id).has_value());
  ASSERT_TRUE(Publish(id, "/kubelet/pods/a").has_value());
  EXPECT_TRUE(Unpublish(id, "/kubelet/pods/gone/mount").has_value());
}

TEST_F(NodePathsTest, APathThatCannotBeInspectedIsNotAbsent) {
  const std::string id = Create();
  ASSERT_TRUE(Stage(id).has_value());
  mount_.faults.FailAlways("Resolve", Error(Code::kUnavailable, "the folder is on a silent server"));
  EXPECT_EQ(Unstage(id).error().code(), Code::kUnavailable);
  EXPECT_EQ(Unpublish(id, "/kubelet/pods/a").error().code(), Code::kUnavailable);
  EXPECT_EQ(engine_->volumes().Stats(id, "/kubelet/plugins/v", Soon()).error().code(), Code::kUnavailable);
}

// The tenant has CAP_MKNOD, and uses a subPath with the name of the node.
TEST_F(NodePathsTest, ADeviceNodeMadeByATenantIsIgnored) {
  const std::string id = Create(AccessType::kBlock);
  ASSERT_TRUE(engine_->volumes().Stage({id, Path("/kubelet/plugins/v"), kRaw}, Soon()).has_value());
  const dm::Device device = dm_.Devices().front();
  const mount::DeviceNumber number{device.major, device.minor};
  const std::string name = fmt::format("/dm-{}", device.minor);
  mount_.AddNodeMount("/data/kubelet/pods/evil", name, number);
  mount_.AddNodeMount("/data/kubelet/pods/eviler", "/volumes" + name, number);

  Capability alone = kRaw;
  alone.mode = AccessMode::kSingleNodeSingleWriter;
  const Status published = Publish(id, "/kubelet/pods/dev", alone);
  ASSERT_TRUE(published.has_value()) << Words(published);
  EXPECT_EQ(engine_->volumes().Stats(id, "/kubelet/pods/evil", Soon()).error().code(), Code::kNotFound);
  ASSERT_TRUE(Unpublish(id, "/kubelet/pods/dev").has_value());
  ASSERT_TRUE(Unpublish(id, "/kubelet/pods/evil").has_value()) << "nothing of this volume is there";
  EXPECT_TRUE(mount_.Exists("/data/kubelet/pods/evil"));
  Restart();
  const auto deleted = engine_->volumes().Delete(id, Soon());
  EXPECT_TRUE(deleted.has_value()) << deleted.error().message();
}

TEST_F(NodePathsTest, AStaleHoldDoesNotBlockDeletion) {
  const std::string id = Create(AccessType::kBlock);
  ASSERT_TRUE(engine_->volumes().Stage({id, Path("/kubelet/plugins/v"), kRaw}, Soon()).has_value());
  ASSERT_TRUE(Publish(id, "/kubelet/pods/dev", kRaw).has_value());
  // An administrator unmounts the volume by hand, so Unpublish is never called.
  ASSERT_TRUE(mount_.Unmount(Path("/kubelet/pods/dev"), Soon()).has_value());
  const auto deleted = engine_->volumes().Delete(id, Soon());
  EXPECT_TRUE(deleted.has_value()) << deleted.error().message();
}

TEST_F(NodePathsTest, AFileSystemThatCannotGrowIsStagedAndLogged) {
  const std::string id = Create();
  ASSERT_TRUE(Stage(id).has_value());
  mount_.faults.FailAlways("Grow", Error(Code::kInternal, "resize2fs: no resize inode"));
  ASSERT_TRUE(Stage(id).has_value()) << "staged twice";
  EXPECT_THAT(Logged(), HasSubstr("no resize inode"));
  ASSERT_TRUE(Unstage(id).has_value());
  ASSERT_TRUE(Stage(id).has_value()) << "staged after Unstage";
  EXPECT_TRUE(Publish(id, "/kubelet/pods/a").has_value());
  EXPECT_EQ(engine_->volumes().NodeExpand({id, "/kubelet/pods/a", {}}, Soon()).error().code(),
            Code::kInternal);
  ASSERT_TRUE(Unpublish(id, "/kubelet/pods/a").has_value());
  ASSERT_TRUE(Unstage(id).has_value());
  const PublishRequest unstaged{
      .id = id, .staging_path = std::nullopt, .target_path = Path("/kubelet/pods/a"), .capability = {}};
  for (int i = 0; i < 2; ++i) {
    const Status published = engine_->volumes().Publish(unstaged, Soon());
    EXPECT_TRUE(published.has_value()) << Words(published);
  }
}

}  // namespace
}  // namespace quarry::engine
