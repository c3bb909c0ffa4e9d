// Random sequences of calls: quarryd, with its socket, LVM and the kernel, against the model of tests/model.
#include <filesystem>
#include <fstream>

#include "tests/model/sequence.h"
#include "tests/vm/thin_stores_fixture.h"

namespace quarry::vm {
namespace {

constexpr uint64_t kExtent = 4 * kMi;
constexpr int64_t kStore = 640 * kMi;

Code ToCode(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::INVALID_ARGUMENT:
      return Code::kInvalidArgument;
    case grpc::StatusCode::NOT_FOUND:
      return Code::kNotFound;
    case grpc::StatusCode::ALREADY_EXISTS:
      return Code::kAlreadyExists;
    case grpc::StatusCode::FAILED_PRECONDITION:
      return Code::kPrecondition;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return Code::kNoSpace;
    case grpc::StatusCode::OUT_OF_RANGE:
      return Code::kOutOfRange;
    case grpc::StatusCode::ABORTED:
      return Code::kBusy;
    case grpc::StatusCode::UNAVAILABLE:
      return Code::kUnavailable;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Code::kTimeout;
    default:
      return Code::kInternal;
  }
}

template <typename Response>
Result<Response> Answer(Reply<Response> reply) {
  if (!reply.ok()) {
    return Error(ToCode(reply.code()), reply.text());
  }
  return std::move(reply.value);
}

template <typename Response>
Status Done(const Reply<Response>& reply) {
  return reply.ok() ? Ok() : Status(Error(ToCode(reply.code()), reply.text()));
}

v1::VolumeCapability How(bool block) {
  return block ? BlockCapability() : MountCapability();
}

uint64_t Count(int64_t bytes) {
  EXPECT_EQ(static_cast<uint64_t>(bytes) % kExtent, 0U);
  return static_cast<uint64_t>(bytes) / kExtent;
}

// What the driver needs from the test's fixture.
struct Place {
  std::function<CsiClient&()> client;
  std::function<Status()> restart;
  std::function<std::string(const std::string&)> staging_path, target_path;
  int64_t total;      // extents
  std::string store;  // name of the thin pool
};

class CsiDriver final : public model::Driver {
 public:
  explicit CsiDriver(Place place) : place_(std::move(place)) {}

