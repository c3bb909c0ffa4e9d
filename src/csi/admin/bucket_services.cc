#include "csi/admin/bucket_services.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <grpcpp/server_context.h>
#include <quarry/admin/v1/buckets.grpc.pb.h>

#include "csi/fields.h"

namespace quarry::csi::admin {
namespace {

namespace pb = ::quarry::admin::v1;
using bucket::Access;
using bucket::BucketApi;
using grpc::ServerContext;

std::string AccessName(Access access) {
  switch (access) {
    case Access::kReadWrite:
      return "rw";
    case Access::kReadOnly:
      return "ro";
    case Access::kWriteOnly:
      return "wo";
  }
  return "";
}

Result<Access> ParseAccess(std::string_view field, std::string_view text) {
  if (text.empty()) {
    return Access::kReadWrite;
  }
  for (const Access access : {Access::kReadWrite, Access::kReadOnly, Access::kWriteOnly}) {
    if (text == AccessName(access)) {
      return access;
    }
  }
  return Invalid(field, fmt::format("must be rw, ro or wo, is '{}'", text));
}

void Describe(const bucket::Bucket& bucket, pb::Bucket& row) {
  row.set_bucket_id(bucket.id);
  row.set_name(bucket.name);
  row.set_size_bytes(ToInt64(bucket.size));
  row.set_pool(bucket.pool);
  row.set_type(bucket.type);
  row.set_serving(bucket.serving);
  row.set_problem(bucket.problem);
  for (const bucket::Account& account : bucket.accounts) {
    auto& out = *row.add_accounts();
    out.set_account_id(account.id);
    out.set_access(AccessName(account.access));
  }
  if (bucket.content.has_value()) {
    row.mutable_content()->set_used_bytes(ToInt64(bucket.content->used));
    row.mutable_content()->set_available_bytes(ToInt64(bucket.content->available));
    row.mutable_content()->set_objects(ToInt64(bucket.content->objects));
  }
}

Result<bucket::GrantRequest> ParseGrant(const pb::GrantBucketRequest& request) {
  QUARRY_TRY(CheckRequired("account", request.account()));
  if (request.buckets().empty()) {
    return Invalid("buckets", "is required");
  }
  bucket::GrantRequest out{.account = request.account(), .buckets = {}};
  std::set<std::string> seen;
  for (int i = 0; i < request.buckets_size(); ++i) {
    const std::string field = fmt::format("buckets[{}]", i);
    QUARRY_TRY(CheckRequired(field + ".bucket_id", request.buckets(i).bucket_id()));
    if (!seen.insert(request.buckets(i).bucket_id()).second) {
      return Invalid(field + ".bucket_id", "must not be named twice");
    }
    QUARRY_ASSIGN(const Access access, ParseAccess(field + ".access", request.buckets(i).access()));
    out.buckets.push_back({.id = request.buckets(i).bucket_id(), .access = access});
  }
  return out;
}

class BucketService final : public pb::Buckets::Service {
 public:
  BucketService(BucketApi* buckets, Edge& edge) : buckets_(buckets), edge_(edge) {}

  grpc::Status CreateBucket(ServerContext* context, const pb::CreateBucketRequest* request,
                            pb::CreateBucketResponse* response) override {
    return Serve(
        {"CreateBucket", true}, *context, *request, request->name(),
        [&](BucketApi& buckets, Rpc& rpc) -> Status {
          QUARRY_TRY(CheckRequired("name", request->name()));
          QUARRY_ASSIGN(
              const bucket::CreateResult made,
              buckets.Create({.name = request->name(),
                              .parameters = {request->parameters().begin(), request->parameters().end()}},
                             rpc.call));
          rpc.note = fmt::format("{} as {}", made.created ? "created" : "exists", made.bucket.id);
          Describe(made.bucket, *response->mutable_bucket());
          response->set_created(made.created);
          return Ok();
        });
  }

  grpc::Status ListBuckets(ServerContext* context, const pb::ListBucketsRequest* request,
                           pb::ListBucketsResponse* response) override {
    return Serve({"ListBuckets"}, *context, *request, "", [&](BucketApi& buckets, Rpc& rpc) -> Status {
      QUARRY_ASSIGN(const std::vector<bucket::Bucket> all, buckets.List(rpc.call));
      for (const bucket::Bucket& one : all) {
        Describe(one, *response->add_buckets());
      }
      response->set_url(buckets.endpoint().url);
      response->set_region(buckets.endpoint().region);
      return Ok();
    });
  }

