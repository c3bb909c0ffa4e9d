// The promises of DmApi about thin pools, thin devices and suspends.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "dm/suspension.h"
#include "tests/contract/dm_contract.h"

namespace quarry::contract {
namespace {

using dm::ThinPoolStatus;

constexpr Bytes kChunk{64 * kKiB.value};
constexpr Bytes kSize{8 * kMiB.value};
constexpr const char* kPool = "LVM-quarryContractTestGroupQuarryContractTestVolumeP";
constexpr const char* kOrigin = "LVM-quarryContractTestGroupQuarryContractTestVolume1";
constexpr const char* kSnapshot = "LVM-quarryContractTestGroupQuarryContractTestVolume2";

class DmThinContract : public ::testing::Test {
 protected:
  dm::DmApi& api() { return world_->api(); }
  void AddPool(bool has_volumes = true) { world_->AddThinPool(kPool, "quarry-pool", has_volumes); }
  // A pool with a blank device 1, active.
  void AddOrigin() {
    AddPool();
    Sent(dm::CreateThin{1});
    world_->AddThin(kOrigin, "quarry-origin", kPool, 1, kSize);
  }
  void Sent(const dm::PoolMessage& message) {
    const Status sent = api().SendToPool(kPool, message);
    ASSERT_TRUE(sent.has_value()) << sent.error().message();
  }
  Code Refused(const dm::PoolMessage& message, const std::string& pool = kPool) {
    const Status sent = api().SendToPool(pool, message);
    EXPECT_FALSE(sent.has_value());
    return sent.has_value() ? Code::kInternal : sent.error().code();
  }
  ThinPoolStatus Pool() { return api().ThinPool(kPool).value().value(); }
  dm::ThinStatus Thin(const std::string& uuid) { return api().Thin(uuid).value().value(); }
  bool IsSuspended(const std::string& uuid) { return api().Find(uuid).value().value().suspended; }

