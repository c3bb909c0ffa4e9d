// Stale bytes: every byte of the group carries another tenant's pattern. Volumes are created on it, grown,
// deleted and created again. No old byte is ever read, over the whole of each volume.
#include <thread>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

struct Kind {
  std::string name;
  std::map<std::string, std::string> parameters;
};

std::vector<Kind> Kinds() {
  return {{"Linear", TypeParameters("linear")},
          {"Striped", TypeParameters("striped", {{"stripes", "3"}})},
          {"Raid0", TypeParameters("raid0")},
          {"Raid1", TypeParameters("raid1")},
          {"Raid1Skip", TypeParameters("raid1", {{"sync", "skip"}})},
          {"Raid5", TypeParameters("raid5", {{"stripes", "3"}})},
          {"Raid5Skip", TypeParameters("raid5", {{"stripes", "3"}, {"sync", "skip"}})},
          {"Raid6", TypeParameters("raid6", {{"stripes", "3"}})},
          {"Raid10", TypeParameters("raid10")}};
}

class ErasureTest : public VmTest {
 protected:
  // An administrator's logical volume takes all free extents, every byte of it is written, and it is removed.
  // So no extent is known to read as zeroes.
  void Dirty() {
    ASSERT_TRUE(Tool({"lvcreate", "-q", "-y", "-Wn", "-Zn", "-l", "100%FREE", "-n", "foreign", kGroup}).ok());
    // dd ends at the end of the device, with "no space left".
    Sh("yes 'another tenant was here' | dd of=/dev/vg/foreign bs=1M iflag=fullblock oflag=direct 2>&1");
    ASSERT_FALSE(CheckZero("/dev/vg/foreign", 1 << 20).has_value());
    Outcome removed;
    ASSERT_TRUE(Eventually([&] { return (removed = Tool({"lvremove", "-q", "-y", "vg/foreign"})).ok(); }))
        << removed.err;
  }

  int Clearings() {
    int count = 0;
    for (const std::string& line : Lines(quarryd().Log())) {
      count += line.find("zeroing disk space before use") != std::string::npos ? 1 : 0;
    }
    return count;
  }

  testing::AssertionResult AllZero(const v1::Volume& volume, int64_t size) {
    return IsOk(CheckZero(NodeOf(volume), static_cast<uint64_t>(size)));
  }

  void Expand(const v1::Volume& volume, int64_t size) {
    auto grown = client().Expand(volume.volume_id(), size);
    ASSERT_OK(grown);
    ASSERT_EQ(grown.value.capacity_bytes(), size);
  }

  // LVM's own check of the array finds no difference between its parity and its mirrors.
  void ExpectInSync(const v1::Volume& volume) {
    const std::string name = std::string(kGroup) + "/" + LvOf(volume);
    const auto field = [&](const std::string& what) {
      return Trim(Tool({"lvs", "--noheadings", "-o", what, name}).out);
    };
    EXPECT_TRUE(Eventually([&] { return field("raid_sync_action") == "idle"; }, 180));
    ASSERT_TRUE(Tool({"lvchange", "--syncaction", "check", name}).ok());
    EXPECT_TRUE(Eventually([&] { return field("raid_sync_action") == "idle"; }, 180));
    EXPECT_EQ(field("raid_mismatch_count"), "0");
  }
};

class ErasureOfTypeTest : public ErasureTest, public testing::WithParamInterface<Kind> {};

TEST_P(ErasureOfTypeTest, NewGrownAndRecreatedVolumesReadAsZeroes) {
  const auto& parameters = GetParam().parameters;
  const bool raid6 = parameters.at("type") == "raid6";
  ASSERT_NO_FATAL_FAILURE(Dirty());
  auto capacity = client().Capacity(parameters);
  ASSERT_OK(capacity);
  constexpr int64_t kGranule = 12 * 4 * kMi;  // a multiple of every type's granule, with extents of 4 MiB
  const int64_t most = capacity.value.available_capacity();
  const int64_t half = most / 2 / kGranule * kGranule;
  ASSERT_GT(half, 0);

  const v1::Volume volume = MustCreate({"first", parameters, BlockCapability(), half, half});
  ASSERT_FALSE(HasFailure());
  EXPECT_TRUE(AllZero(volume, half));
  ASSERT_NO_FATAL_FAILURE(Expand(volume, most));
  EXPECT_TRUE(AllZero(volume, most));
  if (parameters.contains("sync") && !raid6) {
    ExpectInSync(volume);
  }
  ASSERT_OK(WritePattern(NodeOf(volume), 5, static_cast<uint64_t>(most)));
  ASSERT_OK(client().Delete(volume.volume_id()));
  ASSERT_TRUE(ComesBackEmpty(300));

  const int cleared = Clearings();
  EXPECT_GE(cleared, 2);
  const v1::Volume again = MustCreate({"again", parameters, BlockCapability(), half, half});
  EXPECT_TRUE(AllZero(again, half));
  EXPECT_EQ(Clearings(), cleared) << "extents that the deletion has zeroed are not zeroed again";
  ASSERT_OK(client().Delete(again.volume_id()));
}

