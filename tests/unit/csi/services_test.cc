// The answers of the services in normal operation, and their behaviour as servers.
#include <sys/stat.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/csi/service_harness.h"

namespace quarry::csi {
namespace {

using grpc::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using Mode = pb::VolumeCapability::AccessMode;
using Controller = pb::Controller::Stub;
using Identity = pb::Identity::Stub;
using Node = pb::Node::Stub;
using ControllerRpc = pb::ControllerServiceCapability::RPC;
using NodeRpc = pb::NodeServiceCapability::RPC;

std::vector<int> ControllerCapabilities(ServiceHarness& harness) {
  pb::ControllerGetCapabilitiesResponse response;
  EXPECT_TRUE(ServiceHarness::Do(&Controller::ControllerGetCapabilities, *harness.controller,
                                 pb::ControllerGetCapabilitiesRequest(), &response)
                  .ok());
  std::vector<int> types;
  for (const auto& capability : response.capabilities()) {
    types.push_back(capability.rpc().type());
  }
  return types;
}

std::vector<int> NodeCapabilities(ServiceHarness& harness) {
  pb::NodeGetCapabilitiesResponse response;
  EXPECT_TRUE(ServiceHarness::Do(&Node::NodeGetCapabilities, *harness.node, pb::NodeGetCapabilitiesRequest(),
                                 &response)
                  .ok());
  std::vector<int> types;
  for (const auto& capability : response.capabilities()) {
    types.push_back(capability.rpc().type());
  }
  return types;
}

class Services : public ::testing::Test, public ServiceHarness {};

TEST_F(Services, IdentifyThemselves) {
  pb::GetPluginInfoResponse info;
  ASSERT_TRUE(Do(&Identity::GetPluginInfo, *identity, pb::GetPluginInfoRequest(), &info).ok());
  EXPECT_EQ(info.name(), "quarry.csi.local");
  EXPECT_EQ(info.vendor_version(), "1.2.3");

  pb::NodeGetInfoResponse node_info;
  ASSERT_TRUE(Do(&Node::NodeGetInfo, *node, pb::NodeGetInfoRequest(), &node_info).ok());
  EXPECT_EQ(node_info.node_id(), "node-1");
  EXPECT_EQ(node_info.max_volumes_per_node(), 7);
  EXPECT_THAT(node_info.accessible_topology().segments(),
              ElementsAre(Pair("quarry.csi.local/node", "node-1")));
}

TEST_F(Services, OfferThePluginCapabilitiesThatTheyServe) {
  pb::GetPluginCapabilitiesResponse response;
  ASSERT_TRUE(
      Do(&Identity::GetPluginCapabilities, *identity, pb::GetPluginCapabilitiesRequest(), &response).ok());
  ASSERT_EQ(response.capabilities_size(), 3);
  EXPECT_EQ(response.capabilities(0).service().type(), pb::PluginCapability::Service::CONTROLLER_SERVICE);
  EXPECT_EQ(response.capabilities(1).service().type(),
            pb::PluginCapability::Service::VOLUME_ACCESSIBILITY_CONSTRAINTS);
  EXPECT_EQ(response.capabilities(2).volume_expansion().type(),
            pb::PluginCapability::VolumeExpansion::ONLINE);
}

TEST_F(Services, GrowVolumesByTheNodeCallAloneIfConfigured) {
  ServiceHarness kubernetes({.expand_on_node = true});
  EXPECT_THAT(ControllerCapabilities(kubernetes),
              UnorderedElementsAre(ControllerRpc::CREATE_DELETE_VOLUME, ControllerRpc::LIST_VOLUMES,
                                   ControllerRpc::GET_CAPACITY, ControllerRpc::CLONE_VOLUME,
                                   ControllerRpc::CREATE_DELETE_SNAPSHOT, ControllerRpc::LIST_SNAPSHOTS));
  EXPECT_THAT(NodeCapabilities(kubernetes), testing::Contains(NodeRpc::EXPAND_VOLUME));
  const std::string id = kubernetes.MakeVolume("v");
  kubernetes.StageAndPublish(id);
  pb::ControllerExpandVolumeRequest asked;
  asked.set_volume_id(id);
  asked.mutable_capacity_range()->set_required_bytes(128 * kMebibyte);
  EXPECT_EQ(Do(&Controller::ControllerExpandVolume, *kubernetes.controller, asked).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  pb::NodeExpandVolumeRequest grow;
  grow.set_volume_id(id);
  grow.set_volume_path("/target");
  grow.set_staging_target_path("/staging");
  grow.mutable_capacity_range()->set_required_bytes(128 * kMebibyte);
  pb::NodeExpandVolumeResponse grown;
  const grpc::Status status = Do(&Node::NodeExpandVolume, *kubernetes.node, grow, &grown);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(grown.capacity_bytes(), 128 * kMebibyte);
}

TEST_F(Services, MakeSnapshotsAndVolumesFromThem) {
  const std::string id = MakeVolume("v");
  pb::CreateSnapshotRequest asked;
  asked.set_name("snap");
  asked.set_source_volume_id(id);
  pb::CreateSnapshotResponse made;
  const grpc::Status status = Do(&Controller::CreateSnapshot, *controller, asked, &made);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(made.snapshot().source_volume_id(), id);
  EXPECT_EQ(made.snapshot().size_bytes(), 64 * kMebibyte);
  EXPECT_TRUE(made.snapshot().ready_to_use());
  EXPECT_GT(made.snapshot().creation_time().seconds(), 1'700'000'000);
  EXPECT_EQ(made.snapshot().accessible_topology_size(), 0) << "an alpha field";
  pb::ListSnapshotsResponse list;
  ASSERT_TRUE(Do(&Controller::ListSnapshots, *controller, pb::ListSnapshotsRequest(), &list).ok());
  ASSERT_EQ(list.entries_size(), 1);
  EXPECT_EQ(list.entries(0).snapshot().SerializeAsString(), made.snapshot().SerializeAsString());
  pb::GetSnapshotRequest get;
  get.set_snapshot_id(made.snapshot().snapshot_id());
  pb::GetSnapshotResponse got;
  ASSERT_TRUE(Do(&Controller::GetSnapshot, *controller, get, &got).ok());
  EXPECT_EQ(got.snapshot().SerializeAsString(), made.snapshot().SerializeAsString());

  pb::CreateVolumeRequest restore = CreateRequest("restored");
  restore.mutable_volume_content_source()->mutable_snapshot()->set_snapshot_id(get.snapshot_id());
  pb::CreateVolumeResponse restored;
  const grpc::Status copied = Do(&Controller::CreateVolume, *controller, restore, &restored);
  ASSERT_TRUE(copied.ok()) << copied.error_message();
  EXPECT_EQ(restored.volume().content_source().snapshot().snapshot_id(), get.snapshot_id());
  pb::DeleteSnapshotRequest gone;
  gone.set_snapshot_id(get.snapshot_id());
  EXPECT_TRUE(Do(&Controller::DeleteSnapshot, *controller, gone).ok());
  EXPECT_EQ(Do(&Controller::GetSnapshot, *controller, get).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(Services, HideAlphaFeaturesUnlessConfigured) {
  EXPECT_THAT(ControllerCapabilities(*this),
              UnorderedElementsAre(ControllerRpc::CREATE_DELETE_VOLUME, ControllerRpc::LIST_VOLUMES,
                                   ControllerRpc::GET_CAPACITY, ControllerRpc::CLONE_VOLUME,
                                   ControllerRpc::CREATE_DELETE_SNAPSHOT, ControllerRpc::LIST_SNAPSHOTS,
                                   ControllerRpc::EXPAND_VOLUME));
  EXPECT_THAT(NodeCapabilities(*this),
              UnorderedElementsAre(NodeRpc::STAGE_UNSTAGE_VOLUME, NodeRpc::GET_VOLUME_STATS,
                                   NodeRpc::EXPAND_VOLUME, NodeRpc::VOLUME_MOUNT_GROUP));
  pb::GetCapacityResponse capacity;
  ASSERT_TRUE(Do(&Controller::GetCapacity, *controller, pb::GetCapacityRequest(), &capacity).ok());
  EXPECT_FALSE(capacity.has_minimum_volume_size());

  ServiceHarness alpha({.alpha = true});
  EXPECT_THAT(ControllerCapabilities(alpha),
              UnorderedElementsAre(ControllerRpc::CREATE_DELETE_VOLUME, ControllerRpc::LIST_VOLUMES,
                                   ControllerRpc::GET_CAPACITY, ControllerRpc::CLONE_VOLUME,
                                   ControllerRpc::CREATE_DELETE_SNAPSHOT, ControllerRpc::LIST_SNAPSHOTS,
                                   ControllerRpc::EXPAND_VOLUME, ControllerRpc::GET_VOLUME,
                                   ControllerRpc::SINGLE_NODE_MULTI_WRITER, ControllerRpc::VOLUME_CONDITION,
                                   ControllerRpc::GET_VOLUME_HEALTH, ControllerRpc::LIST_VOLUME_HEALTH,
                                   ControllerRpc::GET_SNAPSHOT));
  EXPECT_THAT(NodeCapabilities(alpha),
              UnorderedElementsAre(NodeRpc::STAGE_UNSTAGE_VOLUME, NodeRpc::GET_VOLUME_STATS,
                                   NodeRpc::EXPAND_VOLUME, NodeRpc::VOLUME_MOUNT_GROUP,
                                   NodeRpc::SINGLE_NODE_MULTI_WRITER, NodeRpc::VOLUME_CONDITION,
                                   NodeRpc::GET_VOLUME_HEALTH, NodeRpc::GET_STORAGE_HEALTH));
  ASSERT_TRUE(Do(&Controller::GetCapacity, *alpha.controller, pb::GetCapacityRequest(), &capacity).ok());
  EXPECT_EQ(capacity.minimum_volume_size().value(), 4 * kMebibyte);
}

TEST_F(Services, ReportVolumeHealthInTheMessagesOfBothGenerations) {
  ServiceHarness alpha({.alpha = true});
  const std::string id = alpha.MakeVolume("pvc-1");
  alpha.MakeVolume("pvc-2", true);
  alpha.StageAndPublish(id);
  const auto stats = [&] {
    pb::NodeGetVolumeStatsRequest request;
    request.set_volume_id(id);
    request.set_volume_path("/target");
    pb::NodeGetVolumeStatsResponse response;
    EXPECT_TRUE(Do(&Node::NodeGetVolumeStats, *alpha.node, request, &response).ok());
    return response;
  };
  pb::ListVolumesResponse list;
  ASSERT_TRUE(Do(&Controller::ListVolumes, *alpha.controller, pb::ListVolumesRequest(), &list).ok());
  ASSERT_EQ(list.entries_size(), 2);
  for (const auto& entry : list.entries()) {
    EXPECT_FALSE(entry.status().volume_condition().abnormal());
    EXPECT_EQ(entry.status().volume_condition().message(), "healthy");
  }
  EXPECT_EQ(stats().volume_condition().message(), "healthy");

  alpha.lvm.Happen("vg0", [](lvm::VolumeGroup& group) {
    for (lvm::PhysicalVolume& pv : group.pvs) {
      pv.missing = true;
    }
  });
  EXPECT_TRUE(stats().volume_condition().abnormal());
  pb::ControllerGetVolumeRequest get;
  get.set_volume_id(id);
  pb::ControllerGetVolumeResponse volume;
  ASSERT_TRUE(Do(&Controller::ControllerGetVolume, *alpha.controller, get, &volume).ok());
  EXPECT_TRUE(volume.status().volume_condition().abnormal());
  EXPECT_THAT(volume.status().volume_condition().message(), HasSubstr("lies on a missing disk"));

  pb::ControllerListVolumeHealthRequest ailing;
  ailing.set_max_entries(1);
  pb::ControllerListVolumeHealthResponse page;
  ASSERT_TRUE(Do(&Controller::ControllerListVolumeHealth, *alpha.controller, ailing, &page).ok());
  ASSERT_EQ(page.entries_size(), 1);
  EXPECT_EQ(page.entries(0).health_statuses(0).status(), pb::INACCESSIBLE);
  EXPECT_EQ(page.entries(0).health_statuses(0).reason(), "DiskMissing");
  EXPECT_NE(page.next_token(), "");
  ailing.set_starting_token("not one of ours");
  EXPECT_EQ(Do(&Controller::ControllerListVolumeHealth, *alpha.controller, ailing).error_code(),
            grpc::StatusCode::ABORTED);

  pb::NodeGetVolumeHealthRequest health;
  EXPECT_EQ(Do(&Node::NodeGetVolumeHealth, *alpha.node, health).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  health.set_volume_id("p.nothing");
  EXPECT_EQ(Do(&Node::NodeGetVolumeHealth, *alpha.node, health).error_code(), grpc::StatusCode::NOT_FOUND);
  health.set_volume_id(id);
  pb::NodeGetVolumeHealthResponse of_node;
  ASSERT_TRUE(Do(&Node::NodeGetVolumeHealth, *alpha.node, health, &of_node).ok());
  EXPECT_EQ(of_node.volume_health().health_statuses_size(), 1);

  pb::NodeGetStorageHealthResponse storage;
  ASSERT_TRUE(Do(&Node::NodeGetStorageHealth, *alpha.node, pb::NodeGetStorageHealthRequest(), &storage).ok());
  ASSERT_EQ(storage.backend_health_size(), 1);
  EXPECT_EQ(storage.backend_health(0).status(), pb::STORAGE_DEGRADED);
}

TEST_F(Services, ReportAFailingDiskOfTheStorage) {
  ServiceHarness alpha({.alpha = true});
  udev::DiskHealth failing;
  failing.critical_warning = udev::kSpareLow;
  alpha.disk_health->Say("/dev/d1", failing);
  ASSERT_TRUE(alpha.engine->disks().PollDisks(CallWithin(std::chrono::seconds(20))).has_value());
  pb::NodeGetStorageHealthResponse storage;
  ASSERT_TRUE(Do(&Node::NodeGetStorageHealth, *alpha.node, pb::NodeGetStorageHealthRequest(), &storage).ok());
  ASSERT_EQ(storage.backend_health_size(), 1);
  EXPECT_EQ(storage.backend_health(0).status(), pb::STORAGE_DEGRADED);
  EXPECT_EQ(storage.backend_health(0).reason(), "DiskFailing");
}

TEST_F(Services, CreateAVolumeOnceAndFindItAgain) {
  pb::CreateVolumeResponse first;
  pb::CreateVolumeResponse second;
  pb::CreateVolumeRequest request = CreateRequest("pvc-1");
  (*request.mutable_accessibility_requirements()
        ->add_requisite()
        ->mutable_segments())["quarry.csi.local/node"] = "node-1";
  ASSERT_TRUE(Do(&Controller::CreateVolume, *controller, request, &first).ok());
  ASSERT_TRUE(Do(&Controller::CreateVolume, *controller, request, &second).ok());
  EXPECT_EQ(first.SerializeAsString().size(), second.SerializeAsString().size());
  EXPECT_EQ(first.volume().volume_id(), second.volume().volume_id());
  EXPECT_EQ(first.volume().capacity_bytes(), 64 * kMebibyte);
  ASSERT_EQ(first.volume().accessible_topology_size(), 1);
  EXPECT_THAT(first.volume().accessible_topology(0).segments(),
              ElementsAre(Pair("quarry.csi.local/node", "node-1")));

  pb::ControllerGetVolumeRequest get;
  get.set_volume_id(first.volume().volume_id());
  pb::ControllerGetVolumeResponse got;
  ASSERT_TRUE(Do(&Controller::ControllerGetVolume, *controller, get, &got).ok());
  EXPECT_EQ(got.volume().volume_id(), first.volume().volume_id());
  EXPECT_TRUE(got.has_status());
}

TEST_F(Services, SendCallersThatNameThisNodeAloneToAnotherNode) {
  pb::CreateVolumeRequest request = CreateRequest("too large");
  request.mutable_capacity_range()->set_required_bytes(int64_t{1} << 50);
  EXPECT_EQ(Do(&Controller::CreateVolume, *controller, request).error_code(), StatusCode::OUT_OF_RANGE);
  auto& places = *request.mutable_accessibility_requirements();
  (*places.add_requisite()->mutable_segments())["quarry.csi.local/node"] = "node-1";
  EXPECT_EQ(Do(&Controller::CreateVolume, *controller, request).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  (*places.add_requisite()->mutable_segments())["quarry.csi.local/node"] = "node-2";
  EXPECT_EQ(Do(&Controller::CreateVolume, *controller, request).error_code(), StatusCode::OUT_OF_RANGE);
}

TEST_F(Services, ListVolumesPageByPage) {
  std::vector<std::string> made;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    made.push_back(MakeVolume(name));
  }
  std::vector<std::string> seen;
  pb::ListVolumesRequest request;
  request.set_max_entries(2);
  std::vector<int> pages;
  do {
    pb::ListVolumesResponse response;
    ASSERT_TRUE(Do(&Controller::ListVolumes, *controller, request, &response).ok());
    pages.push_back(response.entries_size());
    for (const auto& entry : response.entries()) {
      seen.push_back(entry.volume().volume_id());
      EXPECT_EQ(entry.volume().accessible_topology_size(), 1);
    }
    request.set_starting_token(response.next_token());
  } while (!request.starting_token().empty());
  EXPECT_THAT(pages, ElementsAre(2, 2, 1));
  EXPECT_THAT(seen, testing::UnorderedElementsAreArray(made));
}

TEST_F(Services, ConfirmExactlyTheRequestedFields) {
  pb::ValidateVolumeCapabilitiesRequest request;
  pb::CreateVolumeResponse created;
  pb::CreateVolumeRequest create = CreateRequest("v");
  (*create.mutable_parameters())["type"] = "raid1";
  ASSERT_TRUE(Do(&Controller::CreateVolume, *controller, create, &created).ok());
  request.set_volume_id(created.volume().volume_id());
  *request.mutable_volume_context() = created.volume().volume_context();
  (*request.mutable_parameters())["type"] = "raid1";
  pb::VolumeCapability capability = MountCapability();
  capability.mutable_mount()->add_mount_flags("noatime");
  *request.add_volume_capabilities() = capability;
  pb::ValidateVolumeCapabilitiesResponse response;
  ASSERT_TRUE(Do(&Controller::ValidateVolumeCapabilities, *controller, request, &response).ok());
  ASSERT_TRUE(response.has_confirmed()) << response.message();
  ASSERT_EQ(response.confirmed().volume_capabilities_size(), 1);
  EXPECT_EQ(response.confirmed().volume_capabilities(0).SerializeAsString(), capability.SerializeAsString());
  EXPECT_THAT(response.confirmed().parameters(), ElementsAre(Pair("type", "raid1")));
  EXPECT_EQ(response.confirmed().volume_context().size(), request.volume_context().size());
}

TEST_F(Services, DoNotConfirmUnsupportedRequestsAndSayWhy) {
  pb::ValidateVolumeCapabilitiesRequest good;
  good.set_volume_id(MakeVolume("v"));
  *good.add_volume_capabilities() = MountCapability();
  const std::pair<const char*, std::function<void(pb::ValidateVolumeCapabilitiesRequest&)>> rows[] = {
      {"volume_capabilities[0].access_mode: is for several nodes",
       [](auto& r) { *r.mutable_volume_capabilities(0) = MountCapability(Mode::MULTI_NODE_MULTI_WRITER); }},
      {"volume_capabilities[0].access_mode: mode 99 is not known",
       [](auto& r) { *r.mutable_volume_capabilities(0) = MountCapability(static_cast<Mode::Mode>(99)); }},
      {"raw block", [](auto& r) { *r.mutable_volume_capabilities(0) = BlockCapability(); }},
      {"xfs", [](auto& r) { r.mutable_volume_capabilities(0)->mutable_mount()->set_fs_type("xfs"); }},
      {"mutable_parameters: ", [](auto& r) { (*r.mutable_mutable_parameters())["k"] = "v"; }},
      {"type", [](auto& r) { (*r.mutable_parameters())["type"] = "raid5"; }},
  };
  for (const auto& [message, spoil] : rows) {
    pb::ValidateVolumeCapabilitiesRequest request = good;
    spoil(request);
    pb::ValidateVolumeCapabilitiesResponse response;
    ASSERT_TRUE(Do(&Controller::ValidateVolumeCapabilities, *controller, request, &response).ok()) << message;
    EXPECT_FALSE(response.has_confirmed()) << message;
    EXPECT_THAT(response.message(), HasSubstr(message));
  }
}

TEST_F(Services, ReportTheCapacityOfThisNodeOnly) {
  pb::GetCapacityRequest request;
  pb::GetCapacityResponse response;
  ASSERT_TRUE(Do(&Controller::GetCapacity, *controller, request, &response).ok());
  EXPECT_GT(response.available_capacity(), 0);
  EXPECT_EQ(response.maximum_volume_size().value(), response.available_capacity());

  (*request.mutable_accessible_topology()->mutable_segments())["quarry.csi.local/node"] = "node-1";
  pb::GetCapacityResponse here;
  ASSERT_TRUE(Do(&Controller::GetCapacity, *controller, request, &here).ok());
  EXPECT_EQ(here.available_capacity(), response.available_capacity());

  (*request.mutable_accessible_topology()->mutable_segments())["quarry.csi.local/node"] = "node-2";
  ASSERT_TRUE(Do(&Controller::GetCapacity, *controller, request, &response).ok());
  EXPECT_EQ(response.available_capacity(), 0);
  EXPECT_THAT(Logged(), HasSubstr("accessible_topology: is not this node"));
}

TEST_F(Services, AnswerCapacityZeroWithTheReasonInTheLog) {
  const std::pair<const char*, std::function<void(pb::GetCapacityRequest&)>> rows[] = {
      {"parameters['colour']", [](auto& r) { (*r.mutable_parameters())["colour"] = "red"; }},
      {"is for several nodes",
       [](auto& r) { *r.add_volume_capabilities() = BlockCapability(Mode::MULTI_NODE_SINGLE_WRITER); }},
      {"'ntfs' is not supported",
       [](auto& r) {
         *r.add_volume_capabilities() = MountCapability();
         r.mutable_volume_capabilities(0)->mutable_mount()->set_fs_type("ntfs");
       }},
  };
  for (const auto& [reason, spoil] : rows) {
    pb::GetCapacityRequest request;
    spoil(request);
    pb::GetCapacityResponse response;
    ASSERT_TRUE(Do(&Controller::GetCapacity, *controller, request, &response).ok()) << reason;
    EXPECT_EQ(response.available_capacity(), 0) << reason;
    EXPECT_THAT(Logged(), HasSubstr(reason));
  }
}

TEST_F(Services, CarryAVolumeThroughItsWholeLife) {
  const std::string id = MakeVolume("v");
  StageAndPublish(id);

  pb::ControllerExpandVolumeRequest expand;
  expand.set_volume_id(id);
  expand.mutable_capacity_range()->set_required_bytes(128 * kMebibyte);
  pb::ControllerExpandVolumeResponse expanded;
  ASSERT_TRUE(Do(&Controller::ControllerExpandVolume, *controller, expand, &expanded).ok());
  EXPECT_EQ(expanded.capacity_bytes(), 128 * kMebibyte);
  EXPECT_TRUE(expanded.node_expansion_required());

  pb::NodeExpandVolumeRequest grow;
  grow.set_volume_id(id);
  grow.set_volume_path("/target");
  *grow.mutable_capacity_range() = expand.capacity_range();
  pb::NodeExpandVolumeResponse grown;
  const grpc::Status status = Do(&Node::NodeExpandVolume, *node, grow, &grown);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(grown.capacity_bytes(), 128 * kMebibyte);

  pb::NodeGetVolumeStatsRequest stats;
  stats.set_volume_id(id);
  stats.set_volume_path("/target");
  pb::NodeGetVolumeStatsResponse usage;
  ASSERT_TRUE(Do(&Node::NodeGetVolumeStats, *node, stats, &usage).ok());
  ASSERT_EQ(usage.usage_size(), 2);
  EXPECT_EQ(usage.usage(0).unit(), pb::VolumeUsage::BYTES);
  EXPECT_GT(usage.usage(0).total(), 0);
  EXPECT_EQ(usage.usage(1).unit(), pb::VolumeUsage::INODES);

  pb::NodeUnpublishVolumeRequest unpublish;
  unpublish.set_volume_id(id);
  unpublish.set_target_path("/target");
  pb::NodeUnstageVolumeRequest unstage;
  unstage.set_volume_id(id);
  unstage.set_staging_target_path("/staging");
  pb::DeleteVolumeRequest remove;
  remove.set_volume_id(id);
  for (int twice = 0; twice < 2; ++twice) {
    EXPECT_TRUE(Do(&Node::NodeUnpublishVolume, *node, unpublish).ok());
    EXPECT_TRUE(Do(&Node::NodeUnstageVolume, *node, unstage).ok());
    EXPECT_TRUE(Do(&Controller::DeleteVolume, *controller, remove).ok());
  }
  EXPECT_FALSE(mount.Exists("/target"));
}

TEST_F(Services, LeaveUnknownFiguresOutOfTheStatsOfARawVolume) {
  const std::string id = MakeVolume("raw", true);
  pb::NodeStageVolumeRequest stage = StageRequest(id);
  *stage.mutable_volume_capability() = BlockCapability();
  ASSERT_TRUE(Do(&Node::NodeStageVolume, *node, stage).ok());
  pb::NodePublishVolumeRequest publish = PublishRequest(id);
  *publish.mutable_volume_capability() = BlockCapability();
  const grpc::Status published = Do(&Node::NodePublishVolume, *node, publish);
  ASSERT_TRUE(published.ok()) << published.error_message();
  pb::NodeGetVolumeStatsRequest stats;
  stats.set_volume_id(id);
  stats.set_volume_path("/target");
  pb::NodeGetVolumeStatsResponse usage;
  ASSERT_TRUE(Do(&Node::NodeGetVolumeStats, *node, stats, &usage).ok());
  ASSERT_EQ(usage.usage_size(), 1);
  EXPECT_EQ(usage.usage(0).total(), 64 * kMebibyte);
  EXPECT_EQ(usage.usage(0).used(), 0);
}

TEST_F(Services, LogOneLineForEachRpcWithoutSecretsOrFlags) {
  pb::CreateVolumeRequest create = CreateRequest("v");
  (*create.mutable_secrets())["password"] = "hunter2";
  create.mutable_volume_capabilities(0)->mutable_mount()->add_mount_flags("commit=4711");
  pb::CreateVolumeResponse created;
  ASSERT_TRUE(Do(&Controller::CreateVolume, *controller, create, &created).ok());
  pb::NodeStageVolumeRequest stage = StageRequest(created.volume().volume_id());
  (*stage.mutable_secrets())["password"] = "hunter2";
  stage.mutable_volume_capability()->mutable_mount()->add_mount_flags("key=s3cret,x");
  ASSERT_FALSE(Do(&Node::NodeStageVolume, *node, stage).ok());

  const std::string logged = Logged();
  EXPECT_THAT(logged, HasSubstr(R"("level":"info","msg":"rpc","method":"CreateVolume","volume":")" +
                                created.volume().volume_id() + R"(","code":"ok","ms":)"));
  EXPECT_THAT(logged, HasSubstr(R"("level":"warning","msg":"rpc","method":"NodeStageVolume","volume":")" +
                                created.volume().volume_id() + R"(","code":"invalid_argument")"));
  EXPECT_THAT(logged, HasSubstr(R"("detail":"volume_capability.mount.mount_flags)"));
  for (const char* hidden : {"hunter2", "password", "4711", "s3cret"}) {
    EXPECT_THAT(logged, Not(HasSubstr(hidden)));
  }
  size_t lines = 0;
  for (size_t at = logged.find("\"msg\":\"rpc\""); at != std::string::npos;
       at = logged.find("\"msg\":\"rpc\"", at + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, 2U);
}

TEST_F(Services, ShortenAnOverlongIdInTheLog) {
  pb::DeleteVolumeRequest request;
  request.set_volume_id(std::string(100000, 'i'));
  EXPECT_EQ(Do(&Controller::DeleteVolume, *controller, request).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_LT(Logged().size(), 2000U);
}

TEST(Probe, SaysThatTheEngineHasNotStartedYetAndOtherCallsWait) {
  ServiceHarness harness({.start = false});
  pb::ProbeResponse response;
  ASSERT_TRUE(ServiceHarness::Do(&Identity::Probe, *harness.identity, pb::ProbeRequest(), &response).ok());
  ASSERT_TRUE(response.has_ready());
  EXPECT_FALSE(response.ready().value());
  auto listed = std::async(std::launch::async, [&] {
    return ServiceHarness::Do(&Controller::ListVolumes, *harness.controller, pb::ListVolumesRequest());
  });
  EXPECT_TRUE(
      ServiceHarness::Do(&Identity::GetPluginInfo, *harness.identity, pb::GetPluginInfoRequest()).ok());
  EXPECT_TRUE(ServiceHarness::Do(&Node::NodeGetInfo, *harness.node, pb::NodeGetInfoRequest()).ok());
  EXPECT_EQ(listed.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);

  ASSERT_TRUE(harness.engine->lifecycle().Start(Call{}).has_value());
  EXPECT_TRUE(listed.get().ok());
  ASSERT_TRUE(ServiceHarness::Do(&Identity::Probe, *harness.identity, pb::ProbeRequest(), &response).ok());
  EXPECT_TRUE(response.ready().value());
}

TEST(Probe, NamesTheMissingVolumeGroup) {
  ServiceHarness harness({.start = false});
  harness.lvm.RemoveGroup("vg0");
  EXPECT_FALSE(harness.engine->lifecycle().Start(Call{}).has_value());
  const grpc::Status status = ServiceHarness::Do(&Identity::Probe, *harness.identity, pb::ProbeRequest());
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("vg0"));
}

TEST(Probe, NamesAGroupThatVanishedLater) {
  ServiceHarness harness;
  harness.lvm.RemoveGroup("vg0");
  const grpc::Status status = ServiceHarness::Do(&Identity::Probe, *harness.identity, pb::ProbeRequest());
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("vg0"));
}

TEST_F(Services, AnswerNotReadyWhileTheyCannotLookAndUnhealthyWhenLookingFails) {
  pb::ProbeResponse response;
  lvm.before.FailAlways("Read", Error(Code::kUnavailable, "the group is locked by another process"));
  ASSERT_TRUE(Do(&Identity::Probe, *identity, pb::ProbeRequest(), &response).ok());
  EXPECT_TRUE(response.has_ready() && !response.ready().value());
  EXPECT_THAT(Logged(), HasSubstr("the group is locked by another process"));

  lvm.before.Clear();
  lvm.before.FailAlways("Read", Error(Code::kIo, "reading /dev/d0: Input/output error"));
  const grpc::Status status = Do(&Identity::Probe, *identity, pb::ProbeRequest());
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("Input/output error"));

  lvm.before.Clear();
  ASSERT_TRUE(Do(&Identity::Probe, *identity, pb::ProbeRequest(), &response).ok());
  EXPECT_TRUE(response.ready().value());
}

TEST_F(Services, HaveASocketForTheOwnerOnlyAndRemoveItAtTheEnd) {
  struct stat status{};
  ASSERT_EQ(stat(socket.c_str(), &status), 0);
  EXPECT_TRUE(S_ISSOCK(status.st_mode));
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  server->Shutdown(std::chrono::milliseconds(0));
  EXPECT_NE(stat(socket.c_str(), &status), 0);
}

// A call that has finished its work is answered, even if the server is shut down before the reply is sent.
TEST(Shutdown, LetsAFinishedCallSendItsReply) {
  std::promise<void> finished;
  std::promise<void> send;
  ServiceHarness harness({.observe = [&, first = true](const RpcOutcome& /*outcome*/) mutable {
    if (std::exchange(first, false)) {
      finished.set_value();
      send.get_future().wait();
    }
  }});
  auto reply = std::async(std::launch::async, [&] {
    return ServiceHarness::Do(&Identity::Probe, *harness.identity, pb::ProbeRequest());
  });
  finished.get_future().wait();
  auto shut = std::async(std::launch::async, [&] { harness.server->Shutdown(std::chrono::seconds(60)); });
  EXPECT_EQ(shut.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  send.set_value();
  EXPECT_TRUE(reply.get().ok());
  shut.get();
}

// The engine sees the caller's deadline, and the cancellation when the caller has gone.
class HeldCalls : public Services {
 protected:
  void SetUp() override {
    lvm.SetOnCall([this](const std::string& name) {
      std::unique_lock lock(mutex_);
      if (name == "Create" && hold_) {
        reached_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return !hold_; });
      }
    });
  }
  void WaitUntilReached() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reached_; });
  }
  void Release() {
    const std::scoped_lock lock(mutex_);
    hold_ = false;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool hold_ = true;
  bool reached_ = false;
};

TEST_F(HeldCalls, LearnThatTheirCallerHasGone) {
  // A second volume waits behind the blocked one. Only the stop token can end that wait.
  std::thread first([&] { (void)Do(&Controller::CreateVolume, *controller, CreateRequest("first")); });
  WaitUntilReached();
  grpc::ClientContext context;
  grpc::Status status;
  std::thread second([&] {
    pb::CreateVolumeResponse response;
    status = controller->CreateVolume(&context, CreateRequest("second"), &response);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  context.TryCancel();
  second.join();
  EXPECT_EQ(status.error_code(), StatusCode::CANCELLED);
  for (int i = 0; i < 500 && Logged().find("\"code\":\"cancelled\"") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_THAT(Logged(), HasSubstr("\"code\":\"cancelled\""));
  Release();
  first.join();
}

TEST_F(HeldCalls, KeepTheDeadlineOfTheirCaller) {
  std::thread first([&] { (void)Do(&Controller::CreateVolume, *controller, CreateRequest("first")); });
  WaitUntilReached();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  pb::CreateVolumeResponse response;
  EXPECT_EQ(controller->CreateVolume(&context, CreateRequest("second"), &response).error_code(),
            StatusCode::DEADLINE_EXCEEDED);
  for (int i = 0; i < 500 && Logged().find("CreateVolume\",\"volume\":\"\",\"code\":\"") == std::string::npos;
       ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // Deadline and cancellation reach the server together. Either of them ends the wait.
  EXPECT_THAT(Logged(),
              testing::AnyOf(HasSubstr("\"code\":\"timeout\""), HasSubstr("\"code\":\"cancelled\"")));
  Release();
  first.join();
}

TEST_F(HeldCalls, AreFinishedByAStopThatHasEnoughTime) {
  grpc::Status status;
  std::thread first([&] { status = Do(&Controller::CreateVolume, *controller, CreateRequest("first")); });
  WaitUntilReached();
  std::thread stopping(
      [&] { EXPECT_TRUE(engine->lifecycle().Stop(CallWithin(std::chrono::seconds(20))).has_value()); });
  grpc::Status refused;
  for (int i = 0; i < 500 && refused.error_code() != StatusCode::UNAVAILABLE; ++i) {
    refused = Do(&Controller::ListVolumes, *controller, pb::ListVolumesRequest());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(refused.error_code(), StatusCode::UNAVAILABLE);
  Release();
  first.join();
  stopping.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace quarry::csi
