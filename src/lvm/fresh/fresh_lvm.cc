#include "lvm/fresh/fresh_lvm.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <optional>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "base/call_record.h"
#include "base/mutex.h"
#include "lvm/read/text_snapshot.h"
#include "lvm/run/group_lock.h"

namespace quarry::lvm {
namespace {

// How often one refresh asks LVM. It asks again only if the headers before and after the report differ, or
// were of other disks. Such a report is correct, but cannot be kept.
constexpr int kAttempts = 2;

// A commit writes one header after the other, so two headers that disagree usually agree a moment later.
constexpr int kTextAttempts = 20;
constexpr std::chrono::milliseconds kCommitLasts{2};

// A create under LVM's lock asks for the lock again and again. LVM's own commands queue for it, so under many
// of them the create might never get it. After this time it is made by a command that queues.
constexpr std::chrono::milliseconds kLockPatience{2000};

// How often Hold reads a group. It reads the group again if a commit came before the lock, and only LVM can
// read that commit.
constexpr int kHoldAttempts = 5;

bool Lost(const PhysicalVolume& pv) {
  return pv.device.empty();
}

bool HoldsMetadata(const PvState& state) {
  return std::ranges::any_of(state.areas, &AreaState::HoldsText);
}

// Whether equal states can prove anything about this snapshot. Every PV that LVM saw must be where LVM saw
// it, and at least one must have an area that a commit would have changed. A PV that LVM did not see can be
// watched for only if a finder knows its place (`watched`); otherwise its return would not be noticed.
bool CanProve(const VolumeGroup& group, const std::vector<PvState>& states, bool watched) {
  bool metadata = false;
  for (size_t i = 0; i < states.size(); ++i) {
    const bool itself = states[i].kind == PvState::Kind::kPv && states[i].uuid == group.pvs[i].uuid;
    if (!itself && (!Lost(group.pvs[i]) || !watched)) {
      return false;
    }
    metadata = metadata || (itself && HoldsMetadata(states[i]));
  }
  return metadata;
}

// Assumes that a silent disk is unchanged. A commit is made on every disk with an area, so a disk that
// answers would show it. Asking LVM instead does not help: LVM waits for the silent disk, and cannot be
// killed meanwhile. nullopt: no disk is silent, or no other disk can show a commit.
std::optional<std::vector<PvState>> DespiteSilence(std::vector<PvState> states,
                                                   const std::vector<PvState>& last) {
  bool silent = false;
  bool told = false;
  for (size_t i = 0; i < states.size() && i < last.size(); ++i) {
    if (states[i].kind == PvState::Kind::kSilent && last[i].kind == PvState::Kind::kPv) {
      silent = true;
      states[i] = last[i];
    } else {
      told = told || HoldsMetadata(states[i]);
    }
  }
  return silent && told ? std::optional(std::move(states)) : std::nullopt;
}

// Whether both states are of the same disks with the same areas, whatever is committed in them.
bool SameAreas(PvState a, PvState b) {
  for (PvState* state : {&a, &b}) {
    for (AreaState& area : state->areas) {
      area.committed.reset();
    }
  }
  return a == b;
}

// Where a group's text is.
struct TextPlace {
  size_t disk = 0;
  DiskArea area;
  RawLocation location;
};

// The text that all areas in use name. nullopt: they disagree, or there is none. ReadText uses the result
// only if every PV is plain (IsPlain) or gone.
std::optional<TextPlace> AgreedText(const std::vector<PvState>& states) {
  std::optional<TextPlace> place;
  for (size_t disk = 0; disk < states.size(); ++disk) {
    for (const AreaState& area : states[disk].areas) {
      if (area.ignored) {
        continue;
      }
      if (!area.committed.has_value() ||
          (place.has_value() && (place->location.size != area.committed->size ||
                                 place->location.checksum != area.committed->checksum))) {
        return std::nullopt;
      }
      place = place.has_value() ? place : TextPlace{disk, area.area, *area.committed};
    }
  }
  return place;
}

// A disk that left the node, or that cannot be read. For LVM such a disk does not exist.
bool IsGone(const PvState& state) {
  return state.kind == PvState::Kind::kAbsent ||
         (state.kind == PvState::Kind::kUnreadable && IsDiskError(state.error));
}

// Whether this is a PV with at most one metadata area, which is not damaged. Other cases are left to LVM.
bool IsPlain(const PvState& state) {
  return state.kind == PvState::Kind::kPv && state.areas.size() <= 1 &&
         (state.areas.empty() || !state.areas[0].damaged);
}

// Whether `states` differ from those of the proof, `before`, only by commits and by disks gone since.
bool Follow(const VolumeGroup& last, const std::vector<PvState>& before, const std::vector<PvState>& states) {
  for (size_t i = 0; i < states.size(); ++i) {
    const bool as_before = !Lost(last.pvs[i]) && IsPlain(states[i]) && SameAreas(states[i], before[i]);
    if (!as_before && !IsGone(states[i])) {
      return false;
    }
  }
  return true;
}

std::vector<TextPv> TextPvs(const VolumeGroup& group, const std::vector<PvState>& states) {
  std::vector<TextPv> out;
  for (size_t i = 0; i < states.size(); ++i) {
    const auto& areas = states[i].areas;
    const bool in_use = !areas.empty() && !areas[0].ignored;
    out.push_back(
        {group.pvs[i].uuid, IsGone(states[i]) ? "" : group.pvs[i].device, {in_use ? areas[0].area.size : 0}});
  }
  return out;
}

bool LostPvs(const VolumeGroup& group) {
  return std::ranges::any_of(group.pvs, Lost);
}

Error Replaced(const VolumeGroup& group, const std::string& uuid) {
  return Error(
      Code::kPrecondition,
      fmt::format(
          "volume group {} is not the one that quarryd knew: its UUID is {}, it was {}. If this is intended, "
          "restart quarryd",
          group.name, group.uuid, uuid));
}

// Compares two groups of the same sequence number by what commits change. vgcfgrestore gives the restored
// metadata the number after that of the backup, and that number may have existed before.
bool SameVolumes(const VolumeGroup& a, const VolumeGroup& b) {
  std::map<std::string_view, const LogicalVolume*> known;
  for (const LogicalVolume& lv : a.lvs) {
    known.emplace(lv.uuid, &lv);
  }
  return a.lvs.size() == b.lvs.size() && std::ranges::all_of(b.lvs, [&](const LogicalVolume& lv) {
           const auto same = known.find(lv.uuid);
           return same != known.end() && same->second->size == lv.size && same->second->tags == lv.tags &&
                  PhysicalExtents(a, *same->second) == PhysicalExtents(b, lv);
         });
}

Error WentBack(const VolumeGroup& group, uint64_t newest) {
  return Error(
      Code::kPrecondition,
      fmt::format(
          "volume group {} has gone back in time: its disks hold metadata number {}, and lack what was read "
          "before, up to number {}. If the disk with the newer metadata is missing, bring it back. If "
          "the older metadata is intended (vgcfgrestore), inspect the group, then restart quarryd to accept "
          "it",
          group.name, group.seqno, newest));
}

// Whether the error comes from one caller's deadline or stop request, and so means nothing to other callers.
bool IsOwnEnd(const Error& error) {
  return error.code() == Code::kTimeout || error.code() == Code::kCancelled;
}

}  // namespace

// A snapshot, and the states of the disks while it was current.
struct FreshLvm::Proof {
  Snapshot snapshot;               // nullptr: none
  std::vector<std::string> paths;  // of the group's PVs, in the snapshot's order
  std::vector<PvState> states;     // of these paths
  uint64_t failures = 0;           // Group::failures at the time LVM was asked
};

// What the disks of a proof said.
struct FreshLvm::Seen {
  std::shared_ptr<const Proof> proof;
  std::vector<PvState> states;
};

struct FreshLvm::Question {
  uint64_t number = 0;
  bool done = false;
  Result<Snapshot> outcome;
};

struct FreshLvm::Group {
  Mutex mutex;
  std::condition_variable_any ended;
  std::shared_ptr<const Proof> proof ABSL_GUARDED_BY(mutex);
  std::shared_ptr<Question> running ABSL_GUARDED_BY(mutex);
  std::shared_ptr<Question> last ABSL_GUARDED_BY(mutex);
  uint64_t started ABSL_GUARDED_BY(mutex) = 0;  // refreshes, including the running one
  // Failed changes through this object. Their outcome is unknown; a command may even be running and hold the
  // group's lock. So the next read asks LVM, which waits for that lock.
  uint64_t failures ABSL_GUARDED_BY(mutex) = 0;
  int changing ABSL_GUARDED_BY(mutex) = 0;  // changes by this object that hold LVM's lock until they end
  std::condition_variable_any changed;      // when `changing` becomes 0
  std::string uuid ABSL_GUARDED_BY(mutex);  // of the group at the first read
  // The newest metadata of that group so far. Once the group has gone back, a higher sequence number proves
  // nothing: it may come from commits on top of the older metadata. The group is accepted again only when
  // this newest metadata is read again (or after a restart of quarryd).
  Snapshot newest ABSL_GUARDED_BY(mutex);
  bool went_back ABSL_GUARDED_BY(mutex) = false;

