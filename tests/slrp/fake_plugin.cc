#include "tests/slrp/fake_plugin.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include <grpcpp/server_builder.h>

#include "tests/csi_versions.h"

namespace quarry::slrp {
namespace {

using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

constexpr uint64_t kGranule = 1 << 20;
constexpr uint64_t kRoom = uint64_t{1} << 40;

template <typename V>
constexpr bool kIsV1 = std::is_same_v<V, csi::V1>;

template <typename Volume>
void Fill(Volume& message, const FakeWorld::Volume& volume) {
  csi::SetId(message, volume.id);
  message.set_capacity_bytes(static_cast<int64_t>(volume.size));
  csi::MutableContextOf(message).insert(volume.context.begin(), volume.context.end());
}

template <typename V>
class Controller : public V::Controller::Service {
 public:
  explicit Controller(FakePlugin& plugin) : plugin_(plugin) {}

  Status CreateVolume(ServerContext*, const typename V::CreateRequest* request,
                      typename V::CreateResponse* response) override {
    FakeWorld::Volume made;
    const auto& range = request->capacity_range();
    const Status status = plugin_.Create(request->name(), static_cast<uint64_t>(range.required_bytes()),
                                         static_cast<uint64_t>(range.limit_bytes()), made);
    Fill(V::MutableVolumeOf(*response), made);
    return status;
  }
  Status DeleteVolume(ServerContext*, const typename V::DeleteRequest* request,
                      typename V::DeleteResponse*) override {
    return plugin_.Delete(request->volume_id());
  }
  Status ListVolumes(ServerContext*, const typename V::ListRequest*,
                     typename V::ListResponse* response) override {
    std::vector<FakeWorld::Volume> volumes;
    bool more = false;
    const Status status = plugin_.List(volumes, more);
    for (const FakeWorld::Volume& volume : volumes) {
      Fill(V::MutableVolumeOf(*response->add_entries()), volume);
    }
    response->set_next_token(more ? "more" : "");
    return status;
  }
  Status GetCapacity(ServerContext*, const typename V::CapacityRequest* request,
                     typename V::CapacityResponse* response) override {
    uint64_t available = 0;
    const auto& parameters = request->parameters();
    const Status status = plugin_.Capacity({parameters.begin(), parameters.end()}, available);
    response->set_available_capacity(static_cast<int64_t>(available));
    return status;
  }
  Status ValidateVolumeCapabilities(ServerContext*, const typename V::ValidateRequest* request,
                                    typename V::ValidateResponse* response) override {
    if (!plugin_.Has(request->volume_id())) {
      return {StatusCode::NOT_FOUND, request->volume_id()};
    }
    if (plugin_.fault == Fault::kNeverConfirms) {
      response->set_message("never");
      return Status::OK;
    }
    if constexpr (kIsV1<V>) {
      auto& confirmed = *response->mutable_confirmed();
      *confirmed.mutable_volume_capabilities() = request->volume_capabilities();
      if (plugin_.fault != Fault::kDoesNotEcho) {
        *confirmed.mutable_volume_context() = request->volume_context();
        *confirmed.mutable_parameters() = request->parameters();
      }
    } else {
      response->set_supported(true);
    }
    return Status::OK;
  }
  Status ControllerGetCapabilities(ServerContext*, const typename V::ControllerCapabilitiesRequest*,
                                   typename V::ControllerCapabilitiesResponse* response) override {
    using Type = std::remove_reference_t<decltype(response->add_capabilities()->rpc())>::Type;
    response->clear_capabilities();
    for (const int type :
         {1, 3, 4}) {  // create and delete, list, capacity: the same numbers in every version
      response->add_capabilities()->mutable_rpc()->set_type(static_cast<Type>(type));
    }
    return Status::OK;
  }

 protected:
  FakePlugin& plugin_;
};

template <typename V>
class Node : public V::Node::Service {
 public:
  explicit Node(FakePlugin& plugin) : plugin_(plugin) {}

  Status NodePublishVolume(ServerContext*, const typename V::PublishRequest* request,
                           typename V::PublishResponse*) override {
    return plugin_.Publish(request->volume_id(), request->target_path(), kIsV1<V>);
  }
  Status NodeUnpublishVolume(ServerContext*, const typename V::UnpublishRequest* request,
                             typename V::UnpublishResponse*) override {
    return plugin_.Unpublish(request->volume_id(), request->target_path(), kIsV1<V>);
  }
  Status NodeGetCapabilities(ServerContext*, const typename V::NodeCapabilitiesRequest*,
                             typename V::NodeCapabilitiesResponse*) override {
    return Status::OK;
  }

