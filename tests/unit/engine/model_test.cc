// Random sequences of calls, restarts in between, against a model that a reader can check: a map of volumes.
// Same answers, same codes, in thousands of sequences.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include <fmt/format.h>

#include "engine/engine.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"

namespace quarry::engine {
namespace {

constexpr Bytes kExtent{4 * 1024 * 1024};
constexpr int kSequences = 2000;
constexpr int kCalls = 30;

struct Type {
  const char* name;
  uint64_t granule;  // extents
};
constexpr Type kTypes[] = {{"linear", 1}, {"striped", 2}, {"raid1", 1}, {"raid5", 2}};

// What a volume is, as far as callers can tell.
struct Known {
  std::string id;
  uint64_t extents = 0;
  size_t type = 0;
  bool block = false;
  bool staged = false;
  std::set<int> targets;
};

uint64_t RoundedUp(uint64_t extents, uint64_t granule) {
  return (extents + granule - 1) / granule * granule;
}

class Sequence {
 public:
  explicit Sequence(unsigned seed) : random_(seed) {
    std::vector<fakes::FakeDisk> disks;
    for (const char* disk : {"/dev/a", "/dev/b", "/dev/c", "/dev/d"}) {
      disks.push_back({disk, Extents{400}});
    }
    lvm_.AddGroup("vg0", kExtent, disks);
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory("/stage");
    mount_.AddDirectory("/pods");
    Restart();
  }

  void Run() {
    for (int i = 0; i < kCalls && !testing::Test::HasFailure(); ++i) {
      OneCall();
      CheckList();
    }
  }
  const std::string& story() const { return story_; }

 private:
  int Pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  static Call Soon() { return CallWithin(std::chrono::seconds(30)); }
  static AbsolutePath Path(const std::string& text) { return *AbsolutePath::Parse(text); }

  void Restart() {
    engine_.reset();
    engine_ = std::make_unique<Engine>(EngineConfig{.pools = {{.name = "p", .group = "vg0"}}},
                                       World{lvm_, dm_, erase_, mount_, clock_}, log_);
    ASSERT_TRUE(engine_->Start(Soon()).has_value());
  }

  template <typename T>
  void Expect(const Result<T>& got, std::optional<Code> wanted) {
    const bool same =
        got.has_value() ? !wanted.has_value() : wanted.has_value() && got.error().code() == *wanted;
    EXPECT_TRUE(same) << (wanted.has_value() ? CodeName(*wanted) : "OK") << " expected, got "
                      << (got.has_value() ? "OK" : CodeName(got.error().code())) << ": "
                      << (got.has_value() ? "" : got.error().message());
  }

  void OneCall() {
    const std::string name = fmt::format("v{}", Pick(5));
    const int call = Pick(9);
    story_ += fmt::format("{} {}; ", call, name);
    switch (call) {
      case 0:
      case 1:
        return Create(name);
      case 2:
        return Delete(name);
      case 3:
        return Expand(name);
      case 4:
        return Stage(name);
      case 5:
        return Unstage(name);
      case 6:
        return Publish(name);
      case 7:
        return Unpublish(name);
      default:
        return Restart();
    }
  }

  // The volume of this name; its id, or one that never was.
  Known* Find(const std::string& name) {
    const auto found = model_.find(name);
    return found == model_.end() ? nullptr : &found->second;
  }
  std::string Id(const std::string& name) {
    const Known* known = Find(name);
    return known != nullptr       ? known->id
           : gone_.contains(name) ? gone_[name]
                                  : "p.qaaaaaaaaaaaaaaaaaaaaaaaaaa";
  }
  Capability How(const std::string& name) {
    const Known* known = Find(name);
    return {.access = known != nullptr && known->block ? AccessType::kBlock : AccessType::kMount};
  }

  void Create(const std::string& name) {
    const size_t type = static_cast<size_t>(Pick(4));
    const uint64_t asked = 2 + static_cast<uint64_t>(Pick(6));  // a file system takes two
    const bool block = Pick(2) == 0;
    const uint64_t extents = RoundedUp(asked, kTypes[type].granule);
    const auto made =
        engine_->Create({.name = name,
                         .range = {ToBytes(Extents{asked}, kExtent), ToBytes(Extents{extents}, kExtent)},
                         .capabilities = {{.access = block ? AccessType::kBlock : AccessType::kMount}},
                         .parameters = {{"type", kTypes[type].name}}},
                        Soon());
    Known* known = Find(name);
    if (known == nullptr) {
      Expect(made, std::nullopt);
      if (made.has_value()) {
        EXPECT_TRUE(made->created);
        EXPECT_EQ(made->volume.size, ToBytes(Extents{extents}, kExtent));
        model_[name] = {made->volume.id, extents, type, block, false, {}};
      }
      return;
    }
    const bool same =
        known->type == type && known->block == block && known->extents >= asked && known->extents <= extents;
    Expect(made, same ? std::nullopt : std::optional(Code::kAlreadyExists));
    if (made.has_value()) {
      EXPECT_FALSE(made->created);
      EXPECT_EQ(made->volume.id, known->id);
    }
  }

