// The seam to the metadata of a thin pool that the kernel does not have: what they say, whether they are
// sound, and sound metadata made of damaged ones.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"

namespace quarry::thin {

// A thin device, as the metadata of its pool have it.
struct StoredDevice {
  uint64_t transaction_id = 0;  // of the pool when the device was made
  Bytes mapped;                 // in whole chunks, shared ones too
};

struct StoredPool {
  uint64_t transaction_id = 0;
  std::map<uint32_t, StoredDevice> devices;  // by id
};

// Every path is that of a device or file with metadata, which nothing else uses meanwhile. Calls may come
// from any thread. They wait for disks, and Check() and Repair() for a child process.
class RepairApi {
 public:
  virtual ~RepairApi() = default;

  // OK: the tools of Check() and Repair() are installed. kPrecondition: the message names the package.
  virtual Status Ready() = 0;

  // Reads the superblock, the two trees of devices, and all mappings. An answer is complete. kCorrupt: a
  // block of these is damaged, or a device has not as many mappings as the pool counted. kUnsupported: an
  // unknown format. kUnavailable: the device is not there.
  virtual Result<StoredPool> Look(const std::string& metadata, const Call& call) = 0;

  // What `repaired` says otherwise than `former`, in words, by device: whether there is one, its details, and
  // each mapping with its time. Empty: both say the same, except for the transaction id of the pool.
  // kCorrupt: one of the two cannot be read completely, or they differ in what concerns the whole pool. Other
  // errors as for Look().
  virtual Result<std::map<uint32_t, std::string>> Compare(const std::string& former,
                                                          const std::string& repaired, const Call& call) = 0;

  // OK: every block is sound and counted, so the kernel may use the metadata; a mark that they must be
  // checked does not matter. kCorrupt: damage, in the words of the tool. kPrecondition: the tool is not
  // installed. (thin_check(8))
  virtual Status Check(const std::string& metadata, const Call& call) = 0;

  // Writes to `to` what can be read of `from`, with space maps made again, and without the mark that they
  // must be checked; and flushes it (fsync(2)). What cannot be read is left out without an error: Compare()
  // shows that. `transaction_id`: the pool gets this one; nullopt: it keeps its own. `from` is only read. May
  // be repeated. kCorrupt: nothing useful can be read. kIo: `to` cannot be flushed. kPrecondition: the tool
  // is not installed. (thin_repair(8))
  virtual Status Repair(const std::string& from, const std::string& to,
                        std::optional<uint64_t> transaction_id, const Call& call) = 0;
};

}  // namespace quarry::thin
