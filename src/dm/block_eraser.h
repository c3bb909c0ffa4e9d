// Erasing through the block layer: BLKZEROOUT and BLKDISCARD (linux/fs.h).
#pragma once

#include <functional>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"
#include "dm/erase_api.h"

namespace quarry::dm {

// Stateless; any thread, also several on one device. The device is opened for writing but not exclusively,
// since LVM and device-mapper have it. Before the first byte is touched the LVM label on the opened device
// must bear the right UUID and place the range among the extents: behind the label and clear of all metadata.
//
// The kernel does a piece in one go that no signal ends; a deadline or stop is seen between pieces.
class BlockEraser final : public EraseApi {
 public:
  Status Erase(const EraseRange& range, EraseMethod method, const Call& call,
               const std::function<void(Bytes)>& progress) override;
};

}  // namespace quarry::dm