  void Delete(const std::string& name) {
    const auto done = engine_->Delete(Id(name), Soon());
    const Known* known = Find(name);
    const bool used = known != nullptr && (!known->targets.empty() || (known->staged && !known->block));
    Expect(done, used ? std::optional(Code::kPrecondition) : std::nullopt);
    if (done.has_value()) {
      EXPECT_EQ(done->deleted, known != nullptr);
      if (known != nullptr) {
        gone_[name] = known->id;
        model_.erase(name);
      }
    }
  }

  void Expand(const std::string& name) {
    const uint64_t asked = 1 + static_cast<uint64_t>(Pick(16));
    const auto grown =
        engine_->Expand(Id(name), {ToBytes(Extents{asked}, kExtent), {}}, std::nullopt, Soon());
    Known* known = Find(name);
    Expect(grown, known == nullptr ? std::optional(Code::kNotFound) : std::nullopt);
    if (grown.has_value() && known != nullptr) {
      known->extents = std::max(known->extents, RoundedUp(asked, kTypes[known->type].granule));
      EXPECT_EQ(grown->size, ToBytes(Extents{known->extents}, kExtent));
      EXPECT_EQ(grown->node_expansion_required, !known->block);
    }
  }

  std::string StagingOf(const std::string& name) {
    mount_.AddDirectory("/stage/" + name);
    return "/stage/" + name;
  }
  static std::string TargetOf(const std::string& name, int target) {
    return fmt::format("/pods/{}-{}", name, target);
  }

  void Stage(const std::string& name) {
    Known* known = Find(name);
    const bool wrong = Pick(8) == 0;
    Capability how = How(name);
    if (wrong) {
      how.access = how.access == AccessType::kBlock ? AccessType::kMount : AccessType::kBlock;
    }
    const auto staged = engine_->Stage({Id(name), Path(StagingOf(name)), how}, Soon());
    Expect(staged, known == nullptr ? std::optional(Code::kNotFound)
                   : wrong          ? std::optional(Code::kPrecondition)
                                    : std::nullopt);
    if (staged.has_value() && known != nullptr) {
      known->staged = true;
    }
  }
  void Unstage(const std::string& name) {
    Expect(engine_->Unstage(Id(name), Path(StagingOf(name)), Soon()), std::nullopt);
    if (Known* known = Find(name); known != nullptr) {
      known->staged = false;
    }
  }
  void Publish(const std::string& name) {
    const int target = Pick(2);
    Known* known = Find(name);
    const auto published = engine_->Publish(
        {Id(name), Path(StagingOf(name)), Path(TargetOf(name, target)), How(name), false}, Soon());
    // A raw device is there as soon as the volume is; a file system has to be staged first.
    const bool ready = known != nullptr && (known->block || known->staged);
    Expect(published, known == nullptr ? std::optional(Code::kNotFound)
                      : ready          ? std::nullopt
                                       : std::optional(Code::kPrecondition));
    if (published.has_value() && known != nullptr) {
      known->targets.insert(target);
    }
  }
  void Unpublish(const std::string& name) {
    const int target = Pick(2);
    Expect(engine_->Unpublish(Id(name), Path(TargetOf(name, target)), Soon()), std::nullopt);
    if (Known* known = Find(name); known != nullptr) {
      known->targets.erase(target);
      EXPECT_FALSE(mount_.Exists(TargetOf(name, target)));
    }
  }

  void CheckList() {
    std::map<std::string, Bytes> listed;
    const auto list = engine_->List(0, "", Soon());
    ASSERT_TRUE(list.has_value());
    for (const Volume& volume : list->volumes) {
      listed[volume.id] = volume.size;
    }
    std::map<std::string, Bytes> wanted;
    for (const auto& [name, known] : model_) {
      wanted[known.id] = ToBytes(Extents{known.extents}, kExtent);
    }
    EXPECT_EQ(listed, wanted);
  }

  std::mt19937 random_;
  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
  std::map<std::string, Known> model_;       // by name
  std::map<std::string, std::string> gone_;  // ids of deleted volumes, by name
  std::string story_;
};

TEST(Model, ThousandsOfSequencesAreAnsweredAsTheModelSays) {
  for (unsigned seed = 1; seed <= kSequences && !testing::Test::HasFailure(); ++seed) {
    Sequence sequence(seed);
    sequence.Run();
    EXPECT_FALSE(testing::Test::HasFailure()) << "seed " << seed << ": " << sequence.story();
  }
}

}  // namespace
}  // namespace quarry::engine
