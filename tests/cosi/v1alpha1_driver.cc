#include <cosi/v1alpha1/cosi.grpc.pb.h>
#include <grpcpp/client_context.h>

#include "tests/cosi/driver.h"
#include "tests/cosi/one_call.h"

namespace quarry::cosi_check {
namespace {

namespace pb = ::cosi::v1alpha1;

class V1alpha1 final : public Driver {
 public:
  explicit V1alpha1(const std::shared_ptr<grpc::Channel>& channel)
      : identity_(pb::Identity::NewStub(channel)), provisioner_(pb::Provisioner::NewStub(channel)) {}

  std::string version() const override { return "v1alpha1"; }

  grpc::Status GetInfo(Info& out) override {
    pb::DriverGetInfoResponse response;
    const auto status = OneCall(*identity_, &pb::Identity::Stub::DriverGetInfo, {}, response);
    out.name = response.name();
    return status;
  }

  grpc::Status Create(const CreateWish& wish, Created& out) override {
    pb::DriverCreateBucketRequest request;
    request.set_name(wish.name);
    request.mutable_parameters()->insert(wish.parameters.begin(), wish.parameters.end());
    pb::DriverCreateBucketResponse response;
    const auto status = OneCall(*provisioner_, &pb::Provisioner::Stub::DriverCreateBucket, request, response);
    const auto& info = response.bucket_info();
    out.id = response.bucket_id();
    out.reach = {.s3 = info.has_s3(),
                 .bucket = wish.name,  // what the clients of this version are told
                 .endpoint = "",
                 .region = info.s3().region(),
                 .knows_how = info.s3().signature_version() == pb::S3V4,
                 .others = {}};
    if (info.has_azureblob() || info.has_gcs()) {
      out.reach.others.emplace_back("not s3");
    }
    return status;
  }

  grpc::Status Delete(const std::string& id) override {
    pb::DriverDeleteBucketRequest request;
    request.set_bucket_id(id);
    pb::DriverDeleteBucketResponse response;
    return OneCall(*provisioner_, &pb::Provisioner::Stub::DriverDeleteBucket, request, response);
  }

  grpc::Status Grant(const GrantWish& wish, Granted& out) override {
    pb::DriverGrantBucketAccessRequest request;
    request.set_name(wish.name);
    request.set_authentication_type(static_cast<pb::AuthenticationType>(wish.authentication));
    request.mutable_parameters()->insert(wish.parameters.begin(), wish.parameters.end());
    if (!wish.buckets.empty()) {
      request.set_bucket_id(wish.buckets[0].id);
      if (wish.buckets[0].mode == kReadOnly) {
        (*request.mutable_parameters())["access"] = "ro";
      }
    }
    pb::DriverGrantBucketAccessResponse response;
    const auto status =
        OneCall(*provisioner_, &pb::Provisioner::Stub::DriverGrantBucketAccess, request, response);
    out.account = response.account_id();
    for (const auto& [kind, details] : response.credentials()) {
      out.kinds.push_back(kind);
      Map secrets(details.secrets().begin(), details.secrets().end());
      out.access_key = secrets["accessKeyID"];
      out.secret_key = secrets["accessSecretKey"];
      out.buckets[request.bucket_id()] = {.s3 = kind == "s3",
                                          .bucket = "known to the caller",
                                          .endpoint = secrets["endpoint"],
                                          .region = secrets["region"],
                                          .knows_how = true,
                                          .others = {}};
    }
    return status;
  }

  grpc::Status Revoke(const RevokeWish& wish) override {
    pb::DriverRevokeBucketAccessRequest request;
    request.set_account_id(wish.account);
    request.set_bucket_id(wish.buckets.empty() ? "" : wish.buckets[0]);
    pb::DriverRevokeBucketAccessResponse response;
    return OneCall(*provisioner_, &pb::Provisioner::Stub::DriverRevokeBucketAccess, request, response);
  }

  grpc::Status GetExisting(const ExistingWish&, Created&) override {
    return {grpc::StatusCode::UNIMPLEMENTED, "not in this version"};
  }

 private:
  const std::unique_ptr<pb::Identity::Stub> identity_;
  const std::unique_ptr<pb::Provisioner::Stub> provisioner_;
};

}  // namespace

std::unique_ptr<Driver> MakeV1alpha1(const std::shared_ptr<grpc::Channel>& channel) {
  return std::make_unique<V1alpha1>(channel);
}

}  // namespace quarry::cosi_check
