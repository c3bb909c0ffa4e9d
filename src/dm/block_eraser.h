// Erasing through the block layer: BLKZEROOUT and BLKDISCARD (linux/fs.h).
#pragma once

#include <functional>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"
#include "dm/erase_api.h"

namespace quarry::dm {

// Stateless. Safe from any thread, also several threads on one device. The device is opened for writing but
// not exclusively, because LVM and device-mapper have it open. Before the first byte is written, the LVM
// label on the opened device must have the right UUID, and must show that the range has only extents: no
// label, no metadata area.
//
// The kernel handles each piece in one ioctl, and no signal ends the ioctl. Deadline and stop request are
// checked between pieces.
class BlockEraser final : public EraseApi {
 public:
  Status Erase(const EraseRange& range, EraseMethod method, const Call& call,
               const std::function<void(Bytes)>& progress) override;
  Status Zero(int fd, const std::vector<OpenRange>& ranges, const Call& call) override;
  Status ZeroAndFree(int fd, int data, Bytes offset, Bytes length, const Call& call) override;
};

}  // namespace quarry::dm
