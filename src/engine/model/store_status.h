// A thin store as an administrator and monitoring see it. calls/store_report.cc finds it out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "engine/model/volume.h"

namespace quarry::engine {

// What can be done with a store as a whole. Whatever its legs lack is not in here.
enum class StoreMode {
  kReadWrite,   // everything
  kFilling,     // everything; it is overcommitted, and filled up to StoreConfig::warn
  kNearlyFull,  // nothing is made in it; it is overcommitted, and filled up to StoreConfig::refuse
  kOutOfSpace,  // the kernel found no free chunk for a write. That is possible only if it overcommits
  kReadOnly,    // the kernel refuses every change of the metadata
  kFailed,      // the kernel fails all I/O
  kNeedsCheck,  // the kernel wants the metadata checked before anything else
  kNotZeroing,  // new chunks are not zeroed any more, so quarryd makes and starts nothing in it
  kNotStarted,  // the kernel does not have it
  kDamaged,     // likewise: LVM does not start it, because its metadata are damaged
  kMismatch,    // likewise: LVM does not start it, because its metadata are not those of LVM's text
  kNotMade,     // the configuration names it, and it is not there
  kUnreadable,  // it is there, and this build cannot read its tags
  kUnknown,     // the kernel could not be asked
};
// The word that callers see: "rw", "filling", "nearly-full", "out-of-space", "read-only", "failed",
// "needs-check", "not-zeroing", "not-started", "damaged", "mismatch", "not-made", "unreadable", "unknown".
std::string_view StoreModeName(StoreMode mode);

// What the kernel counts of a store. At most a second old.
struct StoreUse {
  Bytes data;      // in chunks that volumes have written
  Bytes metadata;  // in use, of metadata_size
  Bytes metadata_size;
};

// Data or metadata of a store, if it has legs that can be compared.
struct StorePart {
  std::string id;  // for Upkeep::Scrub
  bool is_metadata = false;
  std::optional<ScrubOutcome> scrubbed = {};  // nullopt: never
  bool scrub_pending = false;                 // requested, or running
};

struct StoreStatus {
  std::string name;
  StoreMode mode = StoreMode::kUnknown;
  // Why the mode is not kReadWrite, or why the store is not as large as the configuration wants it. Empty:
  // neither, or not known.
  std::string problem = {};
  // The rest is empty or 0 for kNotMade and kUnreadable.
  std::string id = {};         // for Upkeep::Repair
  std::string lv_name = {};    // of its thin pool
  std::string layout = {};     // of its data, in words: "raid5 with 3 stripes"
  std::string condition = {};  // of its legs: the word of ConditionWord()
  std::string detail = {};     // what ails the legs, or what is done with them; may be empty
  std::optional<uint32_t> percent = {};
  Bytes chunk = {};
  Bytes size = {};        // of its data; for kNotMade: as the configuration wants it
  Bytes promised = {};    // sizes of all volumes in it, also of those that are being erased
  Bytes promisable = {};  // what may be promised: `size`, more if it is overcommitted
  Bytes most = {};        // up to which it grows by itself; 0: it does not
  // Of an overcommitted store: FillTrend::TimeToFull of its data, without any growth.
  std::optional<std::chrono::seconds> full_in = {};
  Bytes free = {};                   // the largest volume that could be made in it now
  std::string full = {};             // why `free` is 0; empty: it is not
  std::optional<StoreUse> use = {};  // nullopt: the kernel does not have the store, or it has failed
  size_t legs = 0;                   // of data and metadata together
  size_t degraded_legs = 0;          // of these: missing, failed, or being rebuilt
  size_t volumes = 0;                // complete volumes and snapshots of Quarry
  std::vector<StorePart> parts = {};
};

// A logical volume in a store.
struct StoreVolume {
  std::string kind;      // "volume", "snapshot", "erasing", "half-made", "unmanaged"
  std::string id, name;  // may be empty
  std::string lv_name;
  Bytes size;
  std::optional<Bytes> mapped = {};     // in chunks that it has in the store, shared ones included
  std::optional<Bytes> exclusive = {};  // in chunks that only it has: what its deletion gives back
};

struct StoreDetail {
  std::string pool, group;
  StoreStatus store;
  std::vector<StoreVolume> volumes;  // by name of the logical volume
  std::string unknown;               // why mapped or exclusive bytes are missing; empty: they are not
};

}  // namespace quarry::engine
