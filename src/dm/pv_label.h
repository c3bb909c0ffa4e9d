// The label that LVM2 writes into one of the first four sectors of a physical volume (lvm2:
// lib/label/label.h, lib/format_text/layout.h). Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace quarry::dm {

// Bytes to read to find a label: four sectors of 512 bytes, whatever the device's own sector size.
inline constexpr size_t kPvLabelScan = 4 * 512;

struct PvArea {
  Bytes offset;
  Bytes length;  // 0 for a data area that extends to the end of the device
};

struct PvLabel {
  std::string uuid;  // LVM's form: six groups, joined by hyphens
  Bytes device_size;
  std::vector<PvArea> data;      // exactly one; its offset is where extent 0 begins
  std::vector<PvArea> metadata;  // at most two
};

// `start` is the beginning of a device. kCorrupt: no label, or its checksum, place or contents are wrong.
Result<PvLabel> ParsePvLabel(std::span<const std::byte> start);

// Whether [offset, offset + length) has only extents: behind the start of the data area, clear of every
// metadata area, not beyond `device_size`. kCorrupt says what else is in the range.
Status CheckWithinExtents(const PvLabel& label, Bytes offset, Bytes length, Bytes device_size);

}  // namespace quarry::dm
