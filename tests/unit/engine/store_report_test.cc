// What a node on fakes says of its thin stores, and of the volumes in them.
#include <algorithm>

#include <gmock/gmock.h>

#include "engine/model/severity.h"
#include "tests/unit/engine/thin_node.h"

namespace quarry::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Mode = dm::ThinPoolStatus::Mode;

constexpr Bytes kExtent = ThinNode::kExtent;
constexpr Bytes kChunk = ThinNode::kChunk;

Bytes Extents4M(uint64_t count) {
  return {count * kExtent.value};
}

class StoreReportTest : public testing::Test {
 protected:
  // The kernel says this of the pool.
  StoreStatus After(const std::function<void(dm::ThinPoolStatus&)>& change) {
    node_.dm.ChangeThinPool(node_.PoolUuid(), change);
    return node_.StoreNamed("fast");
  }
  Result<StoreDetail> Show(const std::string& store, bool exclusive = false, const std::string& pool = "") {
    return node_.engine->lifecycle().ShowStore(pool, store, exclusive, ThinNode::Soon());
  }
  static const StoreVolume& Named(const StoreDetail& detail, const std::string& name) {
    const auto found = std::ranges::find(detail.volumes, name, &StoreVolume::name);
    EXPECT_NE(found, detail.volumes.end()) << name;
    return *found;
  }
  bool HoldsMetadata() { return (*node_.dm.ThinPool(node_.PoolUuid()))->held_root.has_value(); }

  ThinNode node_;
};

TEST_F(StoreReportTest, AStoreHasItsFigures) {
  const std::string one = node_.Make("one", 10);
  node_.Make("two", 5);
  node_.Write(one, {0, 1, 7});
  const StoreStatus store = node_.StoreNamed("fast");
  EXPECT_EQ(store.mode, StoreMode::kReadWrite);
  EXPECT_EQ(store.problem, "");
  EXPECT_EQ(store.condition, "healthy");
  EXPECT_THAT(store.layout, HasSubstr("raid1"));
  EXPECT_EQ(store.id, node_.Now().stores.front().tags.id);
  EXPECT_EQ(store.chunk, kChunk);
  EXPECT_EQ(store.size, Extents4M(40));
  EXPECT_EQ(store.promised, Extents4M(15));
  EXPECT_EQ(store.free, Extents4M(25));
  EXPECT_EQ(store.full, "");
  EXPECT_EQ(store.volumes, 2U);
  EXPECT_EQ(store.legs, 4U) << "two of the data, two of the metadata";
  EXPECT_EQ(store.degraded_legs, 0U);
  ASSERT_TRUE(store.use.has_value());
  EXPECT_EQ(store.use->data, Bytes{3 * kChunk.value});
  EXPECT_EQ(store.use->metadata, Bytes{10 * 4096});
  EXPECT_EQ(store.use->metadata_size, Bytes{1024 * 4096});
}

TEST_F(StoreReportTest, FreeIsWhatGetCapacityReports) {
  const auto capacity = [this] {
    return node_.engine->volumes().Capacity({}, {{"type", "thin"}}, ThinNode::Soon())->available;
  };
  EXPECT_EQ(node_.StoreNamed("fast").free, capacity());
  node_.Make("one", 40);
  EXPECT_EQ(node_.StoreNamed("fast").free, Bytes{});
  EXPECT_EQ(capacity(), Bytes{});
  EXPECT_THAT(node_.StoreNamed("fast").full, HasSubstr("its volumes have all of it"));
  EXPECT_EQ(node_.StoreNamed("fast").problem, "") << "a store may be promised whole";
}

