#include "lvm/read/report_parser.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lvm/read/report_fields.h"

namespace quarry::lvm {
namespace {

using nlohmann::json;
using report::Corrupt;
using report::NamedRange;
using report::RangeReader;
using report::Row;
using report::WithoutBrackets;

// The sections of the report, and their fields.
constexpr std::pair<const char*, const char*> kSections[] = {
    {"vg",
     "vg_uuid,vg_name,vg_seqno,vg_extent_size,vg_extent_count,vg_free_count,vg_exported,vg_tags,"
     "vg_extendable,max_lv"},
    {"pv",
     "pv_uuid,pv_name,pe_start,pv_pe_count,pv_allocatable,pv_missing,pv_tags,pv_mda_size,pv_mda_free,"
     "pv_mda_used_count"},
    {"lv",
     "lv_uuid,lv_name,lv_size,lv_tags,lv_role,lv_time,lv_active,lv_health_status,sync_percent,"
     "raid_sync_action,origin,pool_lv,move_pv"},
    {"pvseg", "pv_uuid,pvseg_start,pvseg_size,segtype,lv_uuid,seg_start_pe"},
    {"seg",
     "lv_uuid,segtype,seg_start_pe,seg_size_pe,data_stripes,stripe_size,region_size,raid_max_recovery_rate,"
     "seg_le_ranges,chunk_size,metadata_lv,transaction_id,discards,zero,lv_when_full,thin_id"},
};

// LVM's name for a device that it cannot see.
constexpr std::string_view kUnknownDevice = "[unknown]";

// Which PV extents belong to which LV segment, taken from the PVs' rows. Only these rows tell missing PVs
// apart.
struct MissingPiece {
  std::string pv_uuid;
  ExtentRange range;
};
using SegmentKey = std::pair<std::string, uint64_t>;  // LV uuid, first logical extent

class Reader {
 public:
  explicit Reader(const json& report) : report_(report) {}

  Result<VolumeGroup> Read() {
    QUARRY_TRY(ReadGroup());
    QUARRY_TRY(EachRow("pv", [this](const Row& row) { return ReadPv(row); }));
    QUARRY_TRY(EachRow("lv", [this](const Row& row) { return ReadLv(row); }));
    QUARRY_TRY(EachRow("pvseg", [this](const Row& row) { return ReadPvSegment(row); }));
    QUARRY_TRY(EachRow("seg", [this](const Row& row) { return ReadSegment(row); }));
    for (PhysicalVolume& pv : group_.pvs) {
      Normalise(pv.free);
    }
    for (LogicalVolume& lv : group_.lvs) {
      QUARRY_TRY(Finish(lv));
    }
    return std::move(group_);
  }

 private:
  template <typename Function>
  Status EachRow(const char* section, Function read) {
    const auto rows = report_.find(section);
    if (rows == report_.end() || !rows->is_array()) {
      return Corrupt(fmt::format("section {} is missing", section));
    }
    for (const json& row : *rows) {
      if (!row.is_object()) {
        return Corrupt(fmt::format("section {} has an item that is not a row", section));
      }
      QUARRY_TRY(read(Row(section, row)));
    }
    return Ok();
  }

  Status ReadGroup() {
    size_t groups = 0;
    QUARRY_TRY(EachRow("vg", [&](const Row& row) -> Status {
      ++groups;
      QUARRY_ASSIGN(group_.uuid, row.NonEmpty("vg_uuid"));
      QUARRY_ASSIGN(group_.name, row.NonEmpty("vg_name"));
      QUARRY_ASSIGN(group_.seqno, row.Number("vg_seqno"));
      QUARRY_ASSIGN(group_.extent_size.value, row.Number("vg_extent_size"));
      QUARRY_ASSIGN(group_.extent_count.value, row.Number("vg_extent_count"));
      QUARRY_ASSIGN(group_.free_count.value, row.Number("vg_free_count"));
      QUARRY_ASSIGN(group_.exported, row.Flag("vg_exported", "exported"));
      QUARRY_ASSIGN(group_.tags, row.List("vg_tags"));
      // Saved reports of earlier builds lack these fields.
      QUARRY_ASSIGN(const std::string extendable, row.TextOr("vg_extendable", "extendable"));
      group_.extendable = extendable == "extendable";
      QUARRY_ASSIGN(group_.max_lvs, row.NumberOr("max_lv", 0));
      return Ok();
    }));
    if (groups != 1) {
      return Corrupt(fmt::format("section vg has {} rows, not one", groups));
    }
    if (group_.extent_size.value == 0) {
      return Corrupt("field vg_extent_size in section vg is 0");
    }
    return Ok();
  }

