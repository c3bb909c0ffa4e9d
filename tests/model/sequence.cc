#include "tests/model/sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <ranges>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace quarry::model {
namespace {

constexpr uint64_t kHuge = uint64_t{1} << 30;  // more extents than any group in the tests has
constexpr char kNeverWas[] = "main.qaaaaaaaaaaaaaaaaaaaaaaaaaa";
// What a store sets aside once it had a snapshot: 1024 chunks of at most 128 KiB, in extents of 4 MiB.
constexpr uint64_t kMostMargin = 32;

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

void Sequence::NoteErased(size_t type, uint64_t extents) {
  erasing_ += Taken(kTypes[type], extents);
  erasing_thin_ += type == kThin ? extents : 0;
}

uint64_t Sequence::PromisedByStore() const {
  uint64_t sum = 0;
  for (const auto& [name, known] : model_) {
    sum += known.type == kThin ? known.extents : 0;
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
      {6, [&] { Write(PickName()); }},
      {7, [&] { Snapshot(); }},
      {4, [&] { DeleteSnapshot(PickSnapshot()); }},
      {6, [&] { CreateFromSnapshot(); }},
      {6, [&] { Copy(); }},
      {5, [&] { SnapshotGroup(); }},
      {2, [&] { DeleteGroup(PickGroup()); }},
      {1, [&] { DeleteMember(); }},
      {1, [&] { GetGroup(); }},
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
  const size_t type = PickType();
  const bool block = OneIn(2) || (type == kThin && OneIn(2));
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
  Expect(made, possible ? std::nullopt : Codes(type == kThin ? Code::kNoSpace : Code::kOutOfRange));
  if (made.has_value()) {
    EXPECT_EQ(made->extents, rounded);
    model_[name] = {made->id, rounded, type, block, false, {}, asked};
  }
}

// Where it is published. A device stays read-only after the end of a read-only publication.
void Sequence::Write(const std::string& name) {
  Known* const known = Find(name);
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
  // A store cuts a volume in use.
  const bool busy = known != nullptr && known->type != kThin && !known->targets.empty();
  Expect(made, known == nullptr ? Codes(Code::kNotFound) : busy ? Codes(Code::kPrecondition) : std::nullopt);
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
    NoteErased(known->second.type, known->second.extents);
    snapshots_.erase(known);
  }
}

std::vector<std::string> Sequence::PickSources() {
  std::vector<std::string> fitting;
  for (const auto& [name, known] : model_) {
    if (known.type == kThin && known.block) {
      fitting.push_back(name);
    }
  }
  std::vector<std::string> out;
  for (int i = 1 + Pick(3); i > 0; --i) {
    const bool any = fitting.empty() || OneIn(12);
    out.push_back(any ? PickName() : fitting[static_cast<size_t>(Pick(static_cast<int>(fitting.size())))]);
    if (!any && !OneIn(8)) {
      std::erase(fitting, out.back());  // otherwise it may be named twice
    }
  }
  return out;
}

std::optional<Code> Sequence::WhyNoGroup(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const Known* const known = Find(name);
    if (known == nullptr) {
      return Code::kNotFound;
    }
    if (known->type != kThin) {
      return Code::kPrecondition;
    }
  }
  return std::nullopt;
}

