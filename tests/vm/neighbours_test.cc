// A hostile administrator in the same volume group. His commands run between and during quarryd's calls,
// erasing and zeroing, on disks that zero slowly. In every case each byte of his is as he wrote it, every
// managed volume ("ours") holds its data, and a new raw volume reads as zeroes. A call may be refused; OK
// means done.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "tests/vm/fixture.h"
#include "tests/vm/kit/administrator.h"
#include "tests/vm/kit/move_rate.h"

namespace quarry::vm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr int kRoundsOfASeries = 4;
constexpr auto kBudget = seconds(60);
constexpr auto kStuck = seconds(240);  // longer than any step may take
constexpr size_t kMostVolumes = 4;
constexpr uint64_t kFileBytes = 1 << 20;

// The kind of a series: the administrator's main occupation, and how slow zeroing is, so that his commands
// coincide with it. Without a rate a disk gets one request at a time, with a rate several requests of 4 MiB a
// second.
struct Setting {
  Mood mood;
  const char* erase_rate;
  const char* zeroes_ms;  // delay of each zeroing request
};
constexpr Setting kSettings[] = {{Mood::kMoving, "16MiB", "100"},
                                 {Mood::kTidying, "0", "3000"},
                                 {Mood::kBuilding, "0", "100"},
                                 {Mood::kEverything, "16MiB", "500"}};

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

struct Ours {
  v1::Volume volume;
  v1::VolumeCapability how;
  bool raw = true;
  KnownBytes bytes;  // of the device, or of the file on it
  bool staged = false;
  bool changing = false;
  bool taken = false;  // by the administrator: no promise holds for it any more
  uint64_t version = 0;
  std::string name, lv;  // the LV's name differs while the administrator has renamed it
};

