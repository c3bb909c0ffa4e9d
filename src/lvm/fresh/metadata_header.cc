#include "lvm/fresh/metadata_header.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <zlib.h>

namespace quarry::lvm {
namespace {

constexpr std::string_view kLabelId = "LABELONE";
constexpr std::string_view kLabelType = "LVM2 001";
constexpr size_t kLabelTypeAt = 24;
constexpr std::string_view kMagic = " LVM2 x[5A%r0N*>";
constexpr uint32_t kMetadataVersion = 1;
constexpr uint32_t kIgnoredFlag = 1;
constexpr uint32_t kInGroupFlag = 1;
constexpr size_t kRawLocationsAt = 40;
constexpr size_t kLabelHeaderSize = 32;
constexpr size_t kUuidSize = 32;

Error Corrupt(std::string message) {
  return Error(Code::kCorrupt, std::move(message));
}

// Bounded little-endian reading. Past the end all values are zero, and ok() turns false.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, size_t at) : bytes_(bytes), at_(at) {}

  uint32_t U32() { return static_cast<uint32_t>(Number(4)); }
  uint64_t U64() { return Number(8); }
  std::string_view Text(size_t size) {
    const auto part = Take(size);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  bool ok() const { return ok_; }

 private:
  std::span<const std::byte> Take(size_t size) {
    if (at_ > bytes_.size() || size > bytes_.size() - at_) {
      ok_ = false;
      return {};
    }
    const auto part = bytes_.subspan(at_, size);
    at_ += size;
    return part;
  }
  uint64_t Number(size_t size) {
    uint64_t value = 0;
    const auto part = Take(size);
    for (size_t i = part.size(); i > 0; --i) {
      value = value << 8 | std::to_integer<uint64_t>(part[i - 1]);
    }
    return value;
  }

  std::span<const std::byte> bytes_;
  size_t at_;
  bool ok_ = true;
};

// Reads pairs up to the closing pair of zeroes. Stops at the end of the bytes, where cursor.ok() turns false.
std::vector<DiskArea> ReadAreas(Cursor& cursor) {
  std::vector<DiskArea> areas;
  while (true) {
    const uint64_t offset = cursor.U64();
    const uint64_t size = cursor.U64();
    if (!cursor.ok() || (offset == 0 && size == 0)) {
      return areas;
    }
    areas.push_back({offset, size});
  }
}

// 32 characters in LVM's notation: 6-4-4-4-4-4-6. Empty if a character is not allowed in a UUID.
std::string WithHyphens(std::string_view uuid) {
  constexpr std::string_view kExtra = "!#";  // from LVM1; lib/uuid still accepts them
  std::string out;
  for (size_t i = 0; i < uuid.size(); ++i) {
    const char c = uuid[i];
    const bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!alphanumeric && !kExtra.contains(c)) {
      return {};
    }
    if (i >= 6 && (i - 6) % 4 == 0 && i <= 26) {
      out += '-';
    }
    out += c;
  }
  return out;
}

Status CheckMetadataAreas(const std::vector<DiskArea>& areas) {
  for (const DiskArea& area : areas) {
    if (area.offset % kSectorSize != 0 || area.size <= kMetadataHeaderSize ||
        area.offset < kLabelSectors * kSectorSize || area.offset > UINT64_MAX - area.size) {
      return Corrupt(fmt::format("a metadata area of {} bytes at {} is impossible", area.size, area.offset));
    }
  }
  return Ok();
}

Result<PvLabel> ParsePvHeader(std::span<const std::byte> sector, size_t offset) {
  Cursor cursor(sector, offset);
  PvLabel label;
  label.uuid = WithHyphens(cursor.Text(kUuidSize));
  label.device_size = cursor.U64();
  label.data_areas = ReadAreas(cursor);
  label.metadata_areas = ReadAreas(cursor);
  if (!cursor.ok()) {
    return Corrupt("the PV header reaches out of its sector");
  }
  if (label.uuid.empty()) {
    return Corrupt("the PV's UUID has characters that no UUID can have");
  }
  QUARRY_TRY(CheckMetadataAreas(label.metadata_areas));
  // PVs of LVM before 2.02.99 end here, with zeroes.
  if (cursor.U32() != 0) {
    label.in_group = (cursor.U32() & kInGroupFlag) != 0;
    ReadAreas(cursor);
    if (!cursor.ok()) {
      return Corrupt("the PV header's extension reaches out of its sector");
    }
  }
  return label;
}

// The state that wipefs leaves: it overwrites only the type, by which libblkid recognizes a PV.
bool IsWiped(std::span<const std::byte> sector) {
  const auto type = sector.subspan(kLabelTypeAt, kLabelType.size());
  return std::ranges::all_of(type, [](std::byte b) { return b == std::byte{0}; });
}

Result<PvLabel> ParseLabelSector(std::span<const std::byte> sector, size_t number) {
  Cursor cursor(sector, kLabelId.size());
  const uint64_t own_number = cursor.U64();
  const uint32_t checksum = cursor.U32();
  const uint32_t offset = cursor.U32();
  if (own_number != number) {
    return Corrupt(fmt::format("the label in sector {} says it is in sector {}", number, own_number));
  }
  if (Checksum(sector.subspan(20)) != checksum) {
    return Corrupt(fmt::format("the label in sector {} has a wrong checksum", number));
  }
  if (cursor.Text(kLabelType.size()) != kLabelType) {
    return Corrupt(fmt::format("the label in sector {} is of another type", number));
  }
  if (offset < kLabelHeaderSize) {
    return Corrupt(fmt::format("the PV header of the label in sector {} overlaps it", number));
  }
  return ParsePvHeader(sector, offset).Context(fmt::format("label in sector {}", number));
}

// Zero offset and size mean an empty slot. Its checksum has no meaning.
Result<std::optional<RawLocation>> ReadLocation(Cursor& cursor, DiskArea area, uint32_t& flags) {
  const RawLocation location{cursor.U64(), cursor.U64(), cursor.U32()};
  flags = cursor.U32();
  if (location.offset == 0 && location.size == 0) {
    return std::optional<RawLocation>();
  }
  if (location.offset < kMetadataHeaderSize || location.offset >= area.size || location.size == 0 ||
      location.size > area.size - kMetadataHeaderSize) {
    return Corrupt(fmt::format("a text of {} bytes at {} cannot be in a metadata area of {} bytes",
                               location.size, location.offset, area.size));
  }
  return std::optional(location);
}

}  // namespace

