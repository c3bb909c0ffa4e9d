// Behaviour that only CSI v0.1 or only v0 has, and the error codes of both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "csi/errors.h"
#include "tests/unit/csi/older_harness.h"

namespace quarry::csi {
namespace {

using grpc::StatusCode;
using ::testing::StartsWith;

using V01 = Older<V0_1>;

// Every request of 0.1 except GetSupportedVersions states its version.
TEST_F(V01, RefusesVersionsThatItDoesNotSpeak) {
  ::csi::GetSupportedVersionsResponse versions;
  ASSERT_TRUE(Do(&::csi::Identity::Stub::GetSupportedVersions, *old_identity,
                 ::csi::GetSupportedVersionsRequest(), &versions)
                  .ok());
  ASSERT_EQ(versions.supported_versions_size(), 1);
  EXPECT_EQ(versions.supported_versions(0).ShortDebugString(), "minor: 1");
  const auto expect_refused = [&](auto method, auto& stub, auto request) {
    request.clear_version();
    grpc::Status status = Do(method, stub, request);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(), "version: is required");
    for (const auto& [major, minor, patch] : {std::tuple{0, 2, 0}, {1, 0, 0}, {0, 1, 1}, {0, 0, 0}}) {
      request.mutable_version()->set_major(major);
      request.mutable_version()->set_minor(minor);
      request.mutable_version()->set_patch(patch);
      status = Do(method, stub, request);
      EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
      EXPECT_THAT(status.error_message(), StartsWith("version: "));
    }
  };
  using C = ::csi::Controller::Stub;
  using N = ::csi::Node::Stub;
  expect_refused(&::csi::Identity::Stub::GetPluginInfo, *old_identity, ::csi::GetPluginInfoRequest());
  expect_refused(&C::CreateVolume, *old_controller, CreateOld("v"));
  expect_refused(&C::DeleteVolume, *old_controller, ::csi::DeleteVolumeRequest());
  expect_refused(&C::ValidateVolumeCapabilities, *old_controller, ::csi::ValidateVolumeCapabilitiesRequest());
  expect_refused(&C::ListVolumes, *old_controller, ::csi::ListVolumesRequest());
  expect_refused(&C::GetCapacity, *old_controller, ::csi::GetCapacityRequest());
  expect_refused(&C::ControllerProbe, *old_controller, ::csi::ControllerProbeRequest());
  expect_refused(&C::ControllerGetCapabilities, *old_controller, ::csi::ControllerGetCapabilitiesRequest());
  expect_refused(&N::NodePublishVolume, *old_node, PublishOld("v"));
  expect_refused(&N::NodeUnpublishVolume, *old_node, ::csi::NodeUnpublishVolumeRequest());
  expect_refused(&N::GetNodeID, *old_node, ::csi::GetNodeIDRequest());
  expect_refused(&N::NodeProbe, *old_node, ::csi::NodeProbeRequest());
  expect_refused(&N::NodeGetCapabilities, *old_node, ::csi::NodeGetCapabilitiesRequest());
}

TEST_F(V01, AProbeFailsIfSomethingIsMissing) {
  const auto controller_probe = [&] {
    return Do(&::csi::Controller::Stub::ControllerProbe, *old_controller,
              New<::csi::ControllerProbeRequest>());
  };
  const auto node_probe = [&] {
    return Do(&::csi::Node::Stub::NodeProbe, *old_node, New<::csi::NodeProbeRequest>());
  };
  EXPECT_TRUE(controller_probe().ok());
  EXPECT_TRUE(node_probe().ok());
  lvm.RemoveGroup("vg0");
  EXPECT_EQ(controller_probe().error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(node_probe().error_code(), StatusCode::FAILED_PRECONDITION);
}

TEST_F(V01, ReturnsTheNodeAndListsMoreThanAnIntHolds) {
  ::csi::GetNodeIDResponse id;
  ASSERT_TRUE(Do(&::csi::Node::Stub::GetNodeID, *old_node, New<::csi::GetNodeIDRequest>(), &id).ok());
  EXPECT_EQ(id.node_id(), "node-1");
  MakeOld("v");
  auto list = New<::csi::ListVolumesRequest>();
  list.set_max_entries(4000000000U);
  ::csi::ListVolumesResponse response;
  ASSERT_TRUE(Do(&::csi::Controller::Stub::ListVolumes, *old_controller, list, &response).ok());
  EXPECT_EQ(response.entries_size(), 1);
}

using V03 = Older<V0>;

TEST_F(V03, ExpressesConceptsOf03InMessagesOf03) {
  ::csi::v0::NodeGetIdResponse id;
  ASSERT_TRUE(Do(&::csi::v0::Node::Stub::NodeGetId, *old_node, ::csi::v0::NodeGetIdRequest(), &id).ok());
  EXPECT_EQ(id.node_id(), "node-1");
  ::csi::v0::NodeGetInfoResponse info;
  ASSERT_TRUE(
      Do(&::csi::v0::Node::Stub::NodeGetInfo, *old_node, ::csi::v0::NodeGetInfoRequest(), &info).ok());
  EXPECT_EQ(info.ShortDebugString(), "node_id: \"node-1\" max_volumes_per_node: 7");
  ::csi::v0::ProbeResponse probe;
  ASSERT_TRUE(Do(&::csi::v0::Identity::Stub::Probe, *old_identity, ::csi::v0::ProbeRequest(), &probe).ok());
  EXPECT_TRUE(probe.ready().value());
  ::csi::v0::GetPluginCapabilitiesResponse offer;
  ASSERT_TRUE(Do(&::csi::v0::Identity::Stub::GetPluginCapabilities, *old_identity,
                 ::csi::v0::GetPluginCapabilitiesRequest(), &offer)
                  .ok());
  ASSERT_EQ(offer.capabilities_size(), 1);
  EXPECT_EQ(offer.capabilities(0).service().type(), ::csi::v0::PluginCapability::Service::CONTROLLER_SERVICE);
}

TEST_F(V03, ServesNoStagingNoSnapshotsNoAttaching) {
  using C = ::csi::v0::Controller::Stub;
  using N = ::csi::v0::Node::Stub;
  for (const grpc::Status& status :
       {Do(&N::NodeStageVolume, *old_node, ::csi::v0::NodeStageVolumeRequest()),
        Do(&N::NodeUnstageVolume, *old_node, ::csi::v0::NodeUnstageVolumeRequest()),
        Do(&C::CreateSnapshot, *old_controller, ::csi::v0::CreateSnapshotRequest()),
        Do(&C::DeleteSnapshot, *old_controller, ::csi::v0::DeleteSnapshotRequest()),
        Do(&C::ListSnapshots, *old_controller, ::csi::v0::ListSnapshotsRequest()),
        Do(&C::ControllerPublishVolume, *old_controller, ::csi::v0::ControllerPublishVolumeRequest()),
        Do(&C::ControllerUnpublishVolume, *old_controller, ::csi::v0::ControllerUnpublishVolumeRequest())}) {
    EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED) << status.error_message();
  }
  auto from_snapshot = CreateOld("copy");
  from_snapshot.mutable_volume_content_source()->mutable_snapshot()->set_id("s");
  EXPECT_EQ(Do(&C::CreateVolume, *old_controller, from_snapshot).error_code(), StatusCode::INVALID_ARGUMENT);
  auto elsewhere = CreateOld("elsewhere");
  (*elsewhere.mutable_accessibility_requirements()
        ->add_requisite()
        ->mutable_segments())["quarry.csi.local/node"] = "node-2";
  EXPECT_EQ(Do(&C::CreateVolume, *old_controller, elsewhere).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  auto never = CreateOld("never");
  never.mutable_capacity_range()->set_required_bytes(int64_t{1} << 50);
  never.mutable_capacity_range()->set_limit_bytes(0);
  (*never.mutable_accessibility_requirements()
        ->add_requisite()
        ->mutable_segments())["quarry.csi.local/node"] = "node-1";
  EXPECT_EQ(Do(&C::CreateVolume, *old_controller, never).error_code(), StatusCode::OUT_OF_RANGE);
}

TEST(OlderErrors, EveryCodeIsMappedAndBusyIsNeverFinal) {
  for (int i = 0; i <= static_cast<int>(Code::kInternal); ++i) {
    const Code code = static_cast<Code>(i);
    const bool stale = code == Code::kStaleToken;
    EXPECT_EQ(v0::ToGrpcCode(code) == StatusCode::ABORTED, stale) << CodeName(code);
    EXPECT_EQ(v0_1::ToGrpcCode(code) == StatusCode::ABORTED, stale) << CodeName(code);
    EXPECT_NE(v0::ToGrpcCode(code), StatusCode::OK);
    EXPECT_NE(v0_1::ToGrpcCode(code), StatusCode::OK);
  }
  EXPECT_EQ(v0::ToGrpcCode(Code::kBusy), StatusCode::UNAVAILABLE);
  EXPECT_EQ(v0_1::ToGrpcCode(Code::kBusy), StatusCode::UNAVAILABLE);
  for (const Code code : {Code::kUnavailable, Code::kIo, Code::kTimeout, Code::kInternal, Code::kCorrupt}) {
    EXPECT_NE(v0::ToGrpcCode(code), StatusCode::NOT_FOUND);
    EXPECT_NE(v0_1::ToGrpcCode(code), StatusCode::NOT_FOUND);
  }
}

}  // namespace
}  // namespace quarry::csi