void Sequence::SnapshotGroup() {
  const std::string name = PickGroup();
  const std::vector<std::string> names = PickSources();
  std::vector<std::string> ids;
  for (const std::string& one : names) {
    if (const Known* const known = Find(one); known != nullptr && !known->block) {
      return;
    }
    ids.push_back(Id(one));
  }
  const std::set<std::string> sources(ids.begin(), ids.end());
  Tell(fmt::format("snapshot group {} of {}", name, fmt::join(names, ", ")));
  const auto made = driver_.SnapshotGroup(name, ids);
  if (sources.size() < ids.size()) {
    return Expect(made, Code::kInvalidArgument);
  }
  if (const auto there = groups_.find(name); there != groups_.end()) {
    const KnownGroup& known = there->second;
    const bool same = std::ranges::equal(sources, known.members | std::views::keys);
    Expect(made, same ? std::nullopt : Codes(Code::kAlreadyExists));
    return made.has_value() ? CheckGroup(*made, known) : void();
  }
  Expect(made, WhyNoGroup(names));
  if (!made.has_value()) {
    return;
  }
  KnownGroup group{.id = made->id, .members = {}};
  for (const std::string& one : names) {
    const Known& source = *Find(one);
    const auto member = made->members.find(source.id);
    if (member == made->members.end()) {
      ADD_FAILURE() << "no member is of " << source.id;
      return;
    }
    group.members[source.id] = {member->second.id, source.id,    source.extents, kThin,
                                source.asked,      source.number};
  }
  CheckGroup(*made, group);
  groups_[name] = std::move(group);
}

void Sequence::CheckGroup(const MadeGroup& made, const KnownGroup& known) {
  EXPECT_EQ(made.id, known.id);
  EXPECT_EQ(made.members.size(), known.members.size());
  for (const auto& [source, member] : known.members) {
    const auto found = made.members.find(source);
    if (found == made.members.end()) {
      ADD_FAILURE() << "no member is of " << source;
      continue;
    }
    EXPECT_EQ(found->second.id, member.id);
    EXPECT_EQ(found->second.extents, member.asked);
  }
}

// Also of a group that is gone, or never was. All members must be named, or none.
void Sequence::DeleteGroup(const std::string& name) {
  const auto known = groups_.find(name);
  std::vector<std::string> members;
  bool all = true;
  if (known != groups_.end() && !OneIn(3)) {
    for (const auto& [source, member] : known->second.members) {
      members.push_back(member.id);
    }
    if (members.size() > 1 && OneIn(4)) {
      members.pop_back();
      all = false;
    }
  }
  Tell(fmt::format("delete group {}, {} members named", name, members.size()));
  const auto done = driver_.DeleteGroup(known != groups_.end()        ? known->second.id
                                        : gone_groups_.contains(name) ? gone_groups_[name]
                                                                      : kNeverWas,
                                        members);
  Expect(done, all ? std::nullopt : Codes(Code::kInvalidArgument));
  if (done.has_value() && known != groups_.end()) {
    for (const auto& [source, member] : known->second.members) {
      NoteErased(kThin, member.extents);
    }
    gone_groups_[name] = known->second.id;
    groups_.erase(known);
  }
}

// A member goes with its group only.
void Sequence::DeleteMember() {
  const auto known = groups_.find(PickGroup());
  if (known == groups_.end()) {
    return;
  }
  const KnownSnapshot& member = known->second.members.begin()->second;
  Tell(fmt::format("delete snapshot {} of group {}", member.id, known->first));
  Expect(driver_.DeleteSnapshot(member.id), Code::kInvalidArgument);
}

void Sequence::GetGroup() {
  const auto known = groups_.find(PickGroup());
  const std::string id = known == groups_.end() ? kNeverWas : known->second.id;
  Tell(fmt::format("get group {}", id));
  const auto group = driver_.GetGroup(id);
  Expect(group, known == groups_.end() ? Codes(Code::kNotFound) : std::nullopt);
  if (group.has_value() && known != groups_.end()) {
    CheckGroup(*group, known->second);
  }
}

// Of a single snapshot, or of a member of a group.
void Sequence::CreateFromSnapshot() {
  std::string name = PickSnapshot();
  const auto single = snapshots_.find(name);
  const KnownSnapshot* known = single == snapshots_.end() ? nullptr : &single->second;
  if (OneIn(2)) {
    if (const auto group = groups_.find(PickGroup()); group != groups_.end()) {
      known = &std::prev(group->second.members.end())->second;
      name = "of group " + group->first;
    }
  }
  const KnownSnapshot from = known == nullptr ? KnownSnapshot{.id = kNeverWas} : *known;
  Tell(fmt::format("from snapshot {}: ", name));
  const size_t type = from.type == kThin ? PickType() : static_cast<size_t>(Pick(static_cast<int>(kThin)));
  CreateFrom({.snapshot = from.id}, from, known == nullptr ? Codes(Code::kNotFound) : std::nullopt, type);
}

