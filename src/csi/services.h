// The services of every CSI version. Their methods only name a call of v1::Calls (csi/passage.h).
#pragma once

#include <memory>

#include "csi/edge.h"
#include "csi/v1/calls.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace quarry::csi {

// The services of one version. RPCs run on several gRPC threads at once.
struct Services {
  std::shared_ptr<grpc::Service> identity, controller, node;
  std::shared_ptr<grpc::Service> group_controller = nullptr;  // nullptr: the version has none
  std::shared_ptr<grpc::Service> snapshot_metadata = nullptr;
};

// The arguments outlive the services.
namespace v1 {
Services MakeServices(const Calls& calls, Edge& edge);
}  // namespace v1
namespace v0 {  // for callers of 0.2 and of 0.3
Services MakeServices(const v1::Calls& calls, Edge& edge);
}  // namespace v0
namespace v0_1 {
Services MakeServices(const v1::Calls& calls, Edge& edge);
}  // namespace v0_1

}  // namespace quarry::csi
