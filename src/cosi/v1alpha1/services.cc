// v1alpha1 as a shim: what it says otherwise than v1alpha2.
#include <cosi/v1alpha1/cosi.grpc.pb.h>
#include <grpcpp/server_context.h>

#include "cosi/fields.h"
#include "cosi/services.h"
#include "csi/fields.h"

namespace quarry::cosi::v1alpha1 {
namespace {

namespace pb = ::cosi::v1alpha1;
namespace now = v1alpha2::pb;
using csi::CheckRequired;
using csi::Invalid;
using grpc::ServerContext;

// The parameter of an access class that later became a field of the request.
constexpr const char* kAccess = "access";

Result<now::AccessMode::Mode> ModeOf(const pb::DriverGrantBucketAccessRequest& request) {
  bucket::Access access = bucket::Access::kReadWrite;
  for (const auto& [key, value] : request.parameters()) {
    if (key != kAccess) {
      return Invalid("parameters", "the only parameter of an access class is access=rw|ro|wo");
    }
    QUARRY_ASSIGN(access, ParseAccess("parameters[access]", value));
  }
  switch (access) {
    case bucket::Access::kReadWrite:
      return now::AccessMode::READ_WRITE;
    case bucket::Access::kReadOnly:
      return now::AccessMode::READ_ONLY;
    case bucket::Access::kWriteOnly:
      return now::AccessMode::WRITE_ONLY;
  }
  return Error(Code::kInternal, "an access mode without a name");
}

Status Check(const pb::DriverGrantBucketAccessRequest& request) {
  QUARRY_TRY(CheckRequired("bucket_id", request.bucket_id()));
  QUARRY_TRY(CheckName("name", request.name()));
  if (request.authentication_type() == pb::UnknownAuthenticationType) {
    return Invalid("authentication_type", "is required");
  }
  if (request.authentication_type() != pb::Key) {
    return Invalid("authentication_type", "must be Key: this driver knows no identities of workloads");
  }
  return Ok();
}

Result<now::DriverGrantBucketAccessRequest> Raise(const pb::DriverGrantBucketAccessRequest& request) {
  QUARRY_TRY(Check(request));
  now::DriverGrantBucketAccessRequest out;
  out.set_account_name(request.name());
  out.mutable_protocol()->set_type(now::ObjectProtocol::S3);
  out.mutable_authentication_type()->set_type(now::AuthenticationType::KEY);
  auto& bucket = *out.add_buckets();
  bucket.set_bucket_id(request.bucket_id());
  QUARRY_ASSIGN(const now::AccessMode::Mode mode, ModeOf(request));
  bucket.mutable_access_mode()->set_mode(mode);
  return out;
}

void Lower(const now::DriverGrantBucketAccessResponse& granted,
           pb::DriverGrantBucketAccessResponse& response) {
  response.set_account_id(granted.account_id());
  auto& secrets = *(*response.mutable_credentials())["s3"].mutable_secrets();
  const auto& keys = granted.credentials().s3();
  const auto& where = granted.buckets(0).bucket_info().s3();
  secrets["accessKeyID"] = keys.access_key_id();
  secrets["accessSecretKey"] = keys.access_secret_key();
  secrets["endpoint"] = where.endpoint();
  secrets["region"] = where.region();
}

class IdentityService final : public pb::Identity::Service {
 public:
  IdentityService(const v1alpha2::Calls& calls, csi::Edge& edge) : calls_(calls), edge_(edge) {}

  grpc::Status DriverGetInfo(ServerContext* context, const pb::DriverGetInfoRequest* request,
                             pb::DriverGetInfoResponse* response) final {
    return edge_.Serve({"DriverGetInfo"}, *context, *request, "", [&](csi::Rpc& rpc) -> Status {
      now::DriverGetInfoResponse info;
      QUARRY_TRY(calls_.GetInfo({}, info, rpc));
      response->set_name(info.name());
      return Ok();
    });
  }

