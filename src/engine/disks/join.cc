#include "engine/disks/join.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lvm/change.h"

namespace quarry::engine {
namespace {

// LVM's label and header, which lie before the metadata area.
constexpr Bytes kBeforeMetadata = kMiB;

Verdict Left(Verdict verdict, std::string words) {
  verdict.standing = Standing::kLeft;
  verdict.words = std::move(words);
  return verdict;
}

bool HasPv(const SeenPool& pool, const std::string& uuid) {
  return pool.group != nullptr && pool.group->FindPv(uuid) != nullptr;
}

// How many disks carry this PV UUID.
size_t Bearers(const Survey& survey, const std::string& uuid) {
  return static_cast<size_t>(std::ranges::count_if(survey.disks, [&](const SeenDisk& seen) {
    return seen.pv.kind == lvm::PvFacts::Kind::kPv && seen.pv.uuid == uuid;
  }));
}

// Whether two disks carry the UUID of one PV of the group: LVM refuses to change such a group.
bool HasCopies(const Survey& survey, const SeenPool& pool) {
  return pool.group != nullptr && std::ranges::any_of(pool.group->pvs, [&](const lvm::PhysicalVolume& pv) {
           return Bearers(survey, pv.uuid) > 1;
         });
}

// Whether another device has the same identity. Then both are paths to one disk, and a write reaches both.
bool HasTwin(const Survey& survey, const udev::Disk& disk) {
  return !disk.identity.empty() && std::ranges::any_of(survey.disks, [&](const SeenDisk& other) {
    return other.disk.identity == disk.identity && other.disk.number != disk.number;
  });
}

std::string OwnerOf(const lvm::PvFacts& pv) {
  return pv.group.empty() ? "LVM physical volume" : fmt::format("LVM physical volume of {}", pv.group);
}

Verdict JudgeMember(const Survey& survey, size_t index, const SeenDisk& seen, Verdict verdict) {
  const SeenPool& pool = survey.pools[index];
  verdict.pool = index;
  verdict.named = pool.config->name;
  const auto place = pool.members.find(seen.pv.uuid);
  const bool itself = place != pool.members.end() && place->second == seen.disk.number;
  if (Bearers(survey, seen.pv.uuid) > 1 && !itself) {
    return Left(std::move(verdict),
                fmt::format("bears the UUID of another disk of pool '{}' ({}), so it is a copy. LVM changes "
                            "nothing in the group until one of them is removed",
                            pool.config->name, seen.pv.uuid));
  }
  verdict.standing = Standing::kMember;
  verdict.words = fmt::format("in pool '{}'", pool.config->name);
  return verdict;
}

Verdict JudgeStranger(const Survey& survey, const SeenDisk& seen, Verdict verdict) {
  const lvm::PvFacts& pv = seen.pv;
  std::string words;
  if (pv.group.empty()) {
    words =
        "an LVM physical volume in no group, made by another program or by a join that was interrupted; it "
        "joins once it is cleared (blkdiscard --zeroout)";
  } else {
    const bool same_name = std::ranges::any_of(
        survey.pools, [&](const SeenPool& pool) { return pool.config->group == pv.group; });
    words = fmt::format("belongs to {}volume group {}", same_name ? "another " : "", pv.group);
    words += same_name ? " of this name, not the pool's" : "";
  }
  if (Bearers(survey, pv.uuid) > 1) {
    words += fmt::format("; another disk has the same UUID {}", pv.uuid);
  }
  return Left(std::move(verdict), std::move(words));
}

// The first rule that the disk matches, in the order of the pools. A pool's exclusions come before its rules.
struct Wish {
  size_t pool = 0;
  const DeviceRule* rule = nullptr;  // nullptr: no rule
  std::string against;               // why the disk nearly matched a rule, or was excluded
};

Wish FindRule(const Survey& survey, const udev::Disk& disk) {
  Wish miss;
  for (size_t i = 0; i < survey.pools.size(); ++i) {
    const PoolConfig& pool = *survey.pools[i].config;
    const auto excluded =
        std::ranges::find_if(pool.exclude, [&](const DeviceRule& rule) { return Match(rule, disk).meets; });
    for (const DeviceRule& rule : pool.devices) {
      const RuleMatch match = Match(rule, disk);
      if (!match.meets) {
        if (!match.but.empty() && miss.against.empty()) {
          miss.against =
              fmt::format("would join pool '{}' by [{}], but is {}", pool.name, rule.Text(), match.but);
        }
        continue;
      }
      if (excluded == pool.exclude.end()) {
        return {i, &rule, ""};
      }
      if (miss.against.empty()) {
        miss.against = fmt::format("excluded from pool '{}' by [{}]", pool.name, excluded->Text());
      }
      break;
    }
  }
  return miss;
}

// Why the kernel's view forbids that the disk joins; empty: it does not.
std::string InUse(const udev::Disk& disk) {
  if (!disk.partitions.empty()) {
    return fmt::format("has partitions: {}", fmt::join(disk.partitions, ", "));
  }
  if (!disk.holders.empty()) {
    return fmt::format("in use by {}", fmt::join(disk.holders, ", "));
  }
  return disk.read_only ? "read-only" : "";
}

// Why the pool cannot take such a disk now; empty: it can.
std::string NotNow(const Survey& survey, const SeenPool& pool, const DeviceRule& rule,
                   const udev::Disk& disk) {
  if (!pool.problem.empty()) {
    return fmt::format("the pool cannot be read: {}", pool.problem);
  }
  const Bytes extent = pool.group == nullptr ? Bytes{0} : pool.group->extent_size;
  if (disk.size < kBeforeMetadata + lvm::kMetadataSize + extent) {
    return fmt::format("too small: LVM's metadata alone takes {}", HumanBytes(lvm::kMetadataSize));
  }
  if (HasTwin(survey, disk)) {
    return fmt::format("another device has the same identity {}: two paths to one disk need multipath",
                       disk.identity);
  }
  if (pool.group == nullptr) {
    return "";
  }
  if (rule.IsExplicit()) {
    return fmt::format(
        "volume group {} exists already: an explicit path makes a group and adds nothing to it; to add the "
        "disk, name it by a rule, for example by its serial number",
        pool.group->name);
  }
  if (HasCopies(survey, pool)) {
    return fmt::format(
        "two disks of volume group {} have the same UUID: LVM changes nothing until one is removed",
        pool.group->name);
  }
  for (const SeenDisk& other : survey.disks) {
    if (HasPv(pool, other.pv.uuid) && other.disk.logical_block != disk.logical_block) {
      return fmt::format("its logical blocks have {} bytes, those of the group's disks have {}",
                         disk.logical_block.value, other.disk.logical_block.value);
    }
  }
  return "";
}

std::string Contents(const mount::Content& content) {
  switch (content.kind) {
    case mount::Content::Kind::kBlank:
      return content.residue.has_value() ? "data without a signature" : "nothing";
    case mount::Content::Kind::kAmbiguous:
      return "several signatures";
    case mount::Content::Kind::kFilesystem:
    case mount::Content::Kind::kOther:
      return content.type;
  }
  return content.type;
}

// The last check. Only libblkid's answer proves that a disk is blank.
Verdict JudgeContent(const SeenDisk& seen, const DeviceRule& rule, Verdict verdict) {
  if (!seen.content.has_value()) {
    verdict.standing = Standing::kWanted;
    verdict.words = fmt::format("matches a rule of pool '{}', and is not probed yet", verdict.named);
    return verdict;
  }
  if (!seen.content->has_value()) {
    return Left(std::move(verdict), fmt::format("left alone: {}", seen.content->error().message()));
  }
  if ((*seen.content)->kind != mount::Content::Kind::kBlank) {
    std::string words = fmt::format("not blank, holds {}", verdict.holds);
    return Left(std::move(verdict), std::move(words));
  }
  // An administrator who names a path means that disk. A rule may match disks that the administrator did not
  // think of.
  if (const auto& residue = (*seen.content)->residue;
      residue.has_value() && !rule.IsExplicit() && !rule.wipe_ok) {
    std::string words = fmt::format(
        "no signature, but not empty: byte {} is not zero. This may be data (a database, plain dm-crypt). If "
        "it "
        "is not, clear the disk (blkdiscard --zeroout {}) or set wipe-ok in the rule",
        residue->value, seen.disk.node);
    return Left(std::move(verdict), std::move(words));
  }
  verdict.standing = Standing::kFree;
  verdict.words = fmt::format("blank and unused: for pool '{}'", verdict.named);
  return verdict;
}

Verdict JudgeOne(const Survey& survey, const SeenDisk& seen) {
  using Kind = lvm::PvFacts::Kind;
  Verdict verdict;
  const Wish wish = FindRule(survey, seen.disk);
  if (wish.rule != nullptr) {
    verdict.pool = wish.pool;
    verdict.named = survey.pools[wish.pool].config->name;
    verdict.rule = wish.rule->Text();
  }
  switch (seen.pv.kind) {
    case Kind::kPv:
      verdict.holds = OwnerOf(seen.pv);
      for (size_t i = 0; i < survey.pools.size(); ++i) {
        if (HasPv(survey.pools[i], seen.pv.uuid)) {
          return JudgeMember(survey, i, seen, std::move(verdict));
        }
      }
      return JudgeStranger(survey, seen, std::move(verdict));
    case Kind::kDamaged:
      verdict.holds = "a damaged LVM label";
      return Left(std::move(verdict), "its LVM label is damaged");
    case Kind::kSilent:
      return Left(std::move(verdict), "does not answer");
    case Kind::kUnreadable:
      return Left(std::move(verdict), "cannot be read");
    case Kind::kNoPv:
      break;
  }
  if (seen.content.has_value() && seen.content->has_value()) {
    verdict.holds = Contents(**seen.content);
  }
  if (std::string use = InUse(seen.disk); !use.empty()) {
    return Left(std::move(verdict), std::move(use));
  }
  if (wish.rule == nullptr) {
    return Left(std::move(verdict), wish.against.empty() ? "matches no pool's rule" : wish.against);
  }
  const SeenPool& pool = survey.pools[wish.pool];
  if (std::string why = NotNow(survey, pool, *wish.rule, seen.disk); !why.empty()) {
    return Left(std::move(verdict), std::move(why));
  }
  return JudgeContent(seen, *wish.rule, std::move(verdict));
}

}  // namespace

std::vector<Verdict> Judge(const Survey& survey) {
  std::vector<Verdict> out;
  for (const SeenDisk& seen : survey.disks) {
    out.push_back(JudgeOne(survey, seen));
  }
  return out;
}

bool Claims(const PoolConfig& pool) {
  return std::ranges::any_of(pool.devices, [](const DeviceRule& rule) { return !rule.IsExplicit(); });
}

}  // namespace quarry::engine
