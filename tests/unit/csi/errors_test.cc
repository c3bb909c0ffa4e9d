// Every error of the CSI specification for the RPCs served here (sections 5 to 7 of the reference: general
// rules, the table per RPC, the matrix of second publications). Each test checks the code, and a message that
// names the field or the object. Through a real socket.
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/csi/holdup.h"
#include "tests/unit/csi/service_harness.h"

namespace quarry::csi {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Mode = pb::VolumeCapability::AccessMode;
using Controller = pb::Controller::Stub;
using Node = pb::Node::Stub;

// An id in Quarry's format, of a volume that never existed.
const std::string kUnknown = "p.qaaaaaaaaaaaaaaaaaaaaaaaaaa";

void ExpectError(const grpc::Status& status, StatusCode code, const std::string& beginning) {
  EXPECT_EQ(status.error_code(), code) << status.error_message();
  EXPECT_THAT(status.error_message(), StartsWith(beginning));
  EXPECT_EQ(status.error_details(), "");
}

class Errors : public ::testing::Test, public ServiceHarness {
 protected:
  // Changes a valid request and expects the error.
  template <typename Request>
  struct Row {
    StatusCode code;
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
      ExpectError(Do(method, stub, request), row.code, row.message);
    }
  }

  grpc::Status Create(const pb::CreateVolumeRequest& request) {
    return Do(&Controller::CreateVolume, *controller, request);
  }
};

