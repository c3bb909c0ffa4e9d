// Copies the bytes of one block device to another, past the page cache.
#pragma once

#include <functional>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"

namespace quarry::engine {

struct DeviceCopy {
  int from = -1;  // open for reading, not owned
  int to = -1;    // open for writing, not owned
  Bytes length;   // of both, from their beginnings; whole sectors
  // The destination is known to read as zeroes: pieces that are zero are read and not written.
  bool to_is_zero = false;
  // The destination may have some of the bytes already: it is read too, and pieces that are equal are not
  // written. Ends when so many pieces differ in a row that nothing more is to be expected.
  bool compare = false;
  // Bytes of the source a second, at most; 0: as fast as possible. Pieces that are equal count a quarter.
  Bytes rate;
};

// Copies, then flushes the destination (fsync). Callers open both devices exclusively, so that nobody mounts
// them meanwhile. `progress`, if not empty, gets the bytes done so far after each MiB. Checks `call` as
// often. A read or write that the kernel does not answer is waited for. kIo: a device failed, or ended before
// `length`. It is safe to repeat. pread(2), pwrite(2), O_DIRECT where the descriptors have it. Thread-safe.
Status CopyDevice(const DeviceCopy& copy, const Call& call, const std::function<void(Bytes)>& progress);

}  // namespace quarry::engine
