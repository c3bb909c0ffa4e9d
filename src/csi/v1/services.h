// The three services of CSI v1. Shims: a request is parsed (requests.h), the engine does it, the answer is
// put into a message; everything common to all RPCs is in Edge.
#pragma once

#include <memory>

#include "csi/edge.h"
#include "csi/v1/plugin.h"
#include "engine/engine.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace quarry::csi::v1 {

// The arguments outlive the service. RPCs come from any number of gRPC's threads at once.
std::shared_ptr<grpc::Service> MakeIdentity(const Plugin& plugin, engine::Engine& engine, Edge& edge);
std::shared_ptr<grpc::Service> MakeController(const Plugin& plugin, engine::Engine& engine, Edge& edge);
std::shared_ptr<grpc::Service> MakeNode(const Plugin& plugin, engine::Engine& engine, Edge& edge);

}  // namespace quarry::csi::v1
