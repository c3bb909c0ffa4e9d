#include "udev/smart_health.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace quarry::udev {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kUsualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
// Bits of smartctl's exit status. The others report the state of the disk, which the JSON has in detail.
constexpr int kNotUnderstood = 1 << 0;  // no such type of device, or a wrong command line
constexpr int kNotOpened = 1 << 1;
constexpr size_t kMostStuck = 4;
constexpr size_t kOutputLimit = 1 << 20;

// Attributes of ATA disks. Their meaning differs between vendors, except for these.
constexpr int kReallocated = 5;
constexpr int kPending = 197;
constexpr int kUncorrectable = 198;
// Device statistics of ATA disks: page 7, solid state devices.
constexpr int kSsdPage = 7;
constexpr int kPercentageUsed = 8;  // as an offset in the page
// Additional sense codes of informational exceptions (SPC).
constexpr int kFailurePredicted = 0x5d;
constexpr int kOnlyATest = 0xff;  // qualifiers of kFailurePredicted
constexpr int kWornOut = 0x73;    // the endurance that the vendor promises is used up
constexpr uint32_t kAllOfIt = 100;
constexpr int kWarning = 0x0b;
constexpr int kTemperatureExceeded = 1;  // qualifier of kWarning

// The value below these keys, if there is one of this type.
template <typename T>
std::optional<T> Find(const json& document, std::initializer_list<const char*> keys) {
  const json* at = &document;
  for (const char* key : keys) {
    if (!at->is_object() || !at->contains(key)) {
      return std::nullopt;
    }
    at = &at->at(key);
  }
  const bool fits = std::is_same_v<T, bool>          ? at->is_boolean()
                    : std::is_same_v<T, std::string> ? at->is_string()
                                                     : at->is_number_integer();
  return fits ? std::optional(at->get<T>()) : std::nullopt;
}

json ListAt(const json& document, std::initializer_list<const char*> keys) {
  const json* at = &document;
  for (const char* key : keys) {
    if (!at->is_object() || !at->contains(key)) {
      return json::array();
    }
    at = &at->at(key);
  }
  return at->is_array() ? *at : json::array();
}

std::optional<uint64_t> Count(std::optional<int64_t> value) {
  return value.has_value() && *value >= 0 ? std::optional(static_cast<uint64_t>(*value)) : std::nullopt;
}

std::string MessagesOf(const json& document) {
  std::string out;
  for (const json& message : ListAt(document, {"smartctl", "messages"})) {
    const auto text = Find<std::string>(message, {"string"});
    out += text.has_value() ? fmt::format("{}{}", out.empty() ? "" : "; ", *text) : "";
  }
  return out;
}

// Adds attributes, and names those that are below the vendor's threshold.
void ReadAttributes(const json& document, DiskHealth& out, std::vector<std::string>& failed) {
  for (const json& row : ListAt(document, {"ata_smart_attributes", "table"})) {
    const auto raw = Count(Find<int64_t>(row, {"raw", "value"}));
    switch (Find<int64_t>(row, {"id"}).value_or(0)) {
      case kReallocated:
        out.reallocated_sectors = raw;
        break;
      case kPending:
        out.pending_sectors = raw;
        break;
      case kUncorrectable:
        out.uncorrectable_sectors = raw;
        break;
      default:
        break;
    }
    if (Find<std::string>(row, {"when_failed"}) == "now") {
      failed.push_back(Find<std::string>(row, {"name"}).value_or("an attribute"));
    }
  }
}

std::optional<uint64_t> WearOf(const json& document) {
  if (const auto known = Count(Find<int64_t>(document, {"endurance_used", "current_percent"}))) {
    return known;
  }
  for (const json& page : ListAt(document, {"ata_device_statistics", "pages"})) {
    if (Find<int64_t>(page, {"number"}) != kSsdPage) {
      continue;
    }
    for (const json& row : ListAt(page, {"table"})) {
      if (Find<int64_t>(row, {"offset"}) == kPercentageUsed && Find<bool>(row, {"flags", "valid"}) == true) {
        return Count(Find<int64_t>(row, {"value"}));
      }
    }
  }
  return std::nullopt;
}

// What the disk says of itself as a whole. Everything else is shown, and decides nothing.
void ReadVerdict(const json& document, const std::vector<std::string>& failed, DiskHealth& out) {
  if (Find<bool>(document, {"smart_status", "passed"}).value_or(true)) {
    return;
  }
  if (out.source == HealthSource::kAta) {
    out.critical_warning |= kReliabilityDegraded;
    out.failure = "its overall SMART status is FAILED";
    for (const std::string& name : failed) {
      out.failure += fmt::format("{}{}", &name == &failed.front() ? ": " : ", ", name);
    }
    return;
  }
  const auto code = Find<int64_t>(document, {"smart_status", "scsi", "asc"});
  const auto qualifier = Find<int64_t>(document, {"smart_status", "scsi", "ascq"});
  if (code == kFailurePredicted && qualifier == kOnlyATest) {
    return;
  }
  if (code == kFailurePredicted && qualifier == kWornOut) {
    out.has_wear = true;
    out.percentage_used = std::max(out.percentage_used, kAllOfIt);
    return;
  }
  if (code == kFailurePredicted) {
    out.critical_warning |= kReliabilityDegraded;
    out.failure = Find<std::string>(document, {"smart_status", "scsi", "ie_string"})
                      .value_or("it predicts its failure");
  } else if (code == kWarning && qualifier == kTemperatureExceeded) {
    out.critical_warning |= kTemperature;
  }
}