  Result<model::Made> Create(const model::Wish& wish) override {
    QUARRY_ASSIGN(
        const auto made,
        Answer(client().Create({wish.name, TypeParameters(wish.type), How(wish.block),
                                static_cast<int64_t>(wish.required * kExtent),
                                static_cast<int64_t>(wish.limit * kExtent), wish.source, wish.snapshot})));
    contexts_[made.volume().volume_id()] = made.volume();
    return model::Made{made.volume().volume_id(), Count(made.volume().capacity_bytes())};
  }
  Status Delete(const std::string& id) override { return Done(client().Delete(id)); }
  Result<model::Grown> Expand(const std::string& id, uint64_t required, uint64_t limit) override {
    QUARRY_ASSIGN(const auto grown, Answer(client().Expand(id, static_cast<int64_t>(required * kExtent),
                                                           static_cast<int64_t>(limit * kExtent))));
    return model::Grown{Count(grown.capacity_bytes()), grown.node_expansion_required()};
  }
  Result<bool> Validate(const std::string& id, bool block, const std::string& type) override {
    v1::ValidateVolumeCapabilitiesRequest request;
    request.set_volume_id(id);
    *request.add_volume_capabilities() = How(block);
    (*request.mutable_parameters())["type"] = type;
    QUARRY_ASSIGN(const auto answer,
                  Answer(client().Invoke(client().controller(),
                                         &v1::Controller::Stub::ValidateVolumeCapabilities, request)));
    EXPECT_EQ(answer.message().empty(), answer.has_confirmed());
    return answer.has_confirmed();
  }
  Result<std::map<std::string, uint64_t>> List(uint32_t page) override {
    QUARRY_ASSIGN(const auto volumes, Answer(client().List(static_cast<int32_t>(page))));
    std::map<std::string, uint64_t> all;
    for (const v1::Volume& volume : volumes) {
      EXPECT_TRUE(all.emplace(volume.volume_id(), Count(volume.capacity_bytes())).second);
    }
    return all;
  }
  Result<uint64_t> Get(const std::string& id) override {
    v1::ControllerGetVolumeRequest request;
    request.set_volume_id(id);
    QUARRY_ASSIGN(
        const auto answer,
        Answer(client().Invoke(client().controller(), &v1::Controller::Stub::ControllerGetVolume, request)));
    EXPECT_EQ(answer.volume().volume_id(), id);
    return Count(answer.volume().capacity_bytes());
  }
  Result<uint64_t> Capacity(const std::string& type) override {
    QUARRY_ASSIGN(const auto capacity, Answer(client().Capacity(TypeParameters(type))));
    return Count(capacity.available_capacity());
  }
  Status Stage(const std::string& id, const std::string& name, bool block) override {
    return Done(client().Stage(VolumeOf(id), Path({name}), How(block)));
  }
  Status Unstage(const std::string& id, const std::string& name) override {
    return Done(client().Unstage(id, Path({name})));
  }
  Status Publish(const std::string& id, const model::Spot& spot, bool block, bool read_only) override {
    return Done(client().Publish(VolumeOf(id), Path({spot.name}), Path(spot), How(block), read_only));
  }
  Status Unpublish(const std::string& id, const model::Spot& spot) override {
    return Done(client().Unpublish(id, Path(spot)));
  }
  Result<uint64_t> Stats(const std::string& id, const model::Spot& spot) override {
    QUARRY_ASSIGN(const auto stats, Answer(client().Stats(id, Path(spot))));
    for (const v1::VolumeUsage& usage : stats.usage()) {
      if (usage.unit() == v1::VolumeUsage::BYTES) {
        return static_cast<uint64_t>(usage.total());
      }
    }
    return Error(Code::kInternal, "no usage in bytes");
  }
  Result<uint64_t> NodeExpand(const std::string& id, const model::Spot& spot, uint64_t required) override {
    QUARRY_ASSIGN(const auto grown, Answer(client().NodeExpand(id, Path(spot), Path({spot.name}),
                                                               static_cast<int64_t>(required * kExtent))));
    return static_cast<uint64_t>(grown.capacity_bytes());
  }
  Result<model::Made> Snapshot(const std::string& name, const std::string& source) override {
    QUARRY_ASSIGN(const auto made, Answer(client().Snapshot(name, source)));
    return model::Made{made.snapshot().snapshot_id(), Count(made.snapshot().size_bytes())};
  }
  Status DeleteSnapshot(const std::string& id) override { return Done(client().DeleteSnapshot(id)); }
  Result<std::map<std::string, uint64_t>> Snapshots() override {
    QUARRY_ASSIGN(const auto list, Answer(client().Snapshots()));
    std::map<std::string, uint64_t> all;
    for (const auto& entry : list.entries()) {
      EXPECT_TRUE(all.emplace(entry.snapshot().snapshot_id(), Count(entry.snapshot().size_bytes())).second);
    }
    return all;
  }
  Result<model::MadeGroup> SnapshotGroup(const std::string& name,
                                         const std::vector<std::string>& sources) override {
    QUARRY_ASSIGN(const auto made, Answer(client().SnapshotGroup(name, sources)));
    return ToModel(made.group_snapshot());
  }
  Status DeleteGroup(const std::string& id, const std::vector<std::string>& members) override {
    return Done(client().DeleteGroup(id, members));
  }
  Result<model::MadeGroup> GetGroup(const std::string& id) override {
    QUARRY_ASSIGN(const auto got, Answer(client().GetGroup(id)));
    return ToModel(got.group_snapshot());
  }
  void Write(const std::string& id, uint64_t number) override {
    std::fstream device(NodeOf(id), std::ios::in | std::ios::out | std::ios::binary);
    device.write(reinterpret_cast<const char*>(&number), sizeof number);
    EXPECT_TRUE(device.flush()) << id;
    EXPECT_TRUE(Tool({"blockdev", "--flushbufs", NodeOf(id)}).ok());
  }
  uint64_t Read(const std::string& id) override {
    uint64_t number = 0;
    if (!std::filesystem::exists(NodeOf(id))) {
      EXPECT_TRUE(Tool({"lvchange", "-ay", std::string(kGroup) + "/" + LvNameIn(id)}).ok()) << id;
    }
    std::ifstream device(NodeOf(id), std::ios::binary);
    EXPECT_TRUE(device.read(reinterpret_cast<char*>(&number), sizeof number)) << id;
    return number;
  }
  Status Restart() override { return place_.restart(); }

