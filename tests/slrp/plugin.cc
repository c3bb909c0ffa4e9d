#include "tests/slrp/plugin.h"

#include <google/protobuf/util/message_differencer.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>

#include "tests/csi_versions.h"

namespace quarry::slrp {
namespace {

using google::protobuf::util::MessageDifferencer;

template <typename V>
constexpr Api kApiOf = std::is_same_v<V, csi::V0_1> ? Api::kV0_1
                       : std::is_same_v<V, csi::V0> ? Api::kV0
                                                    : Api::kV1;

template <typename Map>
Strings ToStrings(const Map& map) {
  return {map.begin(), map.end()};
}

template <typename V>
class Client final : public Plugin {
 public:
  Client(const std::string& socket, std::chrono::milliseconds limit)
      : limit_(limit),
        channel_(
            grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), Arguments())),
        identity_(V::Identity::NewStub(channel_)),
        controller_(V::Controller::NewStub(channel_)),
        node_(V::Node::NewStub(channel_)) {}

  Api api() const override { return kApiOf<V>; }

  Reply<std::set<std::string>> SupportedVersions() override {
    Reply<std::set<std::string>> reply;
    if constexpr (kApiOf<V> == Api::kV0_1) {
      ::csi::GetSupportedVersionsResponse response;
      reply.status = Invoke(&V::Identity::Stub::GetSupportedVersions, *identity_,
                            ::csi::GetSupportedVersionsRequest(), response);
      for (const auto& version : response.supported_versions()) {
        reply.value.insert(std::to_string(version.major()) + "." + std::to_string(version.minor()) + "." +
                           std::to_string(version.patch()));
      }
    }
    return reply;
  }

  grpc::Status Probe() override {
    if constexpr (kApiOf<V> == Api::kV0_1) {
      ::csi::ControllerProbeResponse controller;
      ::csi::NodeProbeResponse node;
      const grpc::Status status = Invoke(&V::Controller::Stub::ControllerProbe, *controller_,
                                         New<::csi::ControllerProbeRequest>(), controller);
      return status.ok() ? Invoke(&V::Node::Stub::NodeProbe, *node_, New<::csi::NodeProbeRequest>(), node)
                         : status;
    } else if constexpr (kApiOf<V> == Api::kV0) {
      ::csi::v0::ProbeResponse response;
      return Invoke(&V::Identity::Stub::Probe, *identity_, ::csi::v0::ProbeRequest(), response);
    } else {
      ::csi::v1::ProbeResponse response;
      return Invoke(&V::Identity::Stub::Probe, *identity_, ::csi::v1::ProbeRequest(), response);
    }
  }

  Reply<std::string> Name() override {
    typename V::InfoResponse response;
    auto status =
        Invoke(&V::Identity::Stub::GetPluginInfo, *identity_, New<typename V::InfoRequest>(), response);
    return {status, response.name()};
  }

  Reply<bool> HasControllerService() override {
    if constexpr (kApiOf<V> == Api::kV0_1) {
      return {grpc::Status::OK, true};
    } else if constexpr (kApiOf<V> == Api::kV0) {
      return AskPlugin<::csi::v0::GetPluginCapabilitiesRequest, ::csi::v0::GetPluginCapabilitiesResponse>();
    } else {
      return AskPlugin<::csi::v1::GetPluginCapabilitiesRequest, ::csi::v1::GetPluginCapabilitiesResponse>();
    }
  }

  Reply<Offer> Capabilities() override {
    Reply<Offer> reply;
    typename V::ControllerCapabilitiesResponse controller;
    reply.status = Invoke(&V::Controller::Stub::ControllerGetCapabilities, *controller_,
                          New<typename V::ControllerCapabilitiesRequest>(), controller);
    for (const auto& capability : controller.capabilities()) {  // every version uses the same numbers
      reply.value.create_delete |= static_cast<int>(capability.rpc().type()) == 1;
      reply.value.publish_unpublish |= static_cast<int>(capability.rpc().type()) == 2;
      reply.value.list |= static_cast<int>(capability.rpc().type()) == 3;
      reply.value.capacity |= static_cast<int>(capability.rpc().type()) == 4;
    }
    if (!reply.ok()) {
      return reply;
    }
    typename V::NodeCapabilitiesResponse node;
    reply.status =
        Invoke(&V::Node::Stub::NodeGetCapabilities, *node_, New<typename V::NodeCapabilitiesRequest>(), node);
    for (const auto& capability : node.capabilities()) {
      reply.value.stage |= kApiOf<V> != Api::kV0_1 && static_cast<int>(capability.rpc().type()) == 1;
    }
    return reply;
  }

