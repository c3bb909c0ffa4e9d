#include "tests/vm/kit/administrator.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include <fmt/format.h>

namespace quarry::vm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kExtent = 1 << 20;
constexpr int kMostOwn = 5;
constexpr auto kWatched = seconds(2);

std::string Joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    out += (out.empty() ? "" : " ") + word;
  }
  return out;
}

std::string Unbracketed(std::string name) {
  std::erase_if(name, [](char c) { return c == '[' || c == ']'; });
  return name;
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(Trim(part));
  }
  return parts;
}

// "/dev/a:3-7" is five extents.
uint64_t ExtentsOf(const std::string& range) {
  const size_t colon = range.find(':');
  const size_t dash = range.find('-', colon);
  return std::stoull(range.substr(dash + 1)) - std::stoull(range.substr(colon + 1, dash - colon - 1)) + 1;
}

}  // namespace

Administrator::Administrator(std::string group, std::vector<std::string> disks, OthersVolumes& others,
                             Story& story)
    : group_(std::move(group)), disks_(std::move(disks)), others_(others), story_(story) {}

Administrator::~Administrator() = default;

const std::vector<std::pair<int, Administrator::Command>>& Administrator::CommandsOf(Mood mood) {
  using A = Administrator;
  static const std::vector<std::pair<int, Command>> kEverything = {
      {8, &A::Create},       {4, &A::CreateThin},   {6, &A::Extend},       {6, &A::Remove},
      {4, &A::Rename},       {5, &A::Mirror},       {5, &A::CacheOwn},     {5, &A::Tag},
      {6, &A::MoveDisk},     {6, &A::MoveByName},   {3, &A::Abort},        {4, &A::ReduceAndExtend},
      {6, &A::Snapshot},     {4, &A::CacheOthers},  {3, &A::MirrorOthers}, {2, &A::PoolOfOthers},
      {3, &A::RenameOthers}, {1, &A::RemoveOthers}, {8, &A::TidyUp}};
  static const std::vector<std::pair<int, Command>> kMoving = {
      {5, &A::Create}, {8, &A::MoveDisk}, {5, &A::MoveByName}, {1, &A::Abort}, {2, &A::Extend}, {2, &A::Tag}};
  static const std::vector<std::pair<int, Command>> kBuilding = {
      {10, &A::Snapshot},    {5, &A::CacheOthers}, {3, &A::MirrorOthers}, {3, &A::PoolOfOthers},
      {3, &A::RenameOthers}, {3, &A::Create},      {3, &A::Remove}};
  static const std::vector<std::pair<int, Command>> kTidying = {
      {10, &A::TidyUp}, {3, &A::Create}, {3, &A::Remove}, {1, &A::RemoveOthers}};
  switch (mood) {
    case Mood::kMoving:
      return kMoving;
    case Mood::kBuilding:
      return kBuilding;
    case Mood::kTidying:
      return kTidying;
    case Mood::kEverything:
      break;
  }
  return kEverything;
}

void Administrator::Act(Mood mood, std::mt19937& random) {
  const auto& commands = CommandsOf(mood);
  int all = 0;
  for (const auto& [weight, command] : commands) {
    all += weight;
  }
  int drawn = Pick(random, all);
  for (const auto& [weight, command] : commands) {
    drawn -= weight;
    if (drawn < 0) {
      (this->*command)(random);
      return;
    }
  }
}

int Administrator::Pick(std::mt19937& random, int below) const {
  return std::uniform_int_distribution<int>(0, below - 1)(random);
}

std::string Administrator::PickDisk(std::mt19937& random) const {
  return disks_[static_cast<size_t>(Pick(random, static_cast<int>(disks_.size())))];
}

std::pair<const std::string, Administrator::Own>* Administrator::PickOwn(std::mt19937& random, bool plain) {
  std::vector<std::pair<const std::string, Own>*> candidates;
  for (auto& entry : own_) {
    const bool is_plain = entry.second.kind == Kind::kPlain && !entry.second.cached;
    if (entry.second.kind != Kind::kThinPool && (is_plain || !plain)) {
      candidates.push_back(&entry);
    }
  }
  return candidates.empty()
             ? nullptr
             : candidates[static_cast<size_t>(Pick(random, static_cast<int>(candidates.size())))];
}