  bool GoesBack(const VolumeGroup& now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (newest == nullptr) {
      return false;
    }
    return now.seqno == newest->seqno ? !SameVolumes(now, *newest) : now.seqno < newest->seqno || went_back;
  }

  // The outcome of the newest finished refresh, if it began after refresh number `after` and is valid for all
  // callers.
  std::optional<Result<Snapshot>> OutcomeSince(uint64_t after) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (last == nullptr || last->number <= after ||
        (!last->outcome.has_value() && IsOwnEnd(last->outcome.error()))) {
      return std::nullopt;
    }
    return last->outcome;
  }

  // Ends the running refresh.
  void Conclude(const std::shared_ptr<Question>& refresh, Result<Snapshot> outcome, Proof fresh)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (outcome.has_value() && uuid.empty()) {
      uuid = (*outcome)->uuid;
    }
    if (outcome.has_value() && (*outcome)->uuid != uuid) {
      outcome = Replaced(**outcome, uuid);
    } else if (outcome.has_value() && GoesBack(**outcome)) {
      went_back = true;
      outcome = WentBack(**outcome, newest->seqno);
    } else if (outcome.has_value()) {
      went_back = false;
      newest = *outcome;
      if (fresh.snapshot != nullptr) {
        proof = std::make_shared<const Proof>(std::move(fresh));
      }
    }
    refresh->outcome = std::move(outcome);
    refresh->done = true;
    last = refresh;
    running = nullptr;
    ended.notify_all();
  }

  // Waits for the end of the running refresh. Returns the call's error if the call ends first.
  Status Join(MutexLock& lock, const Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const std::shared_ptr<Question> refresh = running;
    return WaitUntil(ended, lock, call, [&] { return refresh->done; })
               ? Ok()
               : call.Check("waiting for LVM's report");
  }
};