// The managed volumes, as both sides see them. The administrator's thread reads them while the test's thread
// changes them.
class Volumes final : public OthersVolumes {
 public:
  std::vector<std::string> Ready() override {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, ours] : all_) {
      if (!ours.taken) {
        names.push_back(ours.lv);
      }
    }
    return names;
  }
  std::optional<Seen> Look(const std::string& lv) override {
    const std::lock_guard lock(mutex_);
    const Ours* const ours = Find(lv);
    if (ours == nullptr || ours->changing || !ours->raw) {
      return std::nullopt;
    }
    return Seen{ours->version, ours->bytes};
  }
  void Taken(const std::string& lv) override {
    const std::lock_guard lock(mutex_);
    taken_.insert(lv);
    if (Ours* const ours = Find(lv); ours != nullptr) {
      ours->taken = true;
    }
  }
  void Spared(const std::string& lv) override {
    const std::lock_guard lock(mutex_);
    taken_.erase(lv);
    if (Ours* const ours = Find(lv); ours != nullptr) {
      ours->taken = false;
    }
  }
  void Renamed(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    if (Ours* const ours = Find(from); ours != nullptr) {
      ours->lv = to;
    }
  }

  void Add(Ours ours) {
    const std::lock_guard lock(mutex_);
    ours.taken = taken_.contains(ours.lv);
    all_[ours.name] = std::move(ours);
  }
  void Erase(const std::string& name) {
    const std::lock_guard lock(mutex_);
    all_.erase(name);
  }
  // Begin and End enclose a change of the bytes or of the volume's kind.
  void Begin(const std::string& name) {
    const std::lock_guard lock(mutex_);
    all_.at(name).changing = true;
  }
  void End(const std::string& name, std::optional<KnownBytes> bytes = {}) {
    const std::lock_guard lock(mutex_);
    Ours& ours = all_.at(name);
    ours.changing = false;
    ++ours.version;
    if (bytes.has_value()) {
      ours.bytes = std::move(*bytes);
    }
  }
  void SetStaged(const std::string& name, bool staged) {
    const std::lock_guard lock(mutex_);
    all_.at(name).staged = staged;
  }
  void SetVolume(const std::string& name, const v1::Volume& volume) {
    const std::lock_guard lock(mutex_);
    all_.at(name).volume = volume;
  }
  // Returns a copy. The volume must exist.
  Ours Get(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return all_.at(name);
  }
  std::vector<std::string> Names() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, ours] : all_) {
      names.push_back(name);
    }
    return names;
  }

 private:
  Ours* Find(const std::string& lv) {
    for (auto& [name, ours] : all_) {
      if (ours.lv == lv) {
        return &ours;
      }
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::map<std::string, Ours> all_;  // by name
  std::set<std::string> taken_;      // includes volumes that the test does not know yet
};

class NeighboursTest : public VmTest {
 protected:
  static void SetUpTestSuite() { MakeGroup({"--metadatasize", "8m", "-s", "1m"}); }
  bool StartsQuarryd() const override { return false; }

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(VmTest::SetUp());
    disks_ = group().devices();
    ASSERT_GE(disks_.size(), 4U);
    ASSERT_TRUE(Tool({"modprobe", "dm-mirror"}).ok());
    watchdog_ = std::jthread([this](const std::stop_token& stop) { Watch(stop); });
  }
  void TearDown() override {
    if (HasFailure()) {
      TellAll();
    }
    watchdog_ = {};
    VmTest::TearDown();
  }

  // A step that never ends is a failure too, for example a wait for a device that another actor has removed.
  void Watch(const std::stop_token& stop) {
    size_t steps = 0;
    auto since = std::chrono::steady_clock::now();
    while (!stop.stop_requested()) {
      if (const size_t now = story_.Steps(); now != steps) {
        steps = now;
        since = std::chrono::steady_clock::now();
      }
      if (std::chrono::steady_clock::now() - since > kStuck) {
        printf("stuck: nothing comes to its end any more\n");
        TellAll();
        fflush(stdout);
        ::_exit(1);
      }
      std::this_thread::sleep_for(milliseconds(200));
    }
  }
  void TellAll() {
    printf(
        "QUARRY_NEIGHBOURS_SEED=%u QUARRY_NEIGHBOURS_ROUNDS=%d, step by step:\n%s%s%s\n", seed_,
        kRoundsOfASeries, story_.Text().c_str(),
        Tool({"lvs", "-a", "-o", "lv_name,segtype,lv_attr,devices,lv_tags", kGroup}, seconds(20)).out.c_str(),
        Tool({"dmsetup", "info", "-c"}, seconds(20)).out.c_str());
    fflush(stdout);
  }

  int Pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  std::string PickName() {
    const std::vector<std::string> names = volumes_->Names();
    return names[static_cast<size_t>(Pick(static_cast<int>(names.size())))];
  }
  static std::string DeviceOf(const Ours& ours) { return std::string("/dev/") + kGroup + "/" + ours.lv; }
  static std::string FileOf(const Ours& ours) { return StagingPath(ours.name) + "/file"; }

  // Returns true on OK. Records the call and its error, and counts its code.
  template <typename Response>
  bool Done(const std::string& what, const Reply<Response>& reply) {
    story_.Tell("we: " + what +
                (reply.ok() ? "" : fmt::format(": {}: {}", static_cast<int>(reply.code()), reply.text())));
    ++codes_[reply.code()];
    return reply.ok();
  }

  void Create();
  void Delete(const std::string& name);
  void Expand(const std::string& name);
  void Rewrite(const std::string& name);
  void PublishAndBack(const std::string& name);
  void CallOffAnEvacuation();
  void OneCall(Mood mood);
  bool Stage(const std::string& name);
  bool PutAway(const std::string& name);
  void Fill(const std::string& name, bool fresh);
  void Check(const std::string& name, bool quiet);
  void CheckAll();

  void Series(unsigned seed, int rounds);
  void EndSeries();
  void SlowAtZeroes(const std::string& delay) {
    for (size_t disk = 1; disk <= disks_.size(); ++disk) {
      ASSERT_TRUE(Tool({"vmctl", "slow", std::to_string(disk), delay, "zeroes"}).ok());
    }
  }

  std::vector<std::string> disks_;
  std::mt19937 random_;
  unsigned seed_ = 0;
  int made_ = 0;
  int rounds_ = 0;
  steady_clock::time_point until_;
  std::map<grpc::StatusCode, int> codes_;
  Story story_;
  std::unique_ptr<Volumes> volumes_;
  std::unique_ptr<Administrator> administrator_;
  std::set<std::string> deleted_;    // ids
  std::vector<VolumeSpec> refused_;  // creates that were refused
  std::string evacuated_;            // disk
  std::jthread watchdog_;
};

