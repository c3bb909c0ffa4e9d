// Parses any bytes as a label, metadata headers and the areas that they point to: no crash, no read beyond
// the bytes, and what is accepted obeys the limits that its readers rely on. Entry point for libFuzzer; a
// unit test feeds it mutations of real headers too.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "lvm/fresh/metadata_header.h"

namespace {

void Require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void CheckHeader(std::span<const std::byte> bytes, quarry::lvm::DiskArea area) {
  const auto header = quarry::lvm::ParseMetadataHeader(bytes, area);
  if (!header.has_value()) {
    return;
  }
  for (const auto& location : {header->committed, header->precommitted}) {
    if (!location.has_value()) {
      continue;
    }
    uint64_t total = 0;
    for (const auto& piece : quarry::lvm::TextPieces(area, *location)) {
      Require(piece.offset >= area.offset + quarry::lvm::kMetadataHeaderSize);
      Require(piece.offset + piece.size <= area.offset + area.size);
      total += piece.size;
    }
    Require(total == location->size);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto label = quarry::lvm::ParseLabel(bytes);
  if (!label.has_value()) {
    // Parses the bytes as a bare header of LVM's default area, too.
    CheckHeader(bytes, {4096, 1020 * 1024});
    return 0;
  }
  Require(label->uuid.size() == 38);
  for (const auto& area : label->metadata_areas) {
    Require(area.offset >= quarry::lvm::kLabelSectors * quarry::lvm::kSectorSize);
    Require(area.offset + area.size > area.offset);
    if (area.offset < bytes.size()) {
      CheckHeader(bytes.subspan(area.offset), area);
    }
  }
  return 0;
}