 private:
  FakePlugin& plugin_;
};

Status ProbeOf(const FakePlugin& plugin) {
  return plugin.fault == Fault::kProbeFails ? Status(StatusCode::FAILED_PRECONDITION, "broken") : Status::OK;
}

class Controller01 final : public Controller<csi::V0_1> {
 public:
  using Controller<csi::V0_1>::Controller;
  Status ControllerProbe(ServerContext*, const ::csi::ControllerProbeRequest*,
                         ::csi::ControllerProbeResponse*) override {
    return ProbeOf(plugin_);
  }
};

class Node01 final : public Node<csi::V0_1> {
 public:
  using Node<csi::V0_1>::Node;
  Status NodeProbe(ServerContext*, const ::csi::NodeProbeRequest*, ::csi::NodeProbeResponse*) override {
    return Status::OK;
  }
};

class Identity01 final : public ::csi::Identity::Service {
 public:
  explicit Identity01(FakePlugin& plugin) : plugin_(plugin) {}
  Status GetSupportedVersions(ServerContext*, const ::csi::GetSupportedVersionsRequest*,
                              ::csi::GetSupportedVersionsResponse* response) override {
    response->add_supported_versions()->set_minor(plugin_.fault == Fault::kOtherVersion ? 2 : 1);
    return Status::OK;
  }
  Status GetPluginInfo(ServerContext*, const ::csi::GetPluginInfoRequest*,
                       ::csi::GetPluginInfoResponse* response) override {
    response->set_name(plugin_.fault == Fault::kNoController ? "" : "fake");
    return Status::OK;
  }

 private:
  FakePlugin& plugin_;
};

template <typename Service, typename InfoRequest, typename InfoResponse, typename OfferRequest,
          typename OfferResponse, typename ProbeRequest, typename ProbeResponse, typename Type>
class Identity final : public Service {
 public:
  explicit Identity(FakePlugin& plugin) : plugin_(plugin) {}
  Status GetPluginInfo(ServerContext*, const InfoRequest*, InfoResponse* response) override {
    response->set_name("fake");
    return Status::OK;
  }
  Status GetPluginCapabilities(ServerContext*, const OfferRequest*, OfferResponse* response) override {
    if (plugin_.fault != Fault::kNoController) {
      response->add_capabilities()->mutable_service()->set_type(Type::CONTROLLER_SERVICE);
    }
    return Status::OK;
  }
  Status Probe(ServerContext*, const ProbeRequest*, ProbeResponse*) override { return ProbeOf(plugin_); }

 private:
  FakePlugin& plugin_;
};

using IdentityV0 =
    Identity<::csi::v0::Identity::Service, ::csi::v0::GetPluginInfoRequest, ::csi::v0::GetPluginInfoResponse,
             ::csi::v0::GetPluginCapabilitiesRequest, ::csi::v0::GetPluginCapabilitiesResponse,
             ::csi::v0::ProbeRequest, ::csi::v0::ProbeResponse, ::csi::v0::PluginCapability::Service>;
using IdentityV1 =
    Identity<::csi::v1::Identity::Service, ::csi::v1::GetPluginInfoRequest, ::csi::v1::GetPluginInfoResponse,
             ::csi::v1::GetPluginCapabilitiesRequest, ::csi::v1::GetPluginCapabilitiesResponse,
             ::csi::v1::ProbeRequest, ::csi::v1::ProbeResponse, ::csi::v1::PluginCapability::Service>;

}  // namespace

FakePlugin::FakePlugin(FakeWorld& world, const std::string& socket, Fault f, bool restarted)
    : fault(f), world_(world), restarted_(restarted) {
  services_.push_back(std::make_unique<Identity01>(*this));
  services_.push_back(std::make_unique<Controller01>(*this));
  services_.push_back(std::make_unique<Node01>(*this));
  services_.push_back(std::make_unique<IdentityV0>(*this));
  services_.push_back(std::make_unique<Controller<csi::V0>>(*this));
  services_.push_back(std::make_unique<Node<csi::V0>>(*this));
  if (fault != Fault::kNoV1) {
    services_.push_back(std::make_unique<IdentityV1>(*this));
    services_.push_back(std::make_unique<Controller<csi::V1>>(*this));
    services_.push_back(std::make_unique<Node<csi::V1>>(*this));
  }
  grpc::ServerBuilder builder;
  for (const auto& service : services_) {
    builder.RegisterService(service.get());
  }
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  server_ = builder.BuildAndStart();
}

FakePlugin::~FakePlugin() {
  server_->Shutdown(std::chrono::system_clock::now());
}

Status FakePlugin::Create(const std::string& name, uint64_t required, uint64_t limit,
                          FakeWorld::Volume& made) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, volume] : world_.volumes) {
    if (volume.name == name && fault != Fault::kMakesTwice) {
      made = volume;
      return fault == Fault::kAborts ? Status(StatusCode::ABORTED, "pending") : Status::OK;
    }
  }
  uint64_t size = required;
  if (fault == Fault::kRoundsSizes) {
    size = (required + kGranule - 1) / kGranule * kGranule;
  } else if (required % kGranule != 0 || limit < required) {
    return {StatusCode::OUT_OF_RANGE, "sizes are multiples of 1 MiB"};
  }
  if (fault == Fault::kRefusesCreate) {
    return {StatusCode::RESOURCE_EXHAUSTED, "full after all"};
  }
  const std::string id = "fake/" + std::to_string(world_.made++);
  made = {id, name, size, {{"made", id}}};
  world_.volumes[id] = made;
  return Status::OK;
}

