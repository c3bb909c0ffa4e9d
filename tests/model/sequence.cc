#include "tests/model/sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace quarry::model {
namespace {

constexpr uint64_t kHuge = uint64_t{1} << 30;  // more extents than any group in the tests has
constexpr char kNeverWas[] = "main.qaaaaaaaaaaaaaaaaaaaaaaaaaa";

using Codes = std::optional<Code>;

uint64_t RoundedUp(uint64_t extents, uint64_t granule) {
  return (extents + granule - 1) / granule * granule;
}

const char* Access(bool block) {
  return block ? "block" : "mount";
}

std::string Text(const Spot& spot) {
  return spot.target == kStaging ? "staging" : fmt::format("target {}", spot.target);
}

unsigned FromEnvironment(const char* variable, unsigned otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::stoul(text));
}

}  // namespace

template <typename T>
void Sequence::Expect(const Result<T>& got, std::optional<Code> wanted) {
  const std::string said =
      got.has_value() ? "ok" : fmt::format("{}: {}", CodeName(got.error().code()), got.error().message());
  story_ += fmt::format(" -> {}\n", said);
  const bool same =
      got.has_value() ? !wanted.has_value() : wanted.has_value() && got.error().code() == *wanted;
  EXPECT_TRUE(same) << "expected " << (wanted.has_value() ? CodeName(*wanted) : "ok") << ", got " << said;
}

Sequence::Known* Sequence::Find(const std::string& name) {
  const auto found = model_.find(name);
  return found == model_.end() ? nullptr : &found->second;
}

std::string Sequence::Id(const std::string& name) {
  const Known* known = Find(name);
  return known != nullptr ? known->id : gone_.contains(name) ? gone_[name] : kNeverWas;
}

bool Sequence::IsAt(const Known* known, const Spot& spot) {
  return known != nullptr &&
         (spot.target == kStaging ? known->staged && !known->block : known->targets.contains(spot.target));
}

uint64_t Sequence::TakenByAll() const {
  uint64_t sum = 0;
  for (const auto& [name, known] : model_) {
    sum += Taken(kTypes[known.type], known.extents);
  }
  for (const auto& [name, snapshot] : snapshots_) {
    sum += Taken(kTypes[snapshot.type], snapshot.extents);
  }
  return sum;
}

void Sequence::Run() {
  EXPECT_EQ(driver_.Leftovers(), "");
  for (int i = 0; i < shape_.calls && !testing::Test::HasFailure(); ++i) {
    OneCall();
    CheckList();
  }
  if (!testing::Test::HasFailure()) {
    EndEmpty();
  }
}

void Sequence::OneCall() {
  if (Pick(100) < shape_.restart_percent) {
    Tell("restart");
    return Expect(driver_.Restart(), std::nullopt);
  }
  const std::pair<int, std::function<void()>> calls[] = {
      {22, [&] { Create(); }},
      {11, [&] { Delete(PickName()); }},
      {11, [&] { Expand(); }},
      {6, [&] { Write(); }},
      {7, [&] { Snapshot(); }},
      {4, [&] { DeleteSnapshot(PickSnapshot()); }},
      {6, [&] { CreateFromSnapshot(); }},
      {4, [&] { Copy(); }},
      {13, [&] { Stage(); }},
      {9, [&] { Unstage(PickName()); }},
      {13, [&] { Publish(); }},
      {9, [&] { Unpublish(); }},
      {1, [&] { UnpublishUnderAnotherId(); }},
      {4, [&] { Stats(); }},
      {4, [&] { NodeExpand(); }},
      {4, [&] { Validate(); }},
      {2, [&] { Get(); }},
      {3, [&] { Capacity(); }},
  };
  int sum = 0;
  for (const auto& [weight, unused] : calls) {
    sum += weight;
  }
  int chosen = Pick(sum);
  for (const auto& [weight, call] : calls) {
    if (chosen < weight) {
      return call();
    }
    chosen -= weight;
  }
}

