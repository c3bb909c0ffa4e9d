#include "lvm/change.h"

#include <utility>

namespace quarry::lvm {
namespace {

// In LVM's texts (tests/fixtures/lvm/texts) a linear volume of one segment takes some 350 bytes besides its
// tags. A RAID leg, and its metadata leg, take 310 bytes each and their name once more. Each further segment
// takes 125. The constants leave space for longer names.
constexpr uint64_t kLvText = 600;
constexpr uint64_t kSegmentText = 220;
constexpr uint64_t kTagPunctuation = 4;

uint64_t LvsOf(const Geometry& geometry) {
  const uint64_t per_leg = geometry.has_metadata() ? 2 : 1;
  return 1 + (geometry.legs() > 1 ? geometry.legs() * per_leg : 0);
}

uint64_t TagText(const std::vector<std::string>& tags) {
  uint64_t sum = 0;
  for (const std::string& tag : tags) {
    sum += tag.size() + kTagPunctuation;
  }
  return sum;
}

void Append(Words& to, Words more) {
  for (std::string& word : more) {
    to.push_back(std::move(word));
  }
}

// LVM checks the group's sequence number once it has the lock. 0: any.
void AppendSeqno(Words& to, uint64_t seqno) {
  if (seqno != 0) {
    Append(to, {"--select", fmt::format("vg_seqno={}", seqno)});
  }
}

void AppendTags(Words& to, const std::vector<std::string>& add, const std::vector<std::string>& remove) {
  for (const std::string& tag : remove) {
    Append(to, {"--deltag", tag});
  }
  for (const std::string& tag : add) {
    Append(to, {"--addtag", tag});
  }
}

// `to`, followed by the full names. Errors as CheckNames().
Result<Words> WithFullNames(Words to, const std::string& group, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    QUARRY_TRY(CheckNames(group, name));
    to.push_back(FullName(group, name));
  }
  return to;
}

std::string Kib(Bytes size) {
  return fmt::format("{}k", size.value / kKiB.value);
}

Words StripeWords(const Geometry& geometry) {
  return {"--stripes", fmt::format("{}", geometry.data_legs()), "--stripesize", Kib(geometry.stripe_size())};
}

// The options that complete --type.
Words ShapeWords(const Geometry& geometry) {
  Words out;
  if (geometry.mirrors() != 0) {
    Append(out, {"--mirrors", fmt::format("{}", geometry.mirrors())});
  }
  if (geometry.stripe_size().value != 0) {
    Append(out, StripeWords(geometry));
  }
  if (geometry.has_metadata()) {
    Append(out, {"--regionsize", Kib(geometry.region_size())});
  }
  return out;
}

}  // namespace

std::string FullName(const std::string& group, const std::string& name) {
  return fmt::format("{}/{}", group, name);
}

std::string FullNames(const std::string& group, const std::vector<std::string>& names) {
  return fmt::format("{}/{}", group, fmt::join(names, fmt::format(" {}/", group)));
}

std::string Several(const std::string& group, const std::vector<std::string>& names) {
  return names.size() == 1 ? FullName(group, names[0]) : fmt::format("{} ({} volumes)", group, names.size());
}

// Without -y: if LVM asks (because it found a signature after all), the empty standard input means no.
Result<Words> CreateGroup::Arguments() const {
  QUARRY_TRY(CheckGroupName(group));
  Words out = {"vgcreate", "--quiet", "--physicalextentsize", Kib(extent_size)};
  Append(out, {"--metadatasize", Kib(metadata_size), "--setautoactivation", "n", "--", group});
  Append(out, devices);
  return out;
}

// Without -y, as CreateGroup.
Result<Words> AddPv::Arguments() const {
  QUARRY_TRY(CheckGroupName(group));
  return Words{"vgextend", "--quiet", "--metadatasize", Kib(metadata_size), "--", group, device};
}

Result<Words> RemovePv::Arguments() const {
  QUARRY_TRY(CheckGroupName(group));
  return Words{"vgreduce", "-y", "--", group, device};
}

Result<Words> RestorePv::Arguments() const {
  QUARRY_TRY(CheckGroupName(group));
  return Words{"vgextend", "-y", "--restoremissing", "--", group, device};
}

// Without --force, so that LVM refuses while a logical volume has extents there.
Result<Words> DropMissingPvs::Arguments() const {
  QUARRY_TRY(CheckGroupName(group));
  return Words{"vgreduce", "-y", "--removemissing", "--", group};
}

Result<Words> ChangePv::Arguments() const {
  QUARRY_TRY(CheckGroupName(group));
  Words out = {"pvchange", "-y", "--allocatable", allocatable ? "y" : "n"};
  AppendTags(out, add_tags, remove_tags);
  Append(out, {"--", device});
  return out;
}