INSTANTIATE_TEST_SUITE_P(Types, ErasureOfTypeTest, testing::ValuesIn(Kinds()),
                         [](const auto& tested) { return tested.param.name; });

TEST_F(ErasureTest, KilledRepeatedlyQuarrydFinishesZeroingAndErasing) {
  ASSERT_NO_FATAL_FAILURE(Dirty());
  auto capacity = client().Capacity(TypeParameters("striped"));
  ASSERT_OK(capacity);
  const VolumeSpec spec{"killed", TypeParameters("striped"), BlockCapability(),
                        capacity.value.available_capacity()};
  for (const int pause : {700, 1500, 2500}) {
    std::jthread caller([&spec] {
      CsiClient own(kSocket);
      (void)own.Create(spec);  // the kill decides its outcome
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    KillAndRestart();
  }
  const v1::Volume volume = MustCreate(spec);
  ASSERT_FALSE(HasFailure());
  EXPECT_TRUE(AllZero(volume, volume.capacity_bytes()));
  ASSERT_OK(WritePattern(NodeOf(volume), 6, static_cast<uint64_t>(volume.capacity_bytes())));
  ASSERT_OK(client().Delete(volume.volume_id()));
  KillAndRestart();
  KillAndRestart();
  const v1::Volume next = MustCreate({"next", TypeParameters("linear"), BlockCapability(), 200 * kMi});
  EXPECT_TRUE(AllZero(next, next.capacity_bytes()));
  ASSERT_OK(client().Delete(next.volume_id()));
  ASSERT_TRUE(ComesBackEmpty(300));
}

class FreeZeroingTest : public ErasureTest {
 protected:
  bool StartsQuarryd() const override { return false; }
  void StartZeroing(const std::string& rate) {
    QuarrydOptions options;
    options.arguments = {"--zero-free-rate=" + rate};
    StartQuarryd(options);
  }
  // Of `quarryctl status`.
  static std::string PoolLine() {
    const Outcome status = Tool({"quarryctl", "status", "--endpoint", kAdminEndpoint});
    return status.ok() ? Lines(status.out).front() : status.err;
  }
  static bool IsZeroing() { return PoolLine().find("being zeroed") != std::string::npos; }
  // As in "pool main (volume group vg): 372 MiB of 372 MiB free (372 MiB zeroed)".
  static bool IsAllZeroed() {
    const std::string line = PoolLine();
    const size_t begin = line.find("): ") + 3;
    const std::string free = line.substr(begin, line.find(" of ") - begin);
    return line.ends_with(" of " + free + " free (" + free + " zeroed)");
  }
};

// Every extent has another tenant's bytes. All of them are zeroed, through kills; then volumes need no
// zeroing.
TEST_F(FreeZeroingTest, FreeSpaceIsZeroedWhileNobodyNeedsIt) {
  ASSERT_NO_FATAL_FAILURE(Dirty());
  StartZeroing("1MiB");  // slower than the test
  ASSERT_TRUE(Eventually(IsZeroing)) << PoolLine();
  auto capacity = client().Capacity(TypeParameters("linear"));
  ASSERT_OK(capacity);
  const int64_t all = capacity.value.available_capacity();
  EXPECT_EQ(std::to_string(all),
            Trim(Tool({"vgs", "--noheadings", "--nosuffix", "--units", "b", "-o", "vg_size", kGroup}).out))
      << "what is held for zeroing counts as free";

  // A volume that needs what is held gets it, and shows no old byte of it.
  const v1::Volume whole = MustCreate({"whole", TypeParameters("linear"), BlockCapability(), all});
  ASSERT_FALSE(HasFailure());
  EXPECT_TRUE(AllZero(whole, all));
  ASSERT_OK(client().Delete(whole.volume_id()));
  ASSERT_TRUE(ComesBackEmpty(300));

  ASSERT_EQ(quarryd().Stop(), 0);
  ASSERT_NO_FATAL_FAILURE(Dirty());
  StartZeroing("8MiB");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Eventually(IsZeroing)) << PoolLine();
    KillAndRestart();
  }
  ASSERT_TRUE(Eventually(IsAllZeroed, 180)) << PoolLine();
  EXPECT_EQ(Trim(Tool({"lvs", "--noheadings", "-a", "-o", "lv_name", kGroup}).out), "");
  const int zeroed = Clearings();
  for (const char* type : {"linear", "striped", "raid1"}) {
    const v1::Volume volume = MustCreate({type, TypeParameters(type), BlockCapability(), 32 * kMi});
    ASSERT_FALSE(HasFailure());
    EXPECT_TRUE(AllZero(volume, volume.capacity_bytes())) << type;
    ASSERT_OK(client().Delete(volume.volume_id()));
  }
  EXPECT_EQ(Clearings(), zeroed) << "the space was zeroed already";
}

}  // namespace
}  // namespace quarry::vm
