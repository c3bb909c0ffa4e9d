// quarry.admin.v1.Buckets: the requests of quarryctl about buckets.
#pragma once

#include <memory>

#include "bucket/bucket_api.h"
#include "csi/edge.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace quarry::csi::admin {

// `buckets` nullptr: this quarryd serves none, and each request fails with the setting that is missing.
// Thread-safe; the arguments outlive it.
std::shared_ptr<grpc::Service> MakeBuckets(bucket::BucketApi* buckets, Edge& edge);

}  // namespace quarry::csi::admin
