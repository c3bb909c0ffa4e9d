// A plugin for testing the simulator, in all versions of CSI. It behaves correctly except for one rule, which
// it breaks on request. Volumes are entries in a map.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <grpcpp/server.h>

#include "tests/slrp/plugin.h"

namespace quarry::slrp {

enum class Fault {
  kNone,
  kNoV1,          // no fault: a plugin without v1, for the fallback
  kOtherVersion,  // GetSupportedVersions lists 0.2.0 only
  kProbeFails,
  kNoController,  // no CONTROLLER_SERVICE; in v0.1, which lacks that call, no name
  kListFails,
  kPages,  // at most two volumes per call
  kListsTwice,
  kLosesVolumes,
  kKeepsDeleted,
  kRoundsSizes,  // accepts any size, and lists the rounded size
  kChangesContext,
  kCapacityFails,     // for an unknown profile
  kPromisesNonsense,  // capacity for an unknown profile
  kSlow,
  kRefusesCreate,
  kMakesTwice,
  kAborts,       // a repeat of CreateVolume
  kDeletesOnce,  // NOT_FOUND for a deleted volume
  kNeverConfirms,
  kDoesNotEcho,
  kPublishFails,
  kForgetsPublish,   // after a restart no volume can be published
  kStrictUnpublish,  // NOT_FOUND for a path that was never published
  kOtherTarget,      // removes the caller's target, or leaves its own
};

// The state of a FakePlugin; it outlives a restart.
struct FakeWorld {
  struct Volume {
    std::string id;
    std::string name;
    uint64_t size = 0;
    Strings context;
  };
  std::map<std::string, Volume> volumes;  // by id
  std::vector<Volume> deleted;
  std::map<std::string, std::string> published;  // id by target
  int made = 0;
  int lists = 0;
};

class FakePlugin {
 public:
  // Serves at `socket` until destroyed. `world` outlives it.
  FakePlugin(FakeWorld& world, const std::string& socket, Fault fault, bool restarted = false);
  ~FakePlugin();

  const Fault fault;

  // The calls, without regard to the version.
  grpc::Status Create(const std::string& name, uint64_t required, uint64_t limit, FakeWorld::Volume& made);
  grpc::Status Delete(const std::string& id);
  grpc::Status List(std::vector<FakeWorld::Volume>& volumes, bool& more);
  grpc::Status Capacity(const Strings& parameters, uint64_t& available);
  grpc::Status Publish(const std::string& id, const std::string& target, bool v1);
  grpc::Status Unpublish(const std::string& id, const std::string& target, bool v1);
  bool Has(const std::string& id);

 private:
  FakeWorld& world_;
  const bool restarted_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace quarry::slrp