  uint64_t Total() override { return static_cast<uint64_t>(place_.total); }
  uint64_t StoreTotal() override { return Count(kStore); }
  uint64_t ExtentBytes() override { return kExtent; }
  bool Exists(const model::Spot& spot) override { return std::filesystem::exists(Path(spot)); }
  std::string Leftovers() override {
    const std::string lvs =
        WithoutStore(Tool({"lvs", "-a", "--noheadings", "-o", "lv_name,lv_tags", kGroup}).out);
    const std::string devices = WithoutStore(Tool({"dmsetup", "ls"}).out);
    const std::string mounts = Trim(Tool({"findmnt", "-rn", "-o", "TARGET,SOURCE"}).out);
    const bool mounted = mounts.find("/run/quarry-test/mnt") != std::string::npos;
    return (lvs.empty() ? "" : "LVs: " + lvs + "\n") +
           (devices == "No devices found\n" || devices.empty() ? "" : "devices: " + devices + "\n") +
           (mounted ? "mounts: " + mounts : "");
  }

 private:
  // The lines that do not begin with the name of the pool, or of one of its parts.
  std::string WithoutStore(const std::string& text) const {
    std::string out;
    for (const std::string& line : Lines(text)) {
      const std::vector<std::string> words = Words(line);
      if (!words.empty() && words.front().find(place_.store) == std::string::npos) {
        out += line + "\n";
      }
    }
    return out;
  }
  static model::MadeGroup ToModel(const v1::VolumeGroupSnapshot& group) {
    EXPECT_TRUE(group.ready_to_use());
    model::MadeGroup out{.id = group.group_snapshot_id(), .members = {}};
    for (const v1::Snapshot& member : group.snapshots()) {
      EXPECT_TRUE(member.ready_to_use());
      EXPECT_EQ(member.group_snapshot_id(), out.id);
      out.members[member.source_volume_id()] = {member.snapshot_id(), Count(member.size_bytes())};
    }
    return out;
  }
  static std::string NodeOf(const std::string& id) {
    return std::string("/dev/") + kGroup + "/" + LvNameIn(id);
  }
  CsiClient& client() { return place_.client(); }
  v1::Volume VolumeOf(const std::string& id) {
    v1::Volume volume = contexts_[id];
    volume.set_volume_id(id);
    return volume;
  }
  std::string Path(const model::Spot& spot) {
    return spot.target == model::kStaging ? place_.staging_path(spot.name)
                                          : place_.target_path(spot.name + "-" + std::to_string(spot.target));
  }

  const Place place_;
  std::map<std::string, v1::Volume> contexts_;  // by id
};

class ModelTest : public ThinStoresTest {
 protected:
  ModelTest() : ThinStoresTest(kStore) {}

  void SetUp() override {
    ThinStoresTest::SetUp();
    ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  }
  std::unique_ptr<model::Driver> Driver() {
    const auto free = group().FreeExtents();
    EXPECT_OK(free);
    return std::make_unique<CsiDriver>(Place{[this]() -> CsiClient& { return client(); },
                                             [this] {
                                               const QuarrydOptions options = quarryd().options();
                                               quarryd().Kill();
                                               return TryStartQuarryd(options);
                                             },
                                             &VmTest::StagingPath, &VmTest::TargetPath, free.value_or(0),
                                             Pool()});
  }
};

TEST_F(ModelTest, SequencesAreAnsweredAsTheModelSays) {
  const unsigned seed = std::random_device{}() % 1000000;
  model::RunSequences([this] { return Driver(); }, seed, 4,
                      {.calls = 18, .names = 3, .restart_percent = 4, .settle_seconds = 180});
}

}  // namespace
}  // namespace quarry::vm