FreshLvm::FreshLvm(LvmApi& inner, HeaderSource& headers, PvFinder* finder, LvmApi* maker,
                   const GroupLocks* locks, std::string locking_dir)
    : inner_(inner),
      headers_(headers),
      finder_(finder),
      maker_(maker),
      locks_(locks),
      locking_dir_(std::move(locking_dir)) {}
FreshLvm::~FreshLvm() = default;

FreshLvm::Group& FreshLvm::Find(const std::string& name) {
  const MutexLock lock(mutex_);
  std::unique_ptr<Group>& group = groups_[name];
  if (group == nullptr) {
    group = std::make_unique<Group>();
  }
  return *group;
}

Result<Snapshot> FreshLvm::Read(const std::string& name, const Call& call) {
  const TimedStep step(call, [&] { return fmt::format("prove or read volume group {}", name); });
  if (locks_ != nullptr) {
    QUARRY_TRY(locks_->Check(name));
  }
  Group& group = Find(name);
  MutexLock lock(group.mutex);
  const uint64_t before = group.started;
  Seen seen;
  while (true) {
    lock.unlock();
    QUARRY_TRY(call.Check(fmt::format("reading volume group {}", name)));
    QUARRY_ASSIGN(Snapshot proven, Prove(group, call, &seen));
    if (proven != nullptr) {
      ++proven_;
      return proven;
    }
    lock.lock();
    if (group.running != nullptr) {
      ++joined_;
      QUARRY_TRY(group.Join(lock, call));
    } else if (!group.OutcomeSince(before).has_value()) {
      break;
    }
    // A refresh that began after this call is its answer, proven or not. A refresh that was already running
    // may be older than what the caller knows, so it counts only if it is proven now.
    if (auto outcome = group.OutcomeSince(before); outcome.has_value()) {
      return std::move(*outcome);
    }
  }
  const auto refresh = std::make_shared<Question>();
  refresh->number = ++group.started;
  group.running = refresh;
  const uint64_t failures = group.failures;
  Proof proof = group.proof == nullptr ? Proof() : *group.proof;
  if (seen.proof != group.proof) {
    seen.states.clear();
  }
  lock.unlock();

  Result<Snapshot> outcome = Snapshot();
  bool updated = false;
  if (proof.snapshot != nullptr) {
    outcome = ReadText(proof, proof.failures == failures, updated, std::move(seen.states), call);
  }
  if (outcome.has_value() && *outcome == nullptr && proof.snapshot != nullptr) {
    outcome = ReadTextAfterChange(group, proof, updated, call);
  }
  read_ += outcome.has_value() && *outcome != nullptr ? 1 : 0;
  if (outcome.has_value() && *outcome == nullptr) {
    ++refreshed_;
    outcome = Ask(name, proof, updated, call);
    proof.failures = failures;
  }

  lock.lock();
  group.Conclude(refresh, std::move(outcome), std::move(proof));
  return refresh->outcome;
}