 private:
  const v1alpha2::Calls& calls_;
  csi::Edge& edge_;
};

class ProvisionerService final : public pb::Provisioner::Service {
 public:
  ProvisionerService(const v1alpha2::Calls& calls, csi::Edge& edge) : calls_(calls), edge_(edge) {}

  grpc::Status DriverCreateBucket(ServerContext* context, const pb::DriverCreateBucketRequest* request,
                                  pb::DriverCreateBucketResponse* response) final {
    return edge_.Serve({"DriverCreateBucket", true}, *context, *request, "", [&](csi::Rpc& rpc) -> Status {
      now::DriverCreateBucketRequest raised;
      now::DriverCreateBucketResponse made;
      raised.set_name(request->name());
      *raised.mutable_parameters() = request->parameters();
      QUARRY_TRY(calls_.Create(raised, made, rpc));
      response->set_bucket_id(made.bucket_id());
      response->mutable_bucket_info()->mutable_s3()->set_region(made.protocols().s3().region());
      response->mutable_bucket_info()->mutable_s3()->set_signature_version(pb::S3V4);
      return Ok();
    });
  }

  grpc::Status DriverDeleteBucket(ServerContext* context, const pb::DriverDeleteBucketRequest* request,
                                  pb::DriverDeleteBucketResponse*) final {
    return edge_.Serve({"DriverDeleteBucket", true}, *context, *request, "", [&](csi::Rpc& rpc) -> Status {
      now::DriverDeleteBucketRequest raised;
      now::DriverDeleteBucketResponse ignored;
      raised.set_bucket_id(request->bucket_id());
      return calls_.Delete(raised, ignored, rpc);
    });
  }

  grpc::Status DriverGrantBucketAccess(ServerContext* context,
                                       const pb::DriverGrantBucketAccessRequest* request,
                                       pb::DriverGrantBucketAccessResponse* response) final {
    return edge_.Serve({"DriverGrantBucketAccess", true}, *context, *request, request->bucket_id(),
                       [&](csi::Rpc& rpc) -> Status {
                         QUARRY_ASSIGN(const auto raised, Raise(*request));
                         now::DriverGrantBucketAccessResponse granted;
                         QUARRY_TRY(calls_.Grant(raised, granted, rpc));
                         Lower(granted, *response);
                         return Ok();
                       });
  }

  // If the sidecar could not record the answer to a grant, it revokes an account without an id, and repeats
  // this for ever. OK would say that the account has no access any more, which is not so.
  grpc::Status DriverRevokeBucketAccess(ServerContext* context,
                                        const pb::DriverRevokeBucketAccessRequest* request,
                                        pb::DriverRevokeBucketAccessResponse*) final {
    return edge_.Serve({"DriverRevokeBucketAccess", true}, *context, *request, request->bucket_id(),
                       [&](csi::Rpc& rpc) -> Status {
                         QUARRY_TRY(CheckRequired("bucket_id", request->bucket_id()));
                         if (request->account_id().empty()) {
                           return Invalid("account_id",
                                          "is required; `quarryctl bucket list` shows the accounts of the "
                                          "bucket, and `quarryctl bucket revoke` ends them");
                         }
                         now::DriverRevokeBucketAccessRequest raised;
                         now::DriverRevokeBucketAccessResponse ignored;
                         raised.set_account_id(request->account_id());
                         raised.add_buckets()->set_bucket_id(request->bucket_id());
                         return calls_.Revoke(raised, ignored, rpc);
                       });
  }

 private:
  const v1alpha2::Calls& calls_;
  csi::Edge& edge_;
};

}  // namespace

Services MakeServices(const v1alpha2::Calls& calls, csi::Edge& edge) {
  return {std::make_shared<IdentityService>(calls, edge), std::make_shared<ProvisionerService>(calls, edge)};
}

}  // namespace quarry::cosi::v1alpha1
