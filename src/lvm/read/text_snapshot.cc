#include "lvm/read/text_snapshot.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lvm/names.h"
#include "lvm/read/text_fields.h"

namespace quarry::lvm {
namespace {

using text::AskLvm;
using text::Fields;

constexpr uint64_t kSector = 512;
// LVM's header at the start of a metadata area.
constexpr uint64_t kAreaHeader = 512;
constexpr uint64_t kMaxExtentSectors = uint64_t{1} << 25;  // 16 GiB

bool Contains(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// In the order in which LVM reports tags.
Result<std::vector<std::string>> TagsOf(Fields& fields) {
  auto tags = fields.Words("tags");
  if (tags.has_value()) {
    std::ranges::sort(*tags);
  }
  return tags;
}

// A section and those in it.
struct Section {
  std::string name;
  Fields fields;
  std::vector<Section> segments;  // of an LV
};

// The sections of a text, unparsed. Section names are unique among siblings. A name that occurs twice becomes
// one section, and its second `id` is then refused.
struct Sections {
  std::string name;  // the group's name
  Fields outside;
  Fields group;
  std::vector<Section> pvs;
  std::vector<Section> lvs;
};

// Sections are not interleaved, so the wanted one is the last one or new.
Section& LastOrNew(std::vector<Section>& sections, const std::string& name) {
  if (sections.empty() || sections.back().name != name) {
    sections.emplace_back().name = name;
  }
  return sections.back();
}

Status Sort(Sections& to, std::span<const std::string> sections, std::string_view key,
            std::span<const TextValue> values) {
  if (sections.empty()) {
    return to.outside.Add(key, values);
  }
  if (to.name.empty()) {
    to.name = sections[0];
  }
  if (to.name == sections[0] && sections.size() == 1) {
    return to.group.Add(key, values);
  }
  if (to.name == sections[0] && sections.size() == 3 && sections[1] == "physical_volumes") {
    return LastOrNew(to.pvs, sections[2]).fields.Add(key, values);
  }
  if (to.name == sections[0] && sections.size() >= 3 && sections[1] == "logical_volumes") {
    Section& lv = LastOrNew(to.lvs, sections[2]);
    if (sections.size() == 3) {
      return lv.fields.Add(key, values);
    }
    if (sections.size() == 4) {
      return LastOrNew(lv.segments, sections[3]).fields.Add(key, values);
    }
  }
  return AskLvm(fmt::format("unknown section {}", sections.back()));
}

// One leg of a raid volume, as its segment names it.
struct Leg {
  std::string data;
  std::string metadata;  // empty for raid0
};

class Reader {
 public:
  Reader(Sections& sections, uint64_t text_size, std::span<const TextPv> pvs)
      : sections_(sections), text_size_(text_size), wanted_(pvs) {}

  Result<VolumeGroup> Read() {
    QUARRY_TRY(ReadOutside());
    QUARRY_TRY(ReadGroup());
    QUARRY_TRY(ReadPvs());
    for (Section& lv : sections_.lvs) {
      QUARRY_TRY(ReadLv(lv).Context(lv.name));
    }
    // LVM's report is sorted by name, ignoring the brackets of hidden LVs.
    std::ranges::sort(group_.lvs, {}, &LogicalVolume::name);
    for (size_t i = 1; i < group_.lvs.size(); ++i) {
      if (group_.lvs[i - 1].name == group_.lvs[i].name) {
        return AskLvm(fmt::format("two LVs are called {}", group_.lvs[i].name));
      }
    }
    QUARRY_TRY(CheckLegs());
    for (LogicalVolume& lv : group_.lvs) {
      lv.partial = LacksPart(lv);
    }
    QUARRY_TRY(CountFree());
    return std::move(group_);
  }

 private:
  Status ReadOutside() {
    Fields& fields = sections_.outside;
    QUARRY_ASSIGN(const std::string contents, fields.Word("contents"));
    QUARRY_ASSIGN(const uint64_t version, fields.Number("version"));
    if (contents != "Text Format Volume Group" || version != 1) {
      return AskLvm(fmt::format("contents '{}', version {}", contents, version));
    }
    fields.Ignore({"description", "creation_host", "creation_time"});
    return fields.Finish("the text");
  }

  Status ReadGroup() {
    Fields& fields = sections_.group;
    group_.name = sections_.name;
    QUARRY_ASSIGN(group_.uuid, fields.Word("id"));
    QUARRY_ASSIGN(group_.seqno, fields.Number("seqno"));
    QUARRY_ASSIGN(const std::string format, fields.Word("format"));
    if (format != "lvm2") {
      return AskLvm("format " + format);
    }
    QUARRY_ASSIGN(const auto status, fields.Flags("status", {"RESIZEABLE", "READ", "WRITE", "EXPORTED"}));
    if (!Contains(status, "RESIZEABLE") || !Contains(status, "READ") || !Contains(status, "WRITE")) {
      return AskLvm("a group that may not be changed");
    }
    group_.exported = Contains(status, "EXPORTED");
    QUARRY_TRY(fields.Flags("flags", {"NOAUTOACTIVATE"}));
    QUARRY_ASSIGN(group_.tags, TagsOf(fields));
    QUARRY_ASSIGN(const uint64_t sectors, fields.Number("extent_size"));
    group_.extent_size = {sectors * kSector};
    if (sectors == 0 || sectors > kMaxExtentSectors) {
      return AskLvm(fmt::format("extents of {} sectors", sectors));
    }
    QUARRY_ASSIGN(group_.max_lvs, fields.Number("max_lv"));
    fields.Ignore({"max_pv", "metadata_copies", "allocation_policy"});
    return fields.Finish("the group");
  }

  Status ReadPvs() {
    group_.pvs.resize(wanted_.size());
    for (Section& section : sections_.pvs) {
      QUARRY_ASSIGN(PhysicalVolume pv, ReadPv(section.fields));
      const auto wanted = std::ranges::find(wanted_, pv.uuid, &TextPv::uuid);
      if (wanted == wanted_.end()) {
        return AskLvm(fmt::format("PV {} is new", pv.uuid));
      }
      const auto at = static_cast<size_t>(wanted - wanted_.begin());
      if (!group_.pvs[at].uuid.empty() || !pv_by_name_.emplace(section.name, at).second) {
        return AskLvm(fmt::format("PV {} is there twice", pv.uuid));
      }
      pv.device = wanted->device;
      pv.missing = pv.device.empty();
      pv.metadata_size = wanted->metadata_size;
      pv.metadata_free = FreeOf(wanted->metadata_size);
      group_.extent_count += pv.extent_count;
      group_.pvs[at] = std::move(pv);
    }
    if (pv_by_name_.size() != wanted_.size()) {
      return AskLvm("a PV has left the group");
    }
    used_.resize(group_.pvs.size());
    return Ok();
  }

  static Result<PhysicalVolume> ReadPv(Fields& fields) {
    PhysicalVolume pv;
    QUARRY_ASSIGN(pv.uuid, fields.Word("id"));
    QUARRY_ASSIGN(const auto status, fields.Flags("status", {"ALLOCATABLE", "EXPORTED"}));
    QUARRY_TRY(fields.Flags("flags", {}));
    pv.allocatable = Contains(status, "ALLOCATABLE");
    QUARRY_ASSIGN(pv.tags, TagsOf(fields));
    QUARRY_ASSIGN(const uint64_t start, fields.Number("pe_start"));
    pv.pe_start = {start * kSector};
    QUARRY_ASSIGN(pv.extent_count, fields.ExtentsOf("pe_count"));
    fields.Ignore({"device", "device_id", "device_id_type", "dev_size"});
    QUARRY_TRY(fields.Finish("a PV"));
    return pv;
  }

  // Old and new text must both fit, and a text begins at a sector (lib/format_text/format-text.c).
  Bytes FreeOf(Bytes area) const {
    const uint64_t most =
        area.value < kAreaHeader + 2 * kSector ? 0 : (area.value - kAreaHeader) / 2 - kSector;
    return {most <= text_size_ ? 0 : (most - text_size_) / kSector * kSector};
  }

  Status ReadLv(Section& from) {
    LogicalVolume lv;
    lv.name = from.name;
    QUARRY_ASSIGN(lv.uuid, from.fields.Word("id"));
    QUARRY_ASSIGN(const auto status, from.fields.Flags("status", {"READ", "WRITE", "VISIBLE", "NOTSYNCED"}));
    QUARRY_TRY(from.fields.Flags("flags", {"ACTIVATION_SKIP", "NOAUTOACTIVATE"}));
    lv.hidden = !Contains(status, "VISIBLE");
    // Pools, origins and snapshots have segment types that this reader leaves to LVM.
    lv.independent = !lv.hidden;
    QUARRY_ASSIGN(lv.tags, TagsOf(from.fields));
    QUARRY_ASSIGN(const uint64_t segments, from.fields.Number("segment_count"));
    QUARRY_ASSIGN(lv.created, from.fields.Number("creation_time"));
    from.fields.Ignore({"creation_host", "allocation_policy", "read_ahead"});
    QUARRY_TRY(from.fields.Finish("an LV"));
    for (Section& section : from.segments) {
      QUARRY_ASSIGN(Segment segment, ReadSegment(section.fields));
      QUARRY_TRY(section.fields.Finish("a segment of type " + segment.type));
      lv.segments.push_back(std::move(segment));
    }
    if (lv.segments.empty() || lv.segments.size() != segments) {
      return AskLvm(fmt::format("{} segments instead of {}", lv.segments.size(), segments));
    }
    std::ranges::sort(lv.segments, {}, [](const Segment& segment) { return segment.logical.first; });
    Extents size;
    for (const Segment& segment : lv.segments) {
      if (segment.logical.first != size || segment.logical.count == Extents{}) {
        return AskLvm("segments with gaps or overlaps");
      }
      size = segment.logical.end();
    }
    lv.size = ToBytes(size, group_.extent_size);
    lv.segment_type = lv.segments.front().type;
    group_.lvs.push_back(std::move(lv));
    return Ok();
  }

  Result<Segment> ReadSegment(Fields& fields) {
    Segment segment;
    QUARRY_ASSIGN(segment.logical.first, fields.ExtentsOf("start_extent"));
    QUARRY_ASSIGN(segment.logical.count, fields.ExtentsOf("extent_count"));
    QUARRY_ASSIGN(segment.type, fields.Word("type"));
    QUARRY_TRY(segment.type == "striped" ? ReadStripes(fields, segment) : ReadRaid(fields, segment));
    return segment;
  }

  Status ReadStripes(Fields& fields, Segment& segment) {
    QUARRY_ASSIGN(const uint64_t count, fields.Number("stripe_count"));
    QUARRY_ASSIGN(const auto places, fields.Places("stripes"));
    if (count == 0 || places.size() != count || segment.logical.count.value % count != 0) {
      return AskLvm(fmt::format("{} stripes, {} places", count, places.size()));
    }
    if (count == 1) {
      segment.type = "linear";
    } else {
      QUARRY_ASSIGN(const uint64_t sectors, fields.Number("stripe_size"));
      segment.stripe_size = {sectors * kSector};
    }
    segment.data_stripes = static_cast<uint32_t>(count);
    const Extents each{segment.logical.count.value / count};
    for (const Fields::Place& place : places) {
      const auto pv = pv_by_name_.find(place.name);
      if (pv == pv_by_name_.end()) {
        return AskLvm(fmt::format("a stripe on {}, which is not a PV", place.name));
      }
      const ExtentRange range{place.first, each};
      if (range.end() > group_.pvs[pv->second].extent_count) {
        return AskLvm("a stripe beyond the end of its PV");
      }
      used_[pv->second].push_back(range);
      segment.areas.push_back({group_.pvs[pv->second].uuid, "", range});
    }
    return Ok();
  }

  // Number of parity legs; nullopt: not a known raid type.
  static std::optional<uint64_t> ParityOf(std::string_view type) {
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

  Status ReadRaid(Fields& fields, Segment& segment) {
    const std::optional<uint64_t> parity = ParityOf(segment.type);
    if (!parity.has_value() || segment.logical.first != Extents{}) {
      return AskLvm("unsupported segment of type " + segment.type);
    }
    const bool bare = segment.type == "raid0";
    QUARRY_ASSIGN(const uint64_t count, fields.Number(bare ? "stripe_count" : "device_count"));
    QUARRY_ASSIGN(const auto names, fields.Words(bare ? "raid0_lvs" : "raids"));
    if (count < 2 || count > UINT16_MAX || count <= *parity || names.size() != count * (bare ? 1 : 2)) {
      return AskLvm(
          fmt::format("unsupported {} of {} legs with {} names", segment.type, count, names.size()));
    }
    if (segment.type != "raid1") {
      QUARRY_ASSIGN(const uint64_t sectors, fields.Number("stripe_size"));
      segment.stripe_size = {sectors * kSector};
    }
    if (!bare) {
      QUARRY_ASSIGN(const uint64_t sectors, fields.Number("region_size"));
      segment.region_size = {sectors * kSector};
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
    const uint64_t data = segment.type == "raid1"    ? 1
                          : segment.type == "raid10" ? count / 2
                                                     : count - *parity;
    if (segment.logical.count.value % data != 0) {
      return AskLvm("legs of unequal length");
    }
    segment.data_stripes = static_cast<uint32_t>(data);
    const Extents each{segment.logical.count.value / data};
    for (size_t i = 0; i < count; ++i) {
      const Leg leg = bare ? Leg{names[i], ""} : Leg{names[2 * i + 1], names[2 * i]};
      segment.areas.push_back({"", leg.data, {{0}, each}});
      legs_.emplace_back(leg, each);
    }
    return Ok();
  }

  LogicalVolume* FindLv(std::string_view name) {
    const auto found = std::ranges::lower_bound(group_.lvs, name, {}, &LogicalVolume::name);
    return found == group_.lvs.end() || found->name != name ? nullptr : &*found;
  }

  // Each hidden LV must be one leg of one volume or that leg's metadata, be on PVs, and have the right
  // length.
  Status CheckLegs() {
    std::map<std::string_view, int> owners;
    for (const auto& [leg, length] : legs_) {
      const LogicalVolume* const data = FindLv(leg.data);
      if (data == nullptr || !data->hidden || data->size != ToBytes(length, group_.extent_size)) {
        return AskLvm(fmt::format("leg {} is absent, visible or of the wrong length", leg.data));
      }
      ++owners[data->name];
      if (leg.metadata.empty()) {
        continue;
      }
      const LogicalVolume* const metadata = FindLv(leg.metadata);
      // PhysicalExtents() finds the metadata by its name.
      if (metadata == nullptr || !metadata->hidden || MetadataLvName(leg.data) != leg.metadata) {
        return AskLvm(fmt::format("leg metadata {} is absent, visible or misnamed", leg.metadata));
      }
      ++owners[metadata->name];
    }
    for (const LogicalVolume& lv : group_.lvs) {
      const auto owner = owners.find(lv.name);
      if ((owner == owners.end() ? 0 : owner->second) != (lv.hidden ? 1 : 0)) {
        return AskLvm(fmt::format("LV {} is a leg of no volume, or of several", lv.name));
      }
      if (lv.hidden &&
          std::ranges::any_of(lv.segments, [](const Segment& segment) { return segment.type != "linear"; })) {
        return AskLvm(fmt::format("leg {} is of type {}", lv.name, lv.segment_type));
      }
    }
    return Ok();
  }

  // Whether extents of the LV, or of a leg of it, are on a missing PV.
  bool LacksPart(const LogicalVolume& lv) {
    for (const Segment& segment : lv.segments) {
      for (const SegmentArea& area : segment.areas) {
        if (area.lv_name.empty() ? group_.LacksPv(area.pv_uuid) : LacksLeg(area.lv_name)) {
          return true;
        }
      }
    }
    return false;
  }
  bool LacksLeg(const std::string& data) {
    const LogicalVolume* const metadata = FindLv(MetadataLvName(data));
    return LacksPart(*FindLv(data)) || (metadata != nullptr && LacksPart(*metadata));
  }

  // Finds the extents that no segment uses.
  Status CountFree() {
    for (size_t i = 0; i < group_.pvs.size(); ++i) {
      PhysicalVolume& pv = group_.pvs[i];
      std::ranges::sort(used_[i]);
      Extents at;
      for (const ExtentRange& range : used_[i]) {
        if (range.first < at) {
          return AskLvm(fmt::format("extents of PV {} are used twice", pv.uuid));
        }
        AddFree(pv, {at, range.first - at});
        at = range.end();
      }
      AddFree(pv, {at, pv.extent_count - at});
    }
    return Ok();
  }

  void AddFree(PhysicalVolume& pv, ExtentRange range) {
    if (range.count.value > 0) {
      group_.free_count += range.count;
      pv.free.push_back(range);
    }
  }

  Sections& sections_;
  const uint64_t text_size_;
  const std::span<const TextPv> wanted_;
  VolumeGroup group_;
  std::map<std::string, size_t, std::less<>> pv_by_name_;
  std::vector<std::vector<ExtentRange>> used_;  // by PV
  std::vector<std::pair<Leg, Extents>> legs_;   // with the length that each must have
};

}  // namespace

Result<VolumeGroup> SnapshotFromText(std::string_view text, std::span<const TextPv> pvs) {
  Sections sections;
  QUARRY_TRY(WalkText(
      text, [&](auto path, std::string_view key, auto values) { return Sort(sections, path, key, values); }));
  return Reader(sections, text.size(), pvs).Read();
}

}  // namespace quarry::lvm