Result<Snapshot> FreshLvm::Prove(Group& group, const Call& call, Seen* seen) {
  std::shared_ptr<const Proof> proof;
  bool settled = false;  // the outcome of every change by this object is known
  {
    const MutexLock lock(group.mutex);
    proof = group.proof;
    if (proof == nullptr || proof->snapshot == nullptr) {
      return Snapshot();
    }
    settled = proof->failures == group.failures;
  }
  // A lost PV can be read at its place only after the finder has seen its return.
  if (finder_ != nullptr && LostPvs(*proof->snapshot) && !finder_->UpdateIfNews(call).has_value()) {
    return Snapshot();
  }
  QUARRY_ASSIGN(std::vector<PvState> states, headers_.Read(proof->paths, call));
  if (seen != nullptr) {
    *seen = {proof, states};
  }
  if (!(states == proof->states && settled) && DespiteSilence(states, proof->states) != proof->states) {
    return Snapshot();
  }
  const MutexLock lock(group.mutex);
  group.went_back =
      group.went_back && group.proof != proof;  // not cleared if a read replaced the proof meanwhile
  return proof->snapshot;
}

Result<HeldGroup> FreshLvm::ProveByHeaders(Group& group, const Call& call) {
  std::shared_ptr<const Proof> proof;
  {
    const MutexLock lock(group.mutex);
    proof = group.proof;
    if (proof == nullptr || proof->snapshot == nullptr || proof->failures != group.failures) {
      return HeldGroup();
    }
  }
  QUARRY_ASSIGN(const std::vector<PvState> states, headers_.Read(proof->paths, call));
  if (states != proof->states && DespiteSilence(states, proof->states) != proof->states) {
    return HeldGroup();
  }
  HeldGroup out{proof->snapshot, {}, nullptr};
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].kind == PvState::Kind::kSilent) {
      out.silent.push_back(proof->snapshot->pvs[i].uuid);
    }
  }
  return out;
}

