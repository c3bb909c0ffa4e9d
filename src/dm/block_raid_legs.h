// Superblocks of raid legs on block devices.
#pragma once

#include <chrono>
#include <memory>

#include "dm/raid_legs_api.h"

namespace quarry::dm {

// Bypasses the page cache, as the kernel does when it writes superblocks.
//
// A failing disk may hold a read for minutes, and no signal ends the read. So reads run in threads of their
// own. If a read does not end in time, its caller stops waiting, and the device is not read again before that
// read ends.
class BlockRaidLegs final : public RaidLegsApi {
 public:
  explicit BlockRaidLegs(std::chrono::milliseconds patience = std::chrono::milliseconds(5000));

  Result<RaidSuperblock> Read(const EraseRange& place) override;
  Result<RaidBitmap> ReadBitmap(const EraseRange& place) override;
  Status Write(const EraseRange& place, const RaidSuperblock& was, const RaidStart& start) override;

 private:
  struct Asked;
  template <typename T, typename Function>
  Result<T> InTime(const EraseRange& place, Function read) const;

  const std::chrono::milliseconds patience_;
  const std::shared_ptr<Asked> asked_;
};

}  // namespace quarry::dm