bool NeighboursTest::Stage(const std::string& name) {
  const Ours ours = volumes_->Get(name);
  const bool staged = Done("stage " + name, client().Stage(ours.volume, StagingPath(name), ours.how));
  volumes_->SetStaged(name, staged || ours.staged);
  return staged;
}

// Writes new bytes to all of the volume, unless the administrator has just renamed it. Checks first that a
// new raw volume reads as zeroes.
void NeighboursTest::Fill(const std::string& name, bool fresh) {
  const Ours ours = volumes_->Get(name);
  volumes_->Begin(name);
  KnownBytes bytes;
  bytes.AddPattern(ours.raw ? static_cast<uint64_t>(ours.volume.capacity_bytes()) : kFileBytes);
  Status done = Ok();
  if (ours.raw && fresh) {
    done = ours.bytes.Check(DeviceOf(ours)).Context("a new raw volume");
  }
  if (done.has_value()) {
    done = bytes.Write(ours.raw ? DeviceOf(ours) : FileOf(ours));
  }
  const bool away = !done.has_value() && done.error().code() == Code::kNotFound;
  volumes_->End(name, away ? ours.bytes : bytes);
  if (!volumes_->Get(name).taken && !away) {
    EXPECT_OK(done) << name;
  }
}

void NeighboursTest::Create() {
  constexpr const char* kTypes[] = {"linear", "linear", "striped", "raid1"};
  const std::string type = kTypes[Pick(4)];
  Ours ours{.raw = Pick(4) != 0, .name = fmt::format("v{}", ++made_)};
  ours.how = ours.raw ? BlockCapability() : MountCapability();
  std::map<std::string, std::string> more;
  if (type == "striped") {
    more["stripes"] = "3";
  }
  // A file system needs some space.
  const int64_t size = ours.raw ? 3 * kMi * (1 + Pick(4)) : 15 * kMi;
  const VolumeSpec wanted{ours.name, TypeParameters(type, more), ours.how, size};
  const auto made = client().Create(wanted);
  if (!Done(fmt::format("create {} {} {} of {}", ours.name, type, ours.raw ? "raw" : "mounted", size / kMi),
            made)) {
    refused_.push_back(wanted);
    return;
  }
  ours.volume = made.value.volume();
  ours.lv = LvOf(ours.volume);
  if (ours.raw) {
    ours.bytes.AddZeroes(static_cast<uint64_t>(ours.volume.capacity_bytes()));
  }
  volumes_->Add(ours);
  if (Stage(ours.name)) {
    Fill(ours.name, true);
  }
}

bool NeighboursTest::PutAway(const std::string& name) {
  const Ours ours = volumes_->Get(name);
  if (ours.staged && !Done("unstage " + name, client().Unstage(ours.volume.volume_id(), StagingPath(name)))) {
    return false;
  }
  volumes_->SetStaged(name, false);
  return true;
}

void NeighboursTest::Delete(const std::string& name) {
  const Ours ours = volumes_->Get(name);
  if (!PutAway(name)) {
    return;
  }
  volumes_->Begin(name);
  const bool done = Done("delete " + name, client().Delete(ours.volume.volume_id()));
  volumes_->End(name);
  if (done) {
    volumes_->Erase(name);
    deleted_.insert(ours.volume.volume_id());
  }
}

void NeighboursTest::Expand(const std::string& name) {
  Ours ours = volumes_->Get(name);
  const int64_t before = ours.volume.capacity_bytes();
  volumes_->Begin(name);
  const auto grown = client().Expand(ours.volume.volume_id(), before + 3 * kMi);
  const bool done = Done("expand " + name, grown);
  if (done) {
    ours.volume.set_capacity_bytes(grown.value.capacity_bytes());
    if (ours.raw) {
      ours.bytes.AddZeroes(static_cast<uint64_t>(grown.value.capacity_bytes() - before));
    }
  }
  volumes_->End(name, ours.bytes);
  if (done) {
    volumes_->SetVolume(name, ours.volume);
    Check(name, false);
  }
}

void NeighboursTest::Rewrite(const std::string& name) {
  const Ours ours = volumes_->Get(name);
  const bool there = ours.raw ? ::access(DeviceOf(ours).c_str(), F_OK) == 0 : ours.staged;
  if (!ours.taken && (there || Stage(name))) {
    story_.Tell("we: write " + name);
    Fill(name, false);
  }
}