std::string Administrator::PickOthers(std::mt19937& random) {
  const std::vector<std::string> ready = others_.Ready();
  return ready.empty() ? "" : ready[static_cast<size_t>(Pick(random, static_cast<int>(ready.size())))];
}

Outcome Administrator::Run(std::vector<std::string> argv) {
  const std::string text = Joined(argv);
  argv.insert(argv.begin() + 1, {"-q", "-y", "--config", kConfig});
  Outcome done = Tool(argv);
  const std::vector<std::string> words = Lines(done.err);
  story_.Tell("administrator: " + text +
              (done.ok() ? "" : ": FAILED: " + (words.empty() ? "" : words.back())));
  if (done.err.find("still suspended") != std::string::npos) {
    ResumeOwn();
  }
  return done;
}

// From Linux 6.8 on, a device cannot be suspended at the moment in which its file system is unmounted. The
// LVM command fails, and leaves suspended what it has suspended before. Holds LVM's lock, so that no other
// command is at work on these devices.
void Administrator::ResumeOwn() {
  for (const std::string& line : Lines(
           Tool({"dmsetup", "info", "-c", "--noheadings", "--separator", "|", "-o", "name,suspended"}).out)) {
    const std::vector<std::string> row = Split(line + "|", '|');
    if (row[0].starts_with(group_ + "-his") && row[1] == "Suspended") {
      const Outcome resumed = Tool({"flock", "/run/lock/lvm/V_" + group_, "sh", "-c",
                                    "dmsetup clear " + row[0] + " && dmsetup resume " + row[0]});
      story_.Tell("administrator: resumes " + row[0] + (resumed.ok() ? "" : ": FAILED: " + resumed.err));
    }
  }
}

Status Administrator::MustRun(const std::vector<std::string>& argv) {
  const auto end = std::chrono::steady_clock::now() + seconds(30);
  while (true) {
    const Outcome done = Run(argv);
    if (done.ok()) {
      return Ok();
    }
    if (std::chrono::steady_clock::now() > end) {
      return Error(Code::kInternal, Joined(argv) + ": " + Trim(done.err));
    }
    std::this_thread::sleep_for(milliseconds(300));
  }
}

std::vector<std::vector<std::string>> Administrator::Report(const std::string& fields, bool hidden) const {
  std::vector<std::string> argv = {"lvs", "--noheadings", "--separator", "|", "-o", fields, group_};
  if (hidden) {
    argv.insert(argv.begin() + 1, "-a");
  }
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : Lines(Tool(argv).out)) {
    rows.push_back(Split(line + "|", '|'));
  }
  return rows;
}

void Administrator::Expect(const Status& written) {
  if (!written.has_value() && trouble_.has_value()) {
    trouble_ = Error(Code::kCorrupt,
                     "the administrator cannot write to an unmanaged volume: " + written.error().message());
  }
}

void Administrator::Fill(const std::string& lv, uint64_t extents, Kind kind) {
  Own own{.kind = kind};
  own.bytes.AddPattern(extents * kExtent);
  Expect(own.bytes.Write(Node(lv)));
  own_[lv] = std::move(own);
}

void Administrator::Disturb(const std::string& lv) {
  if (move_ != nullptr) {
    move_->what.erase(lv);
  }
}

void Administrator::Create(std::mt19937& random) {
  if (own_.size() >= kMostOwn) {
    return;
  }
  const std::string name = NewName();
  const auto extents = static_cast<uint64_t>(2 + 2 * Pick(random, 3));
  std::vector<std::string> argv = {"lvcreate", "-l", std::to_string(extents), "-n", name, group_};
  const int where = Pick(random, 3);
  const std::string others = where == 0 ? PickOthers(random) : "";
  const std::string disk = others.empty() ? "" : DiskOf(others);
  if (!disk.empty()) {
    argv.push_back(disk);
  } else if (where != 1) {
    argv.push_back(PickDisk(random));
  }
  if (Run(argv).ok()) {
    Fill(name, extents);
  }
}

void Administrator::CreateThin(std::mt19937& random) {
  if (own_.size() >= kMostOwn) {
    return;
  }
  const std::string pool = NewName();
  if (Run({"lvcreate", "--type", "thin-pool", "-l", "4", "-n", pool, group_, PickDisk(random)}).ok()) {
    own_[pool] = {.kind = Kind::kThinPool};
    ThinOn(pool);
  }
}