  Status ReadPv(const Row& row) {
    PhysicalVolume pv;
    QUARRY_ASSIGN(pv.uuid, row.NonEmpty("pv_uuid"));
    QUARRY_ASSIGN(pv.device, row.NonEmpty("pv_name"));
    QUARRY_ASSIGN(pv.pe_start.value, row.Number("pe_start"));
    QUARRY_ASSIGN(pv.extent_count.value, row.Number("pv_pe_count"));
    QUARRY_ASSIGN(pv.allocatable, row.Flag("pv_allocatable", "allocatable"));
    QUARRY_ASSIGN(pv.missing, row.Flag("pv_missing", "missing"));
    QUARRY_ASSIGN(pv.tags, row.List("pv_tags"));
    QUARRY_ASSIGN(const uint64_t areas_in_use, row.Number("pv_mda_used_count"));
    if (areas_in_use > 0) {
      QUARRY_ASSIGN(pv.metadata_size.value, row.Number("pv_mda_size"));
      QUARRY_ASSIGN(pv.metadata_free.value, row.Number("pv_mda_free"));
    }
    if (pv.device == kUnknownDevice) {
      pv.device.clear();
    } else if (!pv_by_device_.emplace(pv.device, pv.uuid).second) {
      return Corrupt(fmt::format("two PVs are on device {}", pv.device));
    }
    if (!pv_by_uuid_.emplace(pv.uuid, group_.pvs.size()).second) {
      return Corrupt(fmt::format("two PVs have uuid {}", pv.uuid));
    }
    group_.pvs.push_back(std::move(pv));
    return Ok();
  }

  Status ReadLv(const Row& row) {
    LogicalVolume lv;
    QUARRY_ASSIGN(lv.uuid, row.NonEmpty("lv_uuid"));
    QUARRY_ASSIGN(std::string name, row.NonEmpty("lv_name"));
    lv.hidden = name.front() == '[';
    QUARRY_ASSIGN(lv.name, WithoutBrackets(std::move(name)));
    QUARRY_ASSIGN(lv.size.value, row.Number("lv_size"));
    QUARRY_ASSIGN(lv.tags, row.List("lv_tags"));
    // Saved reports of earlier builds lack this field.
    QUARRY_ASSIGN(const std::string role, row.TextOr("lv_role", lv.hidden ? "private" : "public"));
    lv.independent = role == "public";
    QUARRY_ASSIGN(lv.origin, NameOrNone(row, "origin"));
    QUARRY_ASSIGN(lv.pool, NameOrNone(row, "pool_lv"));
    QUARRY_ASSIGN(lv.leaves, row.TextOr("move_pv", ""));
    QUARRY_ASSIGN(lv.created, row.NumberOr("lv_time", 0));
    // LVM reports "unknown" when it must not use device-mapper. It cannot have activated anything then.
    QUARRY_ASSIGN(const std::string active, row.Text("lv_active"));
    if (active != "active" && !active.empty() && active != "unknown") {
      return Corrupt(fmt::format("field lv_active in section lv is '{}'", active));
    }
    lv.active = active == "active";
    QUARRY_ASSIGN(lv.health, row.Text("lv_health_status"));
    lv.partial = lv.health == "partial";
    QUARRY_ASSIGN(lv.sync_percent, row.Percent("sync_percent"));
    QUARRY_ASSIGN(lv.sync_action, row.Text("raid_sync_action"));
    if (!lv_by_uuid_.emplace(lv.uuid, group_.lvs.size()).second) {
      return Corrupt(fmt::format("two LVs have uuid {}", lv.uuid));
    }
    if (!lv_names_.emplace(lv.name, 0).second) {
      return Corrupt(fmt::format("two LVs are called {}", lv.name));
    }
    group_.lvs.push_back(std::move(lv));
    return Ok();
  }

  static Result<std::string> NameOrNone(const Row& row, const char* field) {
    QUARRY_ASSIGN(std::string name, row.TextOr(field, ""));
    return name.empty() ? Result<std::string>(std::string()) : WithoutBrackets(std::move(name));
  }

