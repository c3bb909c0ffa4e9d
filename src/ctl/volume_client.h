// The requests of quarryctl about volumes. They are those of CSI, and Mount and Unmount of the admin service,
// all on quarryd's admin socket.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <quarry/admin/v1/admin.pb.h>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace quarry::ctl {

// Whether it is mounted or published at this path now.
bool IsUsedAt(const quarry::admin::v1::GetStatusResponse::Volume& volume, const std::string& path);

// A volume or a snapshot.
struct VolumeRow {
  quarry::admin::v1::GetStatusResponse::Volume facts;
  std::string pool, group;
  bool is_snapshot() const { return !facts.snapshot_of().empty(); }
  bool IsUsedAt(const std::string& path) const { return ctl::IsUsedAt(facts, path); }
  Bytes asked() const { return {static_cast<uint64_t>(facts.asked_bytes())}; }
  Bytes size() const { return {static_cast<uint64_t>(facts.capacity_bytes())}; }
};

struct VolumeList {
  std::vector<VolumeRow> rows;
  std::vector<std::string> problems;  // "pool 'p': why it cannot be read": its volumes are not in the list
};

enum class Kind { kVolume, kSnapshot, kAny };

// kNotFound: nothing of this kind has this name or id. kInvalidArgument: several have the name.
// kUnavailable: it may be in a pool that cannot be read.
Result<VolumeRow> Pick(const VolumeList& list, const std::string& name_or_id, Kind kind = Kind::kAny);

struct NewVolume {
  std::string name;
  Bytes size;
  std::string fs_type;  // empty: a raw volume
  std::map<std::string, std::string> parameters = {};
  std::string source_volume = {}, source_snapshot = {};  // ids; at most one of them
};

// For one thread. While quarryd is busy or restarts, a request is repeated until its `call` ends: every
// request is idempotent. Errors are those of Ask (ask.h).
class VolumeClient {
 public:
  // `tell` gets the reason of each wait when it changes.
  VolumeClient(std::shared_ptr<grpc::Channel> channel, std::function<void(const std::string&)> tell)
      : channel_(std::move(channel)), tell_(std::move(tell)) {}

  // Not repeated: fails at once if no quarryd answers.
  Result<VolumeList> List(const Call& call);
  // Lists, and then picks. Waits for a pool that cannot be read, such as one that is starting.
  Result<VolumeRow> Find(const std::string& name_or_id, Kind kind, const Call& call);

  // Returns the id. An equal volume of this name may exist already.
  Result<std::string> Create(const NewVolume& wish, const Call& call);
  // The largest volume with these properties that can be made now.
  Result<Bytes> Capacity(const NewVolume& wish, const Call& call);
  // Why the existing volume `id` is not what `wish` says; empty: it is. Sizes are not compared.
  Result<std::string> Difference(const std::string& id, const NewVolume& wish, const Call& call);
  // Grows the volume, and then its file system as GrowFilesystem does. Returns the new size.
  Result<Bytes> Grow(const VolumeRow& row, Bytes size, const Call& call);
  // Makes the file system as large as the volume. Does nothing if it is so, or is not mounted for writing:
  // the next mount for writing does it then.
  Status GrowFilesystem(const VolumeRow& row, const Call& call);
  // Of a volume or a snapshot.
  Status Delete(const VolumeRow& row, const Call& call);
  Result<std::string> Snapshot(const std::string& volume_id, const std::string& name,
                               const std::map<std::string, std::string>& parameters, const Call& call);

  // `path` empty: the mount point that an earlier Mount has set.
  Result<quarry::admin::v1::MountResponse> Mount(const std::string& id, const std::string& path,
                                                 const std::vector<std::string>& options, const Call& call);
  Result<quarry::admin::v1::UnmountResponse> Unmount(const std::string& id, const std::string& path,
                                                     const Call& call);

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::function<void(const std::string&)> tell_;
};

}  // namespace quarry::ctl
