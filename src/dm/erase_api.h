// Erases extents on the disks below LVM, without device-mapper. Works for every volume type, and can be
// resumed by offset.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"

namespace quarry::dm {

enum class EraseMethod {
  kZero,  // the range reads as zeroes afterwards: BLKZEROOUT (write zeroes, or the kernel writes zero pages)
  kDiscard,  // BLKDISCARD: advisory, old bytes may stay readable
};

struct EraseRange {
  std::string device;  // path of the PV
  std::string
      pv_uuid;   // LVM's form; nothing is written unless the PV label on the opened device has this UUID
  Bytes offset;  // from the start of the device
  Bytes length;
};

// A range of a device that is open.
struct OpenRange {
  Bytes offset, length;
};

// Safe from any thread.
class EraseApi {
 public:
  virtual ~EraseApi() = default;

  // Erases [offset, offset + length) in pieces of at most 1 GiB, checks `call` between pieces, then flushes
  // the device. `progress`, if given, gets the bytes done so far after each piece. kCorrupt: the device is
  // not that PV; nothing was written. kUnsupported: the device cannot discard. It is safe to repeat.
  virtual Status Erase(const EraseRange& range, EraseMethod method, const Call& call,
                       const std::function<void(Bytes)>& progress) = 0;

  // Zeroes ranges of an open device, checks `call` between them, and then flushes the device (BLKZEROOUT,
  // fsync). `fd` is writable. It is safe to repeat.
  virtual Status Zero(int fd, const std::vector<OpenRange>& ranges, const Call& call) = 0;

  // Zeroes a range of an open thin device, flushes the data device of its pool, which is open as `data`, and
  // then gives the chunks back to the pool (BLKZEROOUT, fsync, BLKDISCARD). The data device, because dm-thin
  // takes a flush for a write to the first chunk: if that is free, and the pool out of space, the flush waits
  // for the space that it is to free. Only whole chunks are given back, and none if the pool ignores
  // discards, which is no error. All chunks of the range are mapped, and the volume alone has them. `fd` is
  // writable. It is safe to repeat.
  virtual Status ZeroAndFree(int fd, int data, Bytes offset, Bytes length, const Call& call) = 0;
};

}  // namespace quarry::dm
