// The power is cut at random moments of a random workload, again and again, and the disks lose what was not
// flushed. After each boot every acknowledged volume must exist, with its bytes. Settle runs after a boot,
// Work until the next cut; the script power_rounds runs them in turn.
#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <sstream>

#include "base/unique_fd.h"
#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

// On the guest's root disk, which keeps what was written to it.
constexpr char kNotes[] = "/root/power-rounds-notes";
constexpr uint64_t kDataLength = 1 << 20;
constexpr int kNames = 6;

// Writes one line and flushes it: "try create NAME", "did create NAME ID SIZE", "did write NAME SEED", ….
void Note(const std::string& line) {
  const UniqueFd fd(::open(kNotes, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const std::string text = line + "\n";
  ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ASSERT_EQ(::fsync(fd.get()), 0);
}

struct Account {
  enum class Is { kAbsent, kThere, kInDoubt } is = Is::kAbsent;
  std::string id;
  int64_t size = 0;
  uint64_t seed = 0;  // 0: nothing was written
};

std::map<std::string, Account> ReadNotes() {
  std::map<std::string, Account> accounts;
  std::ifstream file(kNotes);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string verb;
    std::string what;
    std::string name;
    words >> verb >> what >> name;
    Account& account = accounts[name];
    if (verb == "try" && what == "create") {
      account = {};
    }
    if (verb == "try" && what != "grow") {
      account.is = Account::Is::kInDoubt;
    } else if (verb == "did" && what == "create") {
      account.is = Account::Is::kThere;
      words >> account.id >> account.size;
    } else if (verb == "did" && what == "write") {
      words >> account.seed;
    } else if (verb == "did" && what == "grow") {
      words >> account.size;
    } else if (verb == "did" && what == "delete") {
      account = {};
    }
  }
  return accounts;
}

class PowerRounds : public testing::Test {
 protected:
  void Start() {
    auto started = QuarrydProcess::Start({});
    ASSERT_OK(started);
    quarryd_ = std::move(*started);
    ASSERT_OK(quarryd_->WaitReady(std::chrono::seconds(180)));
  }
  static std::string Node(const std::string& id) {
    return std::string("/dev/") + kGroup + "/" + LvNameIn(id);
  }
  // Activates a volume. A boot leaves it inactive.
  bool Activate(const std::string& id) {
    v1::Volume volume;
    volume.set_volume_id(id);
    Tool({"mkdir", "-p", "/root/stage"});
    return client_.Stage(volume, "/root/stage", BlockCapability()).ok();
  }

  std::unique_ptr<QuarrydProcess> quarryd_;
  CsiClient client_{kSocket};
};

TEST_F(PowerRounds, Begin) {
  const std::vector<std::string> disks = DiskNodes();
  VolumeGroup group(kGroup, disks);
  group.Keep();
  ASSERT_OK(group.Make());
  // vgcreate leaves the group in the disks' caches. The first volume would flush it, but the first cut may
  // come earlier.
  for (const std::string& disk : disks) {
    ASSERT_TRUE(Tool({"sync", disk}).ok());
  }
}

TEST_F(PowerRounds, Work) {
  Start();
  (void)quarryd_->Release();  // the power cut ends it
  std::map<std::string, Account> accounts = ReadNotes();
  std::mt19937 random(std::random_device{}());
  const auto pick = [&](int below) { return std::uniform_int_distribution<int>(0, below - 1)(random); };
  constexpr const char* kTypes[] = {"linear", "raid1", "striped"};
  while (true) {
    const std::string name = "cut-" + std::to_string(pick(kNames));
    Account& account = accounts[name];
    if (account.is == Account::Is::kAbsent) {
      Note("try create " + name);
      auto made = client_.Create({name, TypeParameters(kTypes[pick(3)]), BlockCapability(), 8 * kMi});
      ASSERT_OK(made);
      account = {Account::Is::kThere, made.value.volume().volume_id(), made.value.volume().capacity_bytes(),
                 0};
      Note("did create " + name + " " + account.id + " " + std::to_string(account.size));
      ASSERT_TRUE(Activate(account.id));
      account.seed = 1 + random();
      ASSERT_OK(WritePattern(Node(account.id), account.seed, kDataLength));
      Note("did write " + name + " " + std::to_string(account.seed));
    } else if (pick(2) == 0) {
      Note("try delete " + name);
      ASSERT_OK(client_.Delete(account.id));
      account = {};
      Note("did delete " + name);
    } else {
      Note("try grow " + name);
      auto grown = client_.Expand(account.id, account.size + 4 * kMi);
      ASSERT_OK(grown);
      account.size = grown.value.capacity_bytes();
      Note("did grow " + name + " " + std::to_string(account.size));
    }
  }
}

TEST_F(PowerRounds, Settle) {
  Start();
  auto listed = client_.List();
  ASSERT_OK(listed);
  std::map<std::string, int64_t> there;
  for (const v1::Volume& volume : listed.value) {
    there[volume.volume_id()] = volume.capacity_bytes();
  }
  for (const auto& [name, account] : ReadNotes()) {
    const bool known = there.contains(account.id);
    if (account.is == Account::Is::kThere) {
      ASSERT_TRUE(known) << "acknowledged and gone: " << name << " " << account.id;
      EXPECT_GE(there[account.id], account.size);
    }
    if (known && account.seed != 0) {
      ASSERT_TRUE(Activate(account.id));
      EXPECT_OK(CheckPattern(Node(account.id), account.seed, kDataLength)) << name;
    }
    // A volume in doubt is deleted, so that its name starts again. Without an id only its name is known.
    if (account.is == Account::Is::kInDoubt) {
      for (const auto& [id, size] : there) {
        if (id == account.id) {
          EXPECT_OK(client_.Delete(id));
        }
      }
      Note("did delete " + name);
    }
    there.erase(account.id);
  }
  EXPECT_LE(there.size(), 1U) << "at most one create was not answered";
  for (const auto& [id, size] : there) {
    EXPECT_OK(client_.Delete(id));
  }
  EXPECT_TRUE(Eventually(
      [] {
        const Outcome lvs = Tool({"lvs", "--noheadings", "-o", "lv_tags", kGroup});
        return lvs.ok() && lvs.out.find("quarry.creating") == std::string::npos &&
               lvs.out.find("quarry.erasing") == std::string::npos;
      },
      180))
      << Tool({"lvs", "-a", "-o", "lv_name,lv_tags", kGroup}).out;
  EXPECT_EQ(quarryd_->Stop(), 0);
}

}  // namespace
}  // namespace quarry::vm
