#include "lvm/read/text_segments.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace quarry::lvm::text {
namespace {

// The kernel's ids of thin devices have 24 bits.
constexpr uint64_t kThinDevices = uint64_t{1} << 24;

// kUnsupported if the section of a segment has anything that was not understood.
Status Finish(const Section& section, std::string_view type) {
  if (!section.inner.empty()) {
    return AskLvm(
        fmt::format("unknown section {} in a segment of type {}", section.inner.front().name, type));
  }
  return section.fields.Finish(fmt::format("a segment of type {}", type));
}

Status ReadStripes(Fields& fields, Segment& segment, UsedExtents& used) {
  QUARRY_ASSIGN(const uint64_t count, fields.Number("stripe_count"));
  QUARRY_ASSIGN(const auto places, fields.Places("stripes"));
  if (count == 0 || places.size() != count || segment.logical.count.value % count != 0) {
    return AskLvm(fmt::format("{} stripes, {} places", count, places.size()));
  }
  if (count == 1) {
    segment.type = "linear";
  } else {
    QUARRY_ASSIGN(segment.stripe_size, fields.Sectors("stripe_size"));
  }
  segment.data_stripes = static_cast<uint32_t>(count);
  const Extents each{segment.logical.count.value / count};
  for (const Fields::Place& place : places) {
    QUARRY_ASSIGN(SegmentArea area, used.Use(place.name, {place.first, each}));
    segment.areas.push_back(std::move(area));
  }
  return Ok();
}

// Number of parity legs; nullopt: not a known raid type.
std::optional<uint64_t> ParityOf(std::string_view type) {
  if (type == "raid0" || type == "raid1" || type == "raid10") {
    return 0;
  }
  constexpr auto kOne =
      std::to_array<std::string_view>({"raid4", "raid5", "raid5_ls", "raid5_la", "raid5_rs", "raid5_ra"});
  constexpr auto kTwo = std::to_array<std::string_view>({"raid6", "raid6_zr", "raid6_nr", "raid6_nc"});
  if (std::ranges::find(kOne, type) != kOne.end()) {
    return 1;
  }
  return std::ranges::find(kTwo, type) != kTwo.end() ? std::optional<uint64_t>(2) : std::nullopt;
}

// The sizes and the rate of a raid segment with `count` legs.
Status ReadRaidSizes(Fields& fields, Segment& segment, uint64_t count) {
  if (segment.type != "raid1") {
    QUARRY_ASSIGN(segment.stripe_size, fields.Sectors("stripe_size"));
  }
  if (segment.type != "raid0") {
    QUARRY_ASSIGN(segment.region_size, fields.Sectors("region_size"));
  }
  if (segment.type == "raid10") {
    QUARRY_ASSIGN(const uint64_t copies, fields.Number("data_copies"));
    if (copies != 2 || count % 2 != 0) {
      return AskLvm(fmt::format("raid10 of {} legs in {} copies", count, copies));
    }
  }
  QUARRY_ASSIGN(const uint64_t kib, fields.NumberOr("max_recovery_rate", 0));
  segment.max_recovery_rate = {kib * kKiB.value};
  fields.Ignore({"min_recovery_rate"});
  return Ok();
}

Status ReadRaid(Fields& fields, Segment& segment, Parts& parts) {
  const std::optional<uint64_t> parity = ParityOf(segment.type);
  if (!parity.has_value() || segment.logical.first != Extents{}) {
    return AskLvm("unsupported segment of type " + segment.type);
  }
  const bool bare = segment.type == "raid0";
  QUARRY_ASSIGN(const uint64_t count, fields.Number(bare ? "stripe_count" : "device_count"));
  QUARRY_ASSIGN(const auto names, fields.Words(bare ? "raid0_lvs" : "raids"));
  if (count < 2 || count > UINT16_MAX || count <= *parity || names.size() != count * (bare ? 1 : 2)) {
    return AskLvm(fmt::format("unsupported {} of {} legs with {} names", segment.type, count, names.size()));
  }
  QUARRY_TRY(ReadRaidSizes(fields, segment, count));
  const uint64_t data = segment.type == "raid1" ? 1 : segment.type == "raid10" ? count / 2 : count - *parity;
  if (segment.logical.count.value % data != 0) {
    return AskLvm("legs of unequal length");
  }
  segment.data_stripes = static_cast<uint32_t>(data);
  const Extents each{segment.logical.count.value / data};
  for (size_t i = 0; i < count; ++i) {
    const Leg leg = bare ? Leg{names[i], ""} : Leg{names[2 * i + 1], names[2 * i]};
    segment.areas.push_back({"", leg.data, {{0}, each}});
    parts.legs.emplace_back(leg, each);
  }
  return Ok();
}

// A message that LVM still has to send to the pool, or has sent. It changes nothing about the group: LVM has
// committed the text that it belongs to, and reports do not show it.
Status ReadMessage(Section& message, ThinPool& pool) {
  if (!message.name.starts_with("message") || !message.inner.empty()) {
    return AskLvm("unknown section " + message.name);
  }
  if (message.fields.Has("create")) {
    QUARRY_TRY(message.fields.Word("create"));
  } else {
    QUARRY_ASSIGN(const uint64_t id, message.fields.Number("delete"));
    if (id >= kThinDevices) {
      return AskLvm(fmt::format("device {} of a thin pool", id));
    }
    pool.queued_deletes.push_back(static_cast<uint32_t>(id));
  }
  pool.has_messages = true;
  return message.fields.Finish("a message to a thin pool");
}

Status ReadThinPool(Section& section, LogicalVolume& lv, Segment& segment, Parts& parts) {
  Fields& fields = section.fields;
  ThinPool pool;
  PoolData data{.name = {}, .length = segment.logical.count};
  QUARRY_ASSIGN(data.name, fields.Word("pool"));
  QUARRY_ASSIGN(pool.metadata_lv, fields.Word("metadata"));
  QUARRY_ASSIGN(pool.transaction_id, fields.Number("transaction_id"));
  QUARRY_ASSIGN(segment.chunk_size, fields.Sectors("chunk_size"));
  QUARRY_ASSIGN(const std::string discards, fields.Word("discards"));
  const std::optional<PoolDiscards> known = PoolDiscardsNamed(discards);
  QUARRY_ASSIGN(const uint64_t zero, fields.NumberOr("zero_new_blocks", 0));
  if (!known.has_value() || zero > 1) {
    return AskLvm(fmt::format("a thin pool with discards = {}, zero_new_blocks = {}", discards, zero));
  }
  pool.discards = *known;
  pool.zeroes_chunks = zero == 1;
  for (Section& message : section.inner) {
    QUARRY_TRY(ReadMessage(message, pool));
  }
  section.inner.clear();
  segment.areas.push_back({"", data.name, {{0}, data.length}});
  parts.pools.push_back(std::move(data));
  parts.pool_metadata.push_back(pool.metadata_lv);
  segment.thin_pool = std::move(pool);
  lv.independent = false;
  return Ok();
}

// An external origin, or a merge, has a key of its own, so LVM is asked.
Status ReadThinVolume(Fields& fields, LogicalVolume& lv, Segment& segment) {
  ThinVolume& volume = segment.thin_volume.emplace();
  QUARRY_ASSIGN(lv.pool, fields.Word("thin_pool"));
  QUARRY_ASSIGN(volume.transaction_id, fields.Number("transaction_id"));
  QUARRY_ASSIGN(const uint64_t id, fields.Number("device_id"));
  if (id >= kThinDevices) {
    return AskLvm(fmt::format("device {} of a thin pool", id));
  }
  volume.device_id = static_cast<uint32_t>(id);
  if (fields.Has("origin")) {
    QUARRY_ASSIGN(lv.origin, fields.Word("origin"));
  }
  segment.data_stripes = 0;
  return Ok();
}

// The fields that belong to the segment's type.
Status ReadTyped(Section& section, LogicalVolume& lv, Segment& segment, UsedExtents& used, Parts& parts) {
  if (segment.type == "striped") {
    return ReadStripes(section.fields, segment, used);
  }
  if (segment.type == "thin-pool") {
    return ReadThinPool(section, lv, segment, parts);
  }
  if (segment.type == "thin") {
    return ReadThinVolume(section.fields, lv, segment);
  }
  return ReadRaid(section.fields, segment, parts);
}

}  // namespace

