// A plugin as the SLRP sees it, in any version of CSI.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include "tests/slrp/generation.h"

namespace quarry::slrp {

using Strings = std::map<std::string, std::string>;

// SINGLE_NODE_WRITER, like all profiles of Mesos.
struct Capability {
  bool block = false;
  std::string fs_type;
  std::vector<std::string> mount_flags;
  bool operator==(const Capability&) const = default;
};

struct Listed {
  std::string id;
  uint64_t size = 0;
  Strings context;
  bool operator==(const Listed&) const = default;
};

struct Listing {
  std::vector<Listed> volumes;
  std::string next_token;
};

struct Offer {
  bool create_delete = false, publish_unpublish = false, list = false, capacity = false;
  bool stage = false;
};

struct Validated {
  bool confirmed = false;
  bool echoed = true;  // v1: the answer repeats context, capabilities and parameters
  std::string message;
};

template <typename T>
struct Reply {
  grpc::Status status;
  T value;
  bool ok() const { return status.ok(); }
};

// The status as a readable text.
std::string Words(const grpc::Status& status);
// UNAVAILABLE and DEADLINE_EXCEEDED, the only two codes that Mesos retries. With any other code the operation
// has failed.
bool IsRetried(const grpc::Status& status);

// Thread-safe. Every call waits for the server until its deadline, as Mesos does.
class Plugin {
 public:
  virtual ~Plugin() = default;

  virtual Api api() const = 0;
  // v0.1 only: "0.1.0", …
  virtual Reply<std::set<std::string>> SupportedVersions() = 0;
  // v0.1: probes the controller and the node.
  virtual grpc::Status Probe() = 0;
  virtual Reply<std::string> Name() = 0;
  // v0.1 has no such call: true.
  virtual Reply<bool> HasControllerService() = 0;
  virtual Reply<Offer> Capabilities() = 0;

  virtual Reply<Listed> Create(const std::string& name, uint64_t size, const Capability& capability,
                               const Strings& parameters) = 0;
  virtual grpc::Status Delete(const std::string& id) = 0;
  virtual Reply<Listing> List() = 0;
  virtual Reply<uint64_t> Capacity(const Capability& capability, const Strings& parameters) = 0;
  virtual Reply<Validated> Validate(const Listed& volume, const Capability& capability,
                                    const Strings& parameters) = 0;
  virtual grpc::Status Stage(const Listed& volume, const std::string& staging,
                             const Capability& capability) = 0;
  virtual grpc::Status Unstage(const std::string& id, const std::string& staging) = 0;
  // `staging` is empty if there is no staging.
  virtual grpc::Status Publish(const Listed& volume, const std::string& staging, const std::string& target,
                               const Capability& capability) = 0;
  virtual grpc::Status Unpublish(const std::string& id, const std::string& target) = 0;
};

// `limit` is the deadline of every call.
std::unique_ptr<Plugin> Connect(const std::string& socket, Api api, std::chrono::milliseconds limit);

}  // namespace quarry::slrp
