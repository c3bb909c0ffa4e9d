// A random sequence of calls, restarts in between, against a model that a reader can check: a map of volumes.
// Same answers, same codes. It begins with an empty group and ends with one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "tests/model/driver.h"

namespace quarry::model {

struct Shape {
  int calls = 30;
  int names = 5;
  int restart_percent = 11;
  int settle_seconds = 60;  // for what was deleted to be erased
};

class Sequence {
 public:
  Sequence(Driver& driver, unsigned seed, const Shape& shape)
      : driver_(driver), random_(seed), shape_(shape) {}

  // Every difference fails the running gtest; the first ends the sequence.
  void Run();
  // What was called and what came of it, a call per line.
  const std::string& story() const { return story_; }

 private:
  // What a volume is, as far as callers can tell.
  struct Known {
    std::string id;
    uint64_t extents = 0;
    size_t type = 0;
    bool block = false;
    bool staged = false;
    std::map<int, bool> targets;  // read-only?
  };

  void OneCall();
  void Create();
  void Delete(const std::string& name);
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
  Spot PickSpot(const std::string& name) { return {name, Pick(3) - 1}; }
  // The volume of this name, if there is one.
  Known* Find(const std::string& name);
  // Its id; or that of the one before it, or one that never was.
  std::string Id(const std::string& name);
  // Whether the volume can be found there by its path.
  static bool IsAt(const Known* known, const Spot& spot);
  uint64_t TakenByAll() const;

  void Tell(const std::string& call) { story_ += call; }
  template <typename T>
  void Expect(const Result<T>& got, std::optional<Code> wanted);

  Driver& driver_;
  std::mt19937 random_;
  const Shape shape_;
  std::map<std::string, Known> model_;       // by name
  std::map<std::string, std::string> gone_;  // ids of deleted volumes, by name
  uint64_t erasing_ = 0;                     // extents of deleted volumes, at most
  std::string story_;
};

// Sequences seed, seed + 1, …: as many as $QUARRY_MODEL_SEQUENCES says, from $QUARRY_MODEL_SEED on; else as
// given. Each with what `make` returns. Says which; and of the first that fails, all of it, and ends there.
void RunSequences(const std::function<std::unique_ptr<Driver>()>& make, unsigned seed, unsigned count,
                  const Shape& shape);

}  // namespace quarry::model
