// Superblocks of raid legs on block devices.
#pragma once

#include <chrono>
#include <memory>

#include "dm/raid_legs_api.h"

namespace quarry::dm {

// Past the page cache, as the kernel writes them.
//
// A disk in trouble may keep a read for minutes, and no signal ends that: reads are made by threads of their
// own. One that does not end in time goes on by itself, and the device is not asked again before.
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
