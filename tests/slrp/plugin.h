// A plugin as the SLRP sees it, whatever version of CSI it speaks.
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

// SINGLE_NODE_WRITER, as all profiles of Mesos are.
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
  bool echoed = true;  // v1: context, capabilities and parameters came back as they were sent
  std::string message;
};

template <typename T>
struct Reply {
  grpc::Status status;
  T value;
  bool ok() const { return status.ok(); }
};

// For people.
std::string Words(const grpc::Status& status);
// UNAVAILABLE and DEADLINE_EXCEEDED, the only two that Mesos tries again. Everything else is the end of an
// operation.
bool IsRetried(const grpc::Status& status);

// Thread-safe. Every call waits for the server until its deadline, as Mesos does.
class Plugin {
 public:
  virtual ~Plugin() = default;

  virtual Api api() const = 0;
  // v0.1 only: "0.1.0", …
  virtual Reply<std::set<std::string>> SupportedVersions() = 0;
  // v0.1: of the controller and the node.
  virtual grpc::Status Probe() = 0;
  virtual Reply<std::string> Name() = 0;
  // True for v0.1, which has no such call.
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
  // `staging` is empty where there is no staging.
  virtual grpc::Status Publish(const Listed& volume, const std::string& staging, const std::string& target,
                               const Capability& capability) = 0;
  virtual grpc::Status Unpublish(const std::string& id, const std::string& target) = 0;
};

// `limit` is the deadline of every call.
std::unique_ptr<Plugin> Connect(const std::string& socket, Api api, std::chrono::milliseconds limit);

}  // namespace quarry::slrp