void NeighboursTest::PublishAndBack(const std::string& name) {
  const Ours ours = volumes_->Get(name);
  const std::string target = TargetPath(name);
  if (!Stage(name) ||
      !Done("publish " + name, client().Publish(ours.volume, StagingPath(name), target, ours.how))) {
    return;
  }
  Check(name, false);
  EXPECT_TRUE(Eventually([&] {
    return Done("unpublish " + name, client().Unpublish(ours.volume.volume_id(), target));
  })) << name;
}

// The disk may hold the administrator's volumes too.
void NeighboursTest::CallOffAnEvacuation() {
  const std::string disk = disks_[static_cast<size_t>(Pick(static_cast<int>(disks_.size())))];
  const auto ctl = [&](const std::string& how) {
    const Outcome done = Tool({"quarryctl", "evacuate", disk, how, "--endpoint", kAdminEndpoint});
    story_.Tell(fmt::format("we: evacuate {} {}: {} {}", disk, how, done.status, Trim(done.err)));
    return done.ok();
  };
  if (ctl("--no-wait")) {
    evacuated_ = disk;
    std::this_thread::sleep_for(milliseconds(Pick(1500)));
    (void)ctl("--cancel");
  }
}

void NeighboursTest::OneCall(Mood mood) {
  const std::vector<std::string> names = volumes_->Names();
  if (names.size() < 2 || (names.size() < kMostVolumes && Pick(3) == 0)) {
    Create();
    return;
  }
  const int what = Pick(20);
  if (what < 9) {
    Delete(PickName());
  } else if (what < 12) {
    Expand(PickName());
  } else if (what < 15) {
    Rewrite(PickName());
  } else if (what < 18) {
    PublishAndBack(PickName());
  } else if (mood == Mood::kMoving) {
    CallOffAnEvacuation();
  } else if (what == 19) {
    story_.Tell("we: killed, and started again");
    KillAndRestart();
  }
}

// `quiet`: the administrator is idle. Otherwise he may have renamed the volume meanwhile.
void NeighboursTest::Check(const std::string& name, bool quiet) {
  const Ours ours = volumes_->Get(name);
  if (ours.taken) {
    return;
  }
  const std::string where = ours.raw ? DeviceOf(ours) : FileOf(ours);
  if (::access(where.c_str(), F_OK) != 0 && !Stage(name)) {
    return;  // checked again at the end of the series
  }
  const Status bytes = ours.bytes.Check(where);
  const bool away = !quiet && !bytes.has_value() && bytes.error().code() == Code::kNotFound;
  if (!volumes_->Get(name).taken && !away) {
    EXPECT_OK(bytes) << "our volume " << name;
  }
}

// Between two rounds, when the administrator runs at most a pvmove.
void NeighboursTest::CheckAll() {
  EXPECT_OK(administrator_->Check());
  for (const std::string& name : volumes_->Names()) {
    Check(name, true);
  }
  for (const std::string& line : Lines(Tool({"lvs", "--noheadings", "-o", "lv_name,lv_tags", kGroup}).out)) {
    for (const std::string& id : deleted_) {
      EXPECT_FALSE(line.find("quarry.id=" + id) != std::string::npos &&
                   line.find("quarry.ready") != std::string::npos)
          << "its deletion was answered with OK: " << line;
    }
  }
}