TEST_F(StoreReportTest, EachStateOfTheKernelIsAMode) {
  EXPECT_EQ(After([](auto& pool) { pool.mode = Mode::kReadOnly; }).mode, StoreMode::kReadOnly);
  const StoreStatus checked = After([](auto& pool) { pool.needs_check = true; });
  EXPECT_EQ(checked.mode, StoreMode::kNeedsCheck);
  EXPECT_THAT(checked.problem, HasSubstr("quarryctl store repair")) << "with the remedy";
  EXPECT_EQ(checked.free, Bytes{});
  const StoreStatus failed = After([](auto& pool) { pool.mode = Mode::kFailed; });
  EXPECT_EQ(failed.mode, StoreMode::kFailed);
  EXPECT_FALSE(failed.use.has_value()) << "the numbers of a failed pool mean nothing";
  const StoreStatus full = After([](auto& pool) {
    pool.needs_check = false;
    pool.mode = Mode::kOutOfDataSpace;
  });
  EXPECT_EQ(full.mode, StoreMode::kOutOfSpace);
  EXPECT_THAT(full.problem, HasSubstr("is full"));
  node_.dm.faults.FailAlways("ThinPool", Error(Code::kCorrupt, "an unknown word"));
  const StoreStatus unknown = node_.StoreNamed("fast");
  EXPECT_EQ(unknown.mode, StoreMode::kUnknown);
  EXPECT_EQ(unknown.problem, "an unknown word");
}

TEST_F(StoreReportTest, AStoreThatDoesNotZeroChunksIsTold) {
  node_.lvm.Happen("vg0", [](lvm::VolumeGroup& group) {
    for (lvm::LogicalVolume& lv : group.lvs) {
      for (lvm::Segment& segment : lv.segments) {
        if (segment.thin_pool.has_value()) {
          segment.thin_pool->zeroes_chunks = false;
        }
      }
    }
  });
  const StoreStatus store = node_.StoreNamed("fast");
  EXPECT_EQ(store.mode, StoreMode::kNotZeroing);
  EXPECT_THAT(store.problem, HasSubstr("lvchange --zero y"));
}

TEST_F(StoreReportTest, AStoreThatCannotStartSaysWhy) {
  node_.lvm.Reboot();
  node_.dm.Reboot();
  node_.lvm.before.FailAlways("Activate", Error(Code::kIo, "the disk is tired"));
  node_.Restart();
  const StoreStatus store = node_.StoreNamed("fast");
  EXPECT_EQ(store.mode, StoreMode::kNotStarted);
  EXPECT_THAT(store.problem, HasSubstr("the disk is tired"));
  EXPECT_FALSE(store.use.has_value());
  EXPECT_EQ(store.free, Bytes{});
  EXPECT_EQ(store.size, Extents4M(40)) << "LVM knows that";
  const auto shown = Show("fast", true);
  ASSERT_TRUE(shown.has_value()) << shown.error().message();
  EXPECT_THAT(shown->unknown, HasSubstr("is not started"));
}

TEST_F(StoreReportTest, AStoreThatIsNotMadeSaysWhy) {
  node_.Restart({ThinNode::Wanted("fast", 40), ThinNode::Wanted("vast", 4000)});
  const StoreStatus store = node_.StoreNamed("vast");
  EXPECT_EQ(store.mode, StoreMode::kNotMade);
  EXPECT_EQ(store.id, "");
  EXPECT_EQ(store.size, Extents4M(4000)) << "what the configuration wants";
  EXPECT_NE(store.problem, "");
  EXPECT_EQ(node_.StoreNamed("fast").problem, "");
  const auto shown = Show("vast");
  ASSERT_TRUE(shown.has_value()) << shown.error().message();
  EXPECT_TRUE(shown->volumes.empty());
}

TEST_F(StoreReportTest, AGrowthThatFailedIsAProblemUntilItSucceeds) {
  node_.Restart({ThinNode::Wanted("fast", 4000)});
  const StoreStatus store = node_.StoreNamed("fast");
  EXPECT_EQ(store.mode, StoreMode::kReadWrite);
  EXPECT_NE(store.problem, "");
  EXPECT_EQ(store.size, Extents4M(40));
  node_.Restart({ThinNode::Wanted("fast", 50)});
  EXPECT_EQ(node_.StoreNamed("fast").problem, "");
  EXPECT_EQ(node_.StoreNamed("fast").size, Extents4M(50));
}

TEST_F(StoreReportTest, AStoreThatTheConfigurationDoesNotNameAnyMoreIsListed) {
  node_.Restart(std::vector<StoreConfig>());
  EXPECT_EQ(node_.StoreNamed("fast").mode, StoreMode::kReadWrite);
}

