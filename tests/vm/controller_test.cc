// The controller service on a real volume group: names, sizes, space, and unmanaged logical volumes.
#include <thread>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using grpc::StatusCode;

class ControllerTest : public VmTest {
 protected:
  std::set<std::string> ListedIds() {
    auto listed = client().List();
    EXPECT_OK(listed);
    std::set<std::string> ids;
    for (const v1::Volume& volume : listed.value) {
      ids.insert(volume.volume_id());
    }
    return ids;
  }
};

TEST_F(ControllerTest, RepeatedCreatesOfANameReturnOneVolume) {
  // The longest allowed name, with characters that neither a shell nor LVM nor a tag accepts as they are.
  std::string name = "pvc-ünï \"quoted\" 'name', $(reboot); `x` @tag #1 日本\n";
  name.resize(128, '.');
  const VolumeSpec spec{name, TypeParameters("raid1")};
  const v1::Volume first = MustCreate(spec);
  EXPECT_EQ(MustCreate(spec).volume_id(), first.volume_id());
  KillAndRestart();
  EXPECT_EQ(MustCreate(spec).volume_id(), first.volume_id());
  EXPECT_EQ(ListedIds().size(), 1U);

  VolumeSpec differs = spec;
  differs.size = 2 * spec.size;
  EXPECT_TRUE(Fails(client().Create(differs), StatusCode::ALREADY_EXISTS, "required_bytes"));
  differs = spec;
  differs.parameters = TypeParameters("linear");
  EXPECT_TRUE(Fails(client().Create(differs), StatusCode::ALREADY_EXISTS, "parameter '"));
  differs = spec;
  differs.capability = BlockCapability();
  EXPECT_TRUE(Fails(client().Create(differs), StatusCode::ALREADY_EXISTS, "volume_capabilities"));
  EXPECT_OK(client().Delete(first.volume_id()));
}

TEST_F(ControllerTest, TwoCreatesOfOneNameAtOnceMakeOneVolume) {
  for (int round = 0; round < 3; ++round) {
    const VolumeSpec spec{"twin-" + std::to_string(round), TypeParameters("raid1")};
    std::vector<Reply<v1::CreateVolumeResponse>> replies(2);
    {
      std::vector<std::jthread> callers;
      for (auto& reply : replies) {
        callers.emplace_back([&reply, &spec] {
          CsiClient own(kSocket);
          reply = own.Create(spec);
        });
      }
    }
    // One call may get ABORTED while the other one works. When repeated it returns the same volume.
    std::set<std::string> ids;
    for (auto& reply : replies) {
      EXPECT_TRUE(reply.ok() || reply.code() == StatusCode::ABORTED) << reply.text();
      ids.insert(reply.ok() ? reply.value.volume().volume_id() : MustCreate(spec).volume_id());
    }
    EXPECT_EQ(ids.size(), 1U);
    EXPECT_EQ(ListedIds(), ids);
    const auto lvs = group().Lvs();
    ASSERT_OK(lvs);
    EXPECT_EQ(lvs->size(), 1U);
    EXPECT_OK(client().Delete(*ids.begin()));
    ASSERT_TRUE(ComesBackEmpty());
  }
}

TEST_F(ControllerTest, SizesAreMetWithinTheirLimitsOrRefused) {
  // Sizes are rounded up to whole extents, but never beyond the limit.
  v1::Volume rounded = MustCreate({"rounded", {}, BlockCapability(), 5 * kMi + 1});
  EXPECT_EQ(rounded.capacity_bytes(), 8 * kMi);
  EXPECT_OK(client().Delete(rounded.volume_id()));
  v1::Volume exact = MustCreate({"exact", {}, BlockCapability(), 64 * kMi, 64 * kMi});
  EXPECT_EQ(exact.capacity_bytes(), 64 * kMi);
  EXPECT_OK(client().Delete(exact.volume_id()));
  EXPECT_TRUE(Fails(client().Create({"odd", {}, BlockCapability(), 5 * kMi + 1, 5 * kMi + 2}),
                    StatusCode::OUT_OF_RANGE, "limit_bytes"));
  EXPECT_TRUE(Fails(client().Create({"negative", {}, BlockCapability(), -1}), StatusCode::INVALID_ARGUMENT,
                    "capacity_range"));
  EXPECT_TRUE(Fails(client().Create({"upside-down", {}, BlockCapability(), 64 * kMi, 32 * kMi}),
                    StatusCode::INVALID_ARGUMENT, "capacity_range"));
  EXPECT_TRUE(ListedIds().empty());
}

