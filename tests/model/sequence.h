// A random sequence of calls with restarts in between, compared with a model that a reader can check: maps
// of volumes, snapshots and group snapshots. Answers and codes must be the same. The sequence begins and ends
// with a group that has nothing but a thin store.
//
// Two things are not asked for: a thin copy of what is in no store, and a copy with extents of its own of a
// thin volume that is in use. copies.md says what they do.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/model/driver.h"

namespace quarry::model {

struct Shape {
  int calls = 30;
  int names = 5;
  int restart_percent = 11;
  int settle_seconds = 60;  // for erasing the deleted volumes
};

class Sequence {
 public:
  Sequence(Driver& driver, unsigned seed, const Shape& shape)
      : driver_(driver), random_(seed), shape_(shape) {}

  // Every difference fails the running gtest. The first difference ends the sequence.
  void Run();
  // The calls and their results, a call per line.
  const std::string& story() const { return story_; }

 private:
  // A volume as callers see it.
  struct Known {
    std::string id;
    uint64_t extents = 0;
    size_t type = 0;
    bool block = false;
    bool staged = false;
    std::map<int, bool> targets;  // target → read-only
    uint64_t asked = 0;           // extents that were asked for, of which it may have got more
    std::string source = {};      // id of the volume or snapshot that it was made from
    uint64_t number = 0;          // at its beginning, if it is raw
  };
  struct KnownSnapshot {
    std::string id;
    std::string source;  // id of the volume
    uint64_t extents = 0;
    size_t type = 0;
    uint64_t asked = 0;  // of its volume
    uint64_t number = 0;
  };
  struct KnownGroup {
    std::string id;
    std::map<std::string, KnownSnapshot> members;  // by the ids of their volumes
  };

  void OneCall();
  void Create();
  void Delete(const std::string& name);
  // These are for raw volumes.
  void Write(const std::string& name);
  void Snapshot();
  void DeleteSnapshot(const std::string& name);
  void CreateFromSnapshot();
  void Copy();
  // `from`: its source. `wanted`: the error that is due to the source; nullopt: none.
  void CreateFrom(const Wish& from, const KnownSnapshot& source, std::optional<Code> wanted, size_t type);
  void SnapshotGroup();
  void DeleteGroup(const std::string& name);
  void DeleteMember();
  void GetGroup();
  void Expand();
  void Stage();
  void Unstage(const std::string& name);
  void Publish();
  void Unpublish();
  void UnpublishUnderAnotherId();
  void Stats();
  void NodeExpand();
  void Validate();
  void Get();
  void Capacity();
  void CheckList();
  void EndEmpty();

  int Pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  bool OneIn(int n) { return Pick(n) == 0; }
  std::string PickName() { return "v" + std::to_string(Pick(shape_.names)); }
  size_t PickType() { return OneIn(3) ? kThin : static_cast<size_t>(Pick(static_cast<int>(kThin))); }
  std::string PickGroup() { return "g" + std::to_string(Pick(2)); }
  std::string PickSnapshot() { return "s" + std::to_string(Pick(shape_.names)); }
  Spot PickSpot(const std::string& name) { return {name, Pick(3) - 1}; }
  // The volume of this name, if there is one.
  Known* Find(const std::string& name);
  // The volume's id; else the id of its predecessor of that name; else an id that never existed.
  std::string Id(const std::string& name);
  // Whether the volume is at this spot.
  static bool IsAt(const Known* known, const Spot& spot);
  // Names of volumes for a group: mostly raw thin ones that exist.
  std::vector<std::string> PickSources();
  // What a group of these is, as far as the sources decide: an error, or nullopt.
  std::optional<Code> WhyNoGroup(const std::vector<std::string>& names);
  uint64_t TakenByAll() const;
  // Of all thin volumes.
  uint64_t PromisedByStore() const;
  void CheckThinCapacity();
  void CheckGroupCapacity();
  static void CheckGroup(const MadeGroup& made, const KnownGroup& known);
  // The extents of what is deleted now are free in a while.
  void NoteErased(size_t type, uint64_t extents);

  void Tell(const std::string& call) { story_ += call; }
  template <typename T>
  void Expect(const Result<T>& got, std::optional<Code> wanted);

  Driver& driver_;
  std::mt19937 random_;
  const Shape shape_;
  std::map<std::string, Known> model_;              // by name
  std::map<std::string, std::string> gone_;         // ids of deleted volumes, by name
  std::map<std::string, KnownSnapshot> snapshots_;  // by name
  std::map<std::string, KnownGroup> groups_;        // by name
  std::map<std::string, std::string> gone_groups_;  // ids of deleted groups, by name
  uint64_t numbers_ = 0;                            // that were written
  uint64_t erasing_ = 0;                            // upper limit for the extents of deleted volumes
  uint64_t erasing_thin_ = 0;                       // the same, of the store
  std::string story_;
};

// Runs `count` sequences with the seeds `seed`, `seed` + 1, …; the environment variables
// QUARRY_MODEL_SEQUENCES and QUARRY_MODEL_SEED override both numbers. Each sequence gets a driver from
// `make`. Prints which seeds run. Stops at the first sequence that fails and prints all its calls.
void RunSequences(const std::function<std::unique_ptr<Driver>()>& make, unsigned seed, unsigned count,
                  const Shape& shape);

}  // namespace quarry::model
