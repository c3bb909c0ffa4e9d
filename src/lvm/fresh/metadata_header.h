// The fixed part of LVM2's on-disk format, read only: the label at the front of a physical volume, and the
// 512-byte header of each metadata area. Pure: bytes in, values out; safe for any input.
//
// All numbers are little-endian. Checksums are LVM's CRC (reflected 0xEDB88320, started at 0xF597A6CF, not
// inverted at the end). Checked against lvm2 2.03.16 and 2.03.31: docs/freshness.md.
//
//   label, 512 bytes, in one of the first four sectors (LVM writes the second by default):
//     0 "LABELONE"   8 u64 own sector number   16 u32 CRC of bytes 20..511   20 u32 offset of the PV header
//     24 "LVM2 001"
//   PV header: 32 characters of UUID, u64 device size, then data areas, then metadata areas: each list is
//     {u64 offset, u64 size} pairs closed by a pair of zeroes; then u32 extension version, and if that is
//     not 0: u32 flags (1: belongs to a group) and the list of bootloader areas.
//   metadata area header: 0 u32 CRC of bytes 4..511   4 magic, 16 bytes   20 u32 version 1   24 u64 own
//     offset on the device   32 u64 size of the area   40 two raw locations of 24 bytes each: u64 offset
//     from the start of the area, u64 size, u32 CRC of the text, u32 flags (1: area ignored).
//
// The first location is the committed text; if it is all zero, there is no text and the PV is in no group.
// The second is set between an LVM command's precommit and its commit, and remains after a command that died
// there. LVM itself reads only the first, and so does Quarry: a text that only the second names was never
// committed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace quarry::lvm {

inline constexpr size_t kSectorSize = 512;
inline constexpr size_t kLabelSectors = 4;
inline constexpr size_t kMetadataHeaderSize = 512;

// In bytes from the start of the device. In a list of data areas, size 0 means "to the end".
struct DiskArea {
  uint64_t offset = 0;
  uint64_t size = 0;
  bool operator==(const DiskArea&) const = default;
};

struct PvLabel {
  std::string uuid;  // LVM's form, with hyphens
  uint64_t device_size = 0;
  std::vector<DiskArea> data_areas;
  std::vector<DiskArea> metadata_areas;
  bool in_group = false;  // from the extension; false if there is no extension
  bool operator==(const PvLabel&) const = default;
};

// The label in the first sectors of a device. `front` has the device's first bytes, four sectors or more. As
// in LVM, the first valid label counts. kNotFound: no sector starts like a label, or wipefs erased it.
// kCorrupt: a sector starts like a label, but no label is valid; the message says why.
Result<PvLabel> ParseLabel(std::span<const std::byte> front);

// Where a text is in its area, and its checksum.
struct RawLocation {
  uint64_t offset = 0;  // from the start of the area
  uint64_t size = 0;
  uint32_t checksum = 0;
  bool operator==(const RawLocation&) const = default;
};

struct MetadataHeader {
  std::optional<RawLocation> committed;  // nullopt: no group's metadata
  std::optional<RawLocation> precommitted;
  bool ignored = false;  // not in use: LVM writes no text here, and the text of `committed` may be outdated
  bool operator==(const MetadataHeader&) const = default;
};

// The header of `area`. `block` has its 512 bytes. kCorrupt with the reason: checksum, magic, version, the
// header of another area, or a text beyond the area.
Result<MetadataHeader> ParseMetadataHeader(std::span<const std::byte> block, DiskArea area);

// Where a text is on the device: one piece, or two if it wraps around the end of its area. The second piece
// then starts directly behind the area's header.
std::vector<DiskArea> TextPieces(DiskArea area, const RawLocation& location);

// LVM's checksum, continued from `seed` for data in several pieces.
inline constexpr uint32_t kChecksumSeed = 0xF597A6CF;
uint32_t Checksum(std::span<const std::byte> data, uint32_t seed = kChecksumSeed);

}  // namespace quarry::lvm
