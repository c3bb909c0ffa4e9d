#include "dm/pv_label.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/little_endian.h"

namespace quarry::dm {
namespace {

constexpr size_t kSector = 512;
constexpr std::string_view kLabelId = "LABELONE";
constexpr std::string_view kLabelType = "LVM2 001";

// struct label_header, then struct pv_header at the offset that the label names. All little-endian.
enum LabelField : size_t {
  kId = 0,
  kSectorNumber = 8,
  kChecksum = 16,
  kContentOffset = 20,
  kType = 24,
  kHeaderEnd = 32
};
constexpr size_t kUuidLength = 32;
constexpr std::string_view kUuidCharacters =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!#";
constexpr size_t kAreaLength = 16;  // offset, size

using little_endian::Load;
using Raw = std::span<const std::byte>;

bool Matches(Raw raw, size_t offset, std::string_view text) {
  return std::memcmp(raw.data() + offset, text.data(), text.size()) == 0;
}

// LVM's checksum: the reflected IEEE 802.3 polynomial, LVM's own start value, no final inversion.
uint32_t Checksum(Raw raw) {
  uint32_t crc = 0xF597A6CF;
  for (const std::byte byte : raw) {
    crc ^= std::to_integer<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0U);
    }
  }
  return crc;
}

Error Corrupt(std::string_view what) {
  return Error(Code::kCorrupt, fmt::format("LVM label: {}", what));
}

// 32 characters of A-Z a-z 0-9 as LVM prints them: 6-4-4-4-4-4-6.
std::optional<std::string> FormatUuid(Raw raw) {
  std::string out;
  for (size_t i = 0; i < kUuidLength; ++i) {
    const char c = static_cast<char>(raw[i]);
    if (kUuidCharacters.find(c) == std::string_view::npos) {
      return std::nullopt;
    }
    if (i >= 6 && i <= 26 && (i - 6) % 4 == 0) {
      out += '-';
    }
    out += c;
  }
  return out;
}

// Reads a list of areas up to the empty area that ends it. False if the list runs out of the sector first.
bool TakeAreas(Raw sector, size_t& at, std::vector<PvArea>& out) {
  for (; at + kAreaLength <= sector.size(); at += kAreaLength) {
    const uint64_t offset = Load(sector, at, 8);
    const uint64_t size = Load(sector, at + 8, 8);
    if (offset == 0) {
      at += kAreaLength;
      return true;
    }
    out.push_back({{offset}, {size}});
  }
  return false;
}

Result<PvLabel> ParseSector(Raw sector, uint64_t number) {
  if (Load(sector, kSectorNumber, 8) != number) {
    return Corrupt(
        fmt::format("found in sector {}, says it is from sector {}", number, Load(sector, kSectorNumber, 8)));
  }
  if (Load(sector, kChecksum, 4) != Checksum(sector.subspan(kContentOffset))) {
    return Corrupt("wrong checksum");
  }
  size_t at = Load(sector, kContentOffset, 4);
  if (at < kHeaderEnd || at > kSector - kUuidLength - 8) {
    return Corrupt(fmt::format("contents at impossible offset {}", at));
  }
  const auto uuid = FormatUuid(sector.subspan(at));
  if (!uuid) {
    return Corrupt("the UUID has impossible characters");
  }
  PvLabel label{*uuid, {Load(sector, at + kUuidLength, 8)}, {}, {}};
  at += kUuidLength + 8;
  if (!TakeAreas(sector, at, label.data) || !TakeAreas(sector, at, label.metadata)) {
    return Corrupt("a list of areas does not end");
  }
  if (label.data.size() != 1) {
    return Corrupt(fmt::format("{} data areas instead of one", label.data.size()));
  }
  return label;
}

}  // namespace

Result<PvLabel> ParsePvLabel(Raw start) {
  for (size_t number = 0; number < kPvLabelScan / kSector && start.size() >= (number + 1) * kSector;
       ++number) {
    const Raw sector = start.subspan(number * kSector, kSector);
    if (Matches(sector, kId, kLabelId) && Matches(sector, kType, kLabelType)) {
      return ParseSector(sector, number);
    }
  }
  return Corrupt("there is none");
}

Status CheckWithinExtents(const PvLabel& label, Bytes offset, Bytes length, Bytes device_size) {
  const auto refuse = [&](std::string_view why) {
    return Error(Code::kCorrupt, fmt::format("bytes {}+{} {}", offset.value, length.value, why));
  };
  if (offset > device_size || length > device_size - offset) {
    return refuse(fmt::format("reach beyond the end of the device at {}", device_size.value));
  }
  const PvArea& data = label.data.front();
  if (offset < data.offset) {
    return refuse(fmt::format("begin before the first extent at {}", data.offset.value));
  }
  if (data.length.value != 0 && offset - data.offset + length > data.length) {
    return refuse("reach beyond the data area");
  }
  for (const PvArea& area : label.metadata) {
    if (area.offset > device_size || area.length > device_size - area.offset) {
      return refuse(fmt::format("cannot be checked: metadata area {}+{} is not on the device",
                                area.offset.value, area.length.value));
    }
    // Both ranges are on the device, so neither sum overflows.
    if (offset < area.offset + area.length && area.offset < offset + length) {
      return refuse(fmt::format("hit the metadata area {}+{}", area.offset.value, area.length.value));
    }
  }
  return Ok();
}

}  // namespace quarry::dm
