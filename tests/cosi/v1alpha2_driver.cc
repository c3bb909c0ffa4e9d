#include <cosi/v1alpha2/cosi.grpc.pb.h>
#include <grpcpp/client_context.h>

#include "tests/cosi/driver.h"
#include "tests/cosi/one_call.h"

namespace quarry::cosi_check {
namespace {

namespace pb = ::sigs::k8s::io::cosi::v1alpha2;

std::string StyleOf(const pb::S3AddressingStyle& style) {
  switch (style.style()) {
    case pb::S3AddressingStyle::PATH:
      return "path";
    case pb::S3AddressingStyle::VIRTUAL:
      return "virtual";
    default:
      return "";
  }
}

Reach ReachOf(const pb::ObjectProtocolAndBucketInfo& info) {
  Reach out{.s3 = info.has_s3(),
            .bucket = info.s3().bucket_id(),
            .endpoint = info.s3().endpoint(),
            .region = info.s3().region(),
            .style = StyleOf(info.s3().addressing_style()),
            .knows_how = info.s3().addressing_style().style() != pb::S3AddressingStyle::UNKNOWN,
            .others = {}};
  if (info.has_azure()) {
    out.others.emplace_back("azure");
  }
  if (info.has_gcs()) {
    out.others.emplace_back("gcs");
  }
  return out;
}

template <typename Request>
void AddProtocols(Request& request, const std::vector<int>& protocols) {
  for (const int protocol : protocols) {
    request.add_protocols()->set_type(static_cast<pb::ObjectProtocol::Type>(protocol));
  }
}

class V1alpha2 final : public Driver {
 public:
  explicit V1alpha2(const std::shared_ptr<grpc::Channel>& channel)
      : identity_(pb::Identity::NewStub(channel)), provisioner_(pb::Provisioner::NewStub(channel)) {}

  std::string version() const override { return "v1alpha2"; }

  grpc::Status GetInfo(Info& out) override {
    pb::DriverGetInfoResponse response;
    const auto status = OneCall(*identity_, &pb::Identity::Stub::DriverGetInfo, {}, response);
    out.name = response.name();
    for (const auto& protocol : response.supported_protocols()) {
      out.protocols.push_back(protocol.type());
    }
    return status;
  }

  grpc::Status Create(const CreateWish& wish, Created& out) override {
    pb::DriverCreateBucketRequest request;
    request.set_name(wish.name);
    request.mutable_parameters()->insert(wish.parameters.begin(), wish.parameters.end());
    AddProtocols(request, wish.protocols);
    pb::DriverCreateBucketResponse response;
    const auto status = OneCall(*provisioner_, &pb::Provisioner::Stub::DriverCreateBucket, request, response);
    out = {.id = response.bucket_id(), .reach = ReachOf(response.protocols())};
    return status;
  }

  grpc::Status GetExisting(const ExistingWish& wish, Created& out) override {
    pb::DriverGetExistingBucketRequest request;
    request.set_existing_bucket_id(wish.id);
    request.mutable_parameters()->insert(wish.parameters.begin(), wish.parameters.end());
    AddProtocols(request, wish.protocols);
    pb::DriverGetExistingBucketResponse response;
    const auto status =
        OneCall(*provisioner_, &pb::Provisioner::Stub::DriverGetExistingBucket, request, response);
    out = {.id = response.bucket_id(), .reach = ReachOf(response.protocols())};
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
    request.set_account_name(wish.name);
    request.mutable_protocol()->set_type(static_cast<pb::ObjectProtocol::Type>(wish.protocol));
    request.mutable_authentication_type()->set_type(
        static_cast<pb::AuthenticationType::Type>(wish.authentication));
    request.mutable_parameters()->insert(wish.parameters.begin(), wish.parameters.end());
    for (const auto& bucket : wish.buckets) {
      auto& row = *request.add_buckets();
      row.set_bucket_id(bucket.id);
      row.mutable_access_mode()->set_mode(static_cast<pb::AccessMode::Mode>(bucket.mode));
    }
    pb::DriverGrantBucketAccessResponse response;
    const auto status =
        OneCall(*provisioner_, &pb::Provisioner::Stub::DriverGrantBucketAccess, request, response);
    Read(response, out);
    return status;
  }

  grpc::Status Revoke(const RevokeWish& wish) override {
    pb::DriverRevokeBucketAccessRequest request;
    request.set_account_id(wish.account);
    request.mutable_protocol()->set_type(pb::ObjectProtocol::S3);
    request.mutable_authentication_type()->set_type(pb::AuthenticationType::KEY);
    for (const auto& id : wish.buckets) {
      request.add_buckets()->set_bucket_id(id);
    }
    pb::DriverRevokeBucketAccessResponse response;
    return OneCall(*provisioner_, &pb::Provisioner::Stub::DriverRevokeBucketAccess, request, response);
  }

 private:
  static void Read(const pb::DriverGrantBucketAccessResponse& response, Granted& out) {
    out.account = response.account_id();
    out.access_key = response.credentials().s3().access_key_id();
    out.secret_key = response.credentials().s3().access_secret_key();
    for (const auto& [kind, there] : {std::pair("s3", response.credentials().has_s3()),
                                      std::pair("azure", response.credentials().has_azure()),
                                      std::pair("gcs", response.credentials().has_gcs())}) {
      if (there) {
        out.kinds.emplace_back(kind);
      }
    }
    for (const auto& bucket : response.buckets()) {
      out.buckets[bucket.bucket_id()] = ReachOf(bucket.bucket_info());
    }
  }

  const std::unique_ptr<pb::Identity::Stub> identity_;
  const std::unique_ptr<pb::Provisioner::Stub> provisioner_;
};

}  // namespace

std::unique_ptr<Driver> MakeV1alpha2(const std::shared_ptr<grpc::Channel>& channel) {
  return std::make_unique<V1alpha2>(channel);
}

}  // namespace quarry::cosi_check
