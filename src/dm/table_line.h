// The sectors of a block device that a target of a device-mapper table maps.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace quarry::dm {

struct SectorRange {
  uint64_t first = 0;
  uint64_t count = UINT64_MAX;  // UINT64_MAX: to the device's end
  bool operator==(const SectorRange&) const = default;
};

// `type`, `length` (in sectors) and `parameters` as DM_TABLE_STATUS returns them with the flag for tables.
// `device` as tables name it, "8:16". Empty if the table does not name the device. The whole device, if the
// target's type does not tell which sectors it maps. Pure.
std::vector<SectorRange> SectorsTaken(std::string_view type, uint64_t length, std::string_view parameters,
                                      std::string_view device);

}  // namespace quarry::dm
