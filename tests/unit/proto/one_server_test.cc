// All services of all versions on one server: each caller reaches the service of its own package.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "csi/v0/csi.grpc.pb.h"
#include "csi/v0_1/csi.grpc.pb.h"
#include "csi/v1/csi.grpc.pb.h"

namespace quarry::proto_test {
namespace {

template <typename Service, typename Request, typename Response>
class NamedIdentity final : public Service::Service {
 public:
  explicit NamedIdentity(std::string name) : name_(std::move(name)) {}
  grpc::Status GetPluginInfo(grpc::ServerContext*, const Request*, Response* response) override {
    response->set_name(name_);
    return grpc::Status::OK;
  }

 private:
  std::string name_;
};

class OneServerTest : public testing::Test {
 protected:
  OneServerTest() {
    grpc::ServerBuilder builder;
    for (grpc::Service* service : std::initializer_list<grpc::Service*>{
             &v1_, &v1_controller_, &v1_group_, &v1_metadata_, &v1_node_, &v0_, &v0_controller_, &v0_node_,
             &v0_1_, &v0_1_controller_, &v0_1_node_}) {
      builder.RegisterService(service);
    }
    server_ = builder.BuildAndStart();
    channel_ = server_->InProcessChannel({});
  }
  ~OneServerTest() override { server_->Shutdown(); }

  template <typename Service, typename Request, typename Response>
  std::string NameOf() {
    grpc::ClientContext context;
    Response response;
    const auto status = Service::NewStub(channel_)->GetPluginInfo(&context, Request(), &response);
    return status.ok() ? response.name() : status.error_message();
  }

 private:
  NamedIdentity<::csi::v1::Identity, ::csi::v1::GetPluginInfoRequest, ::csi::v1::GetPluginInfoResponse> v1_{
      "v1"};
  NamedIdentity<::csi::v0::Identity, ::csi::v0::GetPluginInfoRequest, ::csi::v0::GetPluginInfoResponse> v0_{
      "v0"};
  NamedIdentity<::csi::Identity, ::csi::GetPluginInfoRequest, ::csi::GetPluginInfoResponse> v0_1_{"v0.1"};
  ::csi::v1::Controller::Service v1_controller_;
  ::csi::v1::GroupController::Service v1_group_;
  ::csi::v1::SnapshotMetadata::Service v1_metadata_;
  ::csi::v1::Node::Service v1_node_;
  ::csi::v0::Controller::Service v0_controller_;
  ::csi::v0::Node::Service v0_node_;
  ::csi::Controller::Service v0_1_controller_;
  ::csi::Node::Service v0_1_node_;
  std::unique_ptr<grpc::Server> server_;

 protected:
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(OneServerTest, EachVersionReachesItsOwnIdentity) {
  EXPECT_EQ(
      (NameOf<::csi::v1::Identity, ::csi::v1::GetPluginInfoRequest, ::csi::v1::GetPluginInfoResponse>()),
      "v1");
  EXPECT_EQ(
      (NameOf<::csi::v0::Identity, ::csi::v0::GetPluginInfoRequest, ::csi::v0::GetPluginInfoResponse>()),
      "v0");
  EXPECT_EQ((NameOf<::csi::Identity, ::csi::GetPluginInfoRequest, ::csi::GetPluginInfoResponse>()), "v0.1");
}

TEST_F(OneServerTest, AnRpcThatIsNotImplementedSaysSo) {
  grpc::ClientContext context;
  ::csi::v0::NodeGetIdResponse response;
  const auto status = ::csi::v0::Node::NewStub(channel_)->NodeGetId(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST(ServiceNames, AreThoseThatCallersPutIntoThePath) {
  EXPECT_STREQ(::csi::Identity::service_full_name(), "csi.Identity");
  EXPECT_STREQ(::csi::v0::Identity::service_full_name(), "csi.v0.Identity");
  EXPECT_STREQ(::csi::v1::Identity::service_full_name(), "csi.v1.Identity");
  EXPECT_STREQ(::csi::v1::GroupController::service_full_name(), "csi.v1.GroupController");
  EXPECT_STREQ(::csi::v1::SnapshotMetadata::service_full_name(), "csi.v1.SnapshotMetadata");
}

}  // namespace
}  // namespace quarry::proto_test
