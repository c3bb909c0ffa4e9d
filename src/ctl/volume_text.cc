#include "ctl/volume_text.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ctl/json_text.h"

namespace quarry::ctl {
namespace {

using Cells = std::array<std::string, 6>;

std::string Format(const VolumeRow& row) {
  return row.facts.fs_type().empty() ? "raw" : row.facts.fs_type();
}

// Where it is in use, or will be. A path in parentheses: it is not mounted there now.
std::string Places(const VolumeRow& row) {
  std::vector<std::string> out(row.facts.used_at().begin(), row.facts.used_at().end());
  const std::string& kept = row.facts.mount_point();
  if (!kept.empty() && std::ranges::find(out, kept) == out.end()) {
    out.insert(out.begin(), fmt::format("({})", kept));
  }
  return fmt::format("{}", fmt::join(out, " "));
}

std::string Condition(const VolumeRow& row) {
  return row.facts.has_percent() ? fmt::format("{} {} %", row.facts.condition(), row.facts.percent())
                                 : row.facts.condition();
}

nlohmann::json Document(const VolumeRow& row) {
  nlohmann::json out = AsJson(row.facts);
  out["pool"] = row.pool;
  out["volume_group"] = row.group;
  return out;
}

}  // namespace

std::string Summary(const VolumeRow& row) {
  return fmt::format("{} {} {}", HumanBytes(row.size()), row.facts.type(), Format(row));
}

std::string VolumeTable(const VolumeList& list) {
  std::vector<Cells> lines = {{"NAME", "SIZE", "TYPE", "FORMAT", "CONDITION", "MOUNTED AT"}};
  for (const VolumeRow& row : list.rows) {
    lines.push_back({row.facts.name(), HumanBytes(row.size()),
                     row.is_snapshot() ? "snapshot" : row.facts.type(), Format(row), Condition(row),
                     Places(row)});
  }
  std::array<size_t, std::tuple_size_v<Cells>> widths{};
  for (const Cells& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      widths[i] = std::max(widths[i], line[i].size());
    }
  }
  std::string text = list.rows.empty() ? "there are no volumes\n" : "";
  for (const Cells& line : list.rows.empty() ? std::vector<Cells>() : lines) {
    std::string drawn;
    for (size_t i = 0; i < line.size(); ++i) {
      drawn += fmt::format("{:<{}}  ", line[i], widths[i]);
    }
    text += drawn.substr(0, drawn.find_last_not_of(' ') + 1) + "\n";
  }
  for (const std::string& problem : list.problems) {
    text += problem + "\n";
  }
  return text;
}

std::string VolumeListJson(const VolumeList& list) {
  nlohmann::json rows = nlohmann::json::array();
  for (const VolumeRow& row : list.rows) {
    rows.push_back(Document(row));
  }
  return JsonLine(rows);
}

std::string VolumePage(const VolumeRow& row, const VolumeList& list) {
  std::string page;
  const auto line = [&page](std::string_view key, const std::string& value) {
    page += value.empty() ? "" : fmt::format("{:<13}{}\n", key, value);
  };
  line("name", row.facts.name());
  line("id", row.facts.volume_id());
  line("pool", fmt::format("{} (volume group {})", row.pool, row.group));
  line("size", fmt::format("{} ({} bytes)", HumanBytes(row.size()), row.size().value));
  line("type", row.facts.type());
  line("serves", row.facts.is_bucket() ? "a bucket" : "");
  line("format", Format(row));
  line("snapshot of", row.facts.snapshot_of());
  line("condition", Condition(row));
  line("", row.facts.detail());
  line("mount point", row.facts.mount_point().empty() || row.facts.mount_options().empty()
                          ? row.facts.mount_point()
                          : fmt::format("{} ({})", row.facts.mount_point(), row.facts.mount_options()));
  line("used at", fmt::format("{}", fmt::join(row.facts.used_at(), " ")));
  for (const VolumeRow& other : list.rows) {
    if (other.facts.snapshot_of() == row.facts.volume_id()) {
      line("snapshot", other.facts.name());
    }
  }
  return page;
}

std::string VolumeJson(const VolumeRow& row) {
  return JsonLine(Document(row));
}

}  // namespace quarry::ctl