TEST_F(ControllerTest, CapacityIsWhatCreateVolumeDelivers) {
  for (const auto& parameters : {TypeParameters("linear"), TypeParameters("raid1"),
                                 TypeParameters("raid5", {{"stripes", "3"}}), TypeParameters("striped")}) {
    SCOPED_TRACE(parameters.at("type"));
    auto capacity = client().Capacity(parameters);
    ASSERT_OK(capacity);
    const int64_t most = capacity.value.available_capacity();
    ASSERT_GT(most, 0);
    EXPECT_EQ(capacity.value.maximum_volume_size().value(), most);
    const auto beyond = client().Create({"beyond", parameters, BlockCapability(), most + 1});
    EXPECT_TRUE(beyond.code() == StatusCode::RESOURCE_EXHAUSTED || beyond.code() == StatusCode::OUT_OF_RANGE)
        << beyond.code() << ": " << beyond.text();
    // Without erasing: this test is about space, and zeroing whole disks takes long.
    auto whole = parameters;
    whole["erase"] = "none";
    const v1::Volume volume = MustCreate({"whole", whole, BlockCapability(), most, most});
    EXPECT_EQ(volume.capacity_bytes(), most);
    const auto legs = group().LegDevices(LvOf(volume));
    ASSERT_OK(legs);
    EXPECT_TRUE(parameters.at("type") == "linear" || Disjoint(*legs));
    EXPECT_OK(client().Delete(volume.volume_id()));
    ASSERT_TRUE(ComesBackEmpty());
  }
}

TEST_F(ControllerTest, UnservableParametersHaveNoCapacityAndAreRefused) {
  const auto nothing = [this](const std::map<std::string, std::string>& parameters) {
    auto capacity = client().Capacity(parameters);
    EXPECT_OK(capacity);
    return capacity.value.available_capacity() == 0;
  };
  EXPECT_TRUE(nothing({{"tpye", "raid1"}}));
  EXPECT_TRUE(Fails(client().Create({"typo", {{"tpye", "raid1"}}}), StatusCode::INVALID_ARGUMENT, "tpye"));
  EXPECT_TRUE(nothing(TypeParameters("raid1", {{"mirrors", "40"}})));
  EXPECT_FALSE(client().Create({"many", TypeParameters("raid1", {{"mirrors", "40"}})}).ok());
  EXPECT_TRUE(nothing({{"pool", "elsewhere"}}));
  EXPECT_TRUE(
      Fails(client().Create({"elsewhere", {{"pool", "elsewhere"}}}), StatusCode::INVALID_ARGUMENT, "pool"));
  EXPECT_TRUE(
      Fails(client().Create({"fs", {}, MountCapability("ntfs")}), StatusCode::INVALID_ARGUMENT, "fs_type"));
  EXPECT_TRUE(Fails(client().Create({""}), StatusCode::INVALID_ARGUMENT, "name"));
  // Kubernetes adds its own keys. They are not typos.
  const v1::Volume volume = MustCreate({"annotated", {{"csi.storage.k8s.io/pvc/name", "claim"}}});
  EXPECT_OK(client().Delete(volume.volume_id()));
  EXPECT_TRUE(ListedIds().empty());
}