TEST_F(Errors, OfCreateVolume) {
  using R = pb::CreateVolumeRequest;
  const auto bad = StatusCode::INVALID_ARGUMENT;
  const std::vector<Row<R>> rows = {
      {bad, "name: is required", [](R& r) { r.clear_name(); }},
      {bad, "name: must be at most 128 bytes, is 129", [](R& r) { r.set_name(std::string(129, 'n')); }},
      {bad, "name: must not contain the control character U+0007", [](R& r) { r.set_name("bell\x07"); }},
      {bad, "volume_capabilities: is required", [](R& r) { r.clear_volume_capabilities(); }},
      {bad, "volume_capabilities[0]: needs an access type",
       [](R& r) { r.mutable_volume_capabilities(0)->clear_access_type(); }},
      {bad, "volume_capabilities[1]: has another access type",
       [](R& r) { *r.add_volume_capabilities() = BlockCapability(); }},
      {bad, "volume_capabilities[0].access_mode: is required",
       [](R& r) { r.mutable_volume_capabilities(0)->clear_access_mode(); }},
      {bad, "volume_capabilities[0].access_mode: must not be UNKNOWN",
       [](R& r) { *r.mutable_volume_capabilities(0) = MountCapability(Mode::UNKNOWN); }},
      {bad, "volume_capabilities[0].access_mode: mode 42 is not known",
       [](R& r) { *r.mutable_volume_capabilities(0) = MountCapability(static_cast<Mode::Mode>(42)); }},
      {bad, "volume_capabilities[0].access_mode: is for several nodes",
       [](R& r) { *r.mutable_volume_capabilities(0) = MountCapability(Mode::MULTI_NODE_READER_ONLY); }},
      {bad, "volume_capabilities[0].access_mode: is for several nodes",
       [](R& r) { *r.mutable_volume_capabilities(0) = MountCapability(Mode::MULTI_NODE_SINGLE_WRITER); }},
      {bad, "volume_capabilities[0].access_mode: is for several nodes",
       [](R& r) { *r.mutable_volume_capabilities(0) = MountCapability(Mode::MULTI_NODE_MULTI_WRITER); }},
      {bad, "volume_capabilities[0].mount.fs_type: 'ntfs' is not supported",
       [](R& r) { r.mutable_volume_capabilities(0)->mutable_mount()->set_fs_type("ntfs"); }},
      {bad, "volume_capabilities[0].mount.fs_type: must be at most 128 bytes",
       [](R& r) { r.mutable_volume_capabilities(0)->mutable_mount()->set_fs_type(std::string(129, 'x')); }},
      {bad, "volume_capabilities[0].mount.mount_flags: ",
       [](R& r) { r.mutable_volume_capabilities(0)->mutable_mount()->add_mount_flags("bind"); }},
      {bad, "volume_capabilities[0].mount.mount_flags: must be at most 4096 bytes in all",
       [](R& r) {
         r.mutable_volume_capabilities(0)->mutable_mount()->add_mount_flags(std::string(4097, 'x'));
       }},
      {bad, "volume_capabilities[0].mount.volume_mount_group: must be a group id",
       [](R& r) { r.mutable_volume_capabilities(0)->mutable_mount()->set_volume_mount_group("-100"); }},
      {bad, "capacity_range.required_bytes: must not be negative, is -1",
       [](R& r) { r.mutable_capacity_range()->set_required_bytes(-1); }},
      {bad, "capacity_range.limit_bytes: must not be negative, is -1",
       [](R& r) { r.mutable_capacity_range()->set_limit_bytes(-1); }},
      {bad, "capacity_range: needs required_bytes or limit_bytes",
       [](R& r) { r.mutable_capacity_range()->set_required_bytes(0); }},
      {bad, "capacity_range.required_bytes: must not exceed limit_bytes, 67108864 > 67108863",
       [](R& r) { r.mutable_capacity_range()->set_limit_bytes(64 * kMebibyte - 1); }},
      {bad, "parameters['colour']: no such parameter",
       [](R& r) { (*r.mutable_parameters())["colour"] = "red"; }},
      {bad, "parameters['type']: ", [](R& r) { (*r.mutable_parameters())["type"] = "raid7"; }},
      {bad, "parameters: keys and values must be at most 4096 bytes in all",
       [](R& r) { (*r.mutable_parameters())["type"] = std::string(4093, 'x'); }},
      {bad, "secrets: keys and values must be at most 4096 bytes in all",
       [](R& r) { (*r.mutable_secrets())["key"] = std::string(4094, 'x'); }},
      {bad, "mutable_parameters: ",
       [](R& r) { (*r.mutable_mutable_parameters())["XXX_FakeKey"] = "XXX_FakeValue"; }},
      {bad, "volume_content_source.snapshot.snapshot_id: ",
       [](R& r) { r.mutable_volume_content_source()->mutable_snapshot(); }},
      {StatusCode::NOT_FOUND, "volume_content_source: ",
       [](R& r) { r.mutable_volume_content_source()->mutable_snapshot()->set_snapshot_id("snap"); }},
      {bad, "volume_content_source.volume.volume_id: ",
       [](R& r) { r.mutable_volume_content_source()->mutable_volume(); }},
      {StatusCode::NOT_FOUND, "volume_content_source: ",
       [](R& r) { r.mutable_volume_content_source()->mutable_volume()->set_volume_id("volume"); }},
      {bad, "accessibility_requirements.requisite[0].segments: 'no key!' is not a topology key",
       [](R& r) {
         (*r.mutable_accessibility_requirements()->add_requisite()->mutable_segments())["no key!"] = "v";
       }},
      {bad, "accessibility_requirements.preferred[0].segments: the value of 'zone' must be",
       [](R& r) {
         (*r.mutable_accessibility_requirements()->add_preferred()->mutable_segments())["zone"] = "";
       }},
      {StatusCode::RESOURCE_EXHAUSTED,
       "accessibility_requirements.requisite: none of the places is this node",
       [](R& r) {
         (*r.mutable_accessibility_requirements()
               ->add_requisite()
               ->mutable_segments())["quarry.csi.local/node"] = "node-2";
       }},
      {StatusCode::OUT_OF_RANGE, "capacity_range.limit_bytes: ",
       [](R& r) {
         r.mutable_capacity_range()->set_required_bytes(65 * kMebibyte);
         r.mutable_capacity_range()->set_limit_bytes(66 * kMebibyte);
       }},
      {StatusCode::OUT_OF_RANGE,
       "pool 'p': ", [](R& r) { r.mutable_capacity_range()->set_required_bytes(1LL << 50); }},
  };
  ExpectErrors(&Controller::CreateVolume, *controller, CreateRequest("refused"), rows);

  pb::ListVolumesResponse list;
  ASSERT_TRUE(Do(&Controller::ListVolumes, *controller, pb::ListVolumesRequest(), &list).ok());
  EXPECT_EQ(list.entries_size(), 0) << "a refused request leaves nothing behind";
}

TEST_F(Errors, OfCreateVolumeWithTheNameOfAnotherVolume) {
  using R = pb::CreateVolumeRequest;
  MakeVolume("taken");
  const auto exists = StatusCode::ALREADY_EXISTS;
  const std::vector<Row<R>> rows = {
      {exists, "name: volume p.",
       [](R& r) { r.mutable_capacity_range()->set_required_bytes(128 * kMebibyte); }},
      {exists, "name: volume p.",
       [](R& r) {
         r.mutable_capacity_range()->set_required_bytes(4 * kMebibyte);
         r.mutable_capacity_range()->set_limit_bytes(8 * kMebibyte);
       }},
      {exists, "name: volume p.", [](R& r) { *r.mutable_volume_capabilities(0) = BlockCapability(); }},
      {exists, "name: volume p.",
       [](R& r) { r.mutable_volume_capabilities(0)->mutable_mount()->set_fs_type("xfs"); }},
      {exists, "name: volume p.", [](R& r) { (*r.mutable_parameters())["type"] = "raid1"; }},
  };
  ExpectErrors(&Controller::CreateVolume, *controller, CreateRequest("taken"), rows);
  R bigger = CreateRequest("taken");
  bigger.mutable_capacity_range()->set_required_bytes(128 * kMebibyte);
  EXPECT_THAT(Create(bigger).error_message(), HasSubstr("capacity_range.required_bytes"));
}

