// Inline volumes as kubelet requests them, through a real socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/csi/service_harness.h"

namespace quarry::csi {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Controller = pb::Controller::Stub;
using Node = pb::Node::Stub;

const std::string kHandle = "csi-" + std::string(62, '0') + "7f";

pb::NodePublishVolumeRequest Inline() {
  pb::NodePublishVolumeRequest request;
  request.set_volume_id(kHandle);
  request.set_target_path("/target");
  *request.mutable_volume_capability() = MountCapability();
  auto& context = *request.mutable_volume_context();
  context["csi.storage.k8s.io/ephemeral"] = "true";
  context["csi.storage.k8s.io/pod.name"] = "web-0";
  context["csi.storage.k8s.io/pod.namespace"] = "shop";
  context["size"] = "64MiB";
  return request;
}

class Ephemeral : public ::testing::Test, public ServiceHarness {
 protected:
  Ephemeral() : ServiceHarness({.ephemeral_max_size = Bytes{128 * kMiB.value}}) {}

  grpc::Status Publish(const pb::NodePublishVolumeRequest& request) {
    return Do(&Node::NodePublishVolume, *node, request);
  }
  grpc::Status Unpublish() {
    pb::NodeUnpublishVolumeRequest request;
    request.set_volume_id(kHandle);
    request.set_target_path("/target");
    return Do(&Node::NodeUnpublishVolume, *node, request);
  }
  int Listed() {
    pb::ListVolumesResponse list;
    EXPECT_TRUE(Do(&Controller::ListVolumes, *controller, pb::ListVolumesRequest(), &list).ok());
    return list.entries_size();
  }
};

TEST_F(Ephemeral, LivesFromPublishToUnpublish) {
  for (int i = 0; i < 2; ++i) {
    const grpc::Status published = Publish(Inline());
    ASSERT_TRUE(published.ok()) << published.error_message();
  }
  pb::NodeGetVolumeStatsRequest stats;
  stats.set_volume_id(kHandle);
  stats.set_volume_path("/target");
  pb::NodeGetVolumeStatsResponse usage;
  ASSERT_TRUE(Do(&Node::NodeGetVolumeStats, *node, stats, &usage).ok());
  EXPECT_EQ(usage.usage_size(), 2) << "bytes and inodes";
  EXPECT_EQ(Listed(), 0);
  for (int i = 0; i < 2; ++i) {
    const grpc::Status unpublished = Unpublish();
    ASSERT_TRUE(unpublished.ok()) << unpublished.error_message();
  }
  EXPECT_EQ(Do(&Node::NodeGetVolumeStats, *node, stats, &usage).error_code(), StatusCode::NOT_FOUND);
}

TEST_F(Ephemeral, RefusalsAreInvalidArgumentsThatNameTheField) {
  const auto expect = [this](const std::string& message, StatusCode code, const auto& spoil) {
    pb::NodePublishVolumeRequest request = Inline();
    spoil(request);
    const grpc::Status refused = Publish(request);
    EXPECT_EQ(refused.error_code(), code) << message;
    EXPECT_THAT(refused.error_message(), StartsWith(message));
  };
  const auto bad = StatusCode::INVALID_ARGUMENT;
  expect("volume_context['size']: is 268435456 bytes; an inline volume may have at most 134217728", bad,
         [](auto& r) { (*r.mutable_volume_context())["size"] = "256MiB"; });
  expect("volume_context['size']: must be a size", bad,
         [](auto& r) { (*r.mutable_volume_context())["size"] = "much"; });
  expect("volume_context['colour']: pods may not set it", bad,
         [](auto& r) { (*r.mutable_volume_context())["colour"] = "red"; });
  expect("volume_context['mkfsoptions']: is not for inline volumes", bad,
         [](auto& r) { (*r.mutable_volume_context())["mkfsoptions"] = "-d /etc"; });
  expect("readonly: ", bad, [](auto& r) { r.set_readonly(true); });
  expect("volume_capability: inline volumes are mounted", bad,
         [](auto& r) { *r.mutable_volume_capability() = BlockCapability(); });
  expect("staging_target_path: must be empty: an inline volume is not staged", bad,
         [](auto& r) { r.set_staging_target_path("/staging"); });
  // Without the inline mark, the volume is persistent: it was never staged, or, if staged, it does not exist.
  expect("staging_target_path: is not set", StatusCode::FAILED_PRECONDITION,
         [](auto& r) { r.mutable_volume_context()->erase("csi.storage.k8s.io/ephemeral"); });
  expect("volume_id: no volume '" + kHandle, StatusCode::NOT_FOUND, [](auto& r) {
    r.mutable_volume_context()->erase("csi.storage.k8s.io/ephemeral");
    r.set_staging_target_path("/staging");
  });
}

TEST_F(Ephemeral, IsInvisibleToCallersWithPersistentVolumes) {
  ASSERT_TRUE(Publish(Inline()).ok());
  pb::DeleteVolumeRequest remove;
  remove.set_volume_id(kHandle);
  EXPECT_TRUE(Do(&Controller::DeleteVolume, *controller, remove).ok()) << "there is none of that id";
  pb::ControllerExpandVolumeRequest expand;
  expand.set_volume_id(kHandle);
  expand.mutable_capacity_range()->set_required_bytes(128 * kMebibyte);
  EXPECT_EQ(Do(&Controller::ControllerExpandVolume, *controller, expand).error_code(), StatusCode::NOT_FOUND);
  pb::NodeExpandVolumeRequest grow;
  grow.set_volume_id(kHandle);
  grow.set_volume_path("/target");
  EXPECT_EQ(Do(&Node::NodeExpandVolume, *node, grow).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Do(&Node::NodeStageVolume, *node, StageRequest(kHandle)).error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(Do(&Controller::CreateVolume, *controller, CreateRequest(kHandle)).error_code(),
            StatusCode::ALREADY_EXISTS);
  EXPECT_TRUE(Publish(Inline()).ok()) << "it is there all the same";
}

TEST(EphemeralByDefault, IsRefusedNamingTheOptionThatPermitsIt) {
  ServiceHarness harness;
  const grpc::Status refused = ServiceHarness::Do(&Node::NodePublishVolume, *harness.node, Inline());
  EXPECT_EQ(refused.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("--ephemeral-max-size"));
}

}  // namespace
}  // namespace quarry::csi