void Sequence::Copy() {
  const std::string volume = PickName();
  const Known* const known = Find(volume);
  if (known != nullptr && !known->block) {
    return;
  }
  const Known from = known == nullptr ? Known{.id = Id(volume)} : *known;
  Tell(fmt::format("from {}: ", volume));
  const bool thin = from.type == kThin;
  const size_t type = !thin                  ? static_cast<size_t>(Pick(static_cast<int>(kThin)))
                      : from.targets.empty() ? PickType()
                                             : kThin;
  CreateFrom({.source = from.id},
             {.id = from.id, .extents = from.extents, .asked = from.asked, .number = from.number},
             known == nullptr               ? Codes(Code::kNotFound)
             : thin || from.targets.empty() ? std::nullopt
                                            : Codes(Code::kPrecondition),
             type);
}

void Sequence::CreateFrom(const Wish& from, const KnownSnapshot& source, std::optional<Code> wanted,
                          size_t type) {
  Wish wish = from;
  wish.name = PickName();
  wish.block = true;
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
    // A thin copy is not active yet. Half of them are left so, for the next call to find.
    if (type != kThin || OneIn(2)) {
      EXPECT_EQ(driver_.Read(made->id), source.number);
    }
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
    NoteErased(known->type, known->extents);
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
  const bool fits = limit == 0 || then <= limit;
  const bool full = fits && asked == kHuge && known->type == kThin;
  Expect(grown, full                     ? Codes(Code::kNoSpace)
                : fits && asked != kHuge ? std::nullopt
                                         : Codes(Code::kOutOfRange));
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
  if (known != nullptr && known->type == kThin && known->block && !known->staged) {
    return;  // whether it is active is nothing that the caller knows
  }
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
    if (OneIn(2)) {
      Write(name);
    }
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
  const size_t type = PickType();
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

void Sequence::Capacity() {
  OneIn(2) ? CheckThinCapacity() : CheckGroupCapacity();
}

// A linear volume can use all free extents. It is unknown when erased extents become free.
void Sequence::CheckGroupCapacity() {
  Tell("capacity of linear");
  const auto most = driver_.Capacity("linear");
  Expect(most, std::nullopt);
  if (most.has_value()) {
    const uint64_t free = driver_.Total() - TakenByAll();
    EXPECT_LE(*most, free);
    EXPECT_GE(*most + erasing_, free);
  }
}

// What a snapshot has in the store is between nothing and its volume's size.
void Sequence::CheckThinCapacity() {
  Tell("capacity of thin");
  const auto most = driver_.Capacity(kTypes[kThin].name);
  Expect(most, std::nullopt);
  uint64_t snapshots = 0;
  for (const auto& [name, snapshot] : snapshots_) {
    snapshots += snapshot.type == kThin ? snapshot.extents : 0;
  }
  for (const auto& [name, group] : groups_) {
    for (const auto& [source, member] : group.members) {
      snapshots += member.extents;
    }
  }
  if (most.has_value()) {
    const uint64_t free = driver_.StoreTotal() - PromisedByStore();
    const bool empty = free == driver_.StoreTotal() && snapshots == 0 && erasing_thin_ == 0;
    EXPECT_LE(*most, free);
    EXPECT_GE(*most + snapshots + erasing_thin_ + (empty ? 0 : kMostMargin), free);
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
  for (const auto& [name, group] : groups_) {
    for (const auto& [source, member] : group.members) {
      known[member.id] = member.asked;
    }
  }
  EXPECT_EQ(*snapshots, known);
  for (const auto& [name, volume] : model_) {
    if (volume.block && (volume.type != kThin || !volume.targets.empty())) {
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
  while (!groups_.empty()) {
    DeleteGroup(std::string(groups_.begin()->first));
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
  erasing_thin_ = 0;
  CheckThinCapacity();
  CheckGroupCapacity();
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