TEST_F(Errors, OfCreateVolumeWithoutRoomNow) {
  // Four disks of about 255 usable extents: one volume that leaves little room, then one that would fit into
  // an empty pool.
  pb::CreateVolumeRequest first = CreateRequest("first");
  first.mutable_capacity_range()->set_required_bytes(3LL << 30);
  ASSERT_TRUE(Create(first).ok());
  pb::CreateVolumeRequest second = CreateRequest("second");
  second.mutable_capacity_range()->set_required_bytes(2LL << 30);
  ExpectError(Create(second), StatusCode::RESOURCE_EXHAUSTED, "pool 'p': ");
}

TEST_F(Errors, OfCreateVolumeOnAMissingKernelTarget) {
  dm.SetTarget("raid", false);
  pb::CreateVolumeRequest request = CreateRequest("r");
  (*request.mutable_parameters())["type"] = "raid5";
  const grpc::Status status = Create(request);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("raid"));
}

TEST_F(Errors, OfCreateSnapshot) {
  using R = pb::CreateSnapshotRequest;
  const std::string id = MakeVolume("v");
  R good;
  good.set_name("snap");
  good.set_source_volume_id(id);
  StageAndPublish(id);
  const auto bad = StatusCode::INVALID_ARGUMENT;
  const std::vector<Row<R>> rows = {
      {bad, "name: is required", [](R& r) { r.clear_name(); }},
      {bad, "name: must be at most 128 bytes", [](R& r) { r.set_name(std::string(129, 'n')); }},
      {bad, "source_volume_id: is required", [](R& r) { r.clear_source_volume_id(); }},
      {bad, "parameters['typo']: ", [](R& r) { (*r.mutable_parameters())["typo"] = "x"; }},
      {bad, "parameters['pool']: no pool 'none'", [](R& r) { (*r.mutable_parameters())["pool"] = "none"; }},
      {StatusCode::NOT_FOUND, "source_volume_id: ", [](R& r) { r.set_source_volume_id("p.qnothing"); }},
      {StatusCode::FAILED_PRECONDITION, "source_volume_id: only a volume that is not in use", [](R&) {}},
  };
  ExpectErrors(&Controller::CreateSnapshot, *controller, good, rows);
}

TEST_F(Errors, OfTheOtherSnapshotCalls) {
  const auto bad = StatusCode::INVALID_ARGUMENT;
  EXPECT_EQ(Do(&Controller::DeleteSnapshot, *controller, pb::DeleteSnapshotRequest()).error_code(), bad);
  EXPECT_EQ(Do(&Controller::GetSnapshot, *controller, pb::GetSnapshotRequest()).error_code(), bad);
  pb::ListSnapshotsRequest list;
  list.set_max_entries(-1);
  EXPECT_EQ(Do(&Controller::ListSnapshots, *controller, list).error_code(), bad);
  list.set_max_entries(0);
  list.set_starting_token("none");
  EXPECT_EQ(Do(&Controller::ListSnapshots, *controller, list).error_code(), StatusCode::ABORTED);
  list.clear_starting_token();
  list.set_snapshot_id("none");
  EXPECT_TRUE(Do(&Controller::ListSnapshots, *controller, list).ok());
  pb::DeleteSnapshotRequest gone;
  gone.set_snapshot_id("reallyfakesnapshotid");
  EXPECT_TRUE(Do(&Controller::DeleteSnapshot, *controller, gone).ok());
  pb::GetSnapshotRequest get;
  get.set_snapshot_id("reallyfakesnapshotid");
  EXPECT_EQ(Do(&Controller::GetSnapshot, *controller, get).error_code(), StatusCode::NOT_FOUND);
}

TEST_F(Errors, OfDeleteVolume) {
  using R = pb::DeleteVolumeRequest;
  const std::string id = MakeVolume("v");
  R good;
  good.set_volume_id(id);
  StageAndPublish(id);
  const std::vector<Row<R>> rows = {
      {StatusCode::INVALID_ARGUMENT, "volume_id: is required", [](R& r) { r.clear_volume_id(); }},
      {StatusCode::INVALID_ARGUMENT, "volume_id: must be at most 128 bytes",
       [](R& r) { r.set_volume_id(std::string(129, 'i')); }},
      {StatusCode::FAILED_PRECONDITION, "volume " + id + " is in use: ", [](R&) {}},
  };
  ExpectErrors(&Controller::DeleteVolume, *controller, good, rows);
}