  Reply<Listed> Create(const std::string& name, uint64_t size, const Capability& capability,
                       const Strings& parameters) override {
    auto request = New<typename V::CreateRequest>();
    request.set_name(name);
    request.mutable_capacity_range()->set_required_bytes(size);
    request.mutable_capacity_range()->set_limit_bytes(size);
    Fill(*request.add_volume_capabilities(), capability);
    request.mutable_parameters()->insert(parameters.begin(), parameters.end());
    typename V::CreateResponse response;
    auto status = Invoke(&V::Controller::Stub::CreateVolume, *controller_, request, response);
    return {status, ToListed(V::VolumeOf(response))};
  }

  grpc::Status Delete(const std::string& id) override {
    auto request = New<typename V::DeleteRequest>();
    request.set_volume_id(id);
    typename V::DeleteResponse response;
    return Invoke(&V::Controller::Stub::DeleteVolume, *controller_, request, response);
  }

  Reply<Listing> List() override {
    typename V::ListResponse response;
    Reply<Listing> reply;
    reply.status =
        Invoke(&V::Controller::Stub::ListVolumes, *controller_, New<typename V::ListRequest>(), response);
    for (const auto& entry : response.entries()) {
      reply.value.volumes.push_back(ToListed(V::VolumeOf(entry)));
    }
    reply.value.next_token = response.next_token();
    return reply;
  }

  Reply<uint64_t> Capacity(const Capability& capability, const Strings& parameters) override {
    auto request = New<typename V::CapacityRequest>();
    Fill(*request.add_volume_capabilities(), capability);
    request.mutable_parameters()->insert(parameters.begin(), parameters.end());
    typename V::CapacityResponse response;
    auto status = Invoke(&V::Controller::Stub::GetCapacity, *controller_, request, response);
    return {status, static_cast<uint64_t>(response.available_capacity())};
  }

  Reply<Validated> Validate(const Listed& volume, const Capability& capability,
                            const Strings& parameters) override {
    auto request = New<typename V::ValidateRequest>();
    request.set_volume_id(volume.id);
    csi::MutableContextOf(request).insert(volume.context.begin(), volume.context.end());
    Fill(*request.add_volume_capabilities(), capability);
    typename V::ValidateResponse response;
    Reply<Validated> reply;
    if constexpr (kApiOf<V> == Api::kV1) {
      request.mutable_parameters()->insert(parameters.begin(), parameters.end());
      reply.status =
          Invoke(&V::Controller::Stub::ValidateVolumeCapabilities, *controller_, request, response);
      reply.value.confirmed = response.has_confirmed();
      const auto& echo = response.confirmed();
      reply.value.echoed =
          ToStrings(echo.volume_context()) == volume.context && ToStrings(echo.parameters()) == parameters &&
          echo.volume_capabilities_size() == 1 &&
          MessageDifferencer::Equals(echo.volume_capabilities(0), request.volume_capabilities(0));
    } else {
      reply.status =
          Invoke(&V::Controller::Stub::ValidateVolumeCapabilities, *controller_, request, response);
      reply.value.confirmed = response.supported();
    }
    reply.value.message = response.message();
    return reply;
  }

  grpc::Status Stage(const Listed& volume, const std::string& staging,
                     const Capability& capability) override {
    if constexpr (kApiOf<V> == Api::kV0_1) {
      return {grpc::StatusCode::UNIMPLEMENTED, "0.1 has no staging"};
    } else if constexpr (kApiOf<V> == Api::kV0) {
      return StageAs<::csi::v0::NodeStageVolumeRequest, ::csi::v0::NodeStageVolumeResponse>(volume, staging,
                                                                                            capability);
    } else {
      return StageAs<::csi::v1::NodeStageVolumeRequest, ::csi::v1::NodeStageVolumeResponse>(volume, staging,
                                                                                            capability);
    }
  }

  grpc::Status Unstage(const std::string& id, const std::string& staging) override {
    if constexpr (kApiOf<V> == Api::kV0_1) {
      return {grpc::StatusCode::UNIMPLEMENTED, "0.1 has no staging"};
    } else if constexpr (kApiOf<V> == Api::kV0) {
      return UnstageAs<::csi::v0::NodeUnstageVolumeRequest, ::csi::v0::NodeUnstageVolumeResponse>(id,
                                                                                                  staging);
    } else {
      return UnstageAs<::csi::v1::NodeUnstageVolumeRequest, ::csi::v1::NodeUnstageVolumeResponse>(id,
                                                                                                  staging);
    }
  }

