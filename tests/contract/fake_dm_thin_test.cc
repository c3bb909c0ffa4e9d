// What only the fake promises of its thin pools, to tests of the rooms above.
#include "tests/fakes/fake_dm_thin.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "tests/fakes/fake_dm.h"

namespace quarry::contract {
namespace {

using Mode = dm::ThinPoolStatus::Mode;

constexpr Bytes kChunk{64 * kKiB.value};
constexpr Bytes kSize{8 * kMiB.value};
constexpr const char* kPool = "LVM-pool";
constexpr const char* kThin = "LVM-thin";

class FakeThinTest : public ::testing::Test {
 protected:
  FakeThinTest() {
    dm_.AddThinPool(kPool, "vg-pool", kChunk, 4);
    Sent(dm::CreateThin{1});
    Activate(1);
  }
  void Sent(const dm::PoolMessage& message) {
    const Status sent = dm_.SendToPool(kPool, message);
    ASSERT_TRUE(sent.has_value()) << sent.error().message();
  }
  // As the device `kThin` and its id.
  void Activate(dm::ThinId id) {
    const Status added = dm_.AddThin(Uuid(id), "vg-thin" + std::to_string(id), kPool, id, kSize);
    ASSERT_TRUE(added.has_value()) << added.error().message();
  }
  void Snapshot(dm::ThinId origin, dm::ThinId id) {
    ASSERT_TRUE(dm_.Suspend(Uuid(origin), dm::FileSystemLock::kTake).has_value());
    Sent(dm::CreateSnap{id, origin});
    ASSERT_TRUE(dm_.Resume(Uuid(origin)).has_value());
  }
  static std::string Uuid(dm::ThinId id) { return kThin + std::to_string(id); }
  void Write(dm::ThinId id, uint64_t chunk, char letter) {
    const auto fd = dm_.Open(Uuid(id), O_RDWR);
    ASSERT_EQ(pwrite(fd->get(), &letter, 1, static_cast<off_t>(chunk * kChunk.value)), 1);
  }
  char Read(dm::ThinId id, uint64_t chunk) {
    char letter = '?';
    EXPECT_EQ(
        pread(dm_.Open(Uuid(id), O_RDONLY)->get(), &letter, 1, static_cast<off_t>(chunk * kChunk.value)), 1);
    return letter;
  }
  uint64_t Used() { return dm_.ThinPool(kPool).value()->data_used; }

  fakes::FakeDm dm_;
};

TEST_F(FakeThinTest, APoolSurvivesAReboot) {
  Write(1, 0, 'a');
  Sent(dm::ReserveMetadataSnap{});
  dm_.Reboot();
  EXPECT_FALSE(dm_.ThinPool(kPool)->has_value());
  EXPECT_EQ(dm_.AddThin(Uuid(1), "vg-thin1", kPool, 1, kSize).error().code(), Code::kNotFound);
  dm_.AddThinPool(kPool, "vg-pool", kChunk, 4);
  EXPECT_TRUE(dm_.ThinPool(kPool).value()->held_root.has_value());
  EXPECT_EQ(Used(), 1U);
  Activate(1);
  EXPECT_EQ(Read(1, 0), 'a');
  EXPECT_EQ(dm_.OpenCount(Uuid(1)), 0U);
}

TEST_F(FakeThinTest, AChunkIsSharedUntilAnOwnerGetsOtherBytes) {
  Write(1, 0, 'a');
  Snapshot(1, 2);
  Snapshot(1, 3);
  EXPECT_EQ(Used(), 1U);
  Write(1, 0, 'b');
  EXPECT_EQ(Used(), 2U) << "the snapshots share theirs";
  Activate(2);
  Write(2, 0, 'c');
  EXPECT_EQ(Used(), 3U);
  Write(2, 0, 'a');
  EXPECT_EQ(Used(), 3U) << "equal bytes do not make chunks shared again";
}

TEST_F(FakeThinTest, APoolWithoutRoomIsOutOfDataSpaceUntilItGrows) {
  for (uint64_t chunk = 0; chunk < 4; ++chunk) {
    Write(1, chunk, 'a');
  }
  EXPECT_EQ(dm_.ThinPool(kPool).value()->mode, Mode::kReadWrite);
  Write(1, 4, 'a');
  EXPECT_EQ(dm_.ThinPool(kPool).value()->mode, Mode::kOutOfDataSpace);
  EXPECT_EQ(Used(), 4U);
  dm_.AddThinPool(kPool, "vg-pool", kChunk, 8);
  EXPECT_EQ(dm_.ThinPool(kPool).value()->mode, Mode::kReadWrite);
  EXPECT_EQ(Used(), 5U);
}

TEST_F(FakeThinTest, ASnapshotOfARunningDeviceIsRefused) {
  EXPECT_EQ(dm_.SendToPool(kPool, dm::CreateSnap{2, 1}).error().code(), Code::kInternal);
  Snapshot(1, 2);
}

TEST_F(FakeThinTest, TheWorldDecidesTheStateOfAPool) {
  dm_.ChangeThinPool(kPool, [](dm::ThinPoolStatus& pool) {
    pool.mode = Mode::kFailed;
    pool.transaction_id = 9;
  });
  EXPECT_EQ(dm_.ThinPool(kPool).value()->mode, Mode::kFailed);
  EXPECT_EQ(dm_.ThinPool(kPool).value()->transaction_id, 9U);
  EXPECT_TRUE(dm_.Thin(Uuid(1)).value()->failed);
  EXPECT_EQ(dm_.SendToPool(kPool, dm::CreateThin{2}).error().code(), Code::kPrecondition);
}

TEST_F(FakeThinTest, WithoutATableThereIsNoStatus) {
  dm_.TakeTable(Uuid(1));
  EXPECT_FALSE(dm_.Thin(Uuid(1))->has_value());
  dm_.TakeTable(std::string(kPool) + "-tpool");
  EXPECT_FALSE(dm_.ThinPool(kPool)->has_value());
}

}  // namespace
}  // namespace quarry::contract