void Administrator::ThinOn(const std::string& pool) {
  constexpr uint64_t kExtents = 2;
  const std::string name = NewName();
  if (Run({"lvcreate", "-V", fmt::format("{}m", kExtents), "-T", Path(pool), "-n", name}).ok()) {
    Fill(name, kExtents, Kind::kThin);
  }
}

void Administrator::Extend(std::mt19937& random) {
  auto* const own = PickOwn(random, true);
  if (own == nullptr) {
    return;
  }
  Disturb(own->first);
  if (Run({"lvextend", "-l", "+2", Path(own->first)}).ok()) {
    own->second.bytes.AddPattern(2 * kExtent);
    Expect(own->second.bytes.WriteLast(Node(own->first)));
  }
}

void Administrator::Remove(std::mt19937& random) {
  auto* const own = PickOwn(random, false);
  if (own == nullptr) {
    return;
  }
  Disturb(own->first);
  if (Run({"lvremove", Path(own->first)}).ok()) {
    own_.erase(own->first);
  }
}

void Administrator::Rename(std::mt19937& random) {
  auto* const own = PickOwn(random, false);
  const std::string name = NewName();
  if (own == nullptr || !Run({"lvrename", group_, own->first, name}).ok()) {
    return;
  }
  Disturb(own->first);
  auto node = own_.extract(own->first);
  node.key() = name;
  own_.insert(std::move(node));
}

void Administrator::Mirror(std::mt19937& random) {
  auto* const own = PickOwn(random, true);
  if (own == nullptr) {
    return;
  }
  Disturb(own->first);
  if (!Run({"lvconvert", "--type", "raid1", "-m1", Path(own->first)}).ok()) {
    Run({"lvconvert", "-m0", Path(own->first)});
  }
}

// Adds a cache to the volume, or removes its cache.
void Administrator::Cache(const std::string& lv, bool* cached) {
  Disturb(lv);
  if (*cached) {
    *cached = !Run({"lvconvert", "--uncache", Path(lv)}).ok();
    return;
  }
  const std::string store = NewName();
  if (!Run({"lvcreate", "-l", "8", "-n", store, group_}).ok()) {
    return;
  }
  *cached = Run({"lvconvert", "--type", "cache", "--cachevol", store, Path(lv)}).ok();
  if (!*cached) {
    Run({"lvremove", Path(store)});
  }
}

void Administrator::CacheOwn(std::mt19937& random) {
  if (auto* const own = PickOwn(random, false); own != nullptr) {
    Cache(own->first, &own->second.cached);
  }
}

void Administrator::Tag(std::mt19937& random) {
  const auto* const own = PickOwn(random, false);
  const std::string others = PickOthers(random);
  const std::string change = Pick(random, 2) == 0 ? "--addtag" : "--deltag";
  if (Pick(random, 3) == 0) {
    Run({"vgchange", change, "his", group_});
  } else if (own != nullptr && Pick(random, 2) == 0) {
    Run({"lvchange", change, "his", Path(own->first)});
  } else if (!others.empty()) {
    Run({"lvchange", change, "his", Path(others)});
  }
}

std::string Administrator::DiskOf(const std::string& lv) const {
  for (const auto& row : Report("lv_name,devices", true)) {
    if (Unbracketed(row[0]).starts_with(lv) && row[1].starts_with("/dev/")) {
      return row[1].substr(0, row[1].find('('));
    }
  }
  return {};
}

void Administrator::ReduceAndExtend(std::mt19937& random) {
  if (!reduced_.empty()) {
    if (Run({"vgextend", "--metadatasize", "8m", group_, reduced_}).ok()) {
      reduced_.clear();
    }
    return;
  }
  const std::string disk = PickDisk(random);
  if (Run({"vgreduce", group_, disk}).ok()) {
    reduced_ = disk;
  }
}