  void Write(const std::string& uuid, uint64_t chunk, char letter) {
    const UniqueFd fd = std::move(api().Open(uuid, O_RDWR).value());
    const std::string bytes(4096, letter);
    ASSERT_EQ(pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(chunk * kChunk.value)), 4096);
    ASSERT_EQ(fsync(fd.get()), 0);
  }
  char FirstLetter(const std::string& uuid, uint64_t chunk) {
    const UniqueFd fd = std::move(api().Open(uuid, O_RDONLY).value());
    char letter = '?';
    EXPECT_EQ(pread(fd.get(), &letter, 1, static_cast<off_t>(chunk * kChunk.value)), 1);
    return letter;
  }
  // As RemoveInTheEnd(): udevd may have it open.
  void RemoveActive(const std::string& uuid) {
    for (int i = 0; i < 300 && !world_->Remove(uuid); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ASSERT_FALSE(api().Find(uuid)->has_value());
  }
  Result<dm::Suspension> Begin(const std::string& uuid, dm::FileSystemLock lock = dm::FileSystemLock::kTake) {
    return dm::Suspension::Begin(api(), uuid, lock, CallWithin(std::chrono::seconds(30)));
  }

  std::unique_ptr<DmWorld> world_ = MakeDmWorld();
};

TEST_F(DmThinContract, AFreshPoolIsWritableAndEmpty) {
  AddPool();
  const ThinPoolStatus pool = Pool();
  EXPECT_EQ(pool.mode, ThinPoolStatus::Mode::kReadWrite);
  EXPECT_EQ(pool.transaction_id, 0U);
  EXPECT_EQ(pool.data_used, 0U);
  EXPECT_EQ(pool.data_total, 256U);
  EXPECT_GT(pool.metadata_used, 0U);
  EXPECT_GT(pool.metadata_free(), pool.metadata_low_water);
  EXPECT_GT(pool.metadata_low_water, 0U);
  EXPECT_FALSE(pool.held_root.has_value());
  EXPECT_FALSE(pool.fails_when_full);
  EXPECT_FALSE(pool.needs_check);
  EXPECT_EQ(pool.discards, ThinPoolStatus::Discards::kPassedDown);
}

TEST_F(DmThinContract, APoolIsFoundByTheUuidOfItsVolume) {
  const std::string device = std::string(kPool) + "-tpool";
  AddPool(false);
  EXPECT_EQ(Pool().uuid, device);
  EXPECT_EQ(Pool().name, "quarry-pool");
  RemoveActive(device);
  EXPECT_FALSE(api().ThinPool(kPool)->has_value());

  world_->AddThinPool(kPool, "quarry-other", true);
  EXPECT_EQ(Pool().uuid, device);
  EXPECT_EQ(Pool().name, "quarry-other-tpool");
  EXPECT_TRUE(api().Find(device)->has_value());
  EXPECT_EQ(api().ThinPool(device).value().value().uuid, device);
}

TEST_F(DmThinContract, OtherDevicesAreNeitherPoolNorThin) {
  for (const bool active : {false, true}) {
    const auto pool = api().ThinPool(kOrigin);
    ASSERT_TRUE(pool.has_value()) << pool.error().message();
    EXPECT_FALSE(pool->has_value());
    const auto thin = api().Thin(kOrigin);
    ASSERT_TRUE(thin.has_value()) << thin.error().message();
    EXPECT_FALSE(thin->has_value());
    EXPECT_EQ(Refused(dm::CreateThin{1}, kOrigin), Code::kPrecondition) << active;
    if (!active) {
      world_->Add(kOrigin, "quarry-origin", kSize);
    }
  }
}

TEST_F(DmThinContract, WritesMapWholeChunks) {
  AddOrigin();
  EXPECT_FALSE(Thin(kOrigin).failed);
  EXPECT_EQ(Thin(kOrigin).mapped, Bytes{0});
  EXPECT_EQ(Thin(kOrigin).mapped_end, Bytes{0});
  Write(kOrigin, 2, 'a');
  Write(kOrigin, 5, 'b');
  EXPECT_EQ(Thin(kOrigin).mapped, Bytes{2 * kChunk.value});
  EXPECT_EQ(Thin(kOrigin).mapped_end, Bytes{6 * kChunk.value});
  EXPECT_EQ(Pool().data_used, 2U);
}

TEST_F(DmThinContract, ASnapshotKeepsTheBytesOfItsInstant) {
  AddOrigin();
  Write(kOrigin, 0, 'a');
  Write(kOrigin, 1, 'b');
  {
    const auto suspension = Begin(kOrigin);
    ASSERT_TRUE(suspension.has_value()) << suspension.error().message();
    Sent(dm::CreateSnap{2, 1});
  }
  EXPECT_EQ(Pool().data_used, 2U) << "all chunks are shared";
  Write(kOrigin, 0, 'c');
  EXPECT_EQ(Pool().data_used, 3U);
  world_->AddThin(kSnapshot, "quarry-snapshot", kPool, 2, kSize);
  EXPECT_EQ(FirstLetter(kSnapshot, 0), 'a');
  EXPECT_EQ(FirstLetter(kSnapshot, 1), 'b');
  EXPECT_EQ(FirstLetter(kOrigin, 0), 'c');
  EXPECT_EQ(Thin(kSnapshot).mapped, Bytes{2 * kChunk.value});

  RemoveActive(kSnapshot);
  Sent(dm::DeleteThin{2});
  EXPECT_EQ(Pool().data_used, 2U);
  EXPECT_EQ(FirstLetter(kOrigin, 1), 'b');
}

TEST_F(DmThinContract, AnIdIsGivenOnce) {
  AddOrigin();
  EXPECT_EQ(Refused(dm::CreateThin{1}), Code::kAlreadyExists);
  Sent(dm::CreateThin{2});
  const auto suspension = Begin(kOrigin);
  ASSERT_TRUE(suspension.has_value());
  EXPECT_EQ(Refused(dm::CreateSnap{2, 1}), Code::kAlreadyExists);
  const Status again = api().SendToPool(kPool, dm::CreateSnap{2, 1});
  EXPECT_NE(again.error().message().find("'create_snap 2 1' to thin pool quarry-pool"), std::string::npos)
      << again.error().message();
  EXPECT_EQ(again.error().sys_errno(), EEXIST);
  EXPECT_EQ(Refused(dm::CreateThin{dm::kMaxThinId + 1}), Code::kInvalidArgument);
  Sent(dm::CreateThin{dm::kMaxThinId});
}

TEST_F(DmThinContract, WhatThePoolDoesNotHaveIsNotFound) {
  AddPool();
  EXPECT_EQ(Refused(dm::DeleteThin{1}), Code::kNotFound);
  EXPECT_EQ(Refused(dm::CreateSnap{2, 1}), Code::kNotFound);
  EXPECT_EQ(Refused(dm::ReleaseMetadataSnap{}), Code::kNotFound);
  Sent(dm::CreateThin{1});
  Sent(dm::DeleteThin{1});
  EXPECT_EQ(Refused(dm::DeleteThin{1}), Code::kNotFound);
}

// Its data may be suspended, too, and the commit would wait for them.
TEST_F(DmThinContract, ASuspendedPoolTakesNoMessage) {
  AddPool();
  const std::string pool = Pool().uuid;
  ASSERT_TRUE(api().Suspend(pool, dm::FileSystemLock::kSkip).has_value());
  EXPECT_EQ(Refused(dm::CreateThin{1}), Code::kUnavailable);
  EXPECT_EQ(Refused(dm::ReserveMetadataSnap{}), Code::kUnavailable);
  ASSERT_TRUE(api().Resume(pool).has_value());
  Sent(dm::CreateThin{1});
}

TEST_F(DmThinContract, AnActiveDeviceIsNotDeleted) {
  AddOrigin();
  EXPECT_EQ(Refused(dm::DeleteThin{1}), Code::kPrecondition);
  RemoveActive(kOrigin);
  Sent(dm::DeleteThin{1});
}

TEST_F(DmThinContract, APoolWithActiveDevicesIsNotRemoved) {
  AddOrigin();
  const std::string device = Pool().uuid;
  EXPECT_GE(api().Find(device).value()->open_count, 1U);
  EXPECT_EQ(api().Remove(device).error().code(), Code::kPrecondition);
  EXPECT_TRUE(api().Thin(kOrigin)->has_value());
}

TEST_F(DmThinContract, ADeletedDeviceIsBlankWhenItsIdIsUsedAgain) {
  AddOrigin();
  Write(kOrigin, 0, 'a');
  RemoveActive(kOrigin);
  Sent(dm::DeleteThin{1});
  EXPECT_EQ(Pool().data_used, 0U);
  Sent(dm::CreateThin{1});
  world_->AddThin(kOrigin, "quarry-origin", kPool, 1, kSize);
  EXPECT_EQ(Thin(kOrigin).mapped, Bytes{0});
  EXPECT_EQ(FirstLetter(kOrigin, 0), '\0');
}

TEST_F(DmThinContract, ADeviceKeepsItsBytesWhileItIsInactive) {
  AddOrigin();
  Write(kOrigin, 3, 'a');
  RemoveActive(kOrigin);
  EXPECT_FALSE(api().Thin(kOrigin)->has_value());
  Sent(dm::CreateSnap{2, 1});  // needs no suspend
  world_->AddThin(kOrigin, "quarry-origin", kPool, 1, kSize);
  world_->AddThin(kSnapshot, "quarry-snapshot", kPool, 2, kSize);
  EXPECT_EQ(FirstLetter(kOrigin, 3), 'a');
  EXPECT_EQ(FirstLetter(kSnapshot, 3), 'a');
}

TEST_F(DmThinContract, OneMetadataSnapshotIsHeldAtATime) {
  AddPool();
  Sent(dm::ReserveMetadataSnap{});
  EXPECT_TRUE(Pool().held_root.has_value());
  EXPECT_EQ(Refused(dm::ReserveMetadataSnap{}), Code::kPrecondition);
  Sent(dm::CreateThin{1});
  Sent(dm::ReleaseMetadataSnap{});
  EXPECT_FALSE(Pool().held_root.has_value());
  Sent(dm::ReserveMetadataSnap{});
  Sent(dm::ReleaseMetadataSnap{});
}

TEST_F(DmThinContract, AMessageToAnInactivePoolIsNoAnswerAboutADevice) {
  EXPECT_EQ(Refused(dm::DeleteThin{1}), Code::kPrecondition);
}

TEST_F(DmThinContract, ASuspensionEndsWithItsObject) {
  world_->Add(kOrigin, "quarry-origin", kSize);
  for (const auto lock : {dm::FileSystemLock::kTake, dm::FileSystemLock::kSkip}) {
    {
      auto suspension = Begin(kOrigin, lock);
      ASSERT_TRUE(suspension.has_value()) << suspension.error().message();
      EXPECT_TRUE(IsSuspended(kOrigin));
      const dm::Suspension moved = std::move(*suspension);
      EXPECT_TRUE(IsSuspended(kOrigin));
    }
    EXPECT_FALSE(IsSuspended(kOrigin));
  }
  auto suspension = Begin(kOrigin);
  ASSERT_TRUE(suspension.has_value());
  EXPECT_TRUE(suspension->End().has_value());
  EXPECT_FALSE(IsSuspended(kOrigin));
  EXPECT_TRUE(suspension->End().has_value());
}

TEST_F(DmThinContract, TheSuspensionOfAnotherProgramIsLeftAlone) {
  world_->Add(kOrigin, "quarry-origin", kSize);
  ASSERT_TRUE(api().Suspend(kOrigin, dm::FileSystemLock::kTake).has_value());
  EXPECT_EQ(Begin(kOrigin).error().code(), Code::kPrecondition);
  EXPECT_TRUE(IsSuspended(kOrigin));
  EXPECT_TRUE(api().Suspend(kOrigin, dm::FileSystemLock::kTake).has_value()) << "may be repeated";
  EXPECT_TRUE(api().Resume(kOrigin).has_value());
  EXPECT_TRUE(api().Resume(kOrigin).has_value()) << "may be repeated";
  EXPECT_FALSE(IsSuspended(kOrigin));
}

TEST_F(DmThinContract, NothingIsSuspendedForACallThatHasEnded) {
  world_->Add(kOrigin, "quarry-origin", kSize);
  const auto late = dm::Suspension::Begin(api(), kOrigin, dm::FileSystemLock::kTake,
                                          CallWithin(std::chrono::milliseconds(-1)));
  EXPECT_EQ(late.error().code(), Code::kTimeout);
  EXPECT_FALSE(IsSuspended(kOrigin));
}

TEST_F(DmThinContract, ADeviceThatIsGoneNeedsNoResume) {
  EXPECT_EQ(Begin(kOrigin).error().code(), Code::kNotFound);
  EXPECT_EQ(api().Suspend(kOrigin, dm::FileSystemLock::kTake).error().code(), Code::kNotFound);
  EXPECT_EQ(api().Resume(kOrigin).error().code(), Code::kNotFound);
  world_->Add(kOrigin, "quarry-origin", kSize);
  auto suspension = Begin(kOrigin);
  ASSERT_TRUE(suspension.has_value());
  RemoveActive(kOrigin);
  EXPECT_TRUE(suspension->End().has_value());
}

}  // namespace
}  // namespace quarry::contract
