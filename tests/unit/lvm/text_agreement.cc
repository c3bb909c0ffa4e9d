#include "tests/unit/lvm/text_agreement.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lvm/fresh/metadata_header_reader.h"
#include "lvm/read/text_snapshot.h"

namespace quarry::lvm::testing {
namespace {

std::string Range(const ExtentRange& range) {
  return fmt::format("{}+{}", range.first.value, range.count.value);
}

std::string LvText(const LogicalVolume& lv) {
  std::string out = fmt::format(
      "lv {} {} created={} hidden={} independent={} size={} type={} tags=[{}] partial={} active={} health={} "
      "origin={} pool={} leaves={}\n",
      lv.name, lv.uuid, lv.created, lv.hidden, lv.independent, lv.size.value, lv.segment_type,
      fmt::join(lv.tags, " "), lv.partial, lv.active, lv.health, lv.origin, lv.pool, lv.leaves);
  for (const Segment& segment : lv.segments) {
    out += fmt::format("  {} {} data={} stripe={} region={} chunk={} rate={}", segment.type,
                       Range(segment.logical), segment.data_stripes, segment.stripe_size.value,
                       segment.region_size.value, segment.chunk_size.value, segment.max_recovery_rate.value);
    if (const auto& pool = segment.thin_pool; pool.has_value()) {
      out += fmt::format(" metadata={} transaction={} discards={} zeroes={} error_when_full={}",
                         pool->metadata_lv, pool->transaction_id, static_cast<int>(pool->discards),
                         pool->zeroes_chunks, pool->error_when_full);
    }
    if (const auto& volume = segment.thin_volume; volume.has_value()) {
      out += fmt::format(" device={} transaction={}", volume->device_id, volume->transaction_id);
    }
    for (const SegmentArea& area : segment.areas) {
      out += fmt::format(" {}{}:{}", area.pv_uuid, area.lv_name, Range(area.range));
    }
    out += "\n";
  }
  return out;
}

}  // namespace

std::string AllOf(const VolumeGroup& group) {
  std::string out = fmt::format(
      "vg {} {} seqno={} extents={}x{} free={} exported={} extendable={} "
      "max_lvs={} tags=[{}]\n",
      group.name, group.uuid, group.seqno, group.extent_count.value, group.extent_size.value,
      group.free_count.value, group.exported, group.extendable, group.max_lvs, fmt::join(group.tags, " "));
  for (const PhysicalVolume& pv : group.pvs) {
    out += fmt::format(
        "pv {} {} start={} extents={} allocatable={} missing={} tags=[{}] metadata={}/{} free=", pv.uuid,
        pv.device, pv.pe_start.value, pv.extent_count.value, pv.allocatable, pv.missing,
        fmt::join(pv.tags, " "), pv.metadata_free.value, pv.metadata_size.value);
    for (const ExtentRange& range : pv.free) {
      out += " " + Range(range);
    }
    out += "\n";
  }
  for (const LogicalVolume& lv : group.lvs) {
    out += LvText(lv);
  }
  return out;
}

TextTally& Texts() {
  static TextTally tally;
  return tally;
}

std::string TextDifference(const VolumeGroup& report) {
  HeaderReader reader;
  std::vector<std::string> paths;
  for (const PhysicalVolume& pv : report.pvs) {
    paths.push_back(pv.device);  // a lost PV has no device, so there is nothing to read
  }
  const auto states = reader.Read(paths, {});
  std::vector<TextPv> pvs;
  Result<std::string> text = Error(Code::kNotFound, "no area in use");
  for (size_t i = 0; i < paths.size(); ++i) {
    const PvState& state = states->at(i);
    TextPv pv{report.pvs[i].uuid, paths[i], {}};
    for (const AreaState& area : state.areas) {
      if (!area.damaged && !area.ignored && area.committed.has_value() && state.areas.size() == 1) {
        pv.metadata_size = {area.area.size};
        text = reader.ReadText(paths[i], area.area, *area.committed, {});
      }
    }
    pvs.push_back(std::move(pv));
  }
  const auto group = text.has_value() ? SnapshotFromText(*text, pvs) : Result<VolumeGroup>(text.error());
  if (!group.has_value()) {
    ++Texts().asked;
    return "";
  }
  ++Texts().compared;
  const VolumeGroup truth = report.MetadataOnly();
  return *group == truth
             ? ""
             : fmt::format("--- from the text:\n{}--- LVM's report:\n{}", AllOf(*group), AllOf(truth));
}

}  // namespace quarry::lvm::testing
