// Many random call sequences against the model of tests/model, on fakes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "engine/engine.h"
#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_pool_reader.h"
#include "tests/fakes/fake_world.h"
#include "tests/model/sequence.h"

namespace quarry::engine {
namespace {

constexpr Bytes kExtent{4 * 1024 * 1024};
constexpr uint64_t kDiskExtents = 500;
constexpr uint64_t kStoreExtents = 400;
constexpr const char* kDisks[] = {"/dev/a", "/dev/b", "/dev/c", "/dev/d"};

// The engine, with a group of its own, and a thin store in it.
class EngineDriver final : public model::Driver {
 public:
  EngineDriver() {
    std::vector<fakes::FakeDisk> disks;
    for (const char* disk : kDisks) {
      disks.push_back({disk, Extents{kDiskExtents}});
    }
    lvm_.AddGroup("vg0", kExtent, disks);
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory("/stage");
    mount_.AddDirectory("/pods");
    EXPECT_TRUE(Restart().has_value());
    const auto empty = Capacity("linear");
    EXPECT_TRUE(empty.has_value());
    total_ = empty.value_or(0);
    const lvm::Snapshot group = *lvm_.Read("vg0", Soon());
    for (const lvm::LogicalVolume& lv : group->lvs) {
      store_.insert(lv.name);
    }
    for (const dm::Device& device : dm_.Devices()) {
      store_.insert(device.name);
    }
    EXPECT_FALSE(store_.empty());
  }