Status FakePlugin::Delete(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = world_.volumes.find(id);
  if (found == world_.volumes.end()) {
    return fault == Fault::kDeletesOnce ? Status(StatusCode::NOT_FOUND, id) : Status::OK;
  }
  world_.deleted.push_back(found->second);
  world_.volumes.erase(found);
  return Status::OK;
}

Status FakePlugin::List(std::vector<FakeWorld::Volume>& volumes, bool& more) {
  if (fault == Fault::kSlow) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  const std::lock_guard lock(mutex_);
  ++world_.lists;
  if (fault == Fault::kListFails && world_.lists > 1) {
    return {StatusCode::INTERNAL, "lvs failed"};
  }
  for (const auto& [id, volume] : world_.volumes) {
    volumes.push_back(volume);
    if (fault == Fault::kListsTwice) {
      volumes.push_back(volume);
    }
    if (fault == Fault::kChangesContext) {
      volumes.back().context["seen"] = std::to_string(world_.lists);
    }
  }
  if (fault == Fault::kLosesVolumes && !volumes.empty()) {
    volumes.pop_back();
  }
  if (fault == Fault::kKeepsDeleted) {
    volumes.insert(volumes.end(), world_.deleted.begin(), world_.deleted.end());
  }
  constexpr size_t kPage = 2;
  more = fault == Fault::kPages && volumes.size() > kPage;
  volumes.resize(more ? kPage : volumes.size());
  return Status::OK;
}

Status FakePlugin::Capacity(const Strings& parameters, uint64_t& available) {
  const auto type = parameters.find("type");
  const bool known = type == parameters.end() || type->second == "linear" || type->second.starts_with("raid");
  if (!known && fault == Fault::kCapacityFails) {
    return {StatusCode::INVALID_ARGUMENT, "no such type"};
  }
  available = known || fault == Fault::kPromisesNonsense ? kRoom : 0;
  return Status::OK;
}

Status FakePlugin::Publish(const std::string& id, const std::string& target, bool v1) {
  const std::lock_guard lock(mutex_);
  if (!world_.volumes.contains(id) || fault == Fault::kPublishFails ||
      (fault == Fault::kForgetsPublish && restarted_)) {
    return {StatusCode::INTERNAL, "cannot mount"};
  }
  if (v1) {
    std::ofstream made(target);
  }
  world_.published[target] = id;
  return Status::OK;
}

Status FakePlugin::Unpublish(const std::string& /*id*/, const std::string& target, bool v1) {
  const std::lock_guard lock(mutex_);
  const bool was = world_.published.erase(target) > 0;
  if (!was && fault == Fault::kStrictUnpublish) {
    return {StatusCode::NOT_FOUND, target};
  }
  if (v1 != (fault == Fault::kOtherTarget)) {
    std::error_code ignored;
    std::filesystem::remove(target, ignored);
  }
  return Status::OK;
}

bool FakePlugin::Has(const std::string& id) {
  const std::lock_guard lock(mutex_);
  return world_.volumes.contains(id);
}

}  // namespace quarry::slrp