Status FreshLvm::CatchUp(Group& group, const Call& call) {
  Proof proof;
  std::string uuid;
  {
    const MutexLock lock(group.mutex);
    if (group.proof == nullptr || group.proof->snapshot == nullptr ||
        group.proof->failures != group.failures) {
      return Ok();
    }
    proof = *group.proof;
    uuid = group.uuid;
  }
  bool updated = true;  // no search while LVM waits
  QUARRY_ASSIGN(const Snapshot now, ReadText(proof, true, updated, {}, call));
  read_ += now != nullptr ? 1 : 0;
  const MutexLock lock(group.mutex);
  if (now != nullptr && now->uuid == uuid && !group.GoesBack(*now)) {
    group.newest = now;
    group.proof = std::make_shared<const Proof>(std::move(proof));
  }
  return Ok();
}

Result<HeldGroup> FreshLvm::ProveUnderLock(Group& group, const Call& call) {
  QUARRY_ASSIGN(HeldGroup held, ProveByHeaders(group, call));
  if (held.snapshot == nullptr) {
    QUARRY_TRY(CatchUp(group, call));
    QUARRY_ASSIGN(held, ProveByHeaders(group, call));
  }
  return held;
}

Result<HeldGroup> FreshLvm::Hold(const std::string& name, const Call& call) {
  Group& group = Find(name);
  for (int attempt = 0; attempt < kHoldAttempts; ++attempt) {
    QUARRY_TRY(Read(name, call));
    QUARRY_ASSIGN(GroupLock lock, GroupLock::Take(locking_dir_, name, GroupLock::Mode::kRead, call));
    QUARRY_ASSIGN(HeldGroup held, ProveUnderLock(group, call));
    if (held.snapshot != nullptr) {
      held.hold = std::make_unique<GroupLock>(std::move(lock));
      return held;
    }
  }
  return Error(Code::kUnavailable,
               fmt::format("volume group {} keeps changing, or the headers on its disks do not "
                           "prove its state, so Quarry does not write to its disks below LVM now",
                           name));
}

// Reads the text between two equal readings of the headers. So the text is what was committed at that time,
// as its checksum proves, and nothing else was committed meanwhile. This is done only if the states differ
// from the last proof just by commits and by disks gone since. In all other cases LVM knows more.
Result<Snapshot> FreshLvm::ReadText(Proof& proof, bool settled, bool& updated, std::vector<PvState> seen,
                                    const Call& call) {
  const Snapshot last = proof.snapshot;
  const std::optional<TextPlace> told = AgreedText(proof.states);
  // Areas that kept disagreeing before will disagree now.
  if (!told.has_value()) {
    return Snapshot();
  }
  for (int attempt = 0; attempt < kTextAttempts; ++attempt) {
    if (attempt > 0) {
      std::this_thread::sleep_for(kCommitLasts);
    }
    std::vector<PvState> said = std::exchange(seen, {});
    if (said.empty()) {
      QUARRY_ASSIGN(said, headers_.Read(proof.paths, call));
    }
    const std::optional<std::vector<PvState>> despite = DespiteSilence(said, proof.states);
    std::vector<PvState> states = despite.value_or(said);
    if ((!settled && !despite.has_value()) || !Follow(*last, proof.states, states)) {
      return Snapshot();
    }
    // The disk may have returned under another name.
    if (std::ranges::any_of(states, IsGone) && !std::exchange(updated, true)) {
      if (finder_ == nullptr || !finder_->Update(call).has_value() || !WouldReturn(*last, proof, states)) {
        return Snapshot();
      }
      continue;
    }
    const std::optional<TextPlace> place = AgreedText(said);
    if (!place.has_value()) {
      continue;
    }
    const auto text = headers_.ReadText(proof.paths[place->disk], place->area, place->location, call);
    QUARRY_TRY(call.Check("reading the metadata of a volume group"));
    QUARRY_ASSIGN(const std::vector<PvState> after, headers_.Read(proof.paths, call));
    if (after != said) {
      continue;
    }
    auto group = text.has_value() ? SnapshotFromText(*text, TextPvs(*last, states))
                                  : Result<VolumeGroup>(text.error());
    const bool same_text = place->location.checksum == told->location.checksum;
    if (!group.has_value() || group->uuid != last->uuid || group->name != last->name ||
        group->seqno < last->seqno + (same_text ? 0 : 1)) {
      return Snapshot();
    }
    proof.states = std::move(states);
    proof.snapshot = std::make_shared<const VolumeGroup>(std::move(*group));
    return proof.snapshot;
  }
  return Snapshot();
}