  Result<model::Made> Create(const model::Wish& wish) override {
    QUARRY_ASSIGN(
        const CreateResult made,
        engine_->volumes().Create({.name = wish.name,
                                   .range = {Size(wish.required), Size(wish.limit)},
                                   .capabilities = {How(wish.block)},
                                   .parameters = {{"type", wish.type}},
                                   .source = wish.snapshot.empty() ? ContentSource{wish.source}
                                                                   : ContentSource{wish.snapshot, true}},
                                  Soon()));
    EXPECT_EQ(made.created, ids_.insert(made.volume.id).second);
    return model::Made{made.volume.id, Count(made.volume.size)};
  }
  Status Delete(const std::string& id) override {
    QUARRY_ASSIGN(const DeleteResult done, engine_->volumes().Delete(id, Soon()));
    EXPECT_EQ(done.deleted, ids_.erase(id) == 1);
    return Ok();
  }
  Result<model::Grown> Expand(const std::string& id, uint64_t required, uint64_t limit) override {
    QUARRY_ASSIGN(const ExpandResult grown,
                  engine_->volumes().Expand(id, {Size(required), Size(limit)}, std::nullopt, Soon()));
    return model::Grown{Count(grown.size), grown.node_expansion_required};
  }
  Result<bool> Validate(const std::string& id, bool block, const std::string& type) override {
    QUARRY_ASSIGN(const ValidateResult result,
                  engine_->volumes().Validate({id, {How(block)}, {{"type", type}}, {}}, Soon()));
    EXPECT_EQ(result.message.empty(), result.confirmed);
    return result.confirmed;
  }
  Result<std::map<std::string, uint64_t>> List(uint32_t page) override {
    std::map<std::string, uint64_t> all;
    std::string token;
    do {
      QUARRY_ASSIGN(const ListResult list, engine_->volumes().List(page, token, Soon()));
      for (const Volume& volume : list.volumes) {
        EXPECT_TRUE(all.emplace(volume.id, Count(volume.size)).second);
      }
      token = list.next_token;
    } while (!token.empty());
    return all;
  }
  Result<uint64_t> Get(const std::string& id) override {
    QUARRY_ASSIGN(const Volume volume, engine_->volumes().Get(id, Soon()));
    return Count(volume.size);
  }
  Result<uint64_t> Capacity(const std::string& type) override {
    QUARRY_ASSIGN(const CapacityResult capacity,
                  engine_->volumes().Capacity({How(true)}, {{"type", type}}, Soon()));
    return Count(capacity.available);
  }
  Status Stage(const std::string& id, const std::string& name, bool block) override {
    return engine_->volumes().Stage({id, Path({name}), How(block)}, Soon());
  }
  Status Unstage(const std::string& id, const std::string& name) override {
    return engine_->volumes().Unstage(id, Path({name}), Soon());
  }
  Status Publish(const std::string& id, const model::Spot& spot, bool block, bool read_only) override {
    return engine_->volumes().Publish({id, Path({spot.name}), Path(spot), How(block), read_only}, Soon());
  }
  Status Unpublish(const std::string& id, const model::Spot& spot) override {
    return engine_->volumes().Unpublish(id, Path(spot), Soon());
  }
  Result<uint64_t> Stats(const std::string& id, const model::Spot& spot) override {
    QUARRY_ASSIGN(const VolumeStats stats, engine_->volumes().Stats(id, Path(spot).str(), Soon()));
    return stats.total.value;
  }
  Result<uint64_t> NodeExpand(const std::string& id, const model::Spot& spot, uint64_t required) override {
    QUARRY_ASSIGN(const Bytes size,
                  engine_->volumes().NodeExpand(
                      {id, Path(spot).str(), Path({spot.name}).str(), {Size(required), {}}}, Soon()));
    return size.value;
  }
  Result<model::Made> Snapshot(const std::string& name, const std::string& source) override {
    QUARRY_ASSIGN(const SnapshotResult made, engine_->snapshots().Create({name, source, {}}, Soon()));
    EXPECT_EQ(made.created, ids_.insert(made.snapshot.id).second);
    return model::Made{made.snapshot.id, Count(made.snapshot.size)};
  }
  Status DeleteSnapshot(const std::string& id) override {
    QUARRY_ASSIGN(const bool deleted, engine_->snapshots().Delete(id, Soon()));
    EXPECT_EQ(deleted, ids_.erase(id) == 1);
    return Ok();
  }
  Result<std::map<std::string, uint64_t>> Snapshots() override {
    std::map<std::string, uint64_t> all;
    QUARRY_ASSIGN(const SnapshotList list, engine_->snapshots().List({}, 0, "", Soon()));
    for (const VolumeSnapshot& snapshot : list.snapshots) {
      EXPECT_TRUE(all.emplace(snapshot.id, Count(snapshot.size)).second);
    }
    return all;
  }
  Result<model::MadeGroup> SnapshotGroup(const std::string& name,
                                         const std::vector<std::string>& sources) override {
    QUARRY_ASSIGN(const GroupSnapshot made, engine_->group_snapshots().Create({name, sources}, Soon()));
    for (const VolumeSnapshot& member : made.members) {
      ids_.insert(member.id);
    }
    return ToModel(made);
  }
  Status DeleteGroup(const std::string& id, const std::vector<std::string>& members) override {
    const auto before = engine_->group_snapshots().Get(id, {}, Soon());
    QUARRY_ASSIGN(const bool deleted, engine_->group_snapshots().Delete(id, members, Soon()));
    EXPECT_EQ(deleted, before.has_value());
    for (size_t i = 0; before.has_value() && i < before->members.size(); ++i) {
      ids_.erase(before->members[i].id);
    }
    return Ok();
  }
  Result<model::MadeGroup> GetGroup(const std::string& id) override {
    QUARRY_ASSIGN(const GroupSnapshot group, engine_->group_snapshots().Get(id, {}, Soon()));
    return ToModel(group);
  }
  void Write(const std::string& id, uint64_t number) override {
    const UniqueFd fd = Open(id, O_RDWR);
    EXPECT_EQ(pwrite(fd.get(), &number, sizeof number, 0), static_cast<ssize_t>(sizeof number));
  }
  uint64_t Read(const std::string& id) override {
    uint64_t number = 0;
    const UniqueFd fd = Open(id, O_RDONLY);
    EXPECT_EQ(pread(fd.get(), &number, sizeof number, 0), static_cast<ssize_t>(sizeof number));
    return number;
  }
  Status Restart() override {
    engine_.reset();
    EngineConfig config;
    config.pools = {{.name = "main",
                     .group = "vg0",
                     .stores = {{.name = "fast",
                                 .size = Size(kStoreExtents),
                                 .geometry = *lvm::Geometry::Make({.type = lvm::VolumeType::kLinear}),
                                 .chunk = Bytes{128 * 1024}}}}};
    const fakes::FakeWorld world{
        .lvm = lvm_, .dm = dm_, .erase = erase_, .mount = mount_, .clock = clock_, .thin = reader_};
    engine_ = std::make_unique<Engine>(config, world, log_);
    return engine_->lifecycle().Start(Soon());
  }

