// Many callers at once, while quarryd is killed again and again.
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

constexpr int kVolumes = 50;
constexpr int kClients = 8;

class CrowdTest : public VmTest {};

TEST_F(CrowdTest, EightClientsAtOnceCreateFiftyVolumes) {
  std::atomic<int> next = 0;
  std::mutex mutex;
  std::vector<std::string> errors;
  std::set<std::string> ids;
  const auto work = [&] {
    CsiClient own(kSocket, std::chrono::minutes(10));
    for (int i = next++; i < kVolumes; i = next++) {
      auto reply = own.Create({"crowd-" + std::to_string(i), {}, BlockCapability(), 8 * kMi});
      const std::lock_guard lock(mutex);
      if (reply.ok()) {
        ids.insert(reply.value.volume().volume_id());
      } else {
        errors.push_back(reply.text());
      }
    }
  };
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.emplace_back(work);
    }
  }
  EXPECT_THAT(errors, testing::IsEmpty());
  EXPECT_EQ(ids.size(), static_cast<size_t>(kVolumes));
  auto listed = client().List();
  ASSERT_OK(listed);
  EXPECT_EQ(listed.value.size(), static_cast<size_t>(kVolumes));
  const auto lvs = group().Lvs();
  ASSERT_OK(lvs);
  EXPECT_EQ(lvs->size(), static_cast<size_t>(kVolumes));
  for (const std::string& id : ids) {
    EXPECT_OK(client().Delete(id));
  }
  ASSERT_TRUE(ComesBackEmpty(300));
}

// The pool has space for 37 volumes of this size, and 100 callers create one at the same time.
TEST_F(CrowdTest, AFullPoolIsNeverOvercommitted) {
  constexpr int kFit = 37;
  constexpr int kCallers = 100;
  constexpr int64_t kEach = 20;  // extents
  const std::map<std::string, std::string> parameters = {{"type", "linear"}, {"erase", "none"}};
  const auto bytes = [](int64_t extents) { return extents * 4 * kMi; };
  const v1::Volume filler =
      MustCreate({"filler", parameters, BlockCapability(), bytes(TotalExtents() - kFit * kEach)});
  std::mutex mutex;
  std::map<grpc::StatusCode, int> outcomes;
  std::set<std::string> ids;
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < kCallers; ++i) {
      clients.emplace_back([&, i] {
        CsiClient own(kSocket, std::chrono::minutes(15));
        auto reply = own.Create({"rush-" + std::to_string(i), parameters, BlockCapability(), bytes(kEach)});
        const std::lock_guard lock(mutex);
        ++outcomes[reply.code()];
        if (reply.ok()) {
          ids.insert(reply.value.volume().volume_id());
        }
      });
    }
  }
  EXPECT_THAT(outcomes, testing::UnorderedElementsAre(
                            testing::Pair(grpc::StatusCode::OK, kFit),
                            testing::Pair(grpc::StatusCode::RESOURCE_EXHAUSTED, kCallers - kFit)));
  EXPECT_EQ(ids.size(), static_cast<size_t>(kFit));
  ids.insert(filler.volume_id());
  for (const std::string& id : ids) {
    EXPECT_OK(client().Delete(id));
  }
  ASSERT_TRUE(ComesBackEmpty(300));
}

TEST_F(CrowdTest, AKillDuringACreateLosesAndLeavesNothing) {
  constexpr int kRounds = 8;
  std::mt19937 random(20260);
  std::uniform_int_distribution<int> pause(50, 2500);
  for (int round = 0; round < kRounds; ++round) {
    const std::string type = round % 2 == 0 ? "raid1" : "linear";
    const VolumeSpec spec{"killed-" + std::to_string(round), TypeParameters(type), BlockCapability(),
                          16 * kMi};
    std::jthread caller([&spec] {
      CsiClient own(kSocket);
      (void)own.Create(spec);  // the kill decides its outcome
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(pause(random)));
    quarryd().Kill();
    caller.join();
    StartQuarryd();
    // The volume exists or can be created. An unfinished one is neither listed nor kept.
    const v1::Volume volume = MustCreate(spec);
    EXPECT_EQ(MustCreate(spec).volume_id(), volume.volume_id());
  }
  auto listed = client().List();
  ASSERT_OK(listed);
  EXPECT_EQ(listed.value.size(), static_cast<size_t>(kRounds));
  EXPECT_TRUE(Eventually([] { return group().Lvs().has_value() && group().Lvs()->size() == kRounds; }))
      << Tool({"lvs", "-a", "-o", "lv_name,lv_tags", kGroup}).out;
  for (const v1::Volume& volume : listed.value) {
    EXPECT_OK(client().Delete(volume.volume_id()));
  }
}

TEST_F(CrowdTest, AnErasureIsFinishedAfterAKill) {
  const v1::Volume volume = MustCreate({"erased", {}, BlockCapability(), 512 * kMi});
  ASSERT_OK(WritePattern(NodeOf(volume), 9, 8 << 20, 256 << 20));
  ASSERT_OK(client().Delete(volume.volume_id()));
  KillAndRestart();
  auto listed = client().List();
  ASSERT_OK(listed);
  EXPECT_TRUE(listed.value.empty()) << "a deleted volume is not listed while it is being erased";
  ASSERT_TRUE(ComesBackEmpty());
}

}  // namespace
}  // namespace quarry::vm
