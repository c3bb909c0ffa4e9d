#include "ctl/bucket_client.h"

#include <fmt/format.h>
#include <quarry/admin/v1/admin.grpc.pb.h>
#include <quarry/admin/v1/buckets.grpc.pb.h>

#include "ctl/ask.h"
#include "ctl/patience.h"

namespace quarry::ctl {

namespace pb = ::quarry::admin::v1;

Result<pb::Bucket> PickBucket(const pb::ListBucketsResponse& list, const std::string& name_or_id) {
  const pb::Bucket* found = nullptr;
  for (const pb::Bucket& bucket : list.buckets()) {
    if (bucket.bucket_id() == name_or_id) {
      return bucket;
    }
    if (bucket.name() == name_or_id && found != nullptr) {
      return Error(Code::kInvalidArgument,
                   fmt::format("two buckets are called '{}', {} and {}: name one by its id", name_or_id,
                               found->bucket_id(), bucket.bucket_id()));
    }
    found = bucket.name() == name_or_id ? &bucket : found;
  }
  if (found == nullptr) {
    return Error(
        Code::kNotFound,
        fmt::format("there is no bucket '{}': `quarryctl bucket list` shows all of them", name_or_id));
  }
  return *found;
}

Result<pb::Bucket> BucketClient::Find(const pb::ListBucketsResponse& list, const std::string& name_or_id,
                                      const Call& call) {
  auto found = PickBucket(list, name_or_id);
  if (found.has_value() || found.error().code() != Code::kNotFound) {
    return found;
  }
  QUARRY_ASSIGN(const auto unread, UnreadPools(call));
  return unread.empty()
             ? std::move(found)
             : Error(Code::kUnavailable, fmt::format("bucket '{}' may be in a pool that cannot be read: {}",
                                                     name_or_id, unread.front()));
}

Result<std::vector<std::string>> BucketClient::UnreadPools(const Call& call) {
  QUARRY_ASSIGN(const auto status,
                Ask<pb::Admin>(channel_, &pb::Admin::Stub::GetStatus, pb::GetStatusRequest(), call));
  std::vector<std::string> out;
  for (const auto& pool : status.pools()) {
    if (!pool.problem().empty()) {
      out.push_back(fmt::format("pool {}: {}", pool.name(), pool.problem()));
    }
  }
  return out;
}

Result<pb::ListBucketsResponse> BucketClient::List(const Call& call) {
  return Ask<pb::Buckets>(channel_, &pb::Buckets::Stub::ListBuckets, pb::ListBucketsRequest(), call);
}

Result<pb::CreateBucketResponse> BucketClient::Create(const std::string& name,
                                                      const std::map<std::string, std::string>& parameters,
                                                      const Call& call) {
  pb::CreateBucketRequest request;
  request.set_name(name);
  request.mutable_parameters()->insert(parameters.begin(), parameters.end());
  return Repeat<pb::Buckets>(channel_, tell_, &pb::Buckets::Stub::CreateBucket, request, call);
}

Result<pb::GrantBucketResponse> BucketClient::Grant(const pb::GrantBucketRequest& request, const Call& call) {
  return Repeat<pb::Buckets>(channel_, tell_, &pb::Buckets::Stub::GrantBucket, request, call);
}

Status BucketClient::Revoke(const pb::RevokeBucketRequest& request, const Call& call) {
  QUARRY_TRY(Repeat<pb::Buckets>(channel_, tell_, &pb::Buckets::Stub::RevokeBucket, request, call));
  return Ok();
}

Result<Bytes> BucketClient::Grow(const std::string& id, Bytes size, const Call& call) {
  pb::GrowBucketRequest request;
  request.set_bucket_id(id);
  request.set_size_bytes(static_cast<int64_t>(size.value));
  QUARRY_ASSIGN(const auto grown,
                Repeat<pb::Buckets>(channel_, tell_, &pb::Buckets::Stub::GrowBucket, request, call));
  return Bytes{static_cast<uint64_t>(grown.size_bytes())};
}

Status BucketClient::Delete(const std::string& id, bool lost, const Call& call) {
  pb::DeleteBucketRequest request;
  request.set_bucket_id(id);
  request.set_lost(lost);
  QUARRY_TRY(Repeat<pb::Buckets>(channel_, tell_, &pb::Buckets::Stub::DeleteBucket, request, call));
  return Ok();
}

}  // namespace quarry::ctl