void Sequence::Create() {
  const std::string name = PickName();
  const auto type = static_cast<size_t>(Pick(4));
  const bool block = OneIn(2);
  const bool unknown_type = OneIn(16);
  const uint64_t asked =
      OneIn(16) ? kHuge : 2 + static_cast<uint64_t>(Pick(6));  // a file system needs two extents
  const uint64_t rounded = RoundedUp(asked, kTypes[type].granule);
  const int limited = Pick(3);  // no limit, a limit that fits, a limit of exactly what is asked
  const uint64_t limit = limited == 0 ? 0 : limited == 1 ? rounded : asked;
  const Wish wish{name, unknown_type ? "raid7" : kTypes[type].name, asked, limit, block};
  Tell(fmt::format("create {}: {} {} of {} to {}", name, Access(block), wish.type, asked, limit));
  const auto made = driver_.Create(wish);
  Known* known = Find(name);
  if (unknown_type) {
    return Expect(made, Code::kInvalidArgument);
  }
  if (known != nullptr) {
    const bool same = known->source.empty() && known->type == type && known->block == block &&
                      known->extents >= asked && (limit == 0 || known->extents <= limit);
    Expect(made, same ? std::nullopt : std::optional(Code::kAlreadyExists));
    if (made.has_value()) {
      EXPECT_EQ(made->id, known->id);
      EXPECT_EQ(made->extents, known->extents);
    }
    return;
  }
  const bool possible = asked != kHuge && (limit == 0 || rounded <= limit);
  Expect(made, possible ? std::nullopt : std::optional(Code::kOutOfRange));
  if (made.has_value()) {
    EXPECT_EQ(made->extents, rounded);
    model_[name] = {made->id, rounded, type, block, false, {}, asked};
  }
}

// Where it is published. A device stays read-only after the end of a read-only publication.
void Sequence::Write() {
  Known* const known = Find(PickName());
  if (known != nullptr && known->block && !known->targets.empty() && !known->targets.begin()->second) {
    known->number = ++numbers_;
    Tell(fmt::format("write {} to {}\n", known->number, known->id));
    driver_.Write(known->id, known->number);
  }
}

void Sequence::Snapshot() {
  const std::string name = PickSnapshot();
  const std::string volume = PickName();
  const Known* const known = Find(volume);
  if (known != nullptr && !known->block) {
    return;
  }
  Tell(fmt::format("snapshot {} of {}", name, volume));
  const auto made = driver_.Snapshot(name, Id(volume));
  if (const auto there = snapshots_.find(name); there != snapshots_.end()) {
    Expect(made, there->second.source == Id(volume) ? std::nullopt : Codes(Code::kAlreadyExists));
    if (made.has_value()) {
      EXPECT_EQ(made->id, there->second.id);
      EXPECT_EQ(made->extents, there->second.asked);
    }
    return;
  }
  Expect(made, known == nullptr          ? Codes(Code::kNotFound)
               : !known->targets.empty() ? Codes(Code::kPrecondition)
                                         : std::nullopt);
  if (made.has_value() && known != nullptr) {
    EXPECT_EQ(made->extents, known->asked) << "a volume of that size holds it";
    snapshots_[name] = {made->id, known->id, known->extents, known->type, known->asked, known->number};
  }
}

void Sequence::DeleteSnapshot(const std::string& name) {
  Tell(fmt::format("delete snapshot {}", name));
  const auto known = snapshots_.find(name);
  Expect(driver_.DeleteSnapshot(known == snapshots_.end() ? kNeverWas : known->second.id), std::nullopt);
  if (known != snapshots_.end()) {
    erasing_ += Taken(kTypes[known->second.type], known->second.extents);
    snapshots_.erase(known);
  }
}

void Sequence::CreateFromSnapshot() {
  const std::string name = PickSnapshot();
  const auto known = snapshots_.find(name);
  const KnownSnapshot from = known == snapshots_.end() ? KnownSnapshot{.id = kNeverWas} : known->second;
  Tell(fmt::format("from snapshot {}: ", name));
  CreateFrom({.snapshot = from.id}, from, known == snapshots_.end() ? Codes(Code::kNotFound) : std::nullopt);
}

