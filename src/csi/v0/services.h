// The three services of CSI v0, for callers of 0.2 and of 0.3. They are shims over v1::Calls (csi/older.h).
#pragma once

#include <memory>

#include "csi/edge.h"
#include "csi/v1/calls.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace quarry::csi::v0 {

// There is no staging: publishing does everything. The caller owns the target path.
inline constexpr v1::Rules kRules{"0.3", false, engine::TargetOwner::kCaller, false, false, false};

// The arguments outlive the service. RPCs run on several gRPC threads at once.
std::shared_ptr<grpc::Service> MakeIdentity(const v1::Calls& calls, Edge& edge);
std::shared_ptr<grpc::Service> MakeController(const v1::Calls& calls, Edge& edge);
std::shared_ptr<grpc::Service> MakeNode(const v1::Calls& calls, Edge& edge);

}  // namespace quarry::csi::v0
