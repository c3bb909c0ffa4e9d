#include "tests/contract/dm_contract.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace quarry::contract {
namespace {

using ::testing::ElementsAre;

constexpr Bytes kSize{16 * kMiB.value};
constexpr const char* kUuid = "LVM-quarryContractTestGroupQuarryContractTestVolume1";
constexpr const char* kOther = "LVM-quarryContractTestGroupQuarryContractTestVolume2";

class DmContract : public ::testing::Test {
 protected:
  dm::DmApi& api() { return world_->api(); }
  uint32_t Opens(const std::string& uuid) { return (*api().Find(uuid))->open_count; }
  // The kernel releases a device a moment after its last descriptor, and udev may probe the device meanwhile.
  bool RemovedInTheEnd(const std::string& uuid) {
    for (int i = 0; i < 100; ++i) {
      if (world_->Remove(uuid)) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }

  std::unique_ptr<DmWorld> world_ = MakeDmWorld();
};

TEST_F(DmContract, FindsNothingThatIsNotActive) {
  const auto found = api().Find(kUuid);
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_FALSE(found->has_value());
  EXPECT_EQ(api().Open(kUuid, O_RDONLY).error().code(), Code::kNotFound);
  EXPECT_EQ(api().SetReadOnly(kUuid, true).error().code(), Code::kNotFound);
}

TEST_F(DmContract, FindsADeviceByItsUuid) {
  world_->Add(kUuid, "quarry-contract1", kSize);
  world_->Add(kOther, "quarry-contract2", kSize);
  const auto found = *api().Find(kUuid);
  const auto other = *api().Find(kOther);
  ASSERT_TRUE(found && other);
  EXPECT_EQ(found->name, "quarry-contract1");
  EXPECT_EQ(found->uuid, kUuid);
  EXPECT_NE(found->major, 0U);
  EXPECT_EQ(found->major, other->major);
  EXPECT_NE(found->minor, other->minor);
  EXPECT_FALSE(found->suspended);
  EXPECT_FALSE(found->read_only);
  EXPECT_EQ(found->Node(), "/dev/dm-" + std::to_string(found->minor));
}

TEST_F(DmContract, CountsOpenDescriptors) {
  world_->Add(kUuid, "quarry-contract1", kSize);
  const uint32_t before = Opens(kUuid);
  {
    const auto first = api().Open(kUuid, O_RDONLY);
    const auto second = api().Open(kUuid, O_RDWR);
    ASSERT_TRUE(first.has_value() && second.has_value());
    EXPECT_GE(Opens(kUuid), before + 2);
  }
  EXPECT_LE(Opens(kUuid), before);
}

TEST_F(DmContract, ChildrenDoNotInheritDescriptors) {
  world_->Add(kUuid, "quarry-contract1", kSize);
  const auto fd = api().Open(kUuid, O_RDONLY);
  ASSERT_TRUE(fd.has_value());
  EXPECT_EQ(fcntl(fd->get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(DmContract, AnOpenDeviceCannotBeRemoved) {
  world_->Add(kUuid, "quarry-contract1", kSize);
  {
    const auto fd = api().Open(kUuid, O_RDONLY);
    ASSERT_TRUE(fd.has_value());
    EXPECT_FALSE(world_->Remove(kUuid));
    EXPECT_TRUE(api().Find(kUuid)->has_value());
  }
  EXPECT_TRUE(RemovedInTheEnd(kUuid));
  EXPECT_FALSE(api().Find(kUuid)->has_value());
}

TEST_F(DmContract, ListsDevicesByPrefixAndRemovesOnlyClosedOnes) {
  world_->Add(kUuid, "quarry-contract1", kSize);
  world_->Add(kOther, "quarry-contract2", kSize);
  const auto listed = api().List(kUuid);
  ASSERT_TRUE(listed.has_value()) << listed.error().message();
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ(listed->front().name, "quarry-contract1");
  EXPECT_EQ(listed->front().uuid, kUuid);
  EXPECT_EQ(listed->front().minor, (*api().Find(kUuid))->minor);
  EXPECT_TRUE(api().List(std::string(kUuid) + "-no-such")->empty());
  {
    const auto fd = api().Open(kUuid, O_RDONLY);
    ASSERT_TRUE(fd.has_value());
    EXPECT_EQ(api().Remove(kUuid).error().code(), Code::kPrecondition);
    EXPECT_TRUE(api().Find(kUuid)->has_value());
  }
  const Status removed = RemoveInTheEnd(api(), kUuid);
  EXPECT_TRUE(removed.has_value()) << removed.error().message();
  EXPECT_FALSE(api().Find(kUuid)->has_value());
  EXPECT_TRUE(api().Find(kOther)->has_value());
  EXPECT_TRUE(api().Remove(kUuid).has_value()) << "a second removal is no error";
}

TEST_F(DmContract, OnlyOneDescriptorIsExclusive) {
  world_->Add(kUuid, "quarry-contract1", kSize);
  {
    const auto exclusive = api().Open(kUuid, O_RDONLY | O_EXCL);
    ASSERT_TRUE(exclusive.has_value()) << exclusive.error().message();
    const auto second = api().Open(kUuid, O_RDONLY | O_EXCL);
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code(), Code::kPrecondition);
    EXPECT_EQ(second.error().sys_errno(), EBUSY);
    EXPECT_TRUE(api().Open(kUuid, O_RDONLY).has_value());
  }
  EXPECT_TRUE(api().Open(kUuid, O_RDONLY | O_EXCL).has_value());
}

TEST_F(DmContract, AReadOnlyDeviceIsSeenAsOneAndNotOpenedForWriting) {
  world_->Add(kUuid, "quarry-contract1", kSize);
  ASSERT_TRUE(api().SetReadOnly(kUuid, true).has_value());
  EXPECT_TRUE((*api().Find(kUuid))->read_only);
  const auto writable = api().Open(kUuid, O_RDWR);
  ASSERT_FALSE(writable.has_value());
  EXPECT_EQ(writable.error().code(), Code::kPrecondition);
  EXPECT_TRUE(api().Open(kUuid, O_RDONLY).has_value());
  ASSERT_TRUE(api().SetReadOnly(kUuid, true).has_value());
  ASSERT_TRUE(api().SetReadOnly(kUuid, false).has_value());
  EXPECT_FALSE((*api().Find(kUuid))->read_only);
  EXPECT_TRUE(api().Open(kUuid, O_RDWR).has_value());
}

TEST_F(DmContract, AReusedMinorIsAnotherDevice) {
  world_->Add(kUuid, "quarry-contract1", kSize);
  const uint32_t minor = (*api().Find(kUuid))->minor;
  ASSERT_TRUE(RemovedInTheEnd(kUuid));
  world_->Add(kOther, "quarry-contract2", kSize);
  ASSERT_EQ((*api().Find(kOther))->minor, minor) << "device-mapper reuses the lowest free number";
  EXPECT_FALSE(api().Find(kUuid)->has_value());
  EXPECT_EQ(api().Open(kUuid, O_RDONLY).error().code(), Code::kNotFound);
}

TEST_F(DmContract, KnowsWhatTheKernelOffers) {
  EXPECT_EQ(api().HasTarget("linear").value(), true);
  EXPECT_EQ(api().HasTarget("quarry-no-such-target").value(), false);
}

TEST_F(DmContract, ReportsTheMappedRangesOfADisk) {
  const auto nothing = api().MappingsOf(world_->Disk());
  ASSERT_TRUE(nothing.has_value()) << nothing.error().message();
  EXPECT_TRUE(nothing->empty());
  world_->Add(kOther, "quarry-contract2", kSize);
  world_->AddOnDisk(kUuid, "quarry-contract1", {2 * kMiB.value}, kMiB);
  const auto mapped = api().MappingsOf(world_->Disk());
  ASSERT_TRUE(mapped.has_value()) << mapped.error().message();
  ASSERT_EQ(mapped->size(), 1U);
  const dm::Mapping& one = mapped->front();
  EXPECT_EQ(one.uuid, kUuid);
  EXPECT_EQ(one.name, "quarry-contract1");
  EXPECT_EQ(one.offset, Bytes{2 * kMiB.value});
  EXPECT_EQ(one.length, kMiB);
  EXPECT_TRUE(one.Overlaps({3 * kMiB.value - 512}, {512}));
  EXPECT_TRUE(one.Overlaps({0}, {2 * kMiB.value + 512}));
  EXPECT_FALSE(one.Overlaps({3 * kMiB.value}, kMiB));
  EXPECT_FALSE(one.Overlaps({0}, {2 * kMiB.value}));
  ASSERT_TRUE(RemovedInTheEnd(kUuid));
  EXPECT_TRUE(api().MappingsOf(world_->Disk())->empty());
}

TEST_F(DmContract, ADeviceThatIsNoRaidHasNoRaidStatus) {
  const auto absent = api().Raid(kUuid);
  ASSERT_TRUE(absent.has_value()) << absent.error().message();
  EXPECT_FALSE(absent->has_value());
  world_->Add(kUuid, "quarry-contract1", kSize);
  const auto linear = api().Raid(kUuid);
  ASSERT_TRUE(linear.has_value()) << linear.error().message();
  EXPECT_FALSE(linear->has_value());
}

TEST_F(DmContract, ADeviceThatIsNoRaidCannotBeScrubbed) {
  EXPECT_EQ(api().Scrub(kUuid, false).error().code(), Code::kNotFound);
  world_->Add(kUuid, "quarry-contract1", kSize);
  EXPECT_EQ(api().Scrub(kUuid, false).error().code(), Code::kUnsupported);
}

TEST_F(DmContract, ARecreatedDeviceIsAnotherInstance) {
  EXPECT_EQ(api().Instance(kUuid).error().code(), Code::kNotFound);
  world_->Add(kUuid, "quarry-contract1", kSize);
  const auto first = api().Instance(kUuid);
  ASSERT_TRUE(first.has_value()) << first.error().message();
  EXPECT_NE(*first, 0U);
  EXPECT_EQ(api().Instance(kUuid).value(), *first);
  ASSERT_TRUE(RemovedInTheEnd(kUuid));
  world_->Add(kUuid, "quarry-contract1", kSize);
  EXPECT_NE(api().Instance(kUuid).value(), *first);
}

TEST_F(DmContract, ADeviceHasTheSizeOfItsTable) {
  EXPECT_EQ(api().Size(kUuid).value(), std::nullopt);
  world_->Add(kUuid, "quarry-contract1", kSize);
  EXPECT_EQ(api().Size(kUuid).value(), kSize);
}

TEST_F(DmContract, ManyThreadsCanCallItAtOnce) {
  world_->Add(kUuid, "quarry-contract1", kSize);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 25; ++n) {
        const auto found = api().Find(kUuid);
        const auto absent = api().Find(kOther);
        const auto fd = api().Open(kUuid, O_RDONLY);
        wrong += found.has_value() && *found && absent.has_value() && !*absent && fd.has_value() ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

class EraseContract : public ::testing::TestWithParam<dm::EraseMethod> {
 protected:
  dm::EraseRange Range(Bytes length) const {
    return {world_->device(), world_->pv_uuid(), world_->first_extent(), length};
  }
  static Call call() { return CallWithin(std::chrono::seconds(60)); }

  std::unique_ptr<EraseWorld> world_ = MakeEraseWorld({3 * kGiB.value});
};

TEST_P(EraseContract, WorksInPiecesOfAGibibyteAndReportsProgress) {
  std::vector<uint64_t> progress;
  const Status erased = world_->api().Erase(Range({2 * kGiB.value + kMiB.value}), GetParam(), call(),
                                            [&](Bytes done) { progress.push_back(done.value); });
  ASSERT_TRUE(erased.has_value()) << erased.error().message();
  EXPECT_THAT(progress, ElementsAre(kGiB.value, 2 * kGiB.value, 2 * kGiB.value + kMiB.value));
}

TEST_P(EraseContract, MayBeRepeatedAndMayHaveNothingToDo) {
  EXPECT_TRUE(world_->api().Erase(Range(kMiB), GetParam(), call(), nullptr).has_value());
  EXPECT_TRUE(world_->api().Erase(Range(kMiB), GetParam(), call(), nullptr).has_value());
  EXPECT_TRUE(world_->api().Erase(Range({0}), GetParam(), call(), nullptr).has_value());
}

TEST_P(EraseContract, TouchesOnlyTheRequestedPv) {
  dm::EraseRange range = Range(kMiB);
  range.pv_uuid = "000000-0000-0000-0000-0000-0000-000000";
  bool touched = false;
  const Status erased = world_->api().Erase(range, GetParam(), call(), [&](Bytes) { touched = true; });
  ASSERT_FALSE(erased.has_value());
  EXPECT_EQ(erased.error().code(), Code::kCorrupt);
  EXPECT_FALSE(touched);
}

TEST_P(EraseContract, ADeviceThatIsGoneIsNotFound) {
  dm::EraseRange range = Range(kMiB);
  range.device = "/dev/quarry-no-such-device";
  EXPECT_EQ(world_->api().Erase(range, GetParam(), call(), nullptr).error().code(), Code::kNotFound);
}

TEST_P(EraseContract, StopsBetweenPieces) {
  std::stop_source stop;
  Call stoppable = call();
  stoppable.stop = stop.get_token();
  std::vector<uint64_t> progress;
  const Status erased = world_->api().Erase(Range({2 * kGiB.value}), GetParam(), stoppable, [&](Bytes done) {
    progress.push_back(done.value);
    stop.request_stop();
  });
  ASSERT_FALSE(erased.has_value());
  EXPECT_EQ(erased.error().code(), Code::kCancelled);
  EXPECT_THAT(progress, ElementsAre(kGiB.value));
}

INSTANTIATE_TEST_SUITE_P(Both, EraseContract,
                         ::testing::Values(dm::EraseMethod::kZero, dm::EraseMethod::kDiscard),
                         [](const auto& instance) {
                           return instance.param == dm::EraseMethod::kZero ? "Zero" : "Discard";
                         });

}  // namespace
}  // namespace quarry::contract