void Sequence::Copy() {
  const std::string volume = PickName();
  const Known* const known = Find(volume);
  if (known != nullptr && !known->block) {
    return;
  }
  const Known from = known == nullptr ? Known{.id = Id(volume)} : *known;
  Tell(fmt::format("from {}: ", volume));
  CreateFrom({.source = from.id},
             {.id = from.id, .extents = from.extents, .asked = from.asked, .number = from.number},
             known == nullptr       ? Codes(Code::kNotFound)
             : from.targets.empty() ? std::nullopt
                                    : Codes(Code::kPrecondition));
}

void Sequence::CreateFrom(const Wish& from, const KnownSnapshot& source, std::optional<Code> wanted) {
  Wish wish = from;
  wish.name = PickName();
  wish.block = true;
  const auto type = static_cast<size_t>(Pick(4));
  wish.type = kTypes[type].name;
  wish.required = std::max<uint64_t>(source.asked, 1) + static_cast<uint64_t>(Pick(4));
  const uint64_t rounded = RoundedUp(std::max(wish.required, source.extents), kTypes[type].granule);
  Tell(fmt::format("create {}: {} of {}", wish.name, wish.type, wish.required));
  const auto made = driver_.Create(wish);
  if (const Known* const known = Find(wish.name); known != nullptr) {
    const bool same =
        known->source == source.id && known->type == type && known->block && known->extents >= wish.required;
    Expect(made, same ? std::nullopt : Codes(Code::kAlreadyExists));
    return;
  }
  Expect(made, wanted);
  if (made.has_value()) {
    EXPECT_EQ(made->extents, rounded);
    EXPECT_EQ(driver_.Read(made->id), source.number);
    model_[wish.name] = {made->id, rounded, type, true, false, {}, wish.required, source.id, source.number};
  }
}

void Sequence::Delete(const std::string& name) {
  Tell(fmt::format("delete {}", name));
  const auto done = driver_.Delete(Id(name));
  const Known* known = Find(name);
  const bool used = known != nullptr && (!known->targets.empty() || (known->staged && !known->block));
  Expect(done, used ? std::optional(Code::kPrecondition) : std::nullopt);
  if (done.has_value() && known != nullptr) {
    erasing_ += Taken(kTypes[known->type], known->extents);
    gone_[name] = known->id;
    model_.erase(name);
  }
}

void Sequence::Expand() {
  const std::string name = PickName();
  Known* known = Find(name);
  const uint64_t asked = OneIn(16) ? kHuge : 1 + static_cast<uint64_t>(Pick(16));
  const uint64_t limit = OneIn(3) ? asked : 0;
  Tell(fmt::format("expand {} to {}, limit {}", name, asked, limit));
  const auto grown = driver_.Expand(Id(name), asked, limit);
  if (known == nullptr) {
    return Expect(grown, Code::kNotFound);
  }
  const uint64_t then =
      std::max(known->extents, asked > known->extents ? RoundedUp(asked, kTypes[known->type].granule) : 0);
  const bool possible = asked != kHuge && (limit == 0 || then <= limit);
  Expect(grown, possible ? std::nullopt : std::optional(Code::kOutOfRange));
  if (grown.has_value()) {
    known->asked = then > known->extents ? asked : known->asked;
    known->extents = then;
    EXPECT_EQ(grown->extents, then);
    EXPECT_EQ(grown->node_expansion_required, !known->block);
  }
}

void Sequence::Stage() {
  const std::string name = PickName();
  Known* known = Find(name);
  const bool wrong = OneIn(8);
  const bool block = (known != nullptr && known->block) != wrong;
  Tell(fmt::format("stage {} as {}", name, Access(block)));
  const auto staged = driver_.Stage(Id(name), name, block);
  Expect(staged, known == nullptr ? std::optional(Code::kNotFound)
                 : wrong          ? std::optional(Code::kPrecondition)
                                  : std::nullopt);
  if (staged.has_value() && known != nullptr) {
    known->staged = true;
  }
}

void Sequence::Unstage(const std::string& name) {
  Tell(fmt::format("unstage {}", name));
  Expect(driver_.Unstage(Id(name), name), std::nullopt);
  if (Known* known = Find(name); known != nullptr) {
    known->staged = false;
  }
}