  grpc::Status DeleteBucket(ServerContext* context, const pb::DeleteBucketRequest* request,
                            pb::DeleteBucketResponse*) override {
    return Serve({"DeleteBucket", true}, *context, *request, request->bucket_id(),
                 [&](BucketApi& buckets, Rpc& rpc) -> Status {
                   QUARRY_TRY(CheckRequired("bucket_id", request->bucket_id()));
                   return request->lost() ? buckets.DeleteLost(request->bucket_id(), rpc.call)
                                          : buckets.Delete(request->bucket_id(), rpc.call);
                 });
  }

  grpc::Status GrantBucket(ServerContext* context, const pb::GrantBucketRequest* request,
                           pb::GrantBucketResponse* response) override {
    const std::string first = request->buckets().empty() ? "" : request->buckets(0).bucket_id();
    return Serve({"GrantBucket", true}, *context, *request, first,
                 [&](BucketApi& buckets, Rpc& rpc) -> Status {
                   QUARRY_ASSIGN(const bucket::GrantRequest wish, ParseGrant(*request));
                   QUARRY_ASSIGN(const bucket::GrantResult granted, buckets.Grant(wish, rpc.call));
                   rpc.note = fmt::format("account {}", granted.account_id);
                   response->set_account_id(granted.account_id);
                   response->set_access_key_id(granted.access_key_id);
                   response->set_secret_access_key(granted.secret_key);
                   response->set_url(buckets.endpoint().url);
                   response->set_region(buckets.endpoint().region);
                   for (const bucket::Bucket& one : granted.buckets) {
                     Describe(one, *response->add_buckets());
                   }
                   return Ok();
                 });
  }

  grpc::Status RevokeBucket(ServerContext* context, const pb::RevokeBucketRequest* request,
                            pb::RevokeBucketResponse*) override {
    const std::string first = request->bucket_ids().empty() ? "" : request->bucket_ids(0);
    return Serve(
        {"RevokeBucket", true}, *context, *request, first, [&](BucketApi& buckets, Rpc& rpc) -> Status {
          QUARRY_TRY(CheckRequired("account_id", request->account_id()));
          if (request->bucket_ids().empty()) {
            return Status(Invalid("bucket_ids", "is required"));
          }
          rpc.note = fmt::format("account {}", request->account_id());
          return buckets.Revoke(request->account_id(),
                                {request->bucket_ids().begin(), request->bucket_ids().end()}, rpc.call);
        });
  }

  grpc::Status GrowBucket(ServerContext* context, const pb::GrowBucketRequest* request,
                          pb::GrowBucketResponse* response) override {
    return Serve({"GrowBucket", true}, *context, *request, request->bucket_id(),
                 [&](BucketApi& buckets, Rpc& rpc) -> Status {
                   QUARRY_TRY(CheckRequired("bucket_id", request->bucket_id()));
                   if (request->size_bytes() <= 0) {
                     return Status(Invalid("size_bytes", "must be more than 0"));
                   }
                   QUARRY_ASSIGN(const Bytes size,
                                 buckets.Grow(request->bucket_id(),
                                              Bytes{static_cast<uint64_t>(request->size_bytes())}, rpc.call));
                   rpc.note = HumanBytes(size);
                   response->set_size_bytes(ToInt64(size));
                   return Ok();
                 });
  }

 private:
  grpc::Status Serve(const RpcName& name, const ServerContext& context,
                     const google::protobuf::Message& request, const std::string& bucket,
                     const std::function<Status(BucketApi&, Rpc&)>& body) {
    return edge_.Serve(name, context, request, bucket, [&](Rpc& rpc) -> Status {
      if (buckets_ == nullptr) {
        return Status(Error(Code::kPrecondition,
                            "this quarryd serves no buckets: set --s3-listen, as in 127.0.0.1:7070"));
      }
      return body(*buckets_, rpc);
    });
  }

  BucketApi* const buckets_;
  Edge& edge_;
};

}  // namespace

std::shared_ptr<grpc::Service> MakeBuckets(BucketApi* buckets, Edge& edge) {
  return std::make_shared<BucketService>(buckets, edge);
}

}  // namespace quarry::csi::admin