Result<Words> CreateLv::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  if (!activate && wipe != Wipe::kNone) {
    return Error(Code::kInvalidArgument, "an inactive volume cannot be wiped");
  }
  Words out = {"lvcreate", "-y", "--name", name, "--type", std::string(TypeName(geometry.type()))};
  Append(out, {"--extents", fmt::format("{}", step.logical_extents.value), "--alloc", step.alloc});
  Append(out, ShapeWords(geometry));
  const char* const wiped = wipe == Wipe::kNone ? "n" : "y";
  Append(out, {"--wipesignatures", wiped, "--zero", wiped});
  if (max_recovery_rate.value != 0 && geometry.has_metadata()) {
    Append(out, {"--maxrecoveryrate", Kib(max_recovery_rate)});
  }
  // lvcreate refuses --nosync for raid6: its parity must be computed once.
  if (assume_in_sync && geometry.has_metadata() && geometry.type() != VolumeType::kRaid6) {
    out.emplace_back("--nosync");
  }
  Append(out, {"--setactivationskip", "y"});
  Append(out, activate ? Words{"--ignoreactivationskip"} : Words{"--activate", "n"});
  AppendTags(out, tags, {});
  Append(out, {"--", group});
  Append(out, step.pv_arguments);
  return out;
}

// LVM copies the tags onto metadata legs.
Bytes CreateLv::MetadataText() const {
  return {MetadataTextOf(geometry).value + LvsOf(geometry) * TagText(tags)};
}

Result<Words> ExtendLv::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  Words out = {"lvextend", "-y",      "--extents", fmt::format("+{}", step.logical_extents.value),
               "--alloc",  step.alloc};
  // A raid extend takes its shape from the volume. A striped volume may change shape from segment to segment,
  // so the shape is given.
  if (geometry.type() == VolumeType::kStriped) {
    Append(out, StripeWords(geometry));
  }
  Append(out, {"--", Object()});
  Append(out, step.pv_arguments);
  return out;
}

Bytes ExtendLv::MetadataText() const {
  return {(1 + geometry.legs()) * kSegmentText};
}

// Without -y: LVM asks before it removes an active volume. It does not ask before it removes the snapshots of
// an inactive origin.
Result<Words> RemoveLvs::Arguments() const {
  Words out = {"lvremove"};
  AppendSeqno(out, seqno);
  out.emplace_back("--");
  return WithFullNames(std::move(out), group, names);
}

Result<Words> ChangeTags::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  Words out = {"lvchange", "-y"};
  AppendTags(out, add, remove);
  Append(out, {"--", Object()});
  return out;
}

Bytes ChangeTags::MetadataText() const {
  return {TagText(add)};
}

// --poll n: no background process resumes another process's pvmove. Such a process would outlive the command,
// and commit without Quarry's lock.
Result<Words> ActivateLvs::Arguments() const {
  return WithFullNames({"lvchange", "-y", "--activate", "y", "--ignoreactivationskip", "--poll", "n", "--"},
                       group, names);
}

Result<Words> DeactivateLv::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  Words out = {"lvchange", "-y", "--activate", "n"};
  AppendSeqno(out, seqno);
  Append(out, {"--", Object()});
  return out;
}

Result<Words> RefreshLvs::Arguments() const {
  return WithFullNames({"lvchange", "-y", "--refresh", "--poll", "n", "--"}, group, names);
}

// LVM replaces only the legs on missing PVs, or on the PV to evacuate.
Result<Words> RepairLv::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  Words out = {"lvconvert", "-y"};
  Append(out, leave.empty() ? Words{"--repair"} : Words{"--replace", leave});
  Append(out, {"--", Object()});
  Append(out, pv_arguments);
  return out;
}

Result<Words> LimitRecovery::Arguments() const {
  return WithFullNames({"lvchange", "-y", "--maxrecoveryrate", Kib(rate), "--"}, group, names);
}

// Runs in the foreground until the extents are moved.
Result<Words> MoveExtents::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  return Words{"pvmove", "-y", "--interval", "0", "--name", name, "--", from, to};
}

// For one PV: without a PV, LVM would abort every move in every group that it sees.
Result<Words> AbortMove::Arguments() const {
  QUARRY_TRY(CheckGroupName(group));
  if (!device.starts_with('/')) {
    return Error(Code::kInvalidArgument, fmt::format("'{}' is not the path of a disk", device));
  }
  return Words{"pvmove", "--abort", "--", device};
}

const std::string& GroupOf(const Change& change) {
  return std::visit([](const auto& verb) -> const std::string& { return verb.group; }, change);
}

std::string TextOf(const Change& change) {
  return std::visit([](const auto& verb) { return verb.Text(); }, change);
}

Result<Words> ArgumentsOf(const Change& change) {
  return std::visit([](const auto& verb) { return verb.Arguments(); }, change);
}

uint64_t CommitsOf(const Change& change) {
  return std::visit([](const auto& verb) { return verb.Commits().value_or(0); }, change);
}

Bytes MetadataTextOf(const Change& change) {
  return std::visit([](const auto& verb) { return verb.MetadataText(); }, change);
}

Bytes MetadataTextOf(const Geometry& geometry) {
  return {LvsOf(geometry) * kLvText};
}

}  // namespace quarry::lvm
