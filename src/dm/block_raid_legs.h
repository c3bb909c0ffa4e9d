// Superblocks of raid legs on block devices.
#pragma once

#include <chrono>
#include <memory>

#include "dm/raid_legs_api.h"

namespace quarry::dm {

// Bypasses the page cache, as the kernel does when it writes superblocks.
//
// A failing disk may hold a read for minutes, and no signal ends that. So reads run in threads of their own.
// A read that does not end in time is left to itself, and its device is not read again until it ends.
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