Result<PvLabel> ParseLabel(std::span<const std::byte> front) {
  std::optional<Error> first_failure;
  for (size_t number = 0; number < kLabelSectors && (number + 1) * kSectorSize <= front.size(); ++number) {
    const auto sector = front.subspan(number * kSectorSize, kSectorSize);
    if (std::memcmp(sector.data(), kLabelId.data(), kLabelId.size()) != 0 || IsWiped(sector)) {
      continue;
    }
    auto label = ParseLabelSector(sector, number);
    if (label.has_value()) {
      return label;
    }
    if (!first_failure.has_value()) {
      first_failure = std::move(label.error());
    }
  }
  if (first_failure.has_value()) {
    return std::move(*first_failure);
  }
  return Error(Code::kNotFound, "no LVM2 label");
}

Result<MetadataHeader> ParseMetadataHeader(std::span<const std::byte> block, DiskArea area) {
  if (block.size() < kMetadataHeaderSize) {
    return Corrupt("metadata header: cut short");
  }
  block = block.first(kMetadataHeaderSize);
  Cursor cursor(block, 0);
  if (cursor.U32() != Checksum(block.subspan(4))) {
    return Corrupt("metadata header: wrong checksum");
  }
  if (cursor.Text(kMagic.size()) != kMagic) {
    return Corrupt("metadata header: no magic");
  }
  if (const uint32_t version = cursor.U32(); version != kMetadataVersion) {
    return Corrupt(fmt::format("metadata header: version {}", version));
  }
  const DiskArea own{cursor.U64(), cursor.U64()};
  if (own != area) {
    return Corrupt(fmt::format("metadata header: its area has {} bytes at {}, the label says {} at {}",
                               own.size, own.offset, area.size, area.offset));
  }
  MetadataHeader header;
  uint32_t flags = 0;
  uint32_t unused = 0;
  Cursor locations(block, kRawLocationsAt);
  QUARRY_ASSIGN(header.committed, ReadLocation(locations, area, flags));
  QUARRY_ASSIGN(header.precommitted, ReadLocation(locations, area, unused));
  header.ignored = (flags & kIgnoredFlag) != 0;
  return header;
}

std::vector<DiskArea> TextPieces(DiskArea area, const RawLocation& location) {
  const uint64_t to_end = area.size - location.offset;
  if (location.size <= to_end) {
    return {{area.offset + location.offset, location.size}};
  }
  return {{area.offset + location.offset, to_end},
          {area.offset + kMetadataHeaderSize, location.size - to_end}};
}

// zlib inverts the value before and after; LVM does not.
uint32_t Checksum(std::span<const std::byte> data, uint32_t seed) {
  return ~static_cast<uint32_t>(
      crc32_z(~seed, reinterpret_cast<const unsigned char*>(data.data()), data.size()));
}

}  // namespace quarry::lvm
