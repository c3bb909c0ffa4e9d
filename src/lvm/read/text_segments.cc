#include "lvm/read/text_segments.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace quarry::lvm::text {
namespace {

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

}  // namespace

Result<Segment> ReadSegment(Section& section, UsedExtents& used, Parts& parts) {
  Fields& fields = section.fields;
  Segment segment;
  QUARRY_ASSIGN(segment.logical.first, fields.ExtentsOf("start_extent"));
  QUARRY_ASSIGN(segment.logical.count, fields.ExtentsOf("extent_count"));
  QUARRY_ASSIGN(segment.type, fields.Word("type"));
  const std::string type = segment.type;
  QUARRY_TRY(type == "striped" ? ReadStripes(fields, segment, used) : ReadRaid(fields, segment, parts));
  QUARRY_TRY(fields.Finish("a segment of type " + type));
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
  QUARRY_TRY(fields.Finish("a segment of type snapshot"));
  return snapshot;
}

}  // namespace quarry::lvm::text