TEST_F(Errors, DeleteVolumeOfAnUnknownIdIsNoError) {
  for (const std::string& id : {kUnknown, std::string("fake-vol-id"), std::string("../../etc"),
                                std::string("p."), std::string("reallyfakesnapshotid")}) {
    pb::DeleteVolumeRequest request;
    request.set_volume_id(id);
    EXPECT_TRUE(Do(&Controller::DeleteVolume, *controller, request).ok()) << id;
  }
}

TEST_F(Errors, OfValidateVolumeCapabilities) {
  using R = pb::ValidateVolumeCapabilitiesRequest;
  R good;
  good.set_volume_id(MakeVolume("v"));
  *good.add_volume_capabilities() = MountCapability();
  const std::vector<Row<R>> rows = {
      {StatusCode::INVALID_ARGUMENT, "volume_id: is required", [](R& r) { r.clear_volume_id(); }},
      {StatusCode::INVALID_ARGUMENT, "volume_capabilities: is required",
       [](R& r) { r.clear_volume_capabilities(); }},
      {StatusCode::INVALID_ARGUMENT, "volume_capabilities[0]: needs an access type",
       [](R& r) { r.mutable_volume_capabilities(0)->clear_access_type(); }},
      {StatusCode::NOT_FOUND, "volume_id: ", [](R& r) { r.set_volume_id(kUnknown); }},
      {StatusCode::NOT_FOUND, "volume_id: ", [](R& r) { r.set_volume_id("fake-vol-id"); }},
      {StatusCode::NOT_FOUND, "volume_id: ",
       [](R& r) {
         r.set_volume_id(kUnknown);
         *r.mutable_volume_capabilities(0) = MountCapability(Mode::MULTI_NODE_MULTI_WRITER);
       }},
  };
  ExpectErrors(&Controller::ValidateVolumeCapabilities, *controller, good, rows);
}

TEST_F(Errors, OfListVolumes) {
  using R = pb::ListVolumesRequest;
  const std::vector<Row<R>> rows = {
      {StatusCode::INVALID_ARGUMENT, "max_entries: must not be negative, is -1",
       [](R& r) { r.set_max_entries(-1); }},
      {StatusCode::ABORTED, "starting_token: ", [](R& r) { r.set_starting_token("invalid-token"); }},
      {StatusCode::INVALID_ARGUMENT, "starting_token: must be at most 128 bytes",
       [](R& r) { r.set_starting_token(std::string(129, 't')); }},
  };
  ExpectErrors(&Controller::ListVolumes, *controller, R(), rows);
}

TEST_F(Errors, OfGetCapacity) {
  using R = pb::GetCapacityRequest;
  const std::vector<Row<R>> rows = {
      {StatusCode::INVALID_ARGUMENT, "volume_capabilities[0]: needs an access type",
       [](R& r) { r.add_volume_capabilities(); }},
      {StatusCode::INVALID_ARGUMENT, "accessible_topology.segments: '?' is not a topology key",
       [](R& r) { (*r.mutable_accessible_topology()->mutable_segments())["?"] = "v"; }},
      {StatusCode::INVALID_ARGUMENT, "parameters: keys and values must be at most 4096 bytes",
       [](R& r) { (*r.mutable_parameters())["k"] = std::string(4096, 'v'); }},
  };
  ExpectErrors(&Controller::GetCapacity, *controller, R(), rows);
}

TEST_F(Errors, OfControllerGetVolume) {
  using R = pb::ControllerGetVolumeRequest;
  const std::vector<Row<R>> rows = {
      {StatusCode::INVALID_ARGUMENT, "volume_id: is required", [](R&) {}},
      {StatusCode::NOT_FOUND, "volume_id: ", [](R& r) { r.set_volume_id(kUnknown); }},
  };
  ExpectErrors(&Controller::ControllerGetVolume, *controller, R(), rows);
}

