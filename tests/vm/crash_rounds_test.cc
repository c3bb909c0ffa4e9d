// Random rounds: four clients create, grow, use and delete volumes while quarryd dies at a random step, with
// or without the LVM command that it runs. Then quarryd starts again, and its volumes are compared with what
// the clients know. QUARRY_CRASH_ROUNDS is the number of rounds.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr char kOrder[] = "/run/quarry-test/crash-order";
constexpr int kClients = 4;
constexpr int kNames = 2;  // of each client
constexpr uint64_t kDataLength = 1 << 20;
constexpr int kMostSteps = 25;
constexpr auto kLongestRound = std::chrono::seconds(40);

// What a client knows about one of its volumes.
struct Account {
  enum class Is { kAbsent, kThere, kInDoubt } is = Is::kAbsent;
  v1::Volume volume;  // set while the volume exists or its deletion is in doubt
  int64_t size = 0;   // the acknowledged size
  bool has_data = false;
  uint64_t seed = 0;
};

class CrashRoundsTest : public VmTest {
 protected:
  bool StartsQuarryd() const override { return false; }

  static int Rounds() {
    const char* text = std::getenv("QUARRY_CRASH_ROUNDS");
    return text == nullptr ? 20 : std::atoi(text);
  }

  void Boot() {
    Status started = Ok();
    for (int i = 0; i < 5; ++i) {
      started = TryStartQuarryd({.program = "quarryd_crash", .variables = {{"QUARRY_CRASH_ORDER", kOrder}}});
      if (started.has_value()) {
        return;
      }
    }
    FAIL() << started.error().message();
  }

  // One call of one client. Its outcome goes into the account. Returns false if quarryd no longer answers.
  static bool Act(CsiClient& client, const std::string& name, Account& account, std::mt19937& random) {
    const auto pick = [&](int below) { return std::uniform_int_distribution<int>(0, below - 1)(random); };
    if (account.is == Account::Is::kAbsent) {
      constexpr const char* kTypes[] = {"linear", "raid1", "striped"};
      account = {};
      account.is = Account::Is::kInDoubt;
      const auto made =
          client.Create({name, TypeParameters(kTypes[pick(3)]), BlockCapability(), 8 * kMi * (1 + pick(2))});
      if (!made.ok()) {
        return false;
      }
      account = {Account::Is::kThere, made.value.volume(), made.value.volume().capacity_bytes(), false,
                 random()};
      return true;
    }
    if (!account.has_data) {
      account.has_data = WritePattern(NodeOf(account.volume), account.seed, kDataLength).has_value();
      return true;
    }
    const int what = pick(4);
    if (what == 0) {
      account.is = Account::Is::kInDoubt;
      const bool done = client.Delete(account.volume.volume_id()).ok();
      account.is = done ? Account::Is::kAbsent : Account::Is::kInDoubt;
      return done;
    }
    if (what == 1) {
      const auto grown = client.Expand(account.volume.volume_id(), account.size + 8 * kMi);
      account.size = grown.ok() ? grown.value.capacity_bytes() : account.size;
      return grown.ok();
    }
    const std::string staging = StagingPath(name);
    const std::string target = TargetPath(name);
    const v1::VolumeCapability how = BlockCapability();
    return client.Stage(account.volume, staging, how).ok() &&
           client.Publish(account.volume, staging, target, how).ok() &&
           client.Unpublish(account.volume.volume_id(), target).ok() &&
           client.Unstage(account.volume.volume_id(), staging).ok();
  }

  static std::string NameOf(int client, int number) {
    return "round-" + std::to_string(client) + "-" + std::to_string(number);
  }