  Status ReadPvSegment(const Row& row) {
    QUARRY_ASSIGN(const std::string pv_uuid, row.NonEmpty("pv_uuid"));
    QUARRY_ASSIGN(const uint64_t first, row.Number("pvseg_start"));
    QUARRY_ASSIGN(const uint64_t count, row.Number("pvseg_size"));
    QUARRY_ASSIGN(const std::string type, row.NonEmpty("segtype"));
    QUARRY_ASSIGN(std::string lv_uuid, row.Text("lv_uuid"));
    QUARRY_ASSIGN(const uint64_t segment_start, row.Number("seg_start_pe"));
    const auto pv_at = pv_by_uuid_.find(pv_uuid);
    if (pv_at == pv_by_uuid_.end()) {
      return Corrupt(fmt::format("section pvseg names PV {}, section pv does not", pv_uuid));
    }
    PhysicalVolume& pv = group_.pvs[pv_at->second];
    const ExtentRange range{{first}, {count}};
    if (first > pv.extent_count.value || count > pv.extent_count.value - first) {
      return Corrupt(fmt::format("extents {}+{} lie beyond PV {}", first, count, pv_uuid));
    }
    if (lv_uuid.empty()) {
      pv.free.push_back(range);
    } else if (pv.device.empty()) {
      missing_[{std::move(lv_uuid), segment_start}].push_back({pv_uuid, range});
    }
    return Ok();
  }

  Status ReadSegment(const Row& row) {
    QUARRY_ASSIGN(const std::string lv_uuid, row.NonEmpty("lv_uuid"));
    const auto lv_at = lv_by_uuid_.find(lv_uuid);
    if (lv_at == lv_by_uuid_.end()) {
      return Corrupt(fmt::format("section seg names LV {}, section lv does not", lv_uuid));
    }
    Segment segment;
    QUARRY_ASSIGN(segment.type, row.NonEmpty("segtype"));
    QUARRY_ASSIGN(segment.logical.first.value, row.Number("seg_start_pe"));
    QUARRY_ASSIGN(segment.logical.count.value, row.Number("seg_size_pe"));
    QUARRY_ASSIGN(const uint64_t stripes, row.Number("data_stripes"));
    // LVM counts the copies of a mirror as data stripes.
    const bool mirror = segment.type == "raid1" || segment.type == "mirror";
    segment.data_stripes = mirror ? 1 : static_cast<uint32_t>(stripes);
    QUARRY_ASSIGN(segment.stripe_size.value, row.Number("stripe_size"));
    QUARRY_ASSIGN(segment.region_size.value, row.Number("region_size"));
    QUARRY_ASSIGN(const uint64_t kib, row.NumberOr("raid_max_recovery_rate", 0));
    segment.max_recovery_rate = {kib * kKiB.value};
    QUARRY_ASSIGN(segment.chunk_size.value, row.NumberOr("chunk_size", 0));
    QUARRY_TRY(ReadThin(row, segment));
    QUARRY_ASSIGN(const std::string ranges, row.Text("seg_le_ranges"));
    QUARRY_TRY(ReadAreas({lv_uuid, segment.logical.first.value}, ranges, segment.areas));
    group_.lvs[lv_at->second].segments.push_back(std::move(segment));
    return Ok();
  }

  // Saved reports of earlier builds lack these fields.
  static Status ReadThin(const Row& row, Segment& segment) {
    if (segment.type == "thin-pool") {
      ThinPool& pool = segment.thin_pool.emplace();
      pool.has_messages = std::nullopt;
      QUARRY_ASSIGN(pool.metadata_lv, NameOrNone(row, "metadata_lv"));
      QUARRY_ASSIGN(pool.transaction_id, row.NumberOr("transaction_id", 0));
      QUARRY_ASSIGN(const std::string discards, row.TextOr("discards", "passdown"));
      const std::optional<PoolDiscards> known = PoolDiscardsNamed(discards);
      if (!known.has_value()) {
        return Corrupt(fmt::format("field discards in section seg is '{}'", discards));
      }
      pool.discards = *known;
      QUARRY_ASSIGN(const std::string zero, row.TextOr("zero", ""));
      pool.zeroes_chunks = zero == "zero";
      QUARRY_ASSIGN(const std::string when_full, row.TextOr("lv_when_full", ""));
      pool.error_when_full = when_full == "error";
    } else if (segment.type == "thin") {
      ThinVolume& volume = segment.thin_volume.emplace();
      QUARRY_ASSIGN(const uint64_t id, row.NumberOr("thin_id", 0));
      volume.device_id = static_cast<uint32_t>(id);
      QUARRY_ASSIGN(volume.transaction_id, row.NumberOr("transaction_id", 0));
    }
    return Ok();
  }