// Asks LVM, and reads the headers before and after. If both readings are equal, nothing was committed in
// between, so these headers belong to LVM's report. Only then does the proof get its snapshot.
Result<Snapshot> FreshLvm::Ask(const std::string& name, Proof& proof, bool updated, const Call& call) {
  proof.snapshot = nullptr;
  QUARRY_ASSIGN(proof.states, headers_.Read(proof.paths, call));
  Result<Snapshot> snapshot;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    snapshot = AskOnce(name, updated, call);
    if (!snapshot.has_value()) {
      return snapshot;
    }
    std::vector<std::string> paths = PathsOf(**snapshot);
    auto states = headers_.Read(paths, call);
    if (!states.has_value() || !CanProve(**snapshot, *states, finder_ != nullptr)) {
      break;  // the call ended, or no headers can prove this; the answer is valid all the same
    }
    const bool untouched = paths == proof.paths && *states == proof.states;
    proof.paths = std::move(paths);
    proof.states = std::move(*states);
    if (untouched) {
      proof.snapshot = *snapshot;
      proof.snapshot = WithQueues(proof, call);
      snapshot = proof.snapshot;
      break;
    }
  }
  unproven_ += proof.snapshot == nullptr ? 1 : 0;
  return snapshot;
}

Snapshot FreshLvm::WithQueues(const Proof& proof, const Call& call) {
  const VolumeGroup& reported = *proof.snapshot;
  const auto is_pool = [](const LogicalVolume& lv) {
    return lv.segments.size() == 1 && lv.segments.front().thin_pool.has_value();
  };
  if (std::ranges::none_of(reported.lvs, is_pool)) {
    return proof.snapshot;
  }
  Proof same = proof;
  bool updated = true;  // no search
  const auto read = ReadText(same, true, updated, {}, call);
  if (!read.has_value() || *read == nullptr || (*read)->seqno != reported.seqno) {
    return proof.snapshot;
  }
  VolumeGroup out = reported;
  for (LogicalVolume& lv : out.lvs) {
    const LogicalVolume* const in_text = is_pool(lv) ? (*read)->FindLv(lv.name) : nullptr;
    if (in_text != nullptr && in_text->uuid == lv.uuid && is_pool(*in_text)) {
      ThinPool& pool = *lv.segments.front().thin_pool;
      pool.queued_deletes = in_text->segments.front().thin_pool->queued_deletes;
      pool.has_messages = in_text->segments.front().thin_pool->has_messages;
    }
  }
  return std::make_shared<const VolumeGroup>(std::move(out));
}

Result<Snapshot> FreshLvm::AskOnce(const std::string& name, bool& updated, const Call& call) {
  const auto read = [&]() -> Result<Snapshot> {
    QUARRY_ASSIGN(const Snapshot group, inner_.Read(name, call));
    return std::make_shared<const VolumeGroup>(group->MetadataOnly());
  };
  auto snapshot = read();
  // If LVM does not find a group while a disk does not answer, the error is kUnavailable.
  const bool incomplete = snapshot.has_value() ? LostPvs(**snapshot)
                                               : snapshot.error().code() == Code::kNotFound ||
                                                     snapshot.error().code() == Code::kUnavailable;
  if (!incomplete || finder_ == nullptr || std::exchange(updated, true)) {
    return snapshot;
  }
  // A PV that is not found stays missing, and the snapshot says so.
  const auto found = finder_->Update(call);
  return found.has_value() && *found ? read() : snapshot;
}

