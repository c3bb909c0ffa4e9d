// The bodies of all RPCs of both versions, in messages of v1alpha2: they check the request, call the buckets,
// and make the response.
#pragma once

#include <string>

#include <cosi/v1alpha2/cosi.pb.h>

#include "base/result.h"
#include "bucket/bucket_api.h"
#include "csi/edge.h"

namespace quarry::cosi::v1alpha2 {

namespace pb = ::sigs::k8s::io::cosi::v1alpha2;

// Thread-safe; `buckets` outlives it. Each call sets what the log names: Rpc::volume is the bucket.
class Calls {
 public:
  Calls(std::string driver_name, bucket::BucketApi& buckets)
      : driver_name_(std::move(driver_name)), buckets_(buckets) {}

  Status GetInfo(const pb::DriverGetInfoRequest& request, pb::DriverGetInfoResponse& response,
                 csi::Rpc& rpc) const;
  Status Create(const pb::DriverCreateBucketRequest& request, pb::DriverCreateBucketResponse& response,
                csi::Rpc& rpc) const;
  Status GetExisting(const pb::DriverGetExistingBucketRequest& request,
                     pb::DriverGetExistingBucketResponse& response, csi::Rpc& rpc) const;
  Status Delete(const pb::DriverDeleteBucketRequest& request, pb::DriverDeleteBucketResponse& response,
                csi::Rpc& rpc) const;
  Status Grant(const pb::DriverGrantBucketAccessRequest& request,
               pb::DriverGrantBucketAccessResponse& response, csi::Rpc& rpc) const;
  Status Revoke(const pb::DriverRevokeBucketAccessRequest& request,
                pb::DriverRevokeBucketAccessResponse& response, csi::Rpc& rpc) const;

 private:
  void Describe(const bucket::Bucket& bucket, pb::ObjectProtocolAndBucketInfo& info) const;

  const std::string driver_name_;
  bucket::BucketApi& buckets_;
};

}  // namespace quarry::cosi::v1alpha2
