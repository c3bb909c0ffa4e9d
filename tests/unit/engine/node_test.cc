#include "engine/pool/node.h"

#include <gtest/gtest.h>

#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"
#include "tests/unit/engine/group_builder.h"

namespace quarry::engine {
namespace {

constexpr const char* kA = "qaaaaaaaaaaaaaaaaaaaaaaaaaa";
constexpr const char* kB = "qbbbbbbbbbbbbbbbbbbbbbbbbba";

// Returns the snapshot that the test has set, the same object each time, as a proven read does.
class ToldLvm final : public lvm::LvmApi {
 public:
  Result<lvm::Snapshot> Read(const std::string&, const Call&) override { return told; }
  Status Apply(const lvm::Change&, const Call&) override { return Refused(); }
  Result<std::string> Version(const std::string&, const Call&) override { return Refused().error(); }

  lvm::Snapshot told;

 private:
  static Status Refused() { return Error(Code::kUnsupported, "only reads"); }
};

class NodeTest : public testing::Test {
 protected:
  static lvm::Snapshot GroupWith(const char* lv, const std::string& name) {
    GroupBuilder builder({100});
    builder.Linear(lv, 0, {Extents{0}, Extents{10}}, lvm::BuildTags(ReadyTags(lv, name, 10)));
    return builder.Build().group;
  }
  std::shared_ptr<const Catalog> Read() {
    auto read = state_.ReadGroup(*state_.pools.front(), CallWithin(std::chrono::seconds(20)));
    return read.has_value() ? *read : nullptr;
  }

  ToldLvm lvm_;
  fakes::FakeLvm nothing_;  // for seams that these tests do not use
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  Node state_{{.pools = {{.name = "default", .group = "vg0"}}},
              World{.lvm = lvm_,
                    .dm = dm_,
                    .erase = erase_,
                    .mount = mount_,
                    .clock = clock_,
                    .children = fakes::NoCommands(),
                    .udev = fakes::NoDisks(),
                    .pvs = nothing_,
                    .health = std::make_shared<fakes::FakeDiskHealth>(),
                    .raid_legs = nothing_.raid_legs(),
                    .thin = fakes::NoPools(),
                    .thin_repair = fakes::NoRepairs(),
                    .locks = fakes::NoOtherQuarryd()},
              log_};
};

TEST_F(NodeTest, TheSameSnapshotGivesTheSameCatalog) {
  lvm_.told = GroupWith(kA, "one");
  const auto first = Read();
  ASSERT_NE(first, nullptr);
  EXPECT_NE(first->ByName("one"), nullptr);
  EXPECT_EQ(Read(), first);
}

TEST_F(NodeTest, ANewSnapshotGivesANewCatalogAndKeepsTheOld) {
  lvm_.told = GroupWith(kA, "one");
  const auto first = Read();
  lvm_.told = GroupWith(kB, "two");
  const auto second = Read();
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second->ByName("two"), nullptr);
  EXPECT_EQ(second->ByName("one"), nullptr);
  ASSERT_NE(first, nullptr);
  EXPECT_NE(first->ByName("one"), nullptr);
}

}  // namespace
}  // namespace quarry::engine