  grpc::Status Publish(const Listed& volume, const std::string& staging, const std::string& target,
                       const Capability& capability) override {
    auto request = New<typename V::PublishRequest>();
    request.set_volume_id(volume.id);
    request.set_target_path(target);
    if constexpr (kApiOf<V> != Api::kV0_1) {
      request.set_staging_target_path(staging);
    }
    Fill(*request.mutable_volume_capability(), capability);
    csi::MutableContextOf(request).insert(volume.context.begin(), volume.context.end());
    typename V::PublishResponse response;
    return Invoke(&V::Node::Stub::NodePublishVolume, *node_, request, response);
  }

  grpc::Status Unpublish(const std::string& id, const std::string& target) override {
    auto request = New<typename V::UnpublishRequest>();
    request.set_volume_id(id);
    request.set_target_path(target);
    typename V::UnpublishResponse response;
    return Invoke(&V::Node::Stub::NodeUnpublishVolume, *node_, request, response);
  }

 private:
  // A restarted plugin is found at once, without gRPC's backoff of minutes.
  static grpc::ChannelArguments Arguments() {
    constexpr int kMilliseconds = 200;
    grpc::ChannelArguments arguments;
    // Uses its own connection, not one that gRPC keeps from before the plugin's restart.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kMilliseconds);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kMilliseconds);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMilliseconds);
    arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1);
    return arguments;
  }

  template <typename Request>
  static Request New() {
    Request request;
    V::SetVersion(request);
    return request;
  }

  template <typename Stub, typename Request, typename Response>
  grpc::Status Invoke(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                      Stub& stub, const Request& request, Response& response) const {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + limit_);
    return (stub.*method)(&context, request, &response);
  }

  template <typename Request, typename Response>
  Reply<bool> AskPlugin() {
    Response response;
    Reply<bool> reply{Invoke(&V::Identity::Stub::GetPluginCapabilities, *identity_, Request(), response),
                      false};
    for (const auto& capability : response.capabilities()) {
      reply.value |= static_cast<int>(capability.service().type()) == 1;
    }
    return reply;
  }

  template <typename Request, typename Response>
  grpc::Status StageAs(const Listed& volume, const std::string& staging, const Capability& capability) {
    Request request;
    request.set_volume_id(volume.id);
    request.set_staging_target_path(staging);
    Fill(*request.mutable_volume_capability(), capability);
    csi::MutableContextOf(request).insert(volume.context.begin(), volume.context.end());
    Response response;
    return Invoke(&V::Node::Stub::NodeStageVolume, *node_, request, response);
  }

  template <typename Request, typename Response>
  grpc::Status UnstageAs(const std::string& id, const std::string& staging) {
    Request request;
    request.set_volume_id(id);
    request.set_staging_target_path(staging);
    Response response;
    return Invoke(&V::Node::Stub::NodeUnstageVolume, *node_, request, response);
  }

  static void Fill(typename V::VolumeCapability& message, const Capability& capability) {
    message.mutable_access_mode()->set_mode(V::Mode::SINGLE_NODE_WRITER);
    if (capability.block) {
      message.mutable_block();
      return;
    }
    auto& mount = *message.mutable_mount();
    mount.set_fs_type(capability.fs_type);
    for (const std::string& flag : capability.mount_flags) {
      mount.add_mount_flags(flag);
    }
  }

  template <typename Volume>
  static Listed ToListed(const Volume& volume) {
    return {csi::IdOf(volume), static_cast<uint64_t>(volume.capacity_bytes()),
            ToStrings(csi::ContextOf(volume))};
  }

  const std::chrono::milliseconds limit_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<typename V::Identity::Stub> identity_;
  std::unique_ptr<typename V::Controller::Stub> controller_;
  std::unique_ptr<typename V::Node::Stub> node_;
};

}  // namespace

std::string Words(const grpc::Status& status) {
  return "code " + std::to_string(status.error_code()) + ": " + status.error_message();
}

bool IsRetried(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

std::unique_ptr<Plugin> Connect(const std::string& socket, Api api, std::chrono::milliseconds limit) {
  switch (api) {
    case Api::kV0_1:
      return std::make_unique<Client<csi::V0_1>>(socket, limit);
    case Api::kV0:
      return std::make_unique<Client<csi::V0>>(socket, limit);
    case Api::kV1:
      return std::make_unique<Client<csi::V1>>(socket, limit);
  }
  return nullptr;  // not a value of the enumeration
}

}  // namespace quarry::slrp
