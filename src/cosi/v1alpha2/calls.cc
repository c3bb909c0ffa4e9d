#include "cosi/v1alpha2/calls.h"

#include <set>
#include <vector>

#include <fmt/format.h>

#include "cosi/fields.h"
#include "csi/fields.h"

namespace quarry::cosi::v1alpha2 {
namespace {

using csi::CheckRequired;
using csi::Invalid;

Status CheckProtocol(std::string_view field, const pb::ObjectProtocol& protocol) {
  if (protocol.type() == pb::ObjectProtocol::UNKNOWN) {
    return Invalid(field, "is required");
  }
  if (protocol.type() != pb::ObjectProtocol::S3) {
    return Invalid(field, "must be S3, the only protocol of this driver");
  }
  return Ok();
}

template <typename Protocols>
Status CheckProtocols(const Protocols& protocols) {
  for (int i = 0; i < protocols.size(); ++i) {
    QUARRY_TRY(CheckProtocol(fmt::format("protocols[{}]", i), protocols[i]));
  }
  return Ok();
}

Status CheckAuthentication(const pb::DriverGrantBucketAccessRequest& request) {
  if (request.authentication_type().type() == pb::AuthenticationType::UNKNOWN) {
    return Invalid("authentication_type", "is required");
  }
  if (request.authentication_type().type() != pb::AuthenticationType::KEY) {
    return Invalid("authentication_type", "must be a key: this driver knows no identities of workloads");
  }
  if (!request.service_account_name().empty()) {
    return Invalid("service_account_name", "must be empty unless the authentication type is SERVICE_ACCOUNT");
  }
  return Ok();
}

Result<bucket::Access> AccessOf(const std::string& field, const pb::AccessMode& mode) {
  switch (mode.mode()) {
    case pb::AccessMode::READ_WRITE:
      return bucket::Access::kReadWrite;
    case pb::AccessMode::READ_ONLY:
      return bucket::Access::kReadOnly;
    case pb::AccessMode::WRITE_ONLY:
      return bucket::Access::kWriteOnly;
    case pb::AccessMode::UNKNOWN:
      return Invalid(field, "is required");
    default:
      return Invalid(field, "must be READ_WRITE, READ_ONLY or WRITE_ONLY");
  }
}

Result<bucket::GrantRequest> ParseGrant(const pb::DriverGrantBucketAccessRequest& request) {
  bucket::GrantRequest out{.account = request.account_name(), .buckets = {}};
  QUARRY_TRY(CheckName("account_name", request.account_name()));
  QUARRY_TRY(CheckProtocol("protocol", request.protocol()));
  QUARRY_TRY(CheckAuthentication(request));
  if (!request.parameters().empty()) {
    // One that is ignored would be a rule that somebody believes in.
    return Invalid("parameters", "must be empty: an access has no parameters in this version");
  }
  if (request.buckets().empty()) {
    return Invalid("buckets", "is required");
  }
  std::set<std::string> seen;
  for (int i = 0; i < request.buckets_size(); ++i) {
    const auto& wanted = request.buckets(i);
    const std::string field = fmt::format("buckets[{}]", i);
    QUARRY_TRY(CheckRequired(field + ".bucket_id", wanted.bucket_id()));
    if (!seen.insert(wanted.bucket_id()).second) {
      return Invalid(field + ".bucket_id", "must not be named twice");
    }
    QUARRY_ASSIGN(const bucket::Access access, AccessOf(field + ".access_mode", wanted.access_mode()));
    out.buckets.push_back({.id = wanted.bucket_id(), .access = access});
  }
  return out;
}

}  // namespace

void Calls::Describe(const bucket::Bucket& bucket, pb::ObjectProtocolAndBucketInfo& info) const {
  const bucket::Endpoint endpoint = buckets_.endpoint();
  auto& s3 = *info.mutable_s3();
  s3.set_bucket_id(bucket.name);
  s3.set_endpoint(endpoint.url);
  s3.set_region(endpoint.region);
  s3.mutable_addressing_style()->set_style(pb::S3AddressingStyle::PATH);
}

Status Calls::GetInfo(const pb::DriverGetInfoRequest&, pb::DriverGetInfoResponse& response, csi::Rpc&) const {
  response.set_name(driver_name_);
  response.add_supported_protocols()->set_type(pb::ObjectProtocol::S3);
  return Ok();
}

Status Calls::Create(const pb::DriverCreateBucketRequest& request, pb::DriverCreateBucketResponse& response,
                     csi::Rpc& rpc) const {
  rpc.volume = request.name();
  QUARRY_TRY(CheckName("name", request.name()));
  QUARRY_TRY(CheckProtocols(request.protocols()));
  QUARRY_ASSIGN(const bucket::CreateResult made,
                buckets_.Create({.name = request.name(),
                                 .parameters = {request.parameters().begin(), request.parameters().end()}},
                                rpc.call));
  rpc.note = fmt::format("{} as {}", made.created ? "created" : "exists", made.bucket.id);
  response.set_bucket_id(made.bucket.id);
  Describe(made.bucket, *response.mutable_protocols());
  return Ok();
}

Status Calls::GetExisting(const pb::DriverGetExistingBucketRequest& request,
                          pb::DriverGetExistingBucketResponse& response, csi::Rpc& rpc) const {
  rpc.volume = request.existing_bucket_id();
  QUARRY_TRY(CheckRequired("existing_bucket_id", request.existing_bucket_id()));
  QUARRY_TRY(CheckProtocols(request.protocols()));
  QUARRY_ASSIGN(const bucket::Bucket found, buckets_.Find(request.existing_bucket_id(), rpc.call));
  if (!request.parameters().empty()) {
    QUARRY_TRY(buckets_.Compare(request.existing_bucket_id(),
                                {request.parameters().begin(), request.parameters().end()}, rpc.call));
  }
  response.set_bucket_id(found.id);
  Describe(found, *response.mutable_protocols());
  return Ok();
}

Status Calls::Delete(const pb::DriverDeleteBucketRequest& request, pb::DriverDeleteBucketResponse&,
                     csi::Rpc& rpc) const {
  rpc.volume = request.bucket_id();
  QUARRY_TRY(CheckRequired("bucket_id", request.bucket_id()));
  return buckets_.Delete(request.bucket_id(), rpc.call);
}

Status Calls::Grant(const pb::DriverGrantBucketAccessRequest& request,
                    pb::DriverGrantBucketAccessResponse& response, csi::Rpc& rpc) const {
  rpc.volume = request.buckets().empty() ? "" : request.buckets(0).bucket_id();
  QUARRY_ASSIGN(const bucket::GrantRequest wish, ParseGrant(request));
  QUARRY_ASSIGN(const bucket::GrantResult granted, buckets_.Grant(wish, rpc.call));
  rpc.note = fmt::format("account {}", granted.account_id);
  response.set_account_id(granted.account_id);
  for (const bucket::Bucket& one : granted.buckets) {
    auto& row = *response.add_buckets();
    row.set_bucket_id(one.id);
    Describe(one, *row.mutable_bucket_info());
  }
  response.mutable_credentials()->mutable_s3()->set_access_key_id(granted.access_key_id);
  response.mutable_credentials()->mutable_s3()->set_access_secret_key(granted.secret_key);
  return Ok();
}

// The protocol and the authentication type are required too, but nothing depends on them here, and a
// revocation that is refused keeps somebody in.
Status Calls::Revoke(const pb::DriverRevokeBucketAccessRequest& request,
                     pb::DriverRevokeBucketAccessResponse&, csi::Rpc& rpc) const {
  rpc.volume = request.buckets().empty() ? "" : request.buckets(0).bucket_id();
  QUARRY_TRY(CheckRequired("account_id", request.account_id()));
  if (request.buckets().empty()) {
    return Invalid("buckets", "is required");
  }
  std::vector<std::string> ids;
  for (int i = 0; i < request.buckets_size(); ++i) {
    QUARRY_TRY(CheckRequired(fmt::format("buckets[{}].bucket_id", i), request.buckets(i).bucket_id()));
    ids.push_back(request.buckets(i).bucket_id());
  }
  rpc.note = fmt::format("account {}", request.account_id());
  return buckets_.Revoke(request.account_id(), ids, rpc.call);
}

}  // namespace quarry::cosi::v1alpha2
