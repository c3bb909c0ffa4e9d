#include "ctl/check.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ctl/json_text.h"
#include "ctl/replies.h"
#include "ctl/volume_client.h"
#include "engine/model/severity.h"

namespace quarry::ctl {
namespace {

namespace pb = ::quarry::admin::v1;
using Pool = pb::GetStatusResponse::Pool;
using Disk = pb::GetStatusResponse::Disk;
using Volume = pb::GetStatusResponse::Volume;
using Store = pb::ThinStore;

// Monitoring systems cut the output after a few KiB.
constexpr size_t kMostLines = 40;
// A pool is reported if less of its metadata area than this is free, in percent. The area holds the old and
// the new text during a commit, so half of it counts as its size.
constexpr int64_t kLeastMetadata = 20;
constexpr double kWhole = 100;

Bytes BytesOf(int64_t value) {
  return {static_cast<uint64_t>(std::max<int64_t>(value, 0))};
}

CheckStatus StatusOf(engine::Severity severity) {
  switch (severity) {
    case engine::Severity::kOk:
      return CheckStatus::kOk;
    case engine::Severity::kWarning:
      return CheckStatus::kWarning;
    case engine::Severity::kCritical:
      return CheckStatus::kCritical;
  }
  return CheckStatus::kUnknown;
}

// Space that is being erased or zeroed becomes free without intervention, so it counts.
Bytes FreeSoon(const Pool& pool) {
  return BytesOf(pool.free_bytes()) + BytesOf(pool.erase_pending_bytes()) + BytesOf(pool.zeroing_bytes());
}

std::string RemedyFor(const Disk& disk) {
  const std::string name = disk.device().empty() ? disk.pv_uuid() : DeviceName(disk.device());
  if (disk.state() == "missing") {
    return "plug the disk in again; otherwise quarryd rebuilds its RAID legs on other disks, and `quarryctl "
           "repair` does that at once and says what is in the way";
  }
  if (disk.state() == "returned") {
    return "quarryd takes the disk back by itself; if it does not, `quarryctl repair` says why";
  }
  if (disk.state() == "failing") {
    return fmt::format(
        "`quarryctl evacuate {}` moves its data to other disks while it can be read; if that "
        "does not go on, `quarryctl replace {}` rebuilds its RAID legs without reading it",
        name, name);
  }
  return fmt::format("plan its replacement; `quarryctl evacuate {}` moves its data to other disks", name);
}

std::string RemedyFor(const Volume& volume) {
  if (volume.condition() == "repairing") {
    return "none is needed: quarryd rebuilds its legs; `quarryctl status` shows the progress";
  }
  if (volume.condition() == "failed") {
    return "bring back its missing disks; `quarryctl repair` says what else is in the way";
  }
  if (volume.condition() == "degraded") {
    return "quarryd repairs it when that is due; `quarryctl repair` does it at once and says what is in the "
           "way";
  }
  return "`quarryctl status` shows its state";
}

std::string RemedyFor(const Pool& pool, const Store& store) {
  const std::string path = fmt::format("{}/{}", pool.volume_group(), store.logical_volume());
  if (store.mode() == "not-made") {
    return fmt::format("make room in pool {}, and restart quarryd: it makes stores at its start",
                       pool.name());
  }
  if (store.mode() == "unreadable") {
    return fmt::format("install the build of quarryd that made it; `lvs -o +lv_tags {}` shows its tags",
                       path);
  }
  if (store.mode() == "not-started") {
    return fmt::format(
        "bring back its missing disks: quarryd starts it then by itself; `quarryctl repair` says what else "
        "is "
        "in the way, and `quarryctl repair {}` starts it from the legs that are there",
        store.store_id());
  }
  if (store.mode() == "read-only" || store.mode() == "failed" || store.mode() == "needs-check") {
    return fmt::format(
        "unmount or unpublish its volumes: quarryd then stops and starts it; `quarryctl store repair {}/{}` "
        "does it at "
        "once, and repairs damaged metadata",
        pool.name(), store.name());
  }
  if (store.mode() == "damaged" || store.mode() == "mismatch") {
    return fmt::format(
        "`quarryctl store repair {}/{} --dry-run` says what would be done; without --dry-run it is",
        pool.name(), store.name());
  }
  if (store.mode() == "not-zeroing") {
    return fmt::format("`lvchange --zero y {}`", path);
  }
  if (store.mode() == "out-of-space") {
    return fmt::format(
        "look for volumes in it that are not of Quarry (`quarryctl store show {}/{}`), and "
        "remove them",
        pool.name(), store.name());
  }
  if (store.condition() == "degraded" || store.condition() == "failed") {
    return "quarryd repairs its legs when that is due; `quarryctl repair` does it at once and says what is "
           "in "
           "the way";
  }
  if (store.condition() == "repairing") {
    return "none is needed: quarryd rebuilds its legs; `quarryctl status` shows the progress";
  }
  return store.problem().empty() ? "`quarryctl store list` shows its state"
                                 : "correct what the text names, and restart quarryd: it makes and grows "
                                   "stores at its start";
}

// What is wrong with the store as a whole, and with its legs. For some modes quarryd's own text is little
// more than the remedy.
std::string ComplaintOf(const Pool& pool, const Store& store) {
  std::string text = fmt::format("thin store {} of pool {} is {}", store.name(), pool.name(),
                                 store.mode() == "rw" ? store.condition() : store.mode());
  static constexpr auto kSelfEvident =
      std::to_array<std::string_view>({"out-of-space", "read-only", "failed", "needs-check", "not-zeroing"});
  const bool tells = std::ranges::find(kSelfEvident, store.mode()) == kSelfEvident.end();
  text += tells && !store.problem().empty() ? fmt::format(": {}", store.problem()) : "";
  text += store.detail().empty() ? "" : fmt::format(": {}", store.detail());
  return text;
}

void CheckStores(const Pool& pool, std::vector<Problem>& out) {
  for (const Store& store : pool.stores()) {
    const CheckStatus status =
        StatusOf(engine::SeverityOfStore(store.mode(), store.condition(), !store.problem().empty()));
    if (status != CheckStatus::kOk) {
      out.push_back(
          {status, "store", pool.name(), store.store_id(), ComplaintOf(pool, store), RemedyFor(pool, store)});
    }
  }
}

void CheckDisks(const Pool& pool, std::vector<Problem>& out) {
  for (const Disk& disk : pool.disks()) {
    const CheckStatus status = StatusOf(engine::SeverityOfDisk(disk.state()));
    if (status == CheckStatus::kOk) {
      continue;
    }
    const std::string name = disk.device().empty()
                                 ? disk.pv_uuid()
                                 : fmt::format("{} ({})", DeviceName(disk.device()), disk.pv_uuid());
    out.push_back({status, "disk", pool.name(), disk.pv_uuid(),
                   fmt::format("disk {} of pool {} is {}{}{}", name, pool.name(), disk.state(),
                               disk.detail().empty() ? "" : ": ", disk.detail()),
                   RemedyFor(disk)});
  }
}

// Copies in a mirror may differ where blocks have no contents. Parity may not.
bool HasWrongParity(const Volume& volume) {
  return volume.scrubbed().mismatched_bytes() > 0 &&
         (volume.type() == "raid4" || volume.type() == "raid5" || volume.type() == "raid6");
}

bool IsMissedAtItsMountPoint(const Volume& volume) {
  return !volume.mount_point().empty() && !IsUsedAt(volume, volume.mount_point());
}

void CheckVolumes(const Pool& pool, std::vector<Problem>& out) {
  for (const Volume& volume : pool.volumes()) {
    const CheckStatus status = StatusOf(engine::SeverityOfVolume(volume.condition()));
    const std::string name = fmt::format("{} {} ({})", volume.snapshot_of().empty() ? "volume" : "snapshot",
                                         volume.name(), volume.volume_id());
    if (HasWrongParity(volume)) {
      out.push_back(
          {std::max(status, CheckStatus::kWarning), "volume", pool.name(), volume.volume_id(),
           fmt::format("{} is {}: its last scrub found {} of parity that did not match the data", name,
                       volume.condition(), HumanBytes(BytesOf(volume.scrubbed().mismatched_bytes()))),
           fmt::format("`quarryctl scrub --repair {}` corrects it; look for a disk that fails",
                       volume.volume_id())});
    } else if (status != CheckStatus::kOk) {
      out.push_back({status, "volume", pool.name(), volume.volume_id(),
                     fmt::format("{} is {}{}{}", name, volume.condition(),
                                 volume.detail().empty() ? "" : ": ", volume.detail()),
                     RemedyFor(volume)});
    }
    if (IsMissedAtItsMountPoint(volume)) {
      out.push_back({CheckStatus::kWarning, "volume", pool.name(), volume.volume_id(),
                     fmt::format("{} is not mounted at {}", name, volume.mount_point()),
                     fmt::format("`quarryctl volume mount {}` mounts it, or says why it cannot; `quarryctl "
                                 "volume unmount {}` takes the mount point away",
                                 volume.volume_id(), volume.volume_id())});
    }
  }
}

void CheckSpace(const Pool& pool, const CheckLimits& limits, std::vector<Problem>& out) {
  const Bytes size = BytesOf(pool.size_bytes());
  const Bytes free = FreeSoon(pool);
  const bool critical = free < limits.critical.Of(pool.name()).In(size);
  if (critical || free < limits.warning.Of(pool.name()).In(size)) {
    out.push_back({critical ? CheckStatus::kCritical : CheckStatus::kWarning, "space", pool.name(), "",
                   fmt::format("pool {} has {} of {} free", pool.name(), HumanBytes(free), HumanBytes(size)),
                   fmt::format("delete volumes, or add a disk to volume group {}", pool.volume_group())});
  }
  const int64_t area = pool.metadata_size_bytes() / 2;
  if (pool.metadata_free_bytes() < area / 100 * kLeastMetadata) {
    out.push_back(
        {CheckStatus::kWarning, "metadata", pool.name(), "",
         fmt::format("a metadata area of pool {} has only {} of {} free, and soon no volume can be created",
                     pool.name(), HumanBytes(BytesOf(pool.metadata_free_bytes())), HumanBytes(BytesOf(area))),
         fmt::format("delete volumes, or give volume group {} larger metadata areas", pool.volume_group())});
  }
}

int64_t CountDisks(const Pool& pool, engine::Severity severity) {
  return std::ranges::count_if(
      pool.disks(), [=](const Disk& disk) { return engine::SeverityOfDisk(disk.state()) == severity; });
}

int64_t CountVolumes(const Pool& pool, engine::Severity severity) {
  return std::ranges::count_if(pool.volumes(), [=](const Volume& volume) {
    return engine::SeverityOfVolume(volume.condition()) == severity;
  });
}

// 'label'=value[unit];[warning];[critical];[minimum];[maximum]. "10:" as a limit means "below 10". The name
// of a pool has no character that would need quotes.
std::string FiguresOf(const Pool& pool, const CheckLimits& limits) {
  const Bytes size = BytesOf(pool.size_bytes());
  const auto limit = [&](const FreeLimits& of) {
    const Bytes bytes = of.Of(pool.name()).In(size);
    return bytes.value == 0 ? "" : fmt::format("{}:", bytes.value);
  };
  const int disks = pool.disks_size();
  const int volumes = pool.volumes_size();
  using engine::Severity;
  return fmt::format(
      "{0}_free={1}B;{2};{3};0;{4} {0}_size={4}B;;;0; {0}_erase_pending={5}B;;;0;{4} {0}_disks={6};;;0; "
      "{0}_disks_bad={7};;;0;{6} {0}_volumes={8};;;0; {0}_volumes_degraded={9};;;0;{8} "
      "{0}_volumes_failed={10};;;0;{8}",
      pool.name(), FreeSoon(pool).value, limit(limits.warning), limit(limits.critical), size.value,
      pool.erase_pending_bytes(), disks, disks - CountDisks(pool, Severity::kOk), volumes,
      CountVolumes(pool, Severity::kWarning), CountVolumes(pool, Severity::kCritical));
}

std::string Plural(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string SummaryOf(const pb::GetStatusResponse& status) {
  int64_t disks = 0;
  int64_t volumes = 0;
  std::string space;
  for (const Pool& pool : status.pools()) {
    disks += pool.disks_size();
    volumes += pool.volumes_size();
    space += fmt::format("; pool {}: {} of {} free", pool.name(), HumanBytes(FreeSoon(pool)),
                         HumanBytes(BytesOf(pool.size_bytes())));
  }
  return fmt::format("{}, {}, {}{}", Plural(status.pools_size(), "pool"), Plural(disks, "disk"),
                     Plural(volumes, "volume"), space);
}

// A line of a plugin's output: '|' would begin the performance data.
std::string Plain(std::string text) {
  for (char& c : text) {
    c = c == '|' ? '/' : static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? ' ' : c;
  }
  return text;
}

CheckReport One(CheckStatus status, std::string text, std::string remedy) {
  return {.status = status,
          .problems = {{status, "quarryd", "", "", std::move(text), std::move(remedy)}},
          .summary = "",
          .figures = ""};
}

}  // namespace

std::string_view CheckStatusName(CheckStatus status) {
  switch (status) {
    case CheckStatus::kOk:
      return "OK";
    case CheckStatus::kWarning:
      return "WARNING";
    case CheckStatus::kCritical:
      return "CRITICAL";
    case CheckStatus::kUnknown:
      return "UNKNOWN";
  }
  return "UNKNOWN";
}

Bytes FreeLimit::In(Bytes pool_size) const {
  return is_percent ? Bytes{static_cast<uint64_t>(
                          std::ceil(static_cast<double>(pool_size.value) / kWhole * percent))}
                    : size;
}

Result<FreeLimit> ParseFreeLimit(std::string_view text) {
  FreeLimit limit;
  if (text.ends_with('%')) {
    limit.is_percent = true;
    const char* const end = text.data() + text.size() - 1;
    const auto [rest, error] = std::from_chars(text.data(), end, limit.percent, std::chars_format::fixed);
    if (error != std::errc() || rest != end || !(limit.percent >= 0 && limit.percent <= kWhole)) {
      return Error(Code::kInvalidArgument, fmt::format("must be from 0% to 100%, is '{}'", text));
    }
    return limit;
  }
  QUARRY_ASSIGN(limit.size, ParseSize(text));
  return limit;
}

Result<FreeLimits> FreeLimits::Parse(const std::vector<std::string>& words, std::string_view usual) {
  FreeLimits limits;
  QUARRY_ASSIGN(limits.usual_, ParseFreeLimit(usual));
  for (const std::string_view word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) {
      QUARRY_ASSIGN(limits.usual_, ParseFreeLimit(word));
    } else {
      QUARRY_ASSIGN(limits.own_[std::string(word.substr(0, equals))],
                    ParseFreeLimit(word.substr(equals + 1)));
    }
  }
  return limits;
}

FreeLimit FreeLimits::Of(const std::string& pool) const {
  const auto own = own_.find(pool);
  return own == own_.end() ? usual_ : own->second;
}

std::string FreeLimits::Unknown(const pb::GetStatusResponse& status) const {
  const auto unknown = std::ranges::find_if(own_, [&](const auto& own) {
    return std::ranges::find(status.pools(), own.first, &Pool::name) == status.pools().end();
  });
  return unknown == own_.end() ? "" : unknown->first;
}

CheckReport Check(const pb::GetStatusResponse& status, const CheckLimits& limits) {
  for (const FreeLimits& some : {limits.warning, limits.critical}) {
    if (const std::string pool = some.Unknown(status); !pool.empty()) {
      return One(CheckStatus::kUnknown, fmt::format("quarryd has no pool '{}'", pool),
                 "correct --warning or --critical");
    }
  }
  CheckReport report{.status = CheckStatus::kOk, .problems = {}, .summary = SummaryOf(status), .figures = ""};
  for (const Pool& pool : status.pools()) {
    if (!pool.problem().empty()) {
      report.problems.push_back({CheckStatus::kCritical, "pool", pool.name(), "",
                                 fmt::format("pool {} does not serve: {}", pool.name(), pool.problem()),
                                 fmt::format("plug in the disks of volume group {}; `quarryctl plan` shows "
                                             "which disks there are; quarryd tries again by itself",
                                             pool.volume_group())});
      continue;
    }
    CheckDisks(pool, report.problems);
    CheckStores(pool, report.problems);
    CheckVolumes(pool, report.problems);
    CheckSpace(pool, limits, report.problems);
    report.figures += fmt::format("{}{}", report.figures.empty() ? "" : " ", FiguresOf(pool, limits));
  }
  std::ranges::stable_sort(report.problems, std::ranges::greater(), &Problem::status);
  report.status = report.problems.empty() ? CheckStatus::kOk : report.problems.front().status;
  return report;
}

CheckReport CheckFailed(const Error& error, bool permitted) {
  if (!permitted) {
    return One(CheckStatus::kUnknown, "this user may not use quarryd's admin socket: " + error.message(),
               "run quarryctl as root, for example by sudo");
  }
  const bool silent = error.code() == Code::kUnavailable || error.code() == Code::kTimeout;
  return One(silent ? CheckStatus::kCritical : CheckStatus::kUnknown,
             (silent ? "no answer from " : "the state of the node is unknown: ") + error.message(),
             silent ? "`systemctl status quarryd` and quarryd's log say why" : "correct what the text names");
}

std::string CheckText(const CheckReport& report) {
  const size_t count = report.problems.size();
  const std::string first = count == 0 ? report.summary : report.problems.front().text;
  std::string text = fmt::format("QUARRY {} - {}", CheckStatusName(report.status), Plain(first));
  if (count > 1) {
    text += fmt::format(" (and {})", Plural(static_cast<int64_t>(count) - 1, "more problem"));
  }
  text += report.figures.empty() ? "\n" : fmt::format(" | {}\n", report.figures);
  for (size_t i = 0; i < std::min(count, kMostLines); ++i) {
    const Problem& problem = report.problems[i];
    text += fmt::format("{}: {}. Remedy: {}\n", CheckStatusName(problem.status), Plain(problem.text),
                        Plain(problem.remedy));
  }
  return count <= kMostLines
             ? text
             : text + fmt::format("{} more; `quarryctl check --json` lists all\n", count - kMostLines);
}

std::string CheckJson(const CheckReport& report) {
  nlohmann::json problems = nlohmann::json::array();
  for (const Problem& problem : report.problems) {
    problems.push_back({{"status", CheckStatusName(problem.status)},
                        {"kind", problem.kind},
                        {"pool", problem.pool},
                        {"id", problem.id},
                        {"text", problem.text},
                        {"remedy", problem.remedy}});
  }
  return JsonLine({{"status", CheckStatusName(report.status)},
                   {"exit_status", static_cast<int>(report.status)},
                   {"summary", report.summary},
                   {"performance_data", report.figures},
                   {"problems", std::move(problems)}});
}

}  // namespace quarry::ctl
