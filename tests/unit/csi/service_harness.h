// The services over a real unix socket, the real engine, and fake worlds.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <csi/v1/csi.grpc.pb.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "base/call.h"
#include "base/log.h"
#include "bucket/bucket_api.h"
#include "csi/server.h"
#include "engine/engine.h"
#include "tests/fakes/fake_disk_health.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_pool_reader.h"
#include "tests/fakes/fake_udev.h"

namespace quarry::csi {

namespace pb = ::csi::v1;

inline constexpr int64_t kMebibyte = 1 << 20;

struct HarnessOptions {
  Mode mode = Mode::kAll;
  bool alpha = false;
  bool start = true;  // false: the engine has not started
  bool several_targets = true;
  Bytes ephemeral_max_size;
  bool expand_on_node = false;
  RpcObserver observe = {};
  bucket::BucketApi* buckets = nullptr;
  std::vector<engine::StoreConfig> stores = {};  // of the pool
  bool store = false;  // the pool has a thin store "fast" of 1.5 GiB, with chunks of 64 KiB
};

// One pool "p" on group "vg0": four disks of 1 GiB, extents of 4 MiB.
class ServiceHarness {
 public:
  explicit ServiceHarness(const HarnessOptions& options = {});
  ~ServiceHarness();

  // Calls `method` of a stub, e.g. Do(&pb::Node::Stub::NodeStageVolume, *node, request).
  template <typename Stub, typename Request, typename Response>
  static grpc::Status Do(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                         Stub& stub, const Request& request, Response* response = nullptr) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    Response ignored;
    return (stub.*method)(&context, request, response != nullptr ? response : &ignored);
  }

  // A volume of 64 MiB. Fails the test if the volume cannot be created.
  std::string MakeVolume(const std::string& name, bool block = false);
  // Stages volume `id` at /staging and publishes it at /target.
  void StageAndPublish(const std::string& id);

  std::string Logged();  // everything logged so far

  fakes::FakeDm dm;
  fakes::FakeLvm lvm;
  fakes::FakeErase erase;
  fakes::FakeMount mount{dm};
  fakes::FakePoolReader thin{dm};
  fakes::FakeUdev udev;
  std::shared_ptr<fakes::FakeDiskHealth> disk_health = std::make_shared<fakes::FakeDiskHealth>();
  SystemClock clock;

 private:
  std::string directory_;
  int log_fd_;
  Logger log_;

 public:
  std::string socket, admin_socket;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<Server> server;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<pb::Identity::Stub> identity;
  std::unique_ptr<pb::Controller::Stub> controller;
  std::unique_ptr<pb::Node::Stub> node;
  std::unique_ptr<pb::SnapshotMetadata::Stub> snapshot_metadata;
};

pb::VolumeCapability MountCapability(
    pb::VolumeCapability::AccessMode::Mode mode = pb::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
pb::VolumeCapability BlockCapability(
    pb::VolumeCapability::AccessMode::Mode mode = pb::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
pb::CreateVolumeRequest CreateRequest(const std::string& name, bool block = false);
pb::NodeStageVolumeRequest StageRequest(const std::string& id);
pb::NodePublishVolumeRequest PublishRequest(const std::string& id, const std::string& target = "/target");

}  // namespace quarry::csi
