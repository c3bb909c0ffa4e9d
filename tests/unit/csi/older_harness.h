// The harness with the services of an older version of CSI, and requests as Mesos writes them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/csi_versions.h"
#include "tests/unit/csi/service_harness.h"

namespace quarry::csi {

template <typename Version>
class Older : public ::testing::Test, public ServiceHarness {
 protected:
  explicit Older(const HarnessOptions& options = {})
      : ServiceHarness(options),
        old_controller(Version::Controller::NewStub(channel)),
        old_node(Version::Node::NewStub(channel)),
        old_identity(Version::Identity::NewStub(channel)) {}

  template <typename Request>
  static Request New() {
    Request request;
    Version::SetVersion(request);
    return request;
  }
  static typename Version::VolumeCapability Capability(bool block = false) {
    typename Version::VolumeCapability capability;
    if (block) {
      capability.mutable_block();
    } else {
      capability.mutable_mount();
    }
    capability.mutable_access_mode()->set_mode(Version::Mode::SINGLE_NODE_WRITER);
    return capability;
  }
  // As Mesos asks: for an exact number of bytes.
  static typename Version::CreateRequest CreateOld(const std::string& name, bool block = false,
                                                   int64_t size = 64 * kMebibyte) {
    auto request = New<typename Version::CreateRequest>();
    request.set_name(name);
    request.mutable_capacity_range()->set_required_bytes(size);
    request.mutable_capacity_range()->set_limit_bytes(size);
    *request.add_volume_capabilities() = Capability(block);
    return request;
  }
  std::string MakeOld(const std::string& name, bool block = false) {
    typename Version::CreateResponse response;
    const auto status =
        Do(&Version::Controller::Stub::CreateVolume, *old_controller, CreateOld(name, block), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return Version::VolumeOf(response).id();
  }
  typename Version::PublishRequest PublishOld(const std::string& id, const std::string& target = "/target",
                                              bool block = false) {
    auto request = New<typename Version::PublishRequest>();
    request.set_volume_id(id);
    request.set_target_path(target);
    *request.mutable_volume_capability() = Capability(block);
    return request;
  }
  grpc::Status Publish(const typename Version::PublishRequest& request) {
    return Do(&Version::Node::Stub::NodePublishVolume, *old_node, request);
  }
  grpc::Status Unpublish(const std::string& id, const std::string& target = "/target") {
    auto request = New<typename Version::UnpublishRequest>();
    request.set_volume_id(id);
    request.set_target_path(target);
    return Do(&Version::Node::Stub::NodeUnpublishVolume, *old_node, request);
  }
  grpc::Status Delete(const std::string& id) {
    auto request = New<typename Version::DeleteRequest>();
    request.set_volume_id(id);
    return Do(&Version::Controller::Stub::DeleteVolume, *old_controller, request);
  }
  typename Version::ListResponse List() {
    typename Version::ListResponse response;
    const auto status = Do(&Version::Controller::Stub::ListVolumes, *old_controller,
                           New<typename Version::ListRequest>(), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  template <typename Request>
  struct Row {
    grpc::StatusCode code;
    std::string message;
    std::function<void(Request&)> spoil;
  };
  template <typename Stub, typename Request, typename Response>
  void ExpectErrors(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*), Stub& stub,
                    const Request& good, const std::vector<Row<Request>>& rows) {
    for (const Row<Request>& row : rows) {
      Request request = good;
      row.spoil(request);
      SCOPED_TRACE(row.message + " / " + request.ShortDebugString().substr(0, 300));
      const grpc::Status status = Do(method, stub, request);
      EXPECT_EQ(status.error_code(), row.code) << status.error_message();
      EXPECT_THAT(status.error_message(), ::testing::StartsWith(row.message));
    }
  }

  std::unique_ptr<typename Version::Controller::Stub> old_controller;
  std::unique_ptr<typename Version::Node::Stub> old_node;
  std::unique_ptr<typename Version::Identity::Stub> old_identity;
};

}  // namespace quarry::csi