Result<std::string> FreshLvm::Fingerprint(const Snapshot& snapshot, const Call& call) {
  const auto refuse = [&](Code code, std::string_view why) {
    return Error(code, fmt::format("volume group {}: {}", snapshot->name, why));
  };
  Seen seen;
  QUARRY_ASSIGN(const Snapshot proven, Prove(Find(snapshot->name), call, &seen));
  if (proven != snapshot) {
    return refuse(Code::kUnavailable, "it has changed meanwhile, or its headers prove nothing");
  }
  std::string out = snapshot->uuid;
  for (const PvState& state : seen.states) {
    if (state.kind != PvState::Kind::kPv) {
      return refuse(Code::kUnavailable, "one of its disks cannot be read");
    }
    if (state.disk_sequence == 0) {
      return refuse(Code::kUnsupported, "this kernel does not tell whether a disk was detached meanwhile");
    }
    out += fmt::format(" {} {} {}", state.uuid, state.device_number, state.disk_sequence);
    for (const AreaState& area : state.areas) {
      const RawLocation at = area.committed.value_or(RawLocation());
      out += fmt::format(":{},{},{},{}", area.area.offset, at.offset, at.size, at.checksum);
    }
  }
  return out;
}

bool FreshLvm::WouldReturn(const VolumeGroup& last, const Proof& proof,
                           const std::vector<PvState>& states) const {
  for (size_t i = 0; i < states.size(); ++i) {
    if (IsGone(states[i]) && finder_->PathOf(last.pvs[i].uuid) != proof.paths[i]) {
      return false;
    }
  }
  return true;
}

std::vector<std::string> FreshLvm::PathsOf(const VolumeGroup& group) const {
  std::vector<std::string> paths;
  for (const PhysicalVolume& pv : group.pvs) {
    paths.push_back(Lost(pv) && finder_ != nullptr ? finder_->PathOf(pv.uuid) : pv.device);
  }
  return paths;
}

