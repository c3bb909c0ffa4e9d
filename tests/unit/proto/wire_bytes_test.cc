// Messages against bytes worked out by hand from the wire tables, above all where the versions differ.
#include <gtest/gtest.h>
// Before the generated headers on purpose: its macros `major` and `minor` must not break Version (see
// csi/v0_1).
#include <sys/sysmacros.h>

#include <cstdint>
#include <string>

#include "csi/v0/csi.pb.h"
#include "csi/v0_1/csi.pb.h"
#include "csi/v1/csi.pb.h"

namespace quarry::proto_test {
namespace {

std::string Hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    const auto value = static_cast<unsigned char>(byte);
    text += text.empty() ? "" : " ";
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

template <typename Response>
Response WithCapability(int rpc) {
  Response response;
  auto* type = response.add_capabilities()->mutable_rpc();
  using Type = decltype(type->type());
  type->set_type(static_cast<Type>(rpc));
  return response;
}

template <typename Capability>
void SetRawBlock(Capability* capability) {
  capability->mutable_block();
  capability->mutable_access_mode()->set_mode(Capability::AccessMode::SINGLE_NODE_WRITER);
}

#define EXPECT_BYTES(message, bytes) EXPECT_EQ(Hex((message).SerializeAsString()), bytes)

TEST(WireBytes, PluginCapabilitiesMovedFromFieldTwoToOne) {
  ::csi::v0::GetPluginCapabilitiesResponse v0;
  v0.add_capabilities()->mutable_service()->set_type(
      ::csi::v0::PluginCapability::Service::CONTROLLER_SERVICE);
  EXPECT_BYTES(v0, "12 04 0a 02 08 01");
  ::csi::v1::GetPluginCapabilitiesResponse v1;
  v1.add_capabilities()->mutable_service()->set_type(
      ::csi::v1::PluginCapability::Service::CONTROLLER_SERVICE);
  EXPECT_BYTES(v1, "0a 04 0a 02 08 01");
}

TEST(WireBytes, ExpansionIsTheSecondKindOfPluginCapability) {
  ::csi::v1::PluginCapability capability;
  capability.mutable_volume_expansion()->set_type(::csi::v1::PluginCapability::VolumeExpansion::ONLINE);
  EXPECT_BYTES(capability, "12 02 08 01");
}

TEST(WireBytes, ControllerCapabilitiesMovedFromFieldTwoToOne) {
  EXPECT_BYTES(WithCapability<::csi::ControllerGetCapabilitiesResponse>(4), "12 04 0a 02 08 04");
  EXPECT_BYTES(WithCapability<::csi::v0::ControllerGetCapabilitiesResponse>(4), "12 04 0a 02 08 04");
  EXPECT_BYTES(WithCapability<::csi::v1::ControllerGetCapabilitiesResponse>(4), "0a 04 0a 02 08 04");
}

TEST(WireBytes, NodeCapabilitiesAreFieldOneEverywhere) {
  EXPECT_BYTES(WithCapability<::csi::NodeGetCapabilitiesResponse>(0), "0a 02 0a 00");
  EXPECT_BYTES(WithCapability<::csi::v0::NodeGetCapabilitiesResponse>(1), "0a 04 0a 02 08 01");
  EXPECT_BYTES(WithCapability<::csi::v1::NodeGetCapabilitiesResponse>(1), "0a 04 0a 02 08 01");
}

TEST(WireBytes, VolumeConditionCanStillBeSent) {
  using Controller = ::csi::v1::ControllerServiceCapability::RPC;
  using Node = ::csi::v1::NodeServiceCapability::RPC;
  EXPECT_BYTES(WithCapability<::csi::v1::ControllerGetCapabilitiesResponse>(Controller::VOLUME_CONDITION),
               "0a 04 0a 02 08 0b");
  EXPECT_BYTES(WithCapability<::csi::v1::NodeGetCapabilitiesResponse>(Node::VOLUME_CONDITION),
               "0a 04 0a 02 08 04");

  ::csi::v1::NodeGetVolumeStatsResponse stats;
  auto* usage = stats.add_usage();
  usage->set_total(4096);
  usage->set_unit(::csi::v1::VolumeUsage::BYTES);
  stats.mutable_volume_condition()->set_abnormal(true);
  stats.mutable_volume_condition()->set_message("bad");
  EXPECT_BYTES(stats, "0a 05 10 80 20 20 01 12 07 08 01 12 03 62 61 64");

  ::csi::v1::ListVolumesResponse list;
  list.add_entries()->mutable_status()->mutable_volume_condition()->set_abnormal(true);
  EXPECT_BYTES(list, "0a 06 12 04 12 02 08 01");
  ::csi::v1::ControllerGetVolumeResponse get;
  get.mutable_status()->mutable_volume_condition()->set_abnormal(true);
  EXPECT_BYTES(get, "12 04 12 02 08 01");
}

TEST(WireBytes, ValidateHasAnotherOrderInEachVersion) {
  ::csi::ValidateVolumeCapabilitiesRequest v0_1;
  v0_1.mutable_version()->set_minor(1);
  v0_1.set_volume_id("v");
  SetRawBlock(v0_1.add_volume_capabilities());
  (*v0_1.mutable_volume_attributes())["k"] = "x";
  EXPECT_BYTES(v0_1, "0a 02 10 01 12 01 76 1a 06 0a 00 1a 02 08 01 22 06 0a 01 6b 12 01 78");

  ::csi::v0::ValidateVolumeCapabilitiesRequest v0;
  v0.set_volume_id("v");
  SetRawBlock(v0.add_volume_capabilities());
  (*v0.mutable_volume_attributes())["k"] = "x";
  (*v0.add_accessible_topology()->mutable_segments())["k"] = "x";
  EXPECT_BYTES(v0, "0a 01 76 12 06 0a 00 1a 02 08 01 1a 06 0a 01 6b 12 01 78 22 08 0a 06 0a 01 6b 12 01 78");

  ::csi::v1::ValidateVolumeCapabilitiesRequest v1;
  v1.set_volume_id("v");
  (*v1.mutable_volume_context())["k"] = "x";
  SetRawBlock(v1.add_volume_capabilities());
  (*v1.mutable_parameters())["k"] = "x";
  EXPECT_BYTES(v1, "0a 01 76 12 06 0a 01 6b 12 01 78 1a 06 0a 00 1a 02 08 01 22 06 0a 01 6b 12 01 78");
}

TEST(WireBytes, OldestVersionNamesItselfInNumbers) {
  ::csi::GetSupportedVersionsResponse response;
  auto* version = response.add_supported_versions();
  version->set_major(3);
  version->set_minor(1);
  version->set_patch(2);
  EXPECT_BYTES(response, "0a 06 08 03 10 01 18 02");
  EXPECT_EQ(version->major() + version->minor(), 4U);
}

TEST(WireBytes, SizesAreTheSameVarintSignedOrNot) {
  ::csi::GetCapacityResponse v0_1;
  ::csi::v0::GetCapacityResponse v0;
  ::csi::v1::GetCapacityResponse v1;
  v0_1.set_available_capacity(300);
  v0.set_available_capacity(300);
  v1.set_available_capacity(300);
  EXPECT_BYTES(v0_1, "08 ac 02");
  EXPECT_BYTES(v0, "08 ac 02");
  v1.mutable_maximum_volume_size()->set_value(1);
  v1.mutable_minimum_volume_size()->set_value(0);
  EXPECT_BYTES(v1, "08 ac 02 12 02 08 01 1a 00");
  v0_1.set_available_capacity(std::uint64_t{1} << 63);
  EXPECT_BYTES(v0_1, "08 80 80 80 80 80 80 80 80 80 01");
}

TEST(WireBytes, SnapshotsTellTimeAndStateDifferently) {
  ::csi::v0::Snapshot v0;
  v0.set_id("s");
  v0.set_created_at(1);
  v0.mutable_status()->set_type(::csi::v0::SnapshotStatus::READY);
  EXPECT_BYTES(v0, "12 01 73 20 01 2a 02 08 01");
  ::csi::v1::Snapshot v1;
  v1.set_snapshot_id("s");
  v1.mutable_creation_time()->set_seconds(1);
  v1.set_ready_to_use(true);
  EXPECT_BYTES(v1, "12 01 73 22 02 08 01 28 01");
}

TEST(WireBytes, CreateVolumeOfEachVersion) {
  ::csi::CreateVolumeRequest v0_1;
  v0_1.mutable_version()->set_minor(1);
  v0_1.set_name("n");
  v0_1.mutable_capacity_range()->set_required_bytes(1);
  (*v0_1.mutable_user_credentials())["k"] = "x";
  EXPECT_BYTES(v0_1, "0a 02 10 01 12 01 6e 1a 02 08 01 32 06 0a 01 6b 12 01 78");
  ::csi::v0::CreateVolumeRequest v0;
  v0.set_name("n");
  v0.mutable_capacity_range()->set_limit_bytes(1);
  (*v0.mutable_controller_create_secrets())["k"] = "x";
  EXPECT_BYTES(v0, "0a 01 6e 12 02 10 01 2a 06 0a 01 6b 12 01 78");
  ::csi::v1::CreateVolumeRequest v1;
  v1.set_name("n");
  v1.mutable_volume_content_source()->mutable_volume()->set_volume_id("v");
  (*v1.mutable_mutable_parameters())["k"] = "x";
  EXPECT_BYTES(v1, "0a 01 6e 32 05 12 03 0a 01 76 42 06 0a 01 6b 12 01 78");
}

TEST(WireBytes, FalseReadinessIsNotAbsence) {
  ::csi::v1::ProbeResponse probe;
  EXPECT_BYTES(probe, "");
  probe.mutable_ready()->set_value(false);
  EXPECT_BYTES(probe, "0a 00");
  probe.mutable_ready()->set_value(true);
  EXPECT_BYTES(probe, "0a 02 08 01");
}

}  // namespace
}  // namespace quarry::proto_test
