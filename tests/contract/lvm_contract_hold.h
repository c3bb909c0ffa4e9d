// The promises of LvmApi::Hold. A World as for lvm_contract.h, which also has
//   lvm::LvmApi& holder();  // can hold the group that lvm() changes
#pragma once

#include <atomic>
#include <thread>

#include "tests/contract/lvm_contract.h"

namespace quarry::contract {

template <typename World>
class LvmHoldContract : public LvmContract<World> {
 protected:
  Result<lvm::HeldGroup> Hold() { return this->world_.holder().Hold(this->Group(), Patient()); }
  Status Tag(const std::string& tag) {
    const std::string device = this->Now()->pvs.front().device;
    return this->Lvm().Apply(
        lvm::ChangePv{.group = this->Group(), .device = device, .add_tags = {tag}, .remove_tags = {}},
        Patient());
  }
};
TYPED_TEST_SUITE_P(LvmHoldContract);

TYPED_TEST_P(LvmHoldContract, AHeldGroupCannotBeChanged) {
  std::atomic<bool> done = false;
  std::optional<std::thread> writer;
  {
    const auto held = this->Hold();
    ASSERT_TRUE(held.has_value()) << held.error().message();
    EXPECT_EQ(*held->snapshot, this->Now()->MetadataOnly());
    writer.emplace([&] {
      const Status tagged = this->Tag("during");
      EXPECT_TRUE(tagged.has_value()) << tagged.error().message();
      done = true;
    });
    std::this_thread::sleep_for(std::chrono::seconds(1));
    EXPECT_FALSE(done);
  }
  writer->join();
  const auto held = this->Hold();
  ASSERT_TRUE(held.has_value()) << held.error().message();
  EXPECT_THAT(held->snapshot->pvs.front().tags, ::testing::ElementsAre("during"));
}

TYPED_TEST_P(LvmHoldContract, OverlappingHoldersDoNotStarveAWriter) {
  std::atomic<bool> stop = false;
  std::atomic<int> holds = 0;
  std::vector<std::thread> holders;
  for (int i = 0; i < 3; ++i) {
    holders.emplace_back([&] {
      while (!stop) {
        const auto held = this->Hold();
        EXPECT_TRUE(held.has_value()) << held.error().message();
        ++holds;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    });
  }
  while (holds == 0) {
    std::this_thread::yield();
  }
  for (const char* tag : {"one", "two"}) {
    const Status tagged = this->Tag(tag);
    EXPECT_TRUE(tagged.has_value()) << tagged.error().message();
  }
  stop = true;
  for (std::thread& holder : holders) {
    holder.join();
  }
  EXPECT_THAT(this->Now()->pvs.front().tags, ::testing::ElementsAre("one", "two"));
}

// lvm::CreateLv::seqno.
TYPED_TEST_P(LvmHoldContract, AVolumeIsMadeAtOneSequenceNumberOnly) {
  const lvm::Geometry linear = this->Make(lvm::VolumeType::kLinear);
  const lvm::Snapshot before = this->Now();
  const auto plan = lvm::Place(lvm::FreeSpaceOf(*before), linear, Extents{2}, *before);
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
  lvm::CreateLv create = this->Spec(lvm::NewLvName(), linear, plan->steps.front(), {"ready"});
  create.wipe = lvm::Wipe::kNone;
  create.activate = this->HasDriver();
  create.seqno = before->seqno;
  ASSERT_TRUE(this->Tag("between").has_value());
  EXPECT_FALSE(this->world_.holder().Apply(create, Patient()).has_value());
  EXPECT_EQ(this->Now()->FindLv(create.name), nullptr);

  create.seqno = this->Now()->seqno;
  const Status made = this->world_.holder().Apply(create, Patient());
  ASSERT_TRUE(made.has_value()) << made.error().message();
  const lvm::Snapshot after = this->Now();
  EXPECT_EQ(after->seqno, create.seqno + 1);
  ASSERT_NE(after->FindLv(create.name), nullptr);
  EXPECT_THAT(after->FindLv(create.name)->tags, ::testing::ElementsAre("ready"));
  EXPECT_TRUE(lvm::VerifyPlacement(*after, *after->FindLv(create.name), *plan).has_value());
  EXPECT_TRUE(this->Tag("later").has_value()) << "the lock was released";
}

REGISTER_TYPED_TEST_SUITE_P(LvmHoldContract, AHeldGroupCannotBeChanged, OverlappingHoldersDoNotStarveAWriter,
                            AVolumeIsMadeAtOneSequenceNumberOnly);

}  // namespace quarry::contract