TEST_F(Errors, OfControllerExpandVolume) {
  using R = pb::ControllerExpandVolumeRequest;
  R good;
  good.set_volume_id(MakeVolume("v"));
  good.mutable_capacity_range()->set_required_bytes(128 * kMebibyte);
  const auto bad = StatusCode::INVALID_ARGUMENT;
  const std::vector<Row<R>> rows = {
      {bad, "volume_id: is required", [](R& r) { r.clear_volume_id(); }},
      {bad, "capacity_range: is required", [](R& r) { r.clear_capacity_range(); }},
      {bad, "capacity_range: needs", [](R& r) { r.mutable_capacity_range()->set_required_bytes(0); }},
      {bad, "capacity_range.required_bytes: must not be negative, is -5",
       [](R& r) { r.mutable_capacity_range()->set_required_bytes(-5); }},
      {bad, "capacity_range.required_bytes: must not exceed limit_bytes",
       [](R& r) { r.mutable_capacity_range()->set_limit_bytes(1); }},
      {bad, "volume_capability: ", [](R& r) { *r.mutable_volume_capability() = BlockCapability(); }},
      {bad, "volume_capability.access_mode: is for several nodes",
       [](R& r) { *r.mutable_volume_capability() = MountCapability(Mode::MULTI_NODE_MULTI_WRITER); }},
      {StatusCode::NOT_FOUND, "volume_id: ", [](R& r) { r.set_volume_id(kUnknown); }},
      {StatusCode::OUT_OF_RANGE, "capacity_range.limit_bytes: ",
       [](R& r) {
         r.mutable_capacity_range()->set_required_bytes(4 * kMebibyte);
         r.mutable_capacity_range()->set_limit_bytes(8 * kMebibyte);
       }},
  };
  ExpectErrors(&Controller::ControllerExpandVolume, *controller, good, rows);
  good.mutable_capacity_range()->set_required_bytes(1LL << 50);
  const grpc::Status huge = Do(&Controller::ControllerExpandVolume, *controller, good);
  EXPECT_THAT(huge.error_code(), testing::AnyOf(StatusCode::OUT_OF_RANGE, StatusCode::RESOURCE_EXHAUSTED));
}

TEST_F(Errors, OfNodeStageVolume) {
  using R = pb::NodeStageVolumeRequest;
  const auto bad = StatusCode::INVALID_ARGUMENT;
  const std::string raw = MakeVolume("raw", true);
  const std::vector<Row<R>> rows = {
      {bad, "volume_id: is required", [](R& r) { r.clear_volume_id(); }},
      {bad, "staging_target_path: is required", [](R& r) { r.clear_staging_target_path(); }},
      {bad, "volume_capability: is required", [](R& r) { r.clear_volume_capability(); }},
      {bad, "volume_capability: needs an access type",
       [](R& r) { r.mutable_volume_capability()->clear_access_type(); }},
      {bad, "volume_capability.access_mode: is for several nodes",
       [](R& r) { *r.mutable_volume_capability() = MountCapability(Mode::MULTI_NODE_READER_ONLY); }},
      {bad, "staging_target_path: must be an absolute path",
       [](R& r) { r.set_staging_target_path("some/path"); }},
      {bad, "staging_target_path: must not contain '.' or '..'",
       [](R& r) { r.set_staging_target_path("/staging/../../etc"); }},
      {bad, "staging_target_path: must not be the root", [](R& r) { r.set_staging_target_path("/"); }},
      {bad, "staging_target_path: must be shorter than",
       [](R& r) { r.set_staging_target_path("/" + std::string(5000, 's')); }},
      {bad, "volume_context: keys and values must be at most 4096 bytes",
       [](R& r) { (*r.mutable_volume_context())["k"] = std::string(4096, 'v'); }},
      {bad, "volume_capability.mount.mount_flags: ",
       [](R& r) { r.mutable_volume_capability()->mutable_mount()->add_mount_flags("remount"); }},
      {StatusCode::NOT_FOUND, "volume_id: ", [](R& r) { r.set_volume_id(kUnknown); }},
      {StatusCode::FAILED_PRECONDITION, "volume_capability: volume " + raw,
       [&](R& r) { r.set_volume_id(raw); }},
      {StatusCode::FAILED_PRECONDITION, "volume_capability: volume ",
       [](R& r) { r.mutable_volume_capability()->mutable_mount()->set_fs_type("xfs"); }},
  };
  R good = StageRequest(MakeVolume("v"));
  ExpectErrors(&Node::NodeStageVolume, *node, good, rows);

  ASSERT_TRUE(Do(&Node::NodeStageVolume, *node, good).ok());
  ASSERT_TRUE(Do(&Node::NodeStageVolume, *node, good).ok());
  good.mutable_volume_capability()->mutable_mount()->add_mount_flags("noexec");
  ExpectError(Do(&Node::NodeStageVolume, *node, good), StatusCode::ALREADY_EXISTS, "volume ");
}

TEST_F(Errors, OfNodeUnstageVolume) {
  using R = pb::NodeUnstageVolumeRequest;
  R good;
  good.set_volume_id("v");
  good.set_staging_target_path("/staging");
  const auto bad = StatusCode::INVALID_ARGUMENT;
  const std::vector<Row<R>> rows = {
      {bad, "volume_id: is required", [](R& r) { r.clear_volume_id(); }},
      {bad, "staging_target_path: is required", [](R& r) { r.clear_staging_target_path(); }},
      {bad, "staging_target_path: must be an absolute path",
       [](R& r) { r.set_staging_target_path("staging"); }},
      {bad, "staging_target_path: must not contain", [](R& r) { r.set_staging_target_path("/a/.."); }},
  };
  ExpectErrors(&Node::NodeUnstageVolume, *node, good, rows);
}

