#include "tests/unit/csi/service_harness.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/fakes/fake_world.h"
#include "tests/unit/read_all.h"

namespace quarry::csi {
namespace {

std::string MakeDirectory() {
  std::string path = "/tmp/quarry-csi-XXXXXX";
  EXPECT_NE(mkdtemp(path.data()), nullptr);
  return path;
}

}  // namespace

ServiceHarness::ServiceHarness(const HarnessOptions& options)
    : directory_(MakeDirectory()),
      log_fd_(memfd_create("log", MFD_CLOEXEC)),
      log_(LogLevel::kDebug, LogFormat::kJson, log_fd_),
      socket(directory_ + "/csi.sock"),
      admin_socket(directory_ + "/admin.sock") {
  fakes::Follow(lvm, dm);
  lvm.AddGroup("vg0", Bytes{4 * kMiB.value},
               {{"/dev/d0", {256}}, {"/dev/d1", {256}}, {"/dev/d2", {256}}, {"/dev/d3", {256}}});
  mount.AddDirectory("/staging");
  engine::EngineConfig config;
  config.pools = {{"p", "vg0", Bytes{0}}};
  config.pools.front().stores = options.stores;
  if (options.store) {
    config.pools.front().stores = {{.name = "fast",
                                    .size = {1536 * kMiB.value},
                                    .geometry = *lvm::Geometry::Make({.type = lvm::VolumeType::kStriped}),
                                    .chunk = {64 * kKiB.value}}};
  }
  config.default_size = Bytes{64 * kMiB.value};
  config.several_targets = options.several_targets;
  config.ephemeral_max_size = options.ephemeral_max_size;
  config.expand = options.expand_on_node ? engine::ExpandBy::kNode : engine::ExpandBy::kController;
  const fakes::FakeWorld world{.lvm = lvm,
                               .dm = dm,
                               .erase = erase,
                               .mount = mount,
                               .clock = clock,
                               .udev = udev,
                               .health = disk_health,
                               .thin = thin};
  engine = std::make_unique<engine::Engine>(config, world, log_);
  if (options.start) {
    const Status started = engine->lifecycle().Start(Call{});
    EXPECT_TRUE(started.has_value()) << started.error().message();
  }
  auto made = Server::Start({.socket = *AbsolutePath::Parse(socket),
                             .admin_socket = *AbsolutePath::Parse(admin_socket),
                             .mode = options.mode,
                             .plugin = {.driver_name = "quarry.csi.local",
                                        .version = "1.2.3",
                                        .here = NodeTopology("quarry.csi.local", "node-1"),
                                        .alpha = options.alpha,
                                        .max_volumes = 7,
                                        .expand_on_node = options.expand_on_node},
                             .buckets = options.buckets,
                             .observe = options.observe},
                            *engine, log_);
  EXPECT_TRUE(made.has_value()) << made.error().message();
  server = std::move(*made);
  channel = grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials());
  identity = pb::Identity::NewStub(channel);
  controller = pb::Controller::NewStub(channel);
  node = pb::Node::NewStub(channel);
  snapshot_metadata = pb::SnapshotMetadata::NewStub(channel);
}

ServiceHarness::~ServiceHarness() {
  lvm.SetOnCall(nullptr);
  (void)engine->lifecycle().Stop(Call{});
  server.reset();
  engine.reset();
  close(log_fd_);
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::string ServiceHarness::MakeVolume(const std::string& name, bool block) {
  pb::CreateVolumeResponse response;
  const grpc::Status status =
      Do(&pb::Controller::Stub::CreateVolume, *controller, CreateRequest(name, block), &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.volume().volume_id();
}

void ServiceHarness::StageAndPublish(const std::string& id) {
  const grpc::Status staged = Do(&pb::Node::Stub::NodeStageVolume, *node, StageRequest(id));
  EXPECT_TRUE(staged.ok()) << staged.error_message();
  const grpc::Status published = Do(&pb::Node::Stub::NodePublishVolume, *node, PublishRequest(id));
  EXPECT_TRUE(published.ok()) << published.error_message();
}

std::string ServiceHarness::Logged() {
  return ReadAll(log_fd_);
}

pb::VolumeCapability MountCapability(pb::VolumeCapability::AccessMode::Mode mode) {
  pb::VolumeCapability capability;
  capability.mutable_mount();
  capability.mutable_access_mode()->set_mode(mode);
  return capability;
}

pb::VolumeCapability BlockCapability(pb::VolumeCapability::AccessMode::Mode mode) {
  pb::VolumeCapability capability;
  capability.mutable_block();
  capability.mutable_access_mode()->set_mode(mode);
  return capability;
}

pb::CreateVolumeRequest CreateRequest(const std::string& name, bool block) {
  pb::CreateVolumeRequest request;
  request.set_name(name);
  *request.add_volume_capabilities() = block ? BlockCapability() : MountCapability();
  request.mutable_capacity_range()->set_required_bytes(64 * kMebibyte);
  return request;
}

pb::NodeStageVolumeRequest StageRequest(const std::string& id) {
  pb::NodeStageVolumeRequest request;
  request.set_volume_id(id);
  request.set_staging_target_path("/staging");
  *request.mutable_volume_capability() = MountCapability();
  return request;
}

pb::NodePublishVolumeRequest PublishRequest(const std::string& id, const std::string& target) {
  pb::NodePublishVolumeRequest request;
  request.set_volume_id(id);
  request.set_staging_target_path("/staging");
  request.set_target_path(target);
  *request.mutable_volume_capability() = MountCapability();
  return request;
}

}  // namespace quarry::csi
