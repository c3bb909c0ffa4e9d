#include "lvm/verbs/thin.h"

#include <fmt/format.h>

namespace quarry::lvm {
namespace {

// In LVM's texts (tests/fixtures/lvm/texts) a pool takes some 430 bytes besides its tags, and 40 more while a
// message is queued. A thin volume takes 330, each further segment 125. The constants leave space for longer
// names.
constexpr uint64_t kPoolText = 900;
// Data and metadata may have 64 legs, each with its metadata leg. Each name is there twice, and gets longer
// by
// "_tdata" or "_tmeta".
constexpr uint64_t kRenamingText = 2 * 64 * 2 * 2 * 6;
constexpr uint64_t kThinText = 700;
constexpr uint64_t kSegmentText = 220;
constexpr uint64_t kTagPunctuation = 4;
constexpr Bytes kChunkStep{64 * kKiB.value};

}  // namespace

std::string MakeThinPool::Text() const {
  return fmt::format("make thin pool {} of that volume and {}, its metadata, in chunks of {}", Object(),
                     FullName(group, metadata), HumanBytes(chunk_size));
}

Result<Words> MakeThinPool::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  QUARRY_TRY(CheckNames(group, metadata));
  if (chunk_size == Bytes{} || chunk_size > kGiB || chunk_size.value % kChunkStep.value != 0) {
    return Error(
        Code::kInvalidArgument,
        fmt::format("a thin pool cannot have chunks of {} bytes: give a multiple of 64 KiB up to 1 GiB",
                    chunk_size.value));
  }
  Words out = {"lvconvert", "-y", "--type", "thin-pool", "--poolmetadata", FullName(group, metadata)};
  Append(out, {"--poolmetadataspare", "n", "--chunksize", Kib(chunk_size), "--zero", "y"});
  Append(out, {"--discards", "passdown", "--errorwhenfull", error_when_full ? "y" : "n", "--", Object()});
  return out;
}

Bytes MakeThinPool::MetadataText() const {
  return {kPoolText + kRenamingText};
}

Result<Words> AllocateAnywhere::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  return Words{"lvchange", "-y", "--alloc", "normal", "--", Object()};
}

Result<Words> SkipActivation::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  return Words{"lvchange", "-y", "--setactivationskip", "y", "--", Object()};
}

std::string CreateThinLv::Text() const {
  return fmt::format("create thin volume {}: {} in pool {}", Object(), HumanBytes(size),
                     FullName(group, pool));
}

Result<Words> CreateThinLv::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  QUARRY_TRY(CheckNames(group, pool));
  Words out = {"lvcreate", "-y", "--name", name, "--type", "thin", "--virtualsize", Kib(size)};
  Append(out, {"--thinpool", pool, "--setactivationskip", "y", "--activate", "n"});
  if (read_only) {
    Append(out, {"--permission", "r"});
  }
  AppendTags(out, tags, {});
  Append(out, {"--", group});
  return out;
}

Bytes CreateThinLv::MetadataText() const {
  uint64_t sum = kThinText;
  for (const std::string& tag : tags) {
    sum += tag.size() + kTagPunctuation;
  }
  return {sum};
}

std::string ExtendThinLv::Text() const {
  return fmt::format("extend thin volume {} to {}", Object(), HumanBytes(size));
}

// The size, not the difference: the same command may follow one that was killed.
Result<Words> ExtendThinLv::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  return Words{"lvextend", "-y", "--size", Kib(size), "--", Object()};
}

std::string ExtendPoolMetadata::Text() const {
  return fmt::format("extend the metadata of thin pool {} by {} extents on {}", Object(),
                     step.logical_extents.value, fmt::join(step.pv_arguments, " "));
}

Result<Words> ExtendPoolMetadata::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  Words out = {"lvextend",
               "-y",
               "--poolmetadatasize",
               "+" + Kib(ToBytes(step.logical_extents, extent_size)),
               "--alloc",
               step.alloc,
               "--",
               Object()};
  Append(out, step.pv_arguments);
  return out;
}

Bytes ExtendPoolMetadata::MetadataText() const {
  return {(1 + geometry.legs()) * kSegmentText};
}

Result<Words> ActivateDegradedThin::Arguments() const {
  return WithFullNames({"lvchange", "-y", "--activate", "y", "--ignoreactivationskip", "--activationmode",
                        "partial", "--poll", "n", "--"},
                       group, names);
}

std::string SwapPoolMetadata::Text() const {
  return fmt::format("give thin pool {} the metadata {}, and keep the former under that name", Object(),
                     FullName(group, metadata));
}

Result<Words> SwapPoolMetadata::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  QUARRY_TRY(CheckNames(group, metadata));
  return Words{"lvconvert", "-y",    "--swapmetadata", "--poolmetadata", FullName(group, metadata),
               "--",        Object()};
}

}  // namespace quarry::lvm