TEST_F(Errors, OfNodePublishVolume) {
  using R = pb::NodePublishVolumeRequest;
  const auto bad = StatusCode::INVALID_ARGUMENT;
  const std::string id = MakeVolume("v");
  ASSERT_TRUE(Do(&Node::NodeStageVolume, *node, StageRequest(id)).ok());
  const std::vector<Row<R>> rows = {
      {bad, "volume_id: is required", [](R& r) { r.clear_volume_id(); }},
      {bad, "target_path: is required", [](R& r) { r.clear_target_path(); }},
      {bad, "volume_capability: is required", [](R& r) { r.clear_volume_capability(); }},
      {bad, "volume_capability: needs an access type",
       [](R& r) { r.mutable_volume_capability()->clear_access_type(); }},
      {bad, "target_path: must be an absolute path", [](R& r) { r.set_target_path("target"); }},
      {bad, "target_path: must not contain '.' or '..'", [](R& r) { r.set_target_path("/x/../etc/passwd"); }},
      {bad, "target_path: must not be the root", [](R& r) { r.set_target_path("//"); }},
      {bad, "target_path: must not be staging_target_path", [](R& r) { r.set_target_path("/staging/x"); }},
      {bad, "staging_target_path: must be an absolute path",
       [](R& r) { r.set_staging_target_path("staging"); }},
      {StatusCode::FAILED_PRECONDITION, "staging_target_path: is not set",
       [](R& r) { r.clear_staging_target_path(); }},
      {StatusCode::FAILED_PRECONDITION, "staging_target_path: volume " + id + " is not staged at /elsewhere",
       [](R& r) { r.set_staging_target_path("/elsewhere"); }},
      {StatusCode::NOT_FOUND, "volume_id: ", [](R& r) { r.set_volume_id(kUnknown); }},
      {StatusCode::FAILED_PRECONDITION, "volume_capability: volume " + id,
       [](R& r) { *r.mutable_volume_capability() = BlockCapability(); }},
  };
  ExpectErrors(&Node::NodePublishVolume, *node, PublishRequest(id), rows);

  const std::string unstaged = MakeVolume("unstaged");
  ExpectError(Do(&Node::NodePublishVolume, *node, PublishRequest(unstaged)), StatusCode::FAILED_PRECONDITION,
              "staging_target_path: volume " + unstaged + " is not staged at /staging");
}

TEST_F(Errors, OfNodeUnpublishVolume) {
  using R = pb::NodeUnpublishVolumeRequest;
  R good;
  good.set_volume_id("v");
  good.set_target_path("/target");
  const auto bad = StatusCode::INVALID_ARGUMENT;
  const std::vector<Row<R>> rows = {
      {bad, "volume_id: is required", [](R& r) { r.clear_volume_id(); }},
      {bad, "target_path: is required", [](R& r) { r.clear_target_path(); }},
      {bad, "target_path: must be an absolute path", [](R& r) { r.set_target_path("t"); }},
      {bad, "target_path: must not contain", [](R& r) { r.set_target_path("/t/./u"); }},
  };
  ExpectErrors(&Node::NodeUnpublishVolume, *node, good, rows);
}

TEST_F(Errors, OfNodeGetVolumeStatsCheckTheVolumeBeforeThePath) {
  using R = pb::NodeGetVolumeStatsRequest;
  const std::string id = MakeVolume("v");
  StageAndPublish(id);
  R good;
  good.set_volume_id(id);
  good.set_volume_path("/target");
  const std::vector<Row<R>> rows = {
      {StatusCode::INVALID_ARGUMENT, "volume_id: is required", [](R& r) { r.clear_volume_id(); }},
      {StatusCode::INVALID_ARGUMENT, "volume_path: is required", [](R& r) { r.clear_volume_path(); }},
      {StatusCode::NOT_FOUND, "volume_id: ",
       [](R& r) {
         r.set_volume_id("fake-vol-id");
         r.set_volume_path("some/path");
       }},
      {StatusCode::NOT_FOUND, "volume_path: volume " + id + " is not at 'some/path'",
       [](R& r) { r.set_volume_path("some/path"); }},
      {StatusCode::NOT_FOUND, "volume_path: ", [](R& r) { r.set_volume_path("/elsewhere"); }},
      {StatusCode::NOT_FOUND, "volume_path: ", [](R& r) { r.set_volume_path("/target/../target"); }},
  };
  ExpectErrors(&Node::NodeGetVolumeStats, *node, good, rows);
}

