// The three services of CSI v1. They are shims: a request is parsed (requests.h), the engine acts, and the
// result becomes a message. Steps common to all RPCs are in Edge.
#pragma once

#include <memory>

#include "csi/edge.h"
#include "csi/v1/plugin.h"
#include "engine/engine.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace quarry::csi::v1 {

// The arguments outlive the service. RPCs run on several gRPC threads at once.
std::shared_ptr<grpc::Service> MakeIdentity(const Plugin& plugin, engine::Engine& engine, Edge& edge);
std::shared_ptr<grpc::Service> MakeController(const Plugin& plugin, engine::Engine& engine, Edge& edge);
std::shared_ptr<grpc::Service> MakeNode(const Plugin& plugin, engine::Engine& engine, Edge& edge);

}  // namespace quarry::csi::v1