// The disk of a device node in sysfs. Opens no device.
struct Place {
  std::string name;      // "sda"
  std::string sequence;  // of disks since the boot; empty: an older kernel
};
std::optional<Place> FindDisk(const std::string& numbers, dev_t device) {
  std::error_code error;
  fs::path place =
      fs::canonical(fmt::format("{}/{}:{}", numbers, gnu_dev_major(device), gnu_dev_minor(device)), error);
  if (error) {
    return std::nullopt;
  }
  if (fs::exists(place / "partition", error)) {
    place = place.parent_path();
  }
  Place out{.name = place.filename().string(), .sequence = ""};
  if (!out.name.starts_with("sd")) {
    return std::nullopt;
  }
  std::ifstream(place / "diskseq") >> out.sequence;
  return out;
}

}  // namespace

Result<std::optional<DiskHealth>> ParseSmartctl(std::string_view text, int exit_status) {
  if (exit_status == kAsleep) {
    return Error(Code::kUnavailable, "the disk sleeps and was not woken");
  }
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) {
    return Error(Code::kIo, fmt::format("smartctl ended with status {} and wrote no JSON: {}", exit_status,
                                        ToolWords(text)));
  }
  if (exit_status < 0 || (exit_status & kNotOpened) != 0) {
    const std::string messages = MessagesOf(document);
    return Error(Code::kIo,
                 fmt::format("smartctl: {}", messages.empty() ? "the disk did not answer" : messages));
  }
  const auto protocol = Find<std::string>(document, {"device", "protocol"});
  const bool reports = Find<bool>(document, {"smart_status", "passed"}).has_value();
  if ((exit_status & kNotUnderstood) != 0 || !reports || (protocol != "ATA" && protocol != "SCSI")) {
    return std::optional<DiskHealth>();
  }
  DiskHealth out;
  out.source = protocol == "ATA" ? HealthSource::kAta : HealthSource::kScsi;
  std::vector<std::string> failed;
  ReadAttributes(document, out, failed);
  out.grown_defects = Count(Find<int64_t>(document, {"scsi_grown_defect_list"}));
  const auto wear = WearOf(document);
  out.has_wear = wear.has_value();
  out.percentage_used = static_cast<uint32_t>(std::min<uint64_t>(wear.value_or(0), UINT32_MAX));
  const auto temperature = Find<int64_t>(document, {"temperature", "current"});
  out.has_temperature = temperature.has_value() && *temperature != 0;  // 0: not measured
  out.temperature = static_cast<int32_t>(std::clamp<int64_t>(temperature.value_or(0), INT16_MIN, INT16_MAX));
  ReadVerdict(document, failed, out);
  return std::optional(std::move(out));
}

std::string FindSmartctl() {
  const char* const path = getenv("PATH");  // NOLINT(concurrency-mt-unsafe): no thread changes it
  std::string_view rest = path == nullptr ? kUsualPath : path;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
    const std::string program = fmt::format("{}/smartctl", folder);
    if (folder.starts_with('/') && access(program.c_str(), X_OK) == 0) {
      return program;
    }
  }
  return "";
}

SmartHealth::SmartHealth(Config config) : config_(std::move(config)) {}

Result<std::optional<DiskHealth>> SmartHealth::Read(const std::string& node) {
  struct stat status{};
  if (stat(node.c_str(), &status) != 0) {
    return ErrnoError(fmt::format("looking at {}", node));
  }
  const auto place =
      S_ISBLK(status.st_mode) ? FindDisk(config_.numbers, status.st_rdev) : std::optional<Place>();
  const std::string program = config_.program.empty() ? FindSmartctl() : config_.program;
  if (!place.has_value() || program.empty()) {
    return std::optional<DiskHealth>();
  }
  const MutexLock lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  const auto known = known_.find(place->name);
  if (known != known_.end() && known->second.sequence == place->sequence &&
      now - known->second.since < config_.fresh) {
    return known->second.answer;
  }
  Answer answer = Ask(program, place->name);
  known_.insert_or_assign(place->name, Known{place->sequence, now, answer});
  return answer;
}

SmartHealth::Answer SmartHealth::Ask(const std::string& program, const std::string& name) {
  const std::string node = "/dev/" + name;
  const std::string what = fmt::format("asking {} for its health", node);
  if (subprocess_.Stuck().size() >= kMostStuck) {
    return Error(Code::kUnavailable, "earlier smartctl processes are stuck in the kernel").Context(what);
  }
  const auto ran = subprocess_.Run({.argv = {program, "--json", "-n", fmt::format("standby,{}", kAsleep),
                                             "-i", "-H", "-A", "-l", "ssd", node},
                                    .env = {{"PATH", kUsualPath}, {"LC_ALL", "C"}},
                                    .input = "",
                                    .output_limit = kOutputLimit,
                                    .keep_fds = {},
                                    .ends_with_us = true},
                                   CallWithin(config_.time_limit));
  if (!ran.has_value()) {
    return Error(ran.error()).As(Code::kIo).Context(what);
  }
  auto parsed = ParseSmartctl(ran->out, ran->exit_status);
  return parsed.has_value() ? parsed : Answer(std::move(parsed.error()).Context(what));
}

Result<std::optional<DiskHealth>> EveryDiskHealth::Read(const std::string& node) {
  QUARRY_ASSIGN(auto health, nvme_->Read(node));
  return health.has_value() ? Result<std::optional<DiskHealth>>(std::move(health)) : smart_->Read(node);
}

}  // namespace quarry::udev