TEST_F(StoreReportTest, LegsOnAMissingDiskAreCounted) {
  const auto disk = node_.Now().group->pvs.front().uuid;
  size_t there = 0;
  const Catalog catalog = node_.Now();
  for (const Record& part : catalog.parts) {
    there += static_cast<size_t>(std::ranges::count(lvm::LegsOn(*catalog.group, *part.lv, disk), true));
  }
  ASSERT_GT(there, 0U);
  node_.lvm.Happen("vg0", [](lvm::VolumeGroup& group) { group.pvs.front().missing = true; });
  const StoreStatus store = node_.StoreNamed("fast");
  EXPECT_EQ(store.legs, 4U);
  EXPECT_EQ(store.degraded_legs, there);
  EXPECT_EQ(store.condition, "degraded");
  EXPECT_THAT(store.detail, AllOf(HasSubstr("data: "), HasSubstr("missing disk")));
}

TEST_F(StoreReportTest, LegsThatTheKernelFailedOrRebuildsAreCounted) {
  const Catalog catalog = node_.Now();
  const std::string data = DmUuidOf(*catalog.group, *catalog.stores.front().data);
  node_.dm.SetRaid(data,
                   dm::RaidStatus{.type = "raid1", .legs = "AD", .in_sync = 8, .total = 8, .action = "idle"});
  EXPECT_EQ(node_.StoreNamed("fast").degraded_legs, 1U);
  EXPECT_EQ(node_.StoreNamed("fast").condition, "degraded");
  node_.dm.SetRaid(
      data, dm::RaidStatus{.type = "raid1", .legs = "Aa", .in_sync = 4, .total = 8, .action = "recover"});
  EXPECT_EQ(node_.StoreNamed("fast").degraded_legs, 1U);
  EXPECT_EQ(node_.StoreNamed("fast").condition, "repairing");
  EXPECT_EQ(node_.StoreNamed("fast").percent, 50U);
  node_.dm.SetRaid(
      data, dm::RaidStatus{.type = "raid1", .legs = "aa", .in_sync = 4, .total = 8, .action = "resync"});
  EXPECT_EQ(node_.StoreNamed("fast").degraded_legs, 0U) << "a first synchronisation is no loss";
}

TEST_F(StoreReportTest, AVolumeHasWhatItHasWritten) {
  const std::string one = node_.Make("one", 10);
  node_.Make("two", 5);
  node_.Write(one, {0, 1, 7});
  const auto shown = Show("fast", true);
  ASSERT_TRUE(shown.has_value()) << shown.error().message();
  EXPECT_EQ(shown->pool, "default");
  EXPECT_EQ(shown->group, "vg0");
  EXPECT_EQ(shown->store.name, "fast");
  EXPECT_EQ(shown->unknown, "");
  ASSERT_EQ(shown->volumes.size(), 2U);
  EXPECT_EQ(Named(*shown, "one").kind, "volume");
  EXPECT_EQ(Named(*shown, "one").id, one);
  EXPECT_EQ(Named(*shown, "one").size, Extents4M(10));
  EXPECT_EQ(Named(*shown, "one").mapped, Bytes{3 * kChunk.value});
  EXPECT_EQ(Named(*shown, "one").exclusive, Bytes{3 * kChunk.value});
  EXPECT_EQ(Named(*shown, "two").mapped, Bytes{});
  EXPECT_FALSE(HoldsMetadata()) << "the pool copies metadata as long as its snapshot is held";
}

TEST_F(StoreReportTest, MappingsAreCountedOnRequestOnly) {
  node_.Write(node_.Make("one", 10), {0});
  const auto shown = Show("fast");
  ASSERT_TRUE(shown.has_value()) << shown.error().message();
  EXPECT_EQ(Named(*shown, "one").mapped, Bytes{kChunk.value});
  EXPECT_FALSE(Named(*shown, "one").exclusive.has_value());
  EXPECT_EQ(shown->unknown, "");
  EXPECT_EQ(node_.reader.faults.Calls("ExclusiveBytes"), 0);
}

