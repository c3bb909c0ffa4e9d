// The requests of quarryctl about buckets (quarry.admin.v1.Buckets), on quarryd's admin socket.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <quarry/admin/v1/buckets.pb.h>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace quarry::ctl {

// The bucket with this name or id in the list. kNotFound: there is none. kInvalidArgument: two have this
// name.
Result<quarry::admin::v1::Bucket> PickBucket(const quarry::admin::v1::ListBucketsResponse& list,
                                             const std::string& name_or_id);

// For one thread. While quarryd is busy or restarts, a request that changes something is repeated until its
// `call` ends: every request is idempotent. Errors are those of Ask (ask.h).
class BucketClient {
 public:
  // `tell` gets the reason of each wait when it changes.
  BucketClient(std::shared_ptr<grpc::Channel> channel, std::function<void(const std::string&)> tell)
      : channel_(std::move(channel)), tell_(std::move(tell)) {}

  // Not repeated: fails at once if no quarryd answers.
  Result<quarry::admin::v1::ListBucketsResponse> List(const Call& call);

  // As PickBucket. kUnavailable instead of kNotFound while a pool cannot be read, which may have it.
  Result<quarry::admin::v1::Bucket> Find(const quarry::admin::v1::ListBucketsResponse& list,
                                         const std::string& name_or_id, const Call& call);

  // The pools that cannot be read now, with the reason: a list lacks their buckets.
  Result<std::vector<std::string>> UnreadPools(const Call& call);

  Result<quarry::admin::v1::CreateBucketResponse> Create(const std::string& name,
                                                         const std::map<std::string, std::string>& parameters,
                                                         const Call& call);
  Result<quarry::admin::v1::GrantBucketResponse> Grant(const quarry::admin::v1::GrantBucketRequest& request,
                                                       const Call& call);
  Status Revoke(const quarry::admin::v1::RevokeBucketRequest& request, const Call& call);
  // Returns the new size.
  Result<Bytes> Grow(const std::string& id, Bytes size, const Call& call);
  // `lost`: its disk is missing for good.
  Status Delete(const std::string& id, bool lost, const Call& call);

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::function<void(const std::string&)> tell_;
};

}  // namespace quarry::ctl
