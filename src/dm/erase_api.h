// Clearing extents on the disks below LVM, past device-mapper: works for every volume type, resumable by
// offset.
#pragma once

#include <functional>
#include <string>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"

namespace quarry::dm {

enum class EraseMethod {
  kZero,  // afterwards the range reads as zeroes: BLKZEROOUT (write zeroes, or the kernel writes zero pages)
  kDiscard,  // BLKDISCARD: advisory, may leave old bytes; not erasure
};

struct EraseRange {
  std::string device;   // path of the PV
  std::string pv_uuid;  // LVM's form; the PV label on the opened device must bear it, else nothing is touched
  Bytes offset;         // from the start of the device
  Bytes length;
};

// Any thread.
class EraseApi {
 public:
  virtual ~EraseApi() = default;

  // Clears [offset, offset + length) in pieces of at most 1 GiB, checking `call` between them, then flushes
  // the device. `progress`, if given, gets the bytes done so far after each piece. kCorrupt: the device is
  // not that PV; nothing was written. kUnsupported: the device cannot discard. Repeating it is harmless.
  virtual Status Erase(const EraseRange& range, EraseMethod method, const Call& call,
                       const std::function<void(Bytes)>& progress) = 0;
};

}  // namespace quarry::dm