void NeighboursTest::EndSeries() {
  (void)LimitMoves(100);
  SlowAtZeroes("0");
  ASSERT_OK(administrator_->Leave());
  if (!evacuated_.empty()) {
    Tool({"quarryctl", "evacuate", evacuated_, "--cancel", "--endpoint", kAdminEndpoint});
    const std::string members = Tool({"vgs", "--noheadings", "-o", "pv_name", kGroup}).out;
    if (members.find(evacuated_) == std::string::npos) {
      EXPECT_TRUE(Sh("wipefs -a -q " + evacuated_ + " && vgextend --metadatasize 8m vg " + evacuated_).ok());
    }
    evacuated_.clear();
  }
  // The administrator has left: every volume can be checked, and is deleted.
  for (const std::string& name : volumes_->Names()) {
    if (!volumes_->Get(name).taken) {
      EXPECT_TRUE(Eventually([&] { return Stage(name); }, 30)) << name << " cannot be staged";
      Check(name, true);
    }
    EXPECT_TRUE(Eventually([&] { return PutAway(name); }, 30)) << name;
  }
  const auto listed = client().List();
  ASSERT_OK(listed);
  std::set<std::string> ids;
  for (const std::string& name : volumes_->Names()) {
    ids.insert(volumes_->Get(name).volume.volume_id());
  }
  for (const v1::Volume& volume : listed.value) {
    ids.insert(volume.volume_id());  // includes volumes of creates that were refused
  }
  for (const std::string& id : ids) {
    EXPECT_TRUE(Eventually([&] { return Done("delete " + id, client().Delete(id)); }, 60)) << id;
  }
  // Repeats each refused create until it succeeds, as an orchestrator does.
  for (const VolumeSpec& spec : std::exchange(refused_, {})) {
    v1::Volume made;
    EXPECT_TRUE(Eventually(
        [&] {
          const auto reply = client().Create(spec);
          made = reply.value.volume();
          return Done("create " + spec.name, reply);
        },
        60))
        << spec.name;
    EXPECT_OK(client().Delete(made.volume_id()));
  }
  EXPECT_TRUE(Eventually(
      [] { return Trim(Tool({"lvs", "-a", "--noheadings", "-o", "lv_name", kGroup}).out).empty(); }, 120))
      << Tool({"lvs", "-a", "-o", "lv_name,lv_tags", kGroup}).out;
  EXPECT_EQ(quarryd().Stop(), 0);
}

void NeighboursTest::Series(unsigned seed, int rounds) {
  seed_ = seed;
  random_.seed(seed);
  story_.Begin();
  volumes_ = std::make_unique<Volumes>();
  administrator_ = std::make_unique<Administrator>(kGroup, disks_, *volumes_, story_);
  deleted_.clear();
  refused_.clear();
  const Setting& setting = kSettings[seed % std::size(kSettings)];
  const Mood mood = setting.mood;
  SlowAtZeroes(setting.zeroes_ms);
  QuarrydOptions options;
  options.arguments = {std::string("--erase-rate=") + setting.erase_rate};
  StartQuarryd(options);
  (void)LimitMoves(3 + Pick(3));
  administrator_->MakeOne(random_);
  administrator_->MakeOne(random_);
  Create();
  Create();
  for (int round = 0; round < rounds && !HasFailure() && (round == 0 || steady_clock::now() < until_);
       ++round) {
    ++rounds_;
    story_.Tell(fmt::format("-- round {}", round + 1));
    {
      const std::jthread his([this, mood, random = std::mt19937(random_())]() mutable {
        for (int i = 0; i < 3; ++i) {
          administrator_->Act(mood, random);
        }
      });
      for (int i = 0; i < 3 && !HasFatalFailure(); ++i) {
        OneCall(mood);
      }
    }
    CheckAll();
  }
  if (!HasFailure()) {
    story_.Tell("-- the end");
    EndSeries();
  }
  if (std::getenv("QUARRY_NEIGHBOURS_TELL") != nullptr) {
    printf("%s", story_.Text().c_str());
  }
}

TEST_F(NeighboursTest, EverybodyKeepsWhatIsHis) {
  const auto begun = steady_clock::now();
  const auto first = static_cast<unsigned>(
      FromEnvironment("QUARRY_NEIGHBOURS_SEED", static_cast<int>(std::random_device{}() % 1000000)));
  const int wanted = FromEnvironment("QUARRY_NEIGHBOURS_ROUNDS", 0);
  printf("QUARRY_NEIGHBOURS_SEED=%u\n", first);
  fflush(stdout);
  until_ = wanted > 0 ? steady_clock::time_point::max() : begun + kBudget;
  const auto go_on = [&] {
    return !HasFailure() && (wanted > 0 ? rounds_ < wanted : steady_clock::now() < until_);
  };
  for (unsigned seed = first; go_on(); ++seed) {
    Series(seed, wanted > 0 ? std::min(wanted - rounds_, kRoundsOfASeries) : kRoundsOfASeries);
    if ((seed - first) % 8 == 7) {
      printf("%d rounds\n", rounds_);
      fflush(stdout);
    }
  }
  const double took = std::chrono::duration<double>(steady_clock::now() - begun).count();
  printf("%d rounds in %.0f s; answers:", rounds_, took);
  for (const auto& [code, count] : codes_) {
    printf(" %d of code %d", count, static_cast<int>(code));
  }
  printf("\n");
}

}  // namespace
}  // namespace quarry::vm
