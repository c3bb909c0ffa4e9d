// The requests of quarryctl to the running quarryd. Adoption and release change things, so the process that
// serves the volumes carries them out, under its locks. quarryd also reports the disks, because it knows why
// each one is or is not in a pool.
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
#include "ctl/check.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace quarry::ctl {

struct AdoptWish {
  std::string group, lv_name;
  std::string name, fs_type, erase;  // empty: quarryd's defaults
  bool dry_run = false;
};

// Client of a quarryd behind a unix socket. Every call returns the text to print. kUnavailable if no quarryd
// answers on the socket. All other errors come from quarryd, with its text. For one thread.
class AdminClient {
 public:
  // Connects at the first use.
  AdminClient(const AbsolutePath& socket, bool json);
  const AbsolutePath& socket() const { return socket_; }

  // For clients of the other services on the same socket.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  Result<std::string> Adopt(const AdoptWish& wish, const Call& call);

  // Adopts all csilvm volumes of the group one by one, each within `limit`. A refused volume does not stop
  // the rest.
  struct Bulk {
    std::string text;
    size_t refused = 0;
  };
  Result<Bulk> AdoptCsilvm(const AdoptWish& wish, std::chrono::milliseconds limit);

  Result<std::string> Release(const std::string& id, bool dry_run, const Call& call);

  // Every disk of the node, as a table or as JSON.
  Result<std::string> Devices(const Call& call);

  // The calls that quarryd remembers and that the id (of a trace or volume) and the least duration select.
  // With an id: with all their steps. kNotFound if an id selects none.
  Result<std::string> ShowCalls(const std::string& id, std::chrono::milliseconds slow, const Call& call);

  // Pools, disks and volumes, with their state.
  Result<std::string> ShowStatus(const Call& call);

  // Thin stores of all pools, as a table or as JSON.
  Result<std::string> ListStores(const Call& call);
  // One thin store, by name or id, and the volumes in it. `pool`: empty for any. `exclusive`: also count what
  // only one volume has. kNotFound: there is no such store.
  Result<std::string> ShowStore(const std::string& pool, const std::string& store, bool exclusive,
                                const Call& call);

  // Repairs a thin store, or says what that would take. Returns the text to print.
  Result<std::string> RepairStore(const std::string& pool, const std::string& store, bool dry_run,
                                  const Call& call);

  // Makes quarryd read its settings again. `in_force` is false if a changed setting needs a restart: the text
  // names it.
  struct Reloaded {
    std::string text;
    bool in_force = true;
  };
  Result<Reloaded> Reload(const Call& call);

  // Judges the same state as ShowStatus. kTimeout: quarryd did not answer in time.
  Result<CheckReport> Check(const CheckLimits& limits, const Call& call);

  // The text includes repairs that are needed but not possible; `obstacles` counts those.
  struct Repaired {
    std::string text;
    size_t obstacles = 0;
  };
  // `ids`: volumes to start from the legs that are present, although missing legs may be newer.
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
  // Starts the evacuation of a disk. Returns once the request is recorded.
  Result<Evacuation> Evacuate(const EvacuateWish& wish, const Call& call);
  // Bytes still on a disk that is being evacuated; 0 once the disk has left its group. kPrecondition: the
  // disk is no longer being evacuated.
  Result<int64_t> LeftOn(const std::string& pv_uuid, const Call& call);

  // The scrubs that one request started. A scrub may have to wait for others.
  struct Scrubbing {
    struct Volume {
      std::string id, name;
      std::string refusal;  // why the volume is not scrubbed; empty: it is scrubbed
    };
    std::vector<Volume> volumes;
    int64_t asked_at = 0;  // seconds since 1970
  };
  // `ids`: empty for every volume that has more than one leg.
  Result<Scrubbing> Scrub(const std::vector<std::string>& ids, bool repair, const Call& call);
  struct ScrubState {
    bool pending = false;             // requested or running
    std::optional<uint32_t> percent;  // while it runs
    int64_t ended_at = 0;             // end of the last complete scrub; 0: never
    int64_t mismatched = 0;           // bytes
  };
  // kPrecondition: the volume does not exist.
  Result<ScrubState> ScrubOf(const std::string& id, const Call& call);

 private:
  AbsolutePath socket_;
  std::shared_ptr<grpc::Channel> channel_;
  bool json_;
};

}  // namespace quarry::ctl