Result<Snapshot> FreshLvm::ReadTextAfterChange(Group& group, Proof& proof, bool& updated, const Call& call) {
  bool settled = false;
  {
    MutexLock lock(group.mutex);
    if (group.changing == 0) {
      return Snapshot();
    }
    WaitUntil(group.changed, lock, call,
              [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(group.mutex) { return group.changing == 0; });
    QUARRY_TRY(call.Check("waiting for a change of the volume group"));
    settled = proof.failures == group.failures;
  }
  return ReadText(proof, settled, updated, {}, call);
}

Status FreshLvm::Prepared(const std::string& name, const Call& call, bool brief,
                          const std::function<Status()>& change, bool proven) {
  Group& group = Find(name);
  Snapshot snapshot;
  if (proven) {
    QUARRY_ASSIGN(snapshot, Prove(group, call));
  } else {
    const MutexLock lock(group.mutex);
    snapshot = group.proof == nullptr ? nullptr : group.proof->snapshot;
  }
  if (snapshot == nullptr) {
    QUARRY_ASSIGN(snapshot, Read(name, call));
  }
  if (finder_ != nullptr && LostPvs(*snapshot)) {
    // The result does not matter: a lost disk is no reason to refuse the change. LVM decides.
    (void)finder_->Update(call);
  }
  {
    const MutexLock lock(group.mutex);
    group.changing += brief ? 1 : 0;
  }
  Status status = change();
  {
    const MutexLock lock(group.mutex);
    group.failures += status.has_value() ? 0 : 1;
    group.changing -= brief ? 1 : 0;
    group.changed.notify_all();
  }
  if (!status.has_value()) {
    return status;
  }
  if (LostPvs(*snapshot)) {
    // A missing disk lacks this commit. This read records the commit. So the disk is not believed if it is
    // the only disk left at the next read of the group.
    (void)Read(name, call);
  }
  return status;
}

Status FreshLvm::Apply(const Change& change, const Call& call) {
  return std::visit([&](const auto& verb) { return Do(verb, call); }, change);
}

template <typename Verb>
Status FreshLvm::Do(const Verb& change, const Call& call) {
  // pvmove has the lock at its beginning and its end only.
  const bool brief = change.Commits() != 0U && !std::is_same_v<Verb, MoveExtents>;
  return Prepared(change.group, call, brief, [&] { return inner_.Apply(change, call); });
}

Status FreshLvm::Do(const CreateGroup& change, const Call& call) {
  Group& group = Find(change.group);
  Status status = (maker_ == nullptr ? inner_ : *maker_).Apply(change, call);
  if (finder_ != nullptr) {
    // If this fails, the first Read does not find the group, and searches again.
    (void)finder_->Update(call);
  }
  const MutexLock lock(group.mutex);
  ++group.failures;  // even if nothing failed: the next read of the group must ask LVM
  if (status.has_value()) {
    group.uuid.clear();
    group.newest = nullptr;
    group.went_back = false;
    group.proof = nullptr;
  }
  return status;
}

Status FreshLvm::Do(const AddPv& change, const Call& call) {
  return Prepared(change.group, call, true, [&]() -> Status {
    if (finder_ == nullptr) {
      return (maker_ == nullptr ? inner_ : *maker_).Apply(change, call);
    }
    AddPv shown = change;
    QUARRY_ASSIGN(shown.device, finder_->Show(change.device));
    Status added = inner_.Apply(shown, call);
    finder_->Hide(change.device);
    // If this fails, the next report lacks the PV, and the search is repeated then.
    (void)finder_->Update(call);
    return added;
  });
}

Status FreshLvm::Do(const CreateLv& change, const Call& call) {
  if (change.seqno == 0) {
    return Do<CreateLv>(change, call);
  }
  Status may = Ok();
  const auto create = [&]() -> Status {
    auto lock =
        GroupLock::Take(locking_dir_, change.group, GroupLock::Mode::kWrite, call.Within(kLockPatience));
    may = lock.has_value() ? CheckNumber(change.group, change.seqno, call) : lock.error();
    if (!may.has_value()) {
      return Ok();  // no command was run, so no outcome is unknown
    }
    CreateLv locked = change;
    locked.lock_fd = lock->fd();
    Status made = inner_.Apply(locked, call);
    if (!made.has_value()) {
      lock->LeaveToCommand();  // it may be stuck in the kernel
    }
    return made;
  };
  Status done = Prepared(change.group, call, true, create, /*proven=*/false);
  return may.has_value() ? done : std::move(may.error()).As(Code::kBusy);
}

Status FreshLvm::CheckNumber(const std::string& name, uint64_t seqno, const Call& call) {
  QUARRY_ASSIGN(const HeldGroup now, ProveUnderLock(Find(name), call));
  if (now.snapshot == nullptr) {
    return Error(Code::kUnavailable,
                 fmt::format("the headers on the disks of volume group {} do not prove its state", name));
  }
  // LVM reads every disk before it takes its lock. A command under our lock would keep it while it waits for
  // this disk, and everybody else would wait too.
  if (!now.silent.empty()) {
    return Error(Code::kUnavailable,
                 fmt::format("disk {} of volume group {} does not answer", now.silent.front(), name));
  }
  if (now.snapshot->seqno != seqno) {
    return Error(Code::kUnavailable,
                 fmt::format("another process has changed volume group {} meanwhile: try again", name));
  }
  return Ok();
}

FreshLvm::Counts FreshLvm::counts() const {
  return {proven_, read_, refreshed_, joined_, unproven_};
}

}  // namespace quarry::lvm
