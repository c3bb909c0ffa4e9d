#include "lvm/read/text_snapshot.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lvm/read/text_extents.h"
#include "lvm/read/text_fields.h"
#include "lvm/read/text_parts.h"
#include "lvm/read/text_sections.h"
#include "lvm/read/text_segments.h"

namespace quarry::lvm {
namespace {

using text::AskLvm;
using text::Fields;
using text::Section;
using text::Sections;

constexpr uint64_t kSector = 512;
// LVM's header at the start of a metadata area.
constexpr uint64_t kAreaHeader = 512;
constexpr std::string_view kErrorWhenFull = "ERROR_WHEN_FULL";
constexpr Bytes kMaxExtentSize{uint64_t{16} << 30};

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
    QUARRY_TRY(text::Join(parts_, group_));
    QUARRY_TRY(used_.CountFree());
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
    QUARRY_ASSIGN(group_.extent_size, fields.Sectors("extent_size"));
    if (group_.extent_size == Bytes{} || group_.extent_size > kMaxExtentSize) {
      return AskLvm(fmt::format("extents of {} bytes", group_.extent_size.value));
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
      if (!group_.pvs[at].uuid.empty() || !used_.Name(section.name, at)) {
        return AskLvm(fmt::format("PV {} is there twice", pv.uuid));
      }
      pv.device = wanted->device;
      pv.missing = pv.device.empty();
      pv.metadata_size = wanted->metadata_size;
      pv.metadata_free = FreeOf(wanted->metadata_size);
      group_.extent_count += pv.extent_count;
      group_.pvs[at] = std::move(pv);
    }
    return used_.pvs() == wanted_.size() ? Ok() : Status(AskLvm("a PV has left the group"));
  }

  static Result<PhysicalVolume> ReadPv(Fields& fields) {
    PhysicalVolume pv;
    QUARRY_ASSIGN(pv.uuid, fields.Word("id"));
    QUARRY_ASSIGN(const auto status, fields.Flags("status", {"ALLOCATABLE", "EXPORTED"}));
    QUARRY_TRY(fields.Flags("flags", {}));
    pv.allocatable = Contains(status, "ALLOCATABLE");
    QUARRY_ASSIGN(pv.tags, TagsOf(fields));
    QUARRY_ASSIGN(pv.pe_start, fields.Sectors("pe_start"));
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
    QUARRY_ASSIGN(const auto flags,
                  from.fields.Flags("flags", {"ACTIVATION_SKIP", "NOAUTOACTIVATE", kErrorWhenFull}));
    lv.hidden = !Contains(status, "VISIBLE");
    lv.independent = !lv.hidden;  // Join() knows more
    QUARRY_ASSIGN(lv.tags, TagsOf(from.fields));
    QUARRY_ASSIGN(const uint64_t segments, from.fields.Number("segment_count"));
    QUARRY_ASSIGN(lv.created, from.fields.Number("creation_time"));
    from.fields.Ignore({"creation_host", "allocation_policy", "read_ahead"});
    QUARRY_TRY(from.fields.Finish("an LV"));
    if (from.inner.empty() || from.inner.size() != segments) {
      return AskLvm(fmt::format("{} segments instead of {}", from.inner.size(), segments));
    }
    if (text::DescribesSnapshot(from.inner)) {
      QUARRY_ASSIGN(text::Snapshot snapshot, text::ReadSnapshot(from.inner.front()));
      parts_.snapshots.push_back(std::move(snapshot));
      return Ok();
    }
    QUARRY_TRY(ReadSegments(from, lv));
    QUARRY_TRY(SetErrorWhenFull(lv, Contains(flags, kErrorWhenFull)));
    group_.lvs.push_back(std::move(lv));
    return Ok();
  }

  // LVM keeps this flag with the LV, although it says something of its segment.
  static Status SetErrorWhenFull(LogicalVolume& lv, bool set) {
    std::optional<ThinPool>& pool = lv.segments.front().thin_pool;
    if (set && !pool.has_value()) {
      return AskLvm(fmt::format("{} on a volume of type {}", kErrorWhenFull, lv.segment_type));
    }
    if (pool.has_value()) {
      pool->error_when_full = set;
    }
    return Ok();
  }

  Status ReadSegments(Section& from, LogicalVolume& lv) {
    for (Section& section : from.inner) {
      QUARRY_ASSIGN(Segment segment, text::ReadSegment(section, lv, used_, parts_));
      lv.segments.push_back(std::move(segment));
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
    return Ok();
  }

  Sections& sections_;
  const uint64_t text_size_;
  const std::span<const TextPv> wanted_;
  VolumeGroup group_;
  text::UsedExtents used_{group_};
  text::Parts parts_;
};

}  // namespace

Result<VolumeGroup> SnapshotFromText(std::string_view text, std::span<const TextPv> pvs) {
  QUARRY_ASSIGN(Sections sections, text::ReadSections(text));
  return Reader(sections, text.size(), pvs).Read();
}

}  // namespace quarry::lvm