void Sequence::Publish() {
  const std::string name = PickName();
  const Spot spot{name, Pick(2)};
  Known* known = Find(name);
  const bool wrong = OneIn(12);
  const bool block = (known != nullptr && known->block) != wrong;
  const bool read_only = OneIn(3);
  Tell(fmt::format("publish {} at {} as {} {}", name, Text(spot), read_only ? "read-only" : "writable",
                   Access(block)));
  const auto published = driver_.Publish(Id(name), spot, block, read_only);
  std::optional<Code> wanted;
  if (known == nullptr) {
    wanted = Code::kNotFound;
  } else if (wrong || (!known->block && !known->staged)) {
    // A raw device exists as soon as the volume does. A file system must be staged first.
    wanted = Code::kPrecondition;
  } else if (const auto here = known->targets.find(spot.target); here != known->targets.end()) {
    wanted = here->second == read_only ? std::nullopt : std::optional(Code::kAlreadyExists);
  } else if (known->block && !known->targets.empty() && known->targets.begin()->second != read_only) {
    wanted = Code::kPrecondition;  // a device is read-only as a whole
  }
  Expect(published, wanted);
  if (published.has_value() && known != nullptr) {
    known->targets[spot.target] = read_only;
    EXPECT_TRUE(driver_.Exists(spot));
  }
}

void Sequence::Unpublish() {
  const std::string name = PickName();
  const Spot spot{name, Pick(2)};
  Tell(fmt::format("unpublish {} at {}", name, Text(spot)));
  Expect(driver_.Unpublish(Id(name), spot), std::nullopt);
  if (Known* known = Find(name); known != nullptr) {
    known->targets.erase(spot.target);
  }
  EXPECT_FALSE(driver_.Exists(spot));
}

// The other volume is not at this path, so the call succeeds, and the volume at the path stays.
void Sequence::UnpublishUnderAnotherId() {
  const std::string name = PickName();
  const std::string other = PickName();
  const Spot spot{name, Pick(2)};
  if (other == name) {
    return;
  }
  Tell(fmt::format("unpublish {} with the path of {}, {}", other, name, Text(spot)));
  Expect(driver_.Unpublish(Id(other), spot), std::nullopt);
  EXPECT_EQ(driver_.Exists(spot), IsAt(Find(name), spot));
}

void Sequence::Stats() {
  const std::string name = PickName();
  const Spot spot = PickSpot(name);
  const Known* known = Find(name);
  Tell(fmt::format("stats of {} at {}", name, Text(spot)));
  const auto bytes = driver_.Stats(Id(name), spot);
  Expect(bytes, IsAt(known, spot) ? std::nullopt : std::optional(Code::kNotFound));
  if (bytes.has_value() && known != nullptr) {
    const uint64_t device = known->extents * driver_.ExtentBytes();
    EXPECT_LE(*bytes, device);
    EXPECT_GT(*bytes, known->block ? device - 1 : 0);
  }
}

void Sequence::NodeExpand() {
  const std::string name = PickName();
  const Spot spot = PickSpot(name);
  const Known* known = Find(name);
  const bool too_much = OneIn(4);
  const uint64_t asked = (known != nullptr ? known->extents : 1) + (too_much ? 1 : 0);
  Tell(fmt::format("node expands {} at {} to {}", name, Text(spot), asked));
  const auto bytes = driver_.NodeExpand(Id(name), spot, asked);
  // A file system does not grow through a read-only mount.
  const bool read_only = known != nullptr && !known->block && spot.target != kStaging && IsAt(known, spot) &&
                         known->targets.at(spot.target);
  Expect(bytes, !IsAt(known, spot) ? std::optional(Code::kNotFound)
                : too_much         ? std::optional(Code::kOutOfRange)
                : read_only        ? std::optional(Code::kPrecondition)
                                   : std::nullopt);
  if (bytes.has_value() && known != nullptr) {
    EXPECT_EQ(*bytes, known->extents * driver_.ExtentBytes());
  }
}