TEST_F(Errors, OfNodeExpandVolumeCheckTheVolumeBeforeThePath) {
  using R = pb::NodeExpandVolumeRequest;
  const std::string id = MakeVolume("v");
  StageAndPublish(id);
  R good;
  good.set_volume_id(id);
  good.set_volume_path("/target");
  const std::vector<Row<R>> rows = {
      {StatusCode::INVALID_ARGUMENT, "volume_id: is required", [](R& r) { r.clear_volume_id(); }},
      {StatusCode::INVALID_ARGUMENT, "volume_path: is required", [](R& r) { r.clear_volume_path(); }},
      {StatusCode::INVALID_ARGUMENT, "capacity_range.required_bytes: must not be negative",
       [](R& r) { r.mutable_capacity_range()->set_required_bytes(-1); }},
      {StatusCode::INVALID_ARGUMENT, "volume_capability: needs an access type",
       [](R& r) { r.mutable_volume_capability(); }},
      {StatusCode::NOT_FOUND, "volume_id: ",
       [](R& r) {
         r.set_volume_id("fake-vol-id");
         r.set_volume_path("some/path");
       }},
      {StatusCode::NOT_FOUND, "volume_path: ", [](R& r) { r.set_volume_path("some/path"); }},
      {StatusCode::OUT_OF_RANGE, "capacity_range.required_bytes: ",
       [](R& r) { r.mutable_capacity_range()->set_required_bytes(1LL << 40); }},
  };
  ExpectErrors(&Node::NodeExpandVolume, *node, good, rows);
}

// Section 7: T is the target path, P stands for all other arguments.
class SecondPublication : public Errors, public ::testing::WithParamInterface<Mode::Mode> {
 protected:
  grpc::Status Publish(const std::string& target, bool read_only) {
    pb::NodePublishVolumeRequest request = PublishRequest(id_, target);
    *request.mutable_volume_capability() = MountCapability(GetParam());
    request.set_readonly(read_only);
    return Do(&Node::NodePublishVolume, *node, request);
  }
  void SetUp() override {
    id_ = MakeVolume("v");
    pb::NodeStageVolumeRequest stage = StageRequest(id_);
    *stage.mutable_volume_capability() = MountCapability(GetParam());
    ASSERT_TRUE(Do(&Node::NodeStageVolume, *node, stage).ok());
    ASSERT_TRUE(Publish("/t1", false).ok());
  }
  std::string id_;
};

TEST_P(SecondPublication, AtTheSamePathSucceedsIfEqualAndElseExistsAlready) {
  EXPECT_TRUE(Publish("/t1", false).ok());
  if (GetParam() != Mode::SINGLE_NODE_READER_ONLY) {  // always read-only in this mode
    ExpectError(Publish("/t1", true), StatusCode::ALREADY_EXISTS, "volume " + id_);
  }
}

