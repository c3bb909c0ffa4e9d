#include "lvm/verbs/volume.h"

#include <fmt/format.h>

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

uint64_t TextOf(const std::vector<std::string>& tags) {
  uint64_t sum = 0;
  for (const std::string& tag : tags) {
    sum += tag.size() + kTagPunctuation;
  }
  return sum;
}

Words StripeWords(const Geometry& geometry) {
  return {"--stripes", fmt::format("{}", geometry.data_legs()), "--stripesize", Kib(geometry.stripe_size())};
}

// The options that complete --type.
Words ShapeWords(const Geometry& geometry) {
  Words out;
  switch (geometry.type()) {
    case VolumeType::kLinear:
      break;
    case VolumeType::kRaid1:
      out = {"--mirrors", fmt::format("{}", geometry.mirrors())};
      break;
    case VolumeType::kRaid10:
      out = {"--mirrors", fmt::format("{}", geometry.mirrors())};
      Append(out, StripeWords(geometry));
      break;
    case VolumeType::kStriped:
    case VolumeType::kRaid0:
    case VolumeType::kRaid4:
    case VolumeType::kRaid5:
    case VolumeType::kRaid6:
      out = StripeWords(geometry);
      break;
  }
  if (geometry.has_metadata()) {
    Append(out, {"--regionsize", Kib(geometry.region_size())});
  }
  return out;
}

Words WipeWords(Wipe wipe) {
  switch (wipe) {
    case Wipe::kSignaturesAndFirstBlock:
      return {"--wipesignatures", "y", "--zero", "y"};
    case Wipe::kNone:
      return {"--wipesignatures", "n", "--zero", "n"};
  }
  return {};
}

}  // namespace

Bytes MetadataTextOf(const Geometry& geometry) {
  return {LvsOf(geometry) * kLvText};
}

bool CanCreateUnderLock(const Geometry& geometry) {
  return geometry.type() == VolumeType::kLinear || geometry.type() == VolumeType::kStriped;
}

std::string CreateLv::Text() const {
  return fmt::format("create logical volume {}: {}, {} extents on {}{}", Object(), geometry.Describe(),
                     step.logical_extents.value, fmt::join(step.pv_arguments, " "),
                     seqno == 0 ? ""
                                : fmt::format(", with tags [{}], if no other process has committed meanwhile",
                                              fmt::join(tags, " ")));
}

Result<Words> CreateLv::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  if (!activate && wipe != Wipe::kNone) {
    return Error(Code::kInvalidArgument, "an inactive volume cannot be wiped");
  }
  Words out = {"lvcreate",  "-y",
               "--name",    name,
               "--type",    std::string(TypeName(geometry.type())),
               "--extents", fmt::format("{}", step.logical_extents.value),
               "--alloc",   step.alloc};
  Append(out, ShapeWords(geometry));
  Append(out, WipeWords(wipe));
  if (max_recovery_rate.value != 0 && geometry.has_metadata()) {
    Append(out, {"--maxrecoveryrate", Kib(max_recovery_rate)});
  }
  // lvcreate refuses --nosync for raid6: its parity must be computed once.
  if (assume_in_sync && geometry.has_metadata() && geometry.type() != VolumeType::kRaid6) {
    out.emplace_back("--nosync");
  }
  if (seqno != 0 && !CanCreateUnderLock(geometry)) {
    return Error(Code::kUnsupported,
                 fmt::format("LVM does not create {} under a caller's lock", geometry.Describe()));
  }
  if (lock_fd >= 0) {
    out.emplace_back("--nolocking");
  }
  Append(out, {"--setactivationskip", "y"});
  Append(out, activate ? Words{"--ignoreactivationskip"} : Words{"--activate", "n"});
  AppendTags(out, tags, {});
  Append(out, {"--", group});
  Append(out, step.pv_arguments);
  return out;
}

// With metadata legs LVM makes two commits: one for the volume while the metadata legs are zeroed, one to
// hide them.
CommitCount CreateLv::Commits() const {
  return geometry.has_metadata() ? 2 : 1;
}

// LVM copies the tags onto metadata legs.
Bytes CreateLv::MetadataText() const {
  return {MetadataTextOf(geometry).value + LvsOf(geometry) * TextOf(tags)};
}

std::string ExtendLv::Text() const {
  return fmt::format("extend logical volume {} by {} extents on {}", Object(), step.logical_extents.value,
                     fmt::join(step.pv_arguments, " "));
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
  Words start = {"lvremove"};
  AppendSeqno(start, seqno);
  start.emplace_back("--");
  return WithFullNames(std::move(start), group, names);
}

std::string ChangeTags::Text() const {
  return fmt::format("retag {}: add [{}], remove [{}]", Object(), fmt::join(add, " "),
                     fmt::join(remove, " "));
}

Result<Words> ChangeTags::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  Words out = {"lvchange", "-y"};
  AppendTags(out, add, remove);
  Append(out, {"--", Object()});
  return out;
}

Bytes ChangeTags::MetadataText() const {
  return {TextOf(add)};
}

}  // namespace quarry::lvm