  // All clients work until quarryd dies.
  void Work(std::mt19937& random) {
    std::atomic<bool> over = false;
    std::vector<std::jthread> clients;
    for (int c = 0; c < kClients; ++c) {
      clients.emplace_back([this, c, &over, own_random = std::mt19937(random())]() mutable {
        CsiClient own(kSocket);
        while (!over) {
          const int n = static_cast<int>(own_random() % kNames);
          Account& account = accounts_[NameOf(c, n)];
          if (account.is == Account::Is::kInDoubt || !Act(own, NameOf(c, n), account, own_random)) {
            std::this_thread::sleep_for(milliseconds(50));
          }
        }
      });
    }
    const auto end = std::chrono::steady_clock::now() + kLongestRound;
    while (quarryd().Running() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(50));
    }
    quarryd().Kill();
    over = true;
  }

  // Every acknowledged volume exists, with its bytes. A volume in doubt is whole or absent. There is no
  // other.
  void Settle() {
    auto listed = client().List();
    ASSERT_OK(listed);
    std::map<std::string, v1::Volume> there;
    for (const v1::Volume& volume : listed.value) {
      there[volume.volume_id()] = volume;
    }
    size_t explained = 0;
    for (auto& [name, account] : accounts_) {
      std::error_code still_mounted;  // then NodeUnpublishVolume removes it below
      fs::remove(TargetPath(name), still_mounted);
      const bool known = !account.volume.volume_id().empty() && there.contains(account.volume.volume_id());
      if (account.is == Account::Is::kThere) {
        ASSERT_TRUE(known) << "acknowledged and gone: " << name << " " << account.volume.volume_id();
      } else if (account.is == Account::Is::kAbsent) {
        ASSERT_FALSE(known) << "deleted and still listed: " << name;
      }
      if (account.is == Account::Is::kInDoubt && !known) {
        account = {};  // an unanswered create may have made a volume of which only the name is known
      }
      if (!known) {
        continue;
      }
      ++explained;
      account.is = Account::Is::kThere;
      EXPECT_GE(there[account.volume.volume_id()].capacity_bytes(), account.size);
      ASSERT_OK(client().Stage(account.volume, StagingPath(name), BlockCapability()));
      if (account.has_data) {
        EXPECT_OK(CheckPattern(NodeOf(account.volume), account.seed, kDataLength)) << name;
      }
      (void)client().Unpublish(account.volume.volume_id(), TargetPath(name));
    }
    // At most one more volume for each create in doubt, because only its name is known.
    EXPECT_LE(there.size(), explained + static_cast<size_t>(kClients));
    for (const auto& [id, volume] : there) {
      const bool ours = std::any_of(accounts_.begin(), accounts_.end(), [&id = id](const auto& entry) {
        return entry.second.volume.volume_id() == id;
      });
      if (!ours) {
        ASSERT_OK(client().Delete(id));
      }
    }
    const auto nothing_half = [] {
      const Outcome lvs = Tool({"lvs", "--noheadings", "-o", "lv_tags", kGroup});
      const Outcome devices = Tool({"dmsetup", "info", "-c", "--noheadings", "-o", "suspended"});
      return lvs.ok() && lvs.out.find("quarry.creating") == std::string::npos &&
             devices.out.find("Suspended") == std::string::npos;
    };
    EXPECT_TRUE(Eventually(nothing_half, 60)) << Tool({"lvs", "-a", "-o", "lv_name,lv_tags", kGroup}).out;
  }

  std::map<std::string, Account> accounts_;
};

TEST_F(CrashRoundsTest, AcknowledgedVolumesSurviveAndNothingIsLeftOver) {
  const char* given = std::getenv("QUARRY_CRASH_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
  printf("QUARRY_CRASH_SEED=%u, %d rounds\n", seed, Rounds());
  std::mt19937 random(seed);
  for (int c = 0; c < kClients; ++c) {
    for (int n = 0; n < kNames; ++n) {
      accounts_[NameOf(c, n)];
    }
  }
  fs::remove(kOrder);
  Boot();
  for (int round = 1; round <= Rounds() && !HasFailure(); ++round) {
    const unsigned steps = 1 + random() % kMostSteps;
    std::ofstream(kOrder) << "steps " << steps << " amid-ms " << random() % 400
                          << (random() % 3 == 0 ? " orphans" : "") << " round " << round << '\n';
    Work(random);
    fs::remove(kOrder);
    ASSERT_NO_FATAL_FAILURE(Boot());
    ASSERT_NO_FATAL_FAILURE(Settle()) << "round " << round;
    if (round % 10 == 0) {
      printf("%d rounds\n", round);
      fflush(stdout);
    }
  }
  for (auto& [name, account] : accounts_) {
    if (account.is == Account::Is::kThere) {
      EXPECT_OK(client().Delete(account.volume.volume_id()));
    }
  }
}

}  // namespace
}  // namespace quarry::vm