TEST_F(StoreReportTest, MappedBytesAreKnownIfTheCountTakesTooLong) {
  node_.Write(node_.Make("one", 10), {0});
  node_.reader.faults.FailAlways("ExclusiveBytes", Error(Code::kTimeout, "the deadline has passed"));
  const auto shown = Show("fast", true);
  ASSERT_TRUE(shown.has_value()) << shown.error().message();
  EXPECT_EQ(Named(*shown, "one").mapped, Bytes{kChunk.value});
  EXPECT_FALSE(Named(*shown, "one").exclusive.has_value());
  EXPECT_THAT(shown->unknown, HasSubstr("too many mappings"));
  EXPECT_FALSE(HoldsMetadata());
}

TEST_F(StoreReportTest, VolumesOfOthersAreShownAndNotCounted) {
  node_.Make("one", 10);
  node_.lvm.Happen("vg0", [](lvm::VolumeGroup& group) {
    lvm::LogicalVolume copy =
        *std::ranges::find(group.lvs, std::string("thin"), &lvm::LogicalVolume::segment_type);
    copy.name = "by_hand";
    copy.uuid = "hand-by";
    copy.tags.clear();
    copy.segments.front().thin_volume->device_id = 9;
    group.lvs.push_back(std::move(copy));
  });
  EXPECT_EQ(node_.StoreNamed("fast").volumes, 1U);
  EXPECT_EQ(node_.StoreNamed("fast").promised, Extents4M(20));
  const auto shown = Show("fast");
  ASSERT_TRUE(shown.has_value()) << shown.error().message();
  const auto hand = std::ranges::find(shown->volumes, "by_hand", &StoreVolume::lv_name);
  ASSERT_NE(hand, shown->volumes.end());
  EXPECT_EQ(hand->kind, "unmanaged");
  EXPECT_FALSE(hand->mapped.has_value()) << "the pool has no device 9";
}

TEST_F(StoreReportTest, AStoreIsFoundByNameOrId) {
  EXPECT_TRUE(Show(node_.Now().stores.front().tags.id).has_value());
  EXPECT_TRUE(Show("fast", false, "default").has_value());
  EXPECT_EQ(Show("fast", false, "other").error().code(), Code::kInvalidArgument);
  const auto none = Show("slow");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code(), Code::kNotFound);
  EXPECT_THAT(none.error().message(), HasSubstr("default/fast"));
}

TEST_F(StoreReportTest, APoolThatCannotBeReadIsNotAPoolWithoutStores) {
  node_.lvm.SetAway("vg0", true);
  EXPECT_EQ(Show("fast").error().code(), Code::kUnavailable);
}

TEST(SeverityOfStoreTest, TheWorstOfModeLegsAndProblemsCounts) {
  EXPECT_EQ(SeverityOfStore("rw", "healthy", false), Severity::kOk);
  EXPECT_EQ(SeverityOfStore("rw", "syncing", false), Severity::kOk);
  EXPECT_EQ(SeverityOfStore("rw", "degraded", false), Severity::kWarning);
  EXPECT_EQ(SeverityOfStore("rw", "healthy", true), Severity::kWarning);
  EXPECT_EQ(SeverityOfStore("rw", "failed", false), Severity::kCritical);
  EXPECT_EQ(SeverityOfStore("not-made", "", true), Severity::kWarning);
  EXPECT_EQ(SeverityOfStore("unreadable", "", true), Severity::kWarning);
  EXPECT_EQ(SeverityOfStore("unknown", "healthy", true), Severity::kWarning);
  for (const StoreMode mode : {StoreMode::kOutOfSpace, StoreMode::kReadOnly, StoreMode::kFailed,
                               StoreMode::kNeedsCheck, StoreMode::kNotZeroing, StoreMode::kNotStarted}) {
    EXPECT_EQ(SeverityOfStore(StoreModeName(mode), "healthy", true), Severity::kCritical)
        << StoreModeName(mode);
  }
}

}  // namespace
}  // namespace quarry::engine
