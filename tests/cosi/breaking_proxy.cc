#include "tests/cosi/breaking_proxy.h"

#include <cosi/v1alpha1/cosi.grpc.pb.h>
#include <cosi/v1alpha2/cosi.grpc.pb.h>
#include <grpcpp/client_context.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>

#include "tests/cosi/one_call.h"

namespace quarry::cosi_check {
namespace {

namespace older = ::cosi::v1alpha1;
namespace newer = ::sigs::k8s::io::cosi::v1alpha2;

// One method: asks the good driver, and spoils its answer.
#define PASS(version, service, rpc)                                                                 \
  grpc::Status rpc(grpc::ServerContext*, const version::rpc##Request* request,                      \
                   version::rpc##Response* response) override {                                     \
    const grpc::Status status = OneCall(*stub_, &version::service::Stub::rpc, *request, *response); \
    return spoil_ ? spoil_(*request, *response, status) : status;                                   \
  }

template <typename Service>
class Passing : public Service::Service {
 public:
  Passing(const std::shared_ptr<grpc::Channel>& good, const Spoil& spoil)
      : stub_(Service::NewStub(good)), spoil_(spoil) {}

 protected:
  const std::unique_ptr<typename Service::Stub> stub_;
  const Spoil& spoil_;
};

class OlderIdentity final : public Passing<older::Identity> {
 public:
  using Passing::Passing;
  PASS(older, Identity, DriverGetInfo)
};

class NewerIdentity final : public Passing<newer::Identity> {
 public:
  using Passing::Passing;
  PASS(newer, Identity, DriverGetInfo)
};

class OlderProvisioner final : public Passing<older::Provisioner> {
 public:
  using Passing::Passing;
  PASS(older, Provisioner, DriverCreateBucket)
  PASS(older, Provisioner, DriverDeleteBucket)
  PASS(older, Provisioner, DriverGrantBucketAccess)
  PASS(older, Provisioner, DriverRevokeBucketAccess)
};

class NewerProvisioner final : public Passing<newer::Provisioner> {
 public:
  using Passing::Passing;
  PASS(newer, Provisioner, DriverCreateBucket)
  PASS(newer, Provisioner, DriverGetExistingBucket)
  PASS(newer, Provisioner, DriverDeleteBucket)
  PASS(newer, Provisioner, DriverGrantBucketAccess)
  PASS(newer, Provisioner, DriverRevokeBucketAccess)
};

#undef PASS

}  // namespace

struct BreakingProxy::State {
  explicit State(const std::shared_ptr<grpc::Channel>& good)
      : older_identity(good, spoil),
        newer_identity(good, spoil),
        older_provisioner(good, spoil),
        newer_provisioner(good, spoil) {
    grpc::ServerBuilder builder;
    for (grpc::Service* service : std::initializer_list<grpc::Service*>{
             &older_identity, &newer_identity, &older_provisioner, &newer_provisioner}) {
      builder.RegisterService(service);
    }
    server = builder.BuildAndStart();
  }

  Spoil spoil;
  OlderIdentity older_identity;
  NewerIdentity newer_identity;
  OlderProvisioner older_provisioner;
  NewerProvisioner newer_provisioner;
  std::unique_ptr<grpc::Server> server;
};

BreakingProxy::BreakingProxy(const std::shared_ptr<grpc::Channel>& good)
    : state_(std::make_unique<State>(good)) {}

BreakingProxy::~BreakingProxy() {
  state_->server->Shutdown();
}

// Between calls only.
void BreakingProxy::SetSpoil(Spoil spoil) {
  state_->spoil = std::move(spoil);
}

std::shared_ptr<grpc::Channel> BreakingProxy::channel() {
  return state_->server->InProcessChannel({});
}

}  // namespace quarry::cosi_check