TEST_F(ControllerTest, UnmanagedVolumesAreNeitherListedNorChanged) {
  const std::string vg = kGroup;
  ASSERT_TRUE(Tool({"lvcreate", "-q", "-y", "-L", "64m", "-n", "plain", vg}).ok());
  ASSERT_TRUE(Tool({"lvcreate", "-q", "-y", "-L", "64m", "-n", "tagged", "--addtag", "mine", vg}).ok());
  // The name could be Quarry's, but the volume has no tag.
  const std::string look_alike = "q" + std::string(26, 'a');
  ASSERT_TRUE(Tool({"lvcreate", "-q", "-y", "-L", "64m", "-n", look_alike, vg}).ok());
  ASSERT_OK(WritePattern("/dev/vg/plain", 3, 1 << 20));
  const auto before = group().Lvs();
  ASSERT_OK(before);

  EXPECT_TRUE(ListedIds().empty());
  for (const std::string& name : {std::string("plain"), std::string("tagged"), look_alike}) {
    EXPECT_OK(client().Delete("main." + name)) << "an unmanaged volume is unknown, so a delete succeeds";
    EXPECT_OK(client().Delete(name));
    EXPECT_TRUE(Fails(client().Expand("main." + name, 128 * kMi), StatusCode::NOT_FOUND));
    v1::Volume volume;
    volume.set_volume_id("main." + name);
    EXPECT_TRUE(Fails(client().Stage(volume, StagingPath(name), BlockCapability()), StatusCode::NOT_FOUND));
  }
  const v1::Volume ours = MustCreate({"ours"});
  KillAndRestart();
  EXPECT_EQ(ListedIds(), std::set<std::string>{ours.volume_id()});
  EXPECT_OK(client().Delete(ours.volume_id()));
  EXPECT_TRUE(
      Eventually([&] { return group().Lvs().has_value() && group().Lvs()->size() == before->size(); }));

  const auto after = group().Lvs();
  ASSERT_OK(after);
  for (const auto& [name, lv] : *before) {
    ASSERT_TRUE(after->contains(name));
    EXPECT_EQ(after->at(name).size, lv.size);
    EXPECT_EQ(after->at(name).tags, lv.tags);
    EXPECT_EQ(after->at(name).active, lv.active);
  }
  EXPECT_OK(CheckPattern("/dev/vg/plain", 3, 1 << 20));
  ASSERT_OK(group().Empty());
}

TEST_F(ControllerTest, DeletedVolumesReadAsZeroes) {
  const v1::VolumeCapability block = BlockCapability();
  const v1::Volume secret = MustCreate({"secret", TypeParameters("raid1"), block});
  const std::string staging = StagingPath("secret");
  const std::string target = TargetPath("secret");
  ASSERT_OK(client().Stage(secret, staging, block));
  ASSERT_OK(client().Publish(secret, staging, target, block));
  ASSERT_OK(WritePattern(target, 42, 64 << 20));
  ASSERT_OK(client().Unpublish(secret.volume_id(), target));
  ASSERT_OK(client().Unstage(secret.volume_id(), staging));
  ASSERT_OK(client().Delete(secret.volume_id()));
  ASSERT_TRUE(ComesBackEmpty());
  // Read the disks themselves, not through LVM: the volume was near their beginning, and none of its bytes
  // are left there.
  for (const std::string& disk : group().devices()) {
    EXPECT_OK(CheckZero(disk, 128 << 20, 80 << 20)) << disk;
  }
}

TEST_F(ControllerTest, ListsComeInPages) {
  std::set<std::string> made;
  for (int i = 0; i < 5; ++i) {
    made.insert(MustCreate({"page-" + std::to_string(i), {}, BlockCapability(), 4 * kMi}).volume_id());
  }
  for (const int32_t page : {1, 2, 3, 5, 50}) {
    auto listed = client().List(page);
    ASSERT_OK(listed);
    std::multiset<std::string> ids;
    for (const v1::Volume& volume : listed.value) {
      ids.insert(volume.volume_id());
    }
    EXPECT_EQ(ids, std::multiset<std::string>(made.begin(), made.end())) << page << " volumes per page";
  }
  v1::ListVolumesRequest request;
  request.set_starting_token("invalid-token");
  EXPECT_TRUE(Fails(client().Invoke(client().controller(), &v1::Controller::Stub::ListVolumes, request),
                    StatusCode::ABORTED, "starting_token"));
  request.clear_starting_token();
  request.set_max_entries(-1);
  EXPECT_TRUE(Fails(client().Invoke(client().controller(), &v1::Controller::Stub::ListVolumes, request),
                    StatusCode::INVALID_ARGUMENT, "max_entries"));
  for (const std::string& id : made) {
    EXPECT_OK(client().Delete(id));
  }
}

}  // namespace
}  // namespace quarry::vm
