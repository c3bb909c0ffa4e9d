// quarry.admin.v1: the requests of quarryctl to a running quarryd, on a socket of its own. Adoption takes the
// engine's locks, so the process that serves the volumes must do it.
#pragma once

#include <memory>

#include "csi/edge.h"
#include "csi/reload.h"
#include "engine/engine.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace quarry::csi::admin {

// Thread-safe; the arguments outlive it.
std::shared_ptr<grpc::Service> MakeAdmin(engine::Engine& engine, Edge& edge, const CallHistory& history,
                                         ReloadSettings reload);

}  // namespace quarry::csi::admin
