// The gRPC services of both versions. Each method is one line that names a call of v1alpha2::Calls; v1alpha1
// converts the messages.
#pragma once

#include <memory>
#include <vector>

#include "cosi/v1alpha2/calls.h"
#include "csi/edge.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace quarry::cosi {

using Services = std::vector<std::shared_ptr<grpc::Service>>;

// The arguments outlive the services. RPCs run on several gRPC threads at once.
namespace v1alpha1 {
Services MakeServices(const v1alpha2::Calls& calls, csi::Edge& edge);
}  // namespace v1alpha1
namespace v1alpha2 {
Services MakeServices(const Calls& calls, csi::Edge& edge);
}  // namespace v1alpha2

}  // namespace quarry::cosi