void Administrator::Snapshot(std::mt19937& random) {
  const std::string lv = PickOthers(random);
  if (lv.empty() || own_.size() >= kMostOwn || cached_.contains(lv)) {
    return;
  }
  const std::string name = NewName();
  const auto before = others_.Look(lv);
  // More than it can ever need. LVM reduces it to the largest useful size.
  if (!Run({"lvcreate", "-s", "-n", name, "-l", "200%ORIGIN", Path(lv)}).ok()) {
    return;
  }
  const auto after = others_.Look(lv);
  own_[name] = {.kind = Kind::kSnapshot, .origin = lv};
  if (before.has_value() && after.has_value() && before->version == after->version) {
    own_[name].bytes = before->bytes;
  }
}

void Administrator::MirrorOthers(std::mt19937& random) {
  const std::string lv = PickOthers(random);
  if (!lv.empty() && Run({"lvconvert", "--type", "raid1", "-m1", Path(lv)}).ok()) {
    mirrored_.insert(lv);
  }
}

bool Administrator::HasSnapshots(const std::string& lv) const {
  return std::ranges::any_of(own_, [&](const auto& entry) { return entry.second.origin == lv; });
}

// Never makes both a snapshot and a cache of one volume: lvm2 2.03.16 then loads the cache's tables twice as
// long as they are, without Quarry's doing, and both read wrong bytes.
void Administrator::CacheOthers(std::mt19937& random) {
  const std::string lv = PickOthers(random);
  if (lv.empty() || HasSnapshots(lv)) {
    return;
  }
  bool cached = cached_.contains(lv);
  Cache(lv, &cached);
  if (cached) {
    cached_.insert(lv);
  } else {
    cached_.erase(lv);
  }
}

void Administrator::PoolOfOthers(std::mt19937& random) {
  const std::string lv = PickOthers(random);
  if (lv.empty()) {
    return;
  }
  others_.Taken(lv);
  if (!Run({"lvconvert", "--type", "thin-pool", Path(lv)}).ok()) {
    others_.Spared(lv);
    return;
  }
  pooled_.insert(lv);
  ThinOn(lv);
}

void Administrator::NoteNewName(const std::string& from, const std::string& to) {
  others_.Renamed(from, to);
  for (std::set<std::string>* const names : {&cached_, &mirrored_, &pooled_}) {
    if (names->erase(from) != 0) {
      names->insert(to);
    }
  }
  for (auto& [name, own] : own_) {
    own.origin = own.origin == from ? to : own.origin;
  }
}

void Administrator::RenameOthers(std::mt19937& random) {
  if (!renamed_.empty()) {
    const auto [now, before] = *renamed_.begin();
    if (Run({"lvrename", group_, now, before}).ok()) {
      NoteNewName(now, before);
      renamed_.erase(now);
    }
    return;
  }
  const std::string lv = PickOthers(random);
  const std::string name = NewName();
  if (!lv.empty() && Run({"lvrename", group_, lv, name}).ok()) {
    NoteNewName(lv, name);
    renamed_[name] = lv;
  }
}

bool Administrator::RemoveTheirs(const std::string& lv) {
  others_.Taken(lv);
  if (Run({"lvremove", Path(lv)}).ok()) {
    return true;
  }
  others_.Spared(lv);
  return false;
}

void Administrator::RemoveOthers(std::mt19937& random) {
  const std::string lv = PickOthers(random);
  // A cache or snapshot of it is the administrator's, and lvremove would remove it too.
  if (!lv.empty() && !cached_.contains(lv) && !HasSnapshots(lv)) {
    RemoveTheirs(lv);
  }
}

void Administrator::TidyUp(std::mt19937& /*random*/) {
  const auto end = std::chrono::steady_clock::now() + kWatched;
  std::string found;
  std::vector<std::string> ranges;
  uint64_t extents = 0;
  while (found.empty() && std::chrono::steady_clock::now() < end) {
    const auto rows = Report("lv_name,lv_tags,seg_pe_ranges,lv_role", true);
    for (const auto& row : rows) {
      const bool marked = row[1] == "quarry.creating" || row[1].find("quarry.erasing") != std::string::npos;
      // lvremove would also remove its snapshots, which are the administrator's.
      if (marked && !row[0].starts_with("[") && row[3].find("origin") == std::string::npos) {
        found = row[0];
      }
    }
    for (const auto& row : rows) {
      const std::string name = Unbracketed(row[0]);
      for (const std::string& range : Words(row[2])) {
        if (!found.empty() && (name == found || name.starts_with(found + "_")) &&
            range.starts_with("/dev/")) {
          ranges.push_back(range);
          extents += ExtentsOf(range);
        }
      }
    }
  }
  if (found.empty() || !RemoveTheirs(found) || extents == 0) {
    return;
  }
  const std::string name = NewName();
  std::vector<std::string> argv = {"lvcreate", "-Wn", "-Zn", "-l", std::to_string(extents),
                                   "-n",       name,  group_};
  argv.insert(argv.end(), ranges.begin(), ranges.end());
  if (Run(argv).ok()) {
    Fill(name, extents);
  }
}