Result<Segment> ReadSegment(Section& section, LogicalVolume& lv, UsedExtents& used, Parts& parts) {
  Fields& fields = section.fields;
  Segment segment;
  QUARRY_ASSIGN(segment.logical.first, fields.ExtentsOf("start_extent"));
  QUARRY_ASSIGN(segment.logical.count, fields.ExtentsOf("extent_count"));
  QUARRY_ASSIGN(segment.type, fields.Word("type"));
  const std::string type = segment.type;
  QUARRY_TRY(ReadTyped(section, lv, segment, used, parts));
  QUARRY_TRY(Finish(section, type));
  return segment;
}

bool DescribesSnapshot(const std::vector<Section>& segments) {
  return segments.size() == 1 && segments.front().fields.WordIs("type", "snapshot");
}

Result<Snapshot> ReadSnapshot(Section& section) {
  Fields& fields = section.fields;
  Snapshot snapshot;
  QUARRY_ASSIGN(snapshot.origin, fields.Word("origin"));
  // A snapshot that is being merged has a merging_store instead.
  QUARRY_ASSIGN(snapshot.store, fields.Word("cow_store"));
  QUARRY_ASSIGN(snapshot.chunk_size, fields.Sectors("chunk_size"));
  fields.Ignore({"start_extent", "extent_count", "type"});
  QUARRY_TRY(Finish(section, "snapshot"));
  return snapshot;
}

}  // namespace quarry::lvm::text