  uint64_t Total() override { return total_; }
  uint64_t StoreTotal() override { return kStoreExtents; }
  uint64_t ExtentBytes() override { return kExtent.value; }
  bool Exists(const model::Spot& spot) override { return mount_.Exists(Path(spot).str()); }
  std::string Leftovers() override {
    std::string left;
    const auto group = lvm_.Read("vg0", Soon());
    for (const lvm::LogicalVolume& lv : (*group)->lvs) {
      left += store_.contains(lv.name) ? "" : fmt::format("lv {} ", lv.name);
    }
    for (const dm::Device& device : dm_.Devices()) {
      left += store_.contains(device.name) ? "" : fmt::format("device {} ", device.name);
    }
    const auto mounts = mount_.Mounts();
    for (const mount::MountEntry& entry : mounts->entries()) {
      const bool ours = entry.target.starts_with("/stage/") || entry.target.starts_with("/pods/");
      left += ours ? fmt::format("mount {} ", entry.target) : "";
    }
    return left;
  }

 private:
  UniqueFd Open(const std::string& id, int flags) {
    const lvm::Snapshot group = *lvm_.Read("vg0", Soon());
    const lvm::LogicalVolume* const lv = group->FindLv(lvm::ParseVolumeId(id)->lv_name);
    if (!lv->active && !lv->pool.empty()) {
      EXPECT_TRUE(lvm_.Apply(lvm::ActivateLvs{"vg0", {lv->name}}, Soon()).has_value());
    }
    return *dm_.Open(lvm::DmUuid(group->uuid, lv->uuid), flags);
  }
  static model::MadeGroup ToModel(const GroupSnapshot& group) {
    model::MadeGroup out{.id = group.id, .members = {}};
    for (const VolumeSnapshot& member : group.members) {
      out.members[member.source] = {member.id, Count(member.size)};
    }
    return out;
  }
  static Call Soon() { return CallWithin(std::chrono::seconds(30)); }
  static Bytes Size(uint64_t extents) { return ToBytes(Extents{extents}, kExtent); }
  static uint64_t Count(Bytes size) {
    EXPECT_EQ(size.value % kExtent.value, 0U);
    return size.value / kExtent.value;
  }
  static Capability How(bool block) {
    return {.access = block ? AccessType::kBlock : AccessType::kMount, .fs_type = block ? "" : "ext4"};
  }
  AbsolutePath Path(const model::Spot& spot) {
    if (spot.target != model::kStaging) {
      return *AbsolutePath::Parse(fmt::format("/pods/{}-{}", spot.name, spot.target));
    }
    mount_.AddDirectory("/stage/" + spot.name);
    return *AbsolutePath::Parse("/stage/" + spot.name);
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  fakes::FakePoolReader reader_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
  std::set<std::string> ids_;    // of volumes and snapshots that were made and not deleted
  std::set<std::string> store_;  // logical volumes and devices of the store itself
  uint64_t total_ = 0;
};

TEST(Model, TheEngineAnswersRandomSequencesAsTheModelDoes) {
  model::RunSequences([] { return std::make_unique<EngineDriver>(); }, 1, 1200, {});
}

}  // namespace
}  // namespace quarry::engine