Status Administrator::CheckOwn(const std::string& lv, const KnownBytes& bytes) {
  if (::access(Node(lv).c_str(), F_OK) != 0) {
    story_.Tell("administrator: " + lv + " was deactivated by another process");
    QUARRY_TRY(MustRun({"lvchange", "-ay", Path(lv)}));
  }
  return bytes.Check(Node(lv));
}

Status Administrator::Check() {
  QUARRY_TRY(trouble_);
  QUARRY_TRY(EndOfMove());
  std::set<std::string> there;
  for (const auto& row : Report("lv_name")) {
    there.insert(row[0]);
  }
  for (const auto& [name, own] : own_) {
    if (!there.contains(name)) {
      return Error(Code::kNotFound,
                   "unmanaged " + name + " is gone, and the administrator has not removed it");
    }
    if (own.kind != Kind::kThinPool) {
      QUARRY_TRY(CheckOwn(name, own.bytes).Context("unmanaged " + name));
    }
  }
  return Ok();
}

Status Administrator::Leave() {
  std::mt19937 unused;
  if (move_ != nullptr) {
    const auto end = std::chrono::steady_clock::now() + seconds(60);
    while (!move_->over && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(100));
    }
    if (!move_->over) {
      Abort(unused);
      move_->thread.join();
    }
    QUARRY_TRY(EndOfMove());
  }
  // LVM leaves its volume of a pvmove that failed, as one does that meets a cache under another name.
  const auto parts = Report("lv_name", true);
  if (std::ranges::any_of(parts, [](const auto& row) { return Unbracketed(row[0]).starts_with("pvmove"); })) {
    QUARRY_TRY(MustRun({"pvmove", "--abort"}));
  }
  if (!reduced_.empty()) {
    QUARRY_TRY(MustRun({"vgextend", "--metadatasize", "8m", group_, reduced_}));
    reduced_.clear();
  }
  for (const bool pools : {false, true}) {
    for (const auto& [name, own] : own_) {
      if ((own.kind == Kind::kThinPool) == pools) {
        QUARRY_TRY(MustRun({"lvremove", Path(name)}));
      }
    }
  }
  own_.clear();
  std::set<std::string> there;
  for (const auto& row : Report("lv_name")) {
    there.insert(row[0]);
  }
  for (const auto& [now, before] : renamed_) {
    if (there.contains(now)) {
      QUARRY_TRY(MustRun({"lvrename", group_, now, before}));
      NoteNewName(now, before);
      there.erase(now);
      there.insert(before);
    }
  }
  for (const std::string& lv : cached_) {
    if (there.contains(lv)) {
      QUARRY_TRY(MustRun({"lvconvert", "--uncache", Path(lv)}));
    }
  }
  for (const std::string& lv : mirrored_) {
    if (there.contains(lv)) {
      Run({"lvconvert", "-m0", Path(lv)});
    }
  }
  for (const std::string& lv : pooled_) {
    QUARRY_TRY(MustRun({"lvremove", Path(lv)}));
  }
  // A conversion that failed half-way leaves the volume for a pool's metadata, or the store of a cache.
  for (const auto& row : Report("lv_name")) {
    if (row[0].starts_with("lvol") || row[0].starts_with("his")) {
      QUARRY_TRY(MustRun({"lvremove", Path(row[0])}));
    }
  }
  // LVM leaves the spare for pool metadata if a cache outlives the last thin pool.
  for (const auto& row : Report("lv_name", true)) {
    if (const std::string name = Unbracketed(row[0]); name.ends_with("_pmspare")) {
      QUARRY_TRY(MustRun({"lvremove", Path(name)}));
    }
  }
  renamed_.clear();
  cached_.clear();
  mirrored_.clear();
  pooled_.clear();
  return Ok();
}

}  // namespace quarry::vm
