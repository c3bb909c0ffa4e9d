#include "ctl/store_text.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "ctl/json_text.h"

namespace quarry::ctl {
namespace {

namespace pb = ::quarry::admin::v1;
using Pool = pb::GetStatusResponse::Pool;
using Volume = pb::GetStoreResponse::Volume;
using Line = std::vector<std::string>;  // of a table; as many cells in each

constexpr double kWhole = 100;

std::string Size(int64_t bytes) {
  return HumanBytes(Bytes{static_cast<uint64_t>(std::max<int64_t>(bytes, 0))});
}

std::string DataUsed(const pb::ThinStore& store) {
  return store.has_use() ? Percent(store.use().data_bytes(), store.size_bytes()) : "";
}

std::string MetadataUsed(const pb::ThinStore& store) {
  return store.has_use() ? Percent(store.use().metadata_bytes(), store.use().metadata_size_bytes()) : "";
}

std::string Condition(const pb::ThinStore& store) {
  std::string out = store.condition();
  if (store.degraded_legs() > 0) {
    out += fmt::format(" ({} of {} legs)", store.degraded_legs(), store.legs());
  }
  return store.has_percent() ? fmt::format("{} {} %", out, store.percent()) : out;
}

std::string Draw(const std::vector<Line>& lines) {
  std::vector<size_t> widths(lines.front().size());
  for (const Line& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      widths[i] = std::max(widths[i], line[i].size());
    }
  }
  std::string text;
  for (const Line& line : lines) {
    std::string drawn;
    for (size_t i = 0; i < line.size(); ++i) {
      drawn += fmt::format("{:<{}}  ", line[i], widths[i]);
    }
    text += drawn.substr(0, drawn.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

Line Row(const Pool& pool, const pb::ThinStore& store) {
  const bool made = !store.store_id().empty();
  return {pool.name(),
          store.name(),
          store.mode(),
          Condition(store),
          store.layout(),
          Size(store.chunk_bytes()),
          Size(store.size_bytes()),
          made ? Size(store.promised_bytes()) : "",
          made ? Size(store.free_bytes()) : "",
          DataUsed(store),
          MetadataUsed(store),
          made ? fmt::format("{}", store.volumes()) : "",
          store.store_id()};
}

// A time in words, as precise as a forecast is.
std::string TimeLeft(int64_t seconds) {
  constexpr int64_t kHour = 3600;
  constexpr int64_t kDay = 24 * kHour;
  return seconds >= 2 * kDay    ? fmt::format("about {} days", seconds / kDay)
         : seconds >= 2 * kHour ? fmt::format("about {} hours", seconds / kHour)
                                : fmt::format("about {} minutes", seconds / 60 + 1);
}

std::string Amount(bool known, int64_t bytes) {
  return known ? Size(bytes) : "";
}

std::string VolumesOf(const pb::GetStoreResponse& store) {
  const bool any_exclusive =
      std::ranges::any_of(store.volumes(), [](const Volume& volume) { return volume.has_exclusive_bytes(); });
  std::vector<Line> lines = {{"VOLUME", "KIND", "SIZE", "MAPPED"}};
  if (any_exclusive) {
    lines.front().emplace_back("EXCLUSIVE");
  }
  lines.front().emplace_back("ID");
  for (const Volume& volume : store.volumes()) {
    Line& line = lines.emplace_back(Line{volume.name().empty() ? volume.logical_volume() : volume.name(),
                                         volume.kind(), Size(volume.size_bytes()),
                                         Amount(volume.has_mapped_bytes(), volume.mapped_bytes())});
    if (any_exclusive) {
      line.push_back(Amount(volume.has_exclusive_bytes(), volume.exclusive_bytes()));
    }
    line.push_back(volume.volume_id());
  }
  return Draw(lines);
}

}  // namespace

std::string Percent(int64_t part, int64_t whole) {
  return part <= 0 || whole <= 0
             ? "0 %"
             : fmt::format("{:.1f} %", static_cast<double>(part) / static_cast<double>(whole) * kWhole);
}

std::string StoreTable(const pb::GetStatusResponse& status) {
  std::vector<Line> lines = {{"POOL", "NAME", "MODE", "CONDITION", "LAYOUT", "CHUNK", "SIZE", "PROMISED",
                              "FREE", "DATA", "METADATA", "VOLUMES", "ID"}};
  std::string problems;
  for (const Pool& pool : status.pools()) {
    if (!pool.problem().empty()) {
      problems += fmt::format("pool {}: {}\n", pool.name(), pool.problem());
    }
    for (const pb::ThinStore& store : pool.stores()) {
      lines.push_back(Row(pool, store));
      for (const std::string* const words : {&store.problem(), &store.detail()}) {
        problems += words->empty() ? "" : fmt::format("store {}/{}: {}\n", pool.name(), store.name(), *words);
      }
    }
  }
  return (lines.size() > 1 ? Draw(lines) : "there are no thin stores\n") + problems;
}

std::string StoreListJson(const pb::GetStatusResponse& status) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Pool& pool : status.pools()) {
    for (const pb::ThinStore& store : pool.stores()) {
      rows.push_back(AsJson(store));
      rows.back()["pool"] = pool.name();
      rows.back()["volume_group"] = pool.volume_group();
    }
  }
  return JsonLine(rows);
}

std::string StorePage(const pb::GetStoreResponse& shown) {
  const pb::ThinStore& store = shown.store();
  std::string page;
  const auto line = [&page](std::string_view key, const std::string& value) {
    page += value.empty() ? "" : fmt::format("{:<13}{}\n", key, value);
  };
  line("name", store.name());
  line("id", store.store_id());
  line("pool", fmt::format("{} (volume group {})", shown.pool(), shown.volume_group()));
  line("thin pool", store.logical_volume().empty()
                        ? ""
                        : fmt::format("{}/{}", shown.volume_group(), store.logical_volume()));
  line("mode", store.mode());
  line("", store.problem());
  line("layout", fmt::format("{}, chunks of {}", store.layout(), Size(store.chunk_bytes())));
  line("condition", Condition(store));
  line("", store.detail());
  line("size", fmt::format("{} ({} bytes)", Size(store.size_bytes()), store.size_bytes()));
  if (!store.store_id().empty()) {
    line("grows to", store.max_bytes() > store.size_bytes() ? Size(store.max_bytes()) : "");
    line("promised", fmt::format("{} ({} bytes){}", Size(store.promised_bytes()), store.promised_bytes(),
                                 store.promisable_bytes() > store.size_bytes()
                                     ? fmt::format(" of {}", Size(store.promisable_bytes()))
                                     : ""));
    line("free", fmt::format("{} ({} bytes)", Size(store.free_bytes()), store.free_bytes()));
    line("", store.full() == store.problem() ? "" : store.full());
  }
  if (store.has_use()) {
    line("data", fmt::format("{} written, {}", Size(store.use().data_bytes()), DataUsed(store)));
    line("full in", store.has_full_in_seconds() ? TimeLeft(store.full_in_seconds()) : "");
    line("metadata", fmt::format("{} of {} used, {}", Size(store.use().metadata_bytes()),
                                 Size(store.use().metadata_size_bytes()), MetadataUsed(store)));
  }
  if (!shown.volumes().empty()) {
    page += "\n" + VolumesOf(shown);
  }
  page += shown.unknown().empty()
              ? ""
              : fmt::format("the bytes of volumes are not all known: {}\n", shown.unknown());
  return page;
}

std::string StoreRepairPage(const pb::RepairStoreResponse& done, bool dry_run) {
  std::string page = fmt::format("store {}/{}: {}\n", done.pool(), done.store(), done.found());
  for (const std::string& step : done.steps()) {
    page += fmt::format("  {}{}\n", dry_run ? "would " : "", step);
  }
  page += done.kept().empty() ? ""
                              : fmt::format(
                                    "the former metadata are kept as {0}: `lvremove {0}` removes them once "
                                    "the volumes have been looked at\n",
                                    done.kept());
  return page;
}

std::string StoreJson(const pb::GetStoreResponse& store) {
  return JsonLine(AsJson(store));
}

}  // namespace quarry::ctl
