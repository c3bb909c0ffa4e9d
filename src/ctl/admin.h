// What quarryctl asks of the quarryd that runs: adoption and its opposite, which change things, so the
// process that serves the volumes does them, under its locks; and the disks, of which it knows what it did.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/path.h"
#include "base/result.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace quarry::ctl {

struct AdoptWish {
  std::string group, lv_name;
  std::string name, fs_type, erase;  // empty: quarryd's defaults
  bool dry_run = false;
};

// A quarryd behind a unix socket. Every call returns what to print. kUnavailable if none answers there; the
// other errors are quarryd's, in its words. One thread.
class AdminClient {
 public:
  // Connects when first used.
  AdminClient(const AbsolutePath& socket, bool json);

  Result<std::string> Adopt(const AdoptWish& wish, const Call& call);

  // Everything of csilvm's in the group, one by one, each within `limit`: what is refused does not stop the
  // rest.
  struct Bulk {
    std::string text;
    size_t refused = 0;
  };
  Result<Bulk> AdoptCsilvm(const AdoptWish& wish, std::chrono::milliseconds limit);

  Result<std::string> Release(const std::string& id, bool dry_run, const Call& call);

  // Every disk of the node, as a table or as JSON.
  Result<std::string> Devices(const Call& call);

  // Pools, disks and volumes, and how they are.
  Result<std::string> ShowStatus(const Call& call);

  // What ought to be done and could not be is part of the text, and `obstacles` counts it.
  struct Repaired {
    std::string text;
    size_t obstacles = 0;
  };
  // `ids`: volumes that are started from the legs that are there, though others may be newer.
  Result<Repaired> Repair(const std::vector<std::string>& ids, const Call& call);

  struct EvacuateWish {
    std::string disk;  // UUID of its physical volume, or any path of it
    bool rebuild = false, cancel = false, dry_run = false;
  };
  struct Evacuation {
    std::string text;
    std::string pv_uuid;
    int64_t to_move = 0;  // bytes
  };
  // Has a disk emptied: returns once that is written down.
  Result<Evacuation> Evacuate(const EvacuateWish& wish, const Call& call);
  // Bytes that are still on a disk that is being emptied; 0 once it has left. kPrecondition: it is not being
  // emptied any more.
  Result<int64_t> LeftOn(const std::string& pv_uuid, const Call& call);

  // Legs that are being compared, now or after others.
  struct Scrubbing {
    struct Volume {
      std::string id, name;
      std::string refusal;  // why they are not; empty: they are
    };
    std::vector<Volume> volumes;
    int64_t asked_at = 0;  // seconds since 1970
  };
  // `ids`: none for every volume that has more than one leg.
  Result<Scrubbing> Scrub(const std::vector<std::string>& ids, bool repair, const Call& call);
  struct ScrubState {
    bool pending = false;             // wanted, or going on
    std::optional<uint32_t> percent;  // while it goes on
    int64_t ended_at = 0;             // the last time that it came to its end; 0: never
    int64_t mismatched = 0;           // bytes
  };
  // kPrecondition: there is no such volume.
  Result<ScrubState> ScrubOf(const std::string& id, const Call& call);

 private:
  std::shared_ptr<grpc::Channel> channel_;
  bool json_;
};

}  // namespace quarry::ctl
