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

REGISTER_TYPED_TEST_SUITE_P(LvmHoldContract, AHeldGroupCannotBeChanged, OverlappingHoldersDoNotStarveAWriter);

}  // namespace quarry::contract
