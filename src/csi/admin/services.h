// quarry.admin.v1: what quarryctl asks of a running quarryd, on a socket of its own. Adoption takes the
// engine's locks, so it has to be the process that serves the volumes who does it.
#pragma once

#include <memory>

#include "csi/edge.h"
#include "engine/engine.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace quarry::csi::admin {

// Thread-safe; the arguments outlive it.
std::shared_ptr<grpc::Service> MakeAdmin(engine::Engine& engine, Edge& edge);

}  // namespace quarry::csi::admin