  Status ReadAreas(const SegmentKey& key, std::string_view ranges, std::vector<SegmentArea>& areas) {
    RangeReader reader(ranges);
    while (true) {
      QUARRY_ASSIGN(const NamedRange next, reader.Next());
      if (next.name.empty()) {
        return Ok();
      }
      QUARRY_ASSIGN(SegmentArea area, MakeArea(key, next));
      areas.push_back(std::move(area));
    }
  }

  // LVM puts the name of a hidden LV in brackets, and then also each later name in the same segment, even
  // that of a PV. If a pvmove holds a stripe, for example, the PV of the next stripe is in brackets.
  Result<SegmentArea> MakeArea(const SegmentKey& key, const NamedRange& named) {
    SegmentArea area;
    area.range = named.range;
    std::string name(named.name);
    if (name.starts_with("[/") || name.starts_with("[[")) {
      QUARRY_ASSIGN(name, WithoutBrackets(std::move(name)));
    }
    if (name == kUnknownDevice) {
      QUARRY_ASSIGN(area.pv_uuid, TakeMissing(key, named.range));
      return area;
    }
    if (name.starts_with('/')) {
      const auto found = pv_by_device_.find(name);
      if (found == pv_by_device_.end()) {
        return Corrupt(fmt::format("a segment is on device {}, which is not a PV of the group", name));
      }
      area.pv_uuid = found->second;
      return area;
    }
    QUARRY_ASSIGN(area.lv_name, WithoutBrackets(std::move(name)));
    if (!lv_names_.contains(area.lv_name)) {
      return Corrupt(fmt::format("a segment is on LV {}, which the group does not have", area.lv_name));
    }
    return area;
  }

  // The LVs' rows call every missing PV "[unknown]". The pvseg rows say whose extents they are. If a segment
  // uses the same extent numbers on two missing PVs, LVM does not report which area is on which PV. Each of
  // the PVs is assigned to one area, in the order of the pvseg rows.
  Result<std::string> TakeMissing(const SegmentKey& key, const ExtentRange& range) {
    std::vector<MissingPiece>& pieces = missing_[key];
    const auto found = std::ranges::find(pieces, range, &MissingPiece::range);
    if (found == pieces.end()) {
      return Corrupt(fmt::format("extents {}+{} of LV {} are on no PV", range.first.value, range.count.value,
                                 key.first));
    }
    std::string pv_uuid = std::move(found->pv_uuid);
    pieces.erase(found);
    return pv_uuid;
  }

  static void Normalise(std::vector<ExtentRange>& free) {
    std::ranges::sort(free);
    std::vector<ExtentRange> merged;
    for (const ExtentRange& range : free) {
      if (!merged.empty() && merged.back().end() == range.first) {
        merged.back().count += range.count;
      } else if (range.count.value > 0) {
        merged.push_back(range);
      }
    }
    free = std::move(merged);
  }

  static Status Finish(LogicalVolume& lv) {
    if (lv.segments.empty()) {
      return Corrupt(fmt::format("LV {} has no segment", lv.name));
    }
    std::ranges::sort(lv.segments, {}, [](const Segment& segment) { return segment.logical.first; });
    lv.segment_type = lv.segments.front().type;
    return Ok();
  }

  const json& report_;
  VolumeGroup group_;
  std::map<std::string, std::string, std::less<>> pv_by_device_;
  std::map<std::string, size_t, std::less<>> pv_by_uuid_;
  std::map<std::string, size_t, std::less<>> lv_by_uuid_;
  std::map<std::string, int, std::less<>> lv_names_;
  std::map<SegmentKey, std::vector<MissingPiece>> missing_;
};

}  // namespace

std::vector<std::string> ReportArguments(const std::string& group) {
  std::vector<std::string> out = {"fullreport", "--all", "--reportformat", "json",
                                  "--units",    "b",     "--nosuffix"};
  for (const auto& [section, fields] : kSections) {
    out.insert(out.end(), {"--configreport", section, "-o", fields});
  }
  out.insert(out.end(), {"--", group});
  return out;
}

Result<VolumeGroup> ParseReport(std::string_view text) {
  const json document = json::parse(report::JsonLines(text), nullptr, false);
  if (!document.is_object()) {
    return Corrupt(fmt::format("no JSON object in {} bytes of output", text.size()));
  }
  const auto reports = document.find("report");
  if (reports == document.end() || !reports->is_array() || reports->size() != 1 ||
      !reports->front().is_object()) {
    return Corrupt("it does not hold the report of exactly one group");
  }
  return Reader(reports->front()).Read();
}

}  // namespace quarry::lvm
