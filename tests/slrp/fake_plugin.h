// A plugin that behaves, in all versions of CSI, but for one rule that it breaks on request: what the
// simulator is tested with. Volumes are entries in a map.
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
  kNoV1,          // no fault: a plugin of 0.2, for the fall-back
  kOtherVersion,  // GetSupportedVersions lists 0.2.0 only
  kProbeFails,
  kNoController,  // no CONTROLLER_SERVICE; in v0.1, which has no such call, no name
  kListFails,
  kPages,  // at most two volumes a call
  kListsTwice,
  kLosesVolumes,
  kKeepsDeleted,
  kRoundsSizes,  // takes any size, and lists what it rounded it to
  kChangesContext,
  kCapacityFails,     // for a profile that it does not know
  kPromisesNonsense,  // capacity for a profile that it does not know
  kSlow,
  kRefusesCreate,
  kMakesTwice,
  kAborts,       // a repeat of CreateVolume
  kDeletesOnce,  // NOT_FOUND for what is gone
  kNeverConfirms,
  kDoesNotEcho,
  kPublishFails,
  kForgetsPublish,   // nothing after a restart can be published again
  kStrictUnpublish,  // NOT_FOUND for what never was published
  kOtherTarget,      // removes the caller's target, or leaves its own
};

// What FakePlugin keeps; it outlives a restart.
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

  // The calls, in no version's words.
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
