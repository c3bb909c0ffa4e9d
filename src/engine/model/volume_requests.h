// What callers ask of volumes, without any CSI version: how they use a volume, what a new volume is like,
// staging and publishing, adoption.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/path.h"
#include "base/units.h"

namespace quarry::engine {

enum class AccessType { kBlock, kMount };

// The access modes of CSI, without UNKNOWN (csi-spec section 3.3).
enum class AccessMode {
  kSingleNodeWriter,
  kSingleNodeReaderOnly,
  kMultiNodeReaderOnly,
  kMultiNodeSingleWriter,
  kMultiNodeMultiWriter,
  kSingleNodeSingleWriter,
  kSingleNodeMultiWriter,
};

// Whether several nodes use the volume in this mode.
constexpr bool IsMultiNode(AccessMode mode) {
  switch (mode) {
    case AccessMode::kMultiNodeReaderOnly:
    case AccessMode::kMultiNodeSingleWriter:
    case AccessMode::kMultiNodeMultiWriter:
      return true;
    case AccessMode::kSingleNodeWriter:
    case AccessMode::kSingleNodeReaderOnly:
    case AccessMode::kSingleNodeSingleWriter:
    case AccessMode::kSingleNodeMultiWriter:
      return false;
  }
  return true;
}

// Whose volumes a face serves. A bucket (src/bucket) is a volume that only its own face may change: an
// orchestrator, or an administrator's command for volumes, would pull it away from under its clients.
enum class Realm {
  kVolumes,  // all but buckets
  kBuckets,
  kAll,
};

struct Capability {
  AccessType access = AccessType::kMount;
  AccessMode mode = AccessMode::kSingleNodeWriter;
  std::string fs_type;                       // mount only; empty: the default
  std::vector<std::string> mount_flags;      // mount only; may contain secrets, never logged
  std::optional<uint32_t> mount_group = {};  // mount only: gid for all files
};

// 0: not set. The edge has checked that required <= limit if both are set, and that neither is negative.
struct CapacityRange {
  Bytes required;
  Bytes limit;
};

using Parameters = std::map<std::string, std::string>;

// What a volume is made from: another volume, or a snapshot.
struct ContentSource {
  std::string id;  // empty: from nothing, so the volume is blank
  bool is_snapshot = false;
  bool empty() const { return id.empty(); }
  bool operator==(const ContentSource&) const = default;
};

struct CreateRequest {
  std::string name;
  CapacityRange range;
  std::vector<Capability> capabilities;  // at least one
  Parameters parameters;
  // The caller tries other nodes after kNoSpace, and then forgets this node. So anything that this node lacks
  // becomes kNoSpace, but only if no volume of that name exists here or may still be created here.
  bool elsewhere = false;
  ContentSource source = {};
  // Makes a bucket with these parameters, for Realm::kBuckets only. The format is that of src/bucket.
  std::string s3 = {};
};

// A request for a snapshot of a volume.
struct SnapshotRequest {
  std::string name;
  std::string source;     // id of the volume
  Parameters parameters;  // as of a volume; those that are missing are the volume's own
};

struct StageRequest {
  std::string id;
  AbsolutePath staging_path;
  Capability capability;
};

// Who makes and removes the path at which a volume is published. kCaller: the path exists before and after;
// it is a directory even for a raw volume.
enum class TargetOwner { kPlugin, kCaller };

struct PublishRequest {
  std::string id;
  std::optional<AbsolutePath> staging_path;  // nullopt: the caller does not stage; publishing does everything
  AbsolutePath target_path;
  Capability capability;
  bool read_only = false;
  TargetOwner target_owner = TargetOwner::kPlugin;
};

// An inline volume of a pod: publishing makes it, unpublishing erases it.
struct EphemeralRequest {
  PublishRequest publish;  // `id` is the CO's handle; there is no staging
  Bytes size;              // 0: not given
  Parameters parameters;   // as in CreateRequest
};

// Adoption of an unmanaged logical volume. It keeps its name, its extents and its content.
struct AdoptRequest {
  std::string group, lv_name;
  std::string name;      // the CO's name for it; empty: "<group>/<lv name>"
  bool csilvm = false;   // a csilvm volume: it gets the name that csilvm's CO gave it; `name` is empty
  std::string fs_type;   // the file system that it must hold, or that a blank one gets. Empty: any
  std::string erase;     // as the parameter "erase"; empty: its default
  bool dry_run = false;  // checks everything, changes nothing
};

}  // namespace quarry::engine