void Sequence::Validate() {
  const std::string name = PickName();
  const auto type = static_cast<size_t>(Pick(4));
  const bool block = OneIn(2);
  const Known* known = Find(name);
  Tell(fmt::format("validate {} as {} {}", name, Access(block), kTypes[type].name));
  const auto confirmed = driver_.Validate(Id(name), block, kTypes[type].name);
  Expect(confirmed, known == nullptr ? std::optional(Code::kNotFound) : std::nullopt);
  if (confirmed.has_value() && known != nullptr) {
    EXPECT_EQ(*confirmed, known->block == block && known->type == type);
  }
}

void Sequence::Get() {
  const std::string name = PickName();
  const Known* known = Find(name);
  Tell(fmt::format("get {}", name));
  const auto extents = driver_.Get(Id(name));
  Expect(extents, known == nullptr ? std::optional(Code::kNotFound) : std::nullopt);
  if (extents.has_value() && known != nullptr) {
    EXPECT_EQ(*extents, known->extents);
  }
}

// A linear volume can use all free extents. It is unknown when erased extents become free.
void Sequence::Capacity() {
  Tell("capacity of linear");
  const auto most = driver_.Capacity("linear");
  Expect(most, std::nullopt);
  if (most.has_value()) {
    const uint64_t free = driver_.Total() - TakenByAll();
    EXPECT_LE(*most, free);
    EXPECT_GE(*most + erasing_, free);
  }
}

void Sequence::CheckList() {
  const auto listed = driver_.List(static_cast<uint32_t>(Pick(4)));
  if (!listed.has_value()) {
    ADD_FAILURE() << listed.error().message();
    return;
  }
  std::map<std::string, uint64_t> wanted;
  for (const auto& [name, known] : model_) {
    wanted[known.id] = known.extents;
  }
  EXPECT_EQ(*listed, wanted);
  const auto snapshots = driver_.Snapshots();
  if (!snapshots.has_value()) {
    ADD_FAILURE() << snapshots.error().message();
    return;
  }
  std::map<std::string, uint64_t> known;
  for (const auto& [name, snapshot] : snapshots_) {
    known[snapshot.id] = snapshot.asked;
  }
  EXPECT_EQ(*snapshots, known);
  for (const auto& [name, volume] : model_) {
    if (volume.block) {
      EXPECT_EQ(driver_.Read(volume.id), volume.number) << name;
    }
  }
}

void Sequence::EndEmpty() {
  for (int i = 0; i < shape_.names; ++i) {
    const std::string name = "v" + std::to_string(i);
    const Known* known = Find(name);
    if (known == nullptr) {
      continue;
    }
    for (const auto& [target, read_only] : known->targets) {
      Tell(fmt::format("at last unpublish {} at {}", name, target));
      Expect(driver_.Unpublish(known->id, {name, target}), std::nullopt);
    }
    model_[name].targets.clear();
    Unstage(name);
    Delete(name);
  }
  while (!snapshots_.empty()) {
    DeleteSnapshot(std::string(snapshots_.begin()->first));
  }
  CheckList();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(shape_.settle_seconds);
  std::string left = driver_.Leftovers();
  while (!left.empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    left = driver_.Leftovers();
  }
  EXPECT_EQ(left, "");
  erasing_ = 0;
  Capacity();
}

void RunSequences(const std::function<std::unique_ptr<Driver>()>& make, unsigned seed, unsigned count,
                  const Shape& shape) {
  seed = FromEnvironment("QUARRY_MODEL_SEED", seed);
  count = FromEnvironment("QUARRY_MODEL_SEQUENCES", count);
  fmt::print("{} sequences from QUARRY_MODEL_SEED={} on\n", count, seed);
  std::fflush(stdout);
  auto told = std::chrono::steady_clock::now();
  for (unsigned i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    if (std::chrono::steady_clock::now() - told > std::chrono::seconds(60)) {
      told = std::chrono::steady_clock::now();
      fmt::print("{} of {}\n", i, count);
      std::fflush(stdout);
    }
    const std::unique_ptr<Driver> driver = make();
    Sequence sequence(*driver, seed + i, shape);
    sequence.Run();
    EXPECT_FALSE(testing::Test::HasFailure())
        << "QUARRY_MODEL_SEED=" << seed + i << " QUARRY_MODEL_SEQUENCES=1, call by call:\n"
        << sequence.story();
  }
}

}  // namespace quarry::model
