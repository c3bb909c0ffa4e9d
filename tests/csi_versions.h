// CSI v0.1, v0 and v1 under the same names, so that one template serves all of them.
#pragma once

#include <string>

#include <csi/v0/csi.grpc.pb.h>
#include <csi/v0_1/csi.grpc.pb.h>
#include <csi/v1/csi.grpc.pb.h>

namespace quarry::csi {

#define QUARRY_CSI_MESSAGES(package)                                                 \
  using Controller = package::Controller;                                            \
  using Node = package::Node;                                                        \
  using Identity = package::Identity;                                                \
  using VolumeCapability = package::VolumeCapability;                                \
  using Mode = package::VolumeCapability::AccessMode;                                \
  using CreateRequest = package::CreateVolumeRequest;                                \
  using CreateResponse = package::CreateVolumeResponse;                              \
  using DeleteRequest = package::DeleteVolumeRequest;                                \
  using DeleteResponse = package::DeleteVolumeResponse;                              \
  using ValidateRequest = package::ValidateVolumeCapabilitiesRequest;                \
  using ValidateResponse = package::ValidateVolumeCapabilitiesResponse;              \
  using ListRequest = package::ListVolumesRequest;                                   \
  using ListResponse = package::ListVolumesResponse;                                 \
  using CapacityRequest = package::GetCapacityRequest;                               \
  using CapacityResponse = package::GetCapacityResponse;                             \
  using PublishRequest = package::NodePublishVolumeRequest;                          \
  using PublishResponse = package::NodePublishVolumeResponse;                        \
  using UnpublishRequest = package::NodeUnpublishVolumeRequest;                      \
  using UnpublishResponse = package::NodeUnpublishVolumeResponse;                    \
  using InfoRequest = package::GetPluginInfoRequest;                                 \
  using InfoResponse = package::GetPluginInfoResponse;                               \
  using ControllerCapabilitiesRequest = package::ControllerGetCapabilitiesRequest;   \
  using ControllerCapabilitiesResponse = package::ControllerGetCapabilitiesResponse; \
  using NodeCapabilitiesRequest = package::NodeGetCapabilitiesRequest;               \
  using NodeCapabilitiesResponse = package::NodeGetCapabilitiesResponse

struct V0_1 {
  QUARRY_CSI_MESSAGES(::csi);
  static constexpr char kCsi[] = "0.1";
  static constexpr grpc::StatusCode kNoRoomNow = grpc::StatusCode::OUT_OF_RANGE;

  template <typename Request>
  static void SetVersion(Request& request) {
    request.mutable_version()->set_minor(1);
  }
  template <typename Message>
  static const auto& VolumeOf(const Message& message) {
    return message.volume_info();
  }
  template <typename Message>
  static auto& MutableVolumeOf(Message& message) {
    return *message.mutable_volume_info();
  }
  static auto& SecretsOf(CreateRequest& request) { return *request.mutable_user_credentials(); }
};

struct V0 {
  QUARRY_CSI_MESSAGES(::csi::v0);
  static constexpr char kCsi[] = "0.3";
  static constexpr grpc::StatusCode kNoRoomNow = grpc::StatusCode::RESOURCE_EXHAUSTED;

  template <typename Request>
  static void SetVersion(Request&) {}
  template <typename Message>
  static const auto& VolumeOf(const Message& message) {
    return message.volume();
  }
  template <typename Message>
  static auto& MutableVolumeOf(Message& message) {
    return *message.mutable_volume();
  }
  static auto& SecretsOf(CreateRequest& request) { return *request.mutable_controller_create_secrets(); }
};

struct V1 {
  QUARRY_CSI_MESSAGES(::csi::v1);

  template <typename Request>
  static void SetVersion(Request&) {}
  template <typename Message>
  static const auto& VolumeOf(const Message& message) {
    return message.volume();
  }
  template <typename Message>
  static auto& MutableVolumeOf(Message& message) {
    return *message.mutable_volume();
  }
};

#undef QUARRY_CSI_MESSAGES

// Accessors of fields that v1 renamed.
template <typename Volume>
const std::string& IdOf(const Volume& volume) {
  if constexpr (requires { volume.volume_id(); }) {
    return volume.volume_id();
  } else {
    return volume.id();
  }
}
template <typename Volume>
void SetId(Volume& volume, const std::string& id) {
  if constexpr (requires { volume.volume_id(); }) {
    volume.set_volume_id(id);
  } else {
    volume.set_id(id);
  }
}
template <typename Message>
const auto& ContextOf(const Message& message) {
  if constexpr (requires { message.volume_context(); }) {
    return message.volume_context();
  } else if constexpr (requires { message.volume_attributes(); }) {
    return message.volume_attributes();
  } else {
    return message.attributes();
  }
}
template <typename Message>
auto& MutableContextOf(Message& message) {
  if constexpr (requires { message.volume_context(); }) {
    return *message.mutable_volume_context();
  } else if constexpr (requires { message.volume_attributes(); }) {
    return *message.mutable_volume_attributes();
  } else {
    return *message.mutable_attributes();
  }
}

}  // namespace quarry::csi