TEST_P(SecondPublication, AtAnotherPathIsRefusedForTheModeWithOneWriter) {
  const grpc::Status status = Publish("/t2", false);
  if (GetParam() == Mode::SINGLE_NODE_SINGLE_WRITER) {
    ExpectError(status, StatusCode::FAILED_PRECONDITION, "volume " + id_ + " is already published at /t1");
  } else {
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
}

INSTANTIATE_TEST_SUITE_P(SingleNodeModes, SecondPublication,
                         ::testing::Values(Mode::SINGLE_NODE_WRITER, Mode::SINGLE_NODE_READER_ONLY,
                                           Mode::SINGLE_NODE_SINGLE_WRITER, Mode::SINGLE_NODE_MULTI_WRITER));

TEST(SecondPublicationByTheLetter, IsRefusedAtAnotherPathForAllButSeveralWriters) {
  ServiceHarness harness({.several_targets = false});
  const std::string id = harness.MakeVolume("v");
  harness.StageAndPublish(id);
  ExpectError(ServiceHarness::Do(&Node::NodePublishVolume, *harness.node, PublishRequest(id, "/t2")),
              StatusCode::FAILED_PRECONDITION, "volume " + id + " is already published at /target");
  pb::NodePublishVolumeRequest several = PublishRequest(id, "/t2");
  *several.mutable_volume_capability() = MountCapability(Mode::SINGLE_NODE_MULTI_WRITER);
  EXPECT_TRUE(ServiceHarness::Do(&Node::NodePublishVolume, *harness.node, several).ok());
}

TEST_F(Errors, OfADuplicateInFlightIsAbortedAndNamesTheRunningCall) {
  Holdup holdup(lvm, "Create");
  grpc::Status first;
  std::thread creating([&] { first = Create(CreateRequest("same")); });
  holdup.WaitUntilReached();
  const grpc::Status second = Create(CreateRequest("same"));
  EXPECT_EQ(second.error_code(), StatusCode::ABORTED) << second.error_message();
  EXPECT_THAT(second.error_message(), HasSubstr("CreateVolume of 'same'"));
  holdup.Release();
  creating.join();
  EXPECT_TRUE(first.ok()) << first.error_message();

  pb::ListVolumesResponse list;
  ASSERT_TRUE(Do(&Controller::ListVolumes, *controller, pb::ListVolumesRequest(), &list).ok());
  EXPECT_EQ(list.entries_size(), 1);
}

// What quarryd tells the service manager's watchdog.
TEST_F(Errors, DoNotComeToTheServersOwnCallsWhileALvmCommandHangs) {
  Holdup holdup(lvm, "Create");
  std::thread creating([&] { (void)Create(CreateRequest("slow")); });
  holdup.WaitUntilReached();
  engine->lifecycle().TouchLocks();
  EXPECT_TRUE(server->Answers(std::chrono::seconds(10)));
  holdup.Release();
  creating.join();
  server->Shutdown(std::chrono::seconds(1));
  EXPECT_FALSE(server->Answers(std::chrono::seconds(1)));
}

TEST_F(Errors, OfAnotherOperationOnAVolumeInFlightIsAborted) {
  const std::string id = MakeVolume("v");
  Holdup holdup(lvm, "Extend");
  pb::ControllerExpandVolumeRequest expand;
  expand.set_volume_id(id);
  expand.mutable_capacity_range()->set_required_bytes(128 * kMebibyte);
  grpc::Status first;
  std::thread expanding([&] { first = Do(&Controller::ControllerExpandVolume, *controller, expand); });
  holdup.WaitUntilReached();
  pb::DeleteVolumeRequest remove;
  remove.set_volume_id(id);
  pb::NodeUnstageVolumeRequest unstage;
  unstage.set_volume_id(id);
  unstage.set_staging_target_path("/staging");
  pb::NodeUnpublishVolumeRequest unpublish;
  unpublish.set_volume_id(id);
  unpublish.set_target_path("/target");
  for (const grpc::Status& status :
       {Do(&Controller::DeleteVolume, *controller, remove),
        Do(&Controller::ControllerExpandVolume, *controller, expand),
        Do(&Node::NodeStageVolume, *node, StageRequest(id)),
        Do(&Node::NodePublishVolume, *node, PublishRequest(id)), Do(&Node::NodeUnstageVolume, *node, unstage),
        Do(&Node::NodeUnpublishVolume, *node, unpublish)}) {
    EXPECT_EQ(status.error_code(), StatusCode::ABORTED) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("ControllerExpandVolume of " + id));
  }
  holdup.Release();
  expanding.join();
  EXPECT_TRUE(first.ok()) << first.error_message();
}

TEST_F(Errors, OfRpcsThatAreNotOfferedIsUnimplemented) {
  EXPECT_EQ(Do(&Controller::ControllerPublishVolume, *controller, pb::ControllerPublishVolumeRequest())
                .error_code(),
            StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(
      Do(&Controller::ControllerModifyVolume, *controller, pb::ControllerModifyVolumeRequest()).error_code(),
      StatusCode::UNIMPLEMENTED);
}

TEST(ErrorsOfTheMode, AreUnimplementedForTheOtherService) {
  ServiceHarness controller_only({.mode = csi::Mode::kController});
  EXPECT_EQ(
      ServiceHarness::Do(&Node::NodeGetInfo, *controller_only.node, pb::NodeGetInfoRequest()).error_code(),
      StatusCode::UNIMPLEMENTED);
  EXPECT_TRUE(
      ServiceHarness::Do(&Controller::ListVolumes, *controller_only.controller, pb::ListVolumesRequest())
          .ok());
  ServiceHarness node_only({.mode = csi::Mode::kNode});
  EXPECT_EQ(ServiceHarness::Do(&Controller::ListVolumes, *node_only.controller, pb::ListVolumesRequest())
                .error_code(),
            StatusCode::UNIMPLEMENTED);
  EXPECT_TRUE(ServiceHarness::Do(&Node::NodeGetInfo, *node_only.node, pb::NodeGetInfoRequest()).ok());
}

TEST_F(Errors, OfTheWorldAreNeverNotFound) {
  const std::string id = MakeVolume("v");
  lvm.before.FailAlways("Read", Error(Code::kIo, "reading the disks: Input/output error"));
  pb::ControllerGetVolumeRequest get;
  get.set_volume_id(id);
  ExpectError(Do(&Controller::ControllerGetVolume, *controller, get), StatusCode::INTERNAL, "");
  lvm.before.Clear();
  lvm.before.FailAlways("Read", Error(Code::kUnavailable, "the group is locked"));
  ExpectError(Do(&Controller::ControllerGetVolume, *controller, get), StatusCode::UNAVAILABLE, "");
  EXPECT_EQ(Do(&Controller::ListVolumes, *controller, pb::ListVolumesRequest()).error_code(),
            StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace quarry::csi
