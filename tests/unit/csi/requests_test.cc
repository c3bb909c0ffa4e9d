#include "csi/v1/requests.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::csi::v1 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;
using Mode = pb::VolumeCapability::AccessMode;

const NodeTopology kHere("quarry.csi.local", "node-1");

pb::VolumeCapability Mount(Mode::Mode mode = Mode::SINGLE_NODE_WRITER) {
  pb::VolumeCapability capability;
  capability.mutable_mount();
  capability.mutable_access_mode()->set_mode(mode);
  return capability;
}

pb::VolumeCapability Block(Mode::Mode mode = Mode::SINGLE_NODE_WRITER) {
  pb::VolumeCapability capability;
  capability.mutable_block();
  capability.mutable_access_mode()->set_mode(mode);
  return capability;
}

pb::CreateVolumeRequest Create() {
  pb::CreateVolumeRequest request;
  request.set_name("pvc-1");
  *request.add_volume_capabilities() = Mount();
  request.mutable_capacity_range()->set_required_bytes(1 << 30);
  return request;
}

// A change to a valid request, with the code and the beginning of the message that must result.
template <typename Request>
struct Spoilt {
  std::function<void(Request&)> spoil;
  Code code;
  std::string message;
};

template <typename Request, typename Parse>
void ExpectRefused(const Request& good, const Parse& parse, const std::vector<Spoilt<Request>>& table) {
  ASSERT_TRUE(parse(good).has_value()) << parse(good).error().message();
  for (const Spoilt<Request>& row : table) {
    Request request = good;
    row.spoil(request);
    const auto parsed = parse(request);
    ASSERT_FALSE(parsed.has_value()) << row.message;
    EXPECT_EQ(parsed.error().code(), row.code) << parsed.error().message();
    EXPECT_THAT(parsed.error().message(), StartsWith(row.message));
  }
}

TEST(ParseCreate, PassesTheRequestOn) {
  pb::CreateVolumeRequest request = Create();
  request.mutable_capacity_range()->set_limit_bytes(2LL << 30);
  (*request.mutable_parameters())["type"] = "raid1";
  (*request.mutable_secrets())["password"] = "x";
  auto& mount = *request.mutable_volume_capabilities(0)->mutable_mount();
  mount.set_fs_type("xfs");
  mount.add_mount_flags("noatime");
  request.mutable_accessibility_requirements()->add_requisite()->mutable_segments()->insert(
      {"quarry.csi.local/node", "node-1"});

  const auto parsed = ParseCreate(request, kHere);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
  EXPECT_EQ(parsed->name, "pvc-1");
  EXPECT_EQ(parsed->range.required, Bytes{1 << 30});
  EXPECT_EQ(parsed->range.limit, Bytes{2ULL << 30});
  EXPECT_THAT(parsed->parameters, ElementsAre(Pair("type", "raid1")));
  ASSERT_EQ(parsed->capabilities.size(), 1U);
  EXPECT_EQ(parsed->capabilities[0].access, engine::AccessType::kMount);
  EXPECT_EQ(parsed->capabilities[0].fs_type, "xfs");
  EXPECT_THAT(parsed->capabilities[0].mount_flags, ElementsAre("noatime"));
  EXPECT_TRUE(parsed->elsewhere) << "other nodes are asked next";
}

TEST(ParseCreate, HasNoOtherNodesToTryUnlessThisNodeAloneIsRequested) {
  pb::CreateVolumeRequest request = Create();
  EXPECT_FALSE(ParseCreate(request, kHere)->elsewhere);
  auto& places = *request.mutable_accessibility_requirements();
  (*places.add_requisite()->mutable_segments())["quarry.csi.local/node"] = "node-1";
  EXPECT_TRUE(ParseCreate(request, kHere)->elsewhere);
  (*places.add_requisite()->mutable_segments())["quarry.csi.local/node"] = "node-2";
  EXPECT_FALSE(ParseCreate(request, kHere)->elsewhere);
}

TEST(ParseCreate, TakesAGroupAsADecimalNumberOnly) {
  const auto parse = [](const std::string& text) {
    pb::CreateVolumeRequest request = Create();
    request.mutable_volume_capabilities(0)->mutable_mount()->set_volume_mount_group(text);
    return ParseCreate(request, kHere);
  };
  EXPECT_EQ(parse("")->capabilities[0].mount_group, std::nullopt);
  EXPECT_EQ(parse("0")->capabilities[0].mount_group, 0U);
  EXPECT_EQ(parse("2000")->capabilities[0].mount_group, 2000U);
  EXPECT_EQ(parse("4294967294")->capabilities[0].mount_group, 4294967294U);
  for (const char* bad :
       {"4294967295", "4294967296", "-1", "+1", " 1", "1 ", "0x10", "007", "1e3", "staff"}) {
    const auto parsed = parse(bad);
    ASSERT_FALSE(parsed.has_value()) << bad;
    EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument) << bad;
  }
}

TEST(ParseCreate, LeavesTheSizeOpenWithoutARange) {
  pb::CreateVolumeRequest request = Create();
  request.clear_capacity_range();
  const auto parsed = ParseCreate(request, kHere);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->range.required, Bytes{0});
  EXPECT_EQ(parsed->range.limit, Bytes{0});
}

TEST(ParseCreate, RefusesEachBadFieldByName) {
  using R = pb::CreateVolumeRequest;
  const Code bad = Code::kInvalidArgument;
  const Code unsupported = Code::kUnsupported;
  ExpectRefused<R>(
      Create(), [](const R& r) { return ParseCreate(r, kHere); },
      {
          {[](R& r) { r.clear_name(); }, bad, "name: is required"},
          {[](R& r) { r.set_name("a\x01"); }, bad, "name: must not contain the control character U+0001"},
          {[](R& r) { r.clear_volume_capabilities(); }, bad, "volume_capabilities: is required"},
          {[](R& r) { r.mutable_volume_capabilities(0)->clear_mount(); }, bad,
           "volume_capabilities[0]: needs an access type"},
          {[](R& r) { r.mutable_volume_capabilities(0)->clear_access_mode(); }, bad,
           "volume_capabilities[0].access_mode: is required"},
          {[](R& r) { *r.mutable_volume_capabilities(0) = Mount(Mode::UNKNOWN); }, bad,
           "volume_capabilities[0].access_mode: must not be UNKNOWN"},
          {[](R& r) { *r.add_volume_capabilities() = Mount(Mode::UNKNOWN); }, bad,
           "volume_capabilities[1].access_mode: must not be UNKNOWN"},
          {[](R& r) { *r.mutable_volume_capabilities(0) = Mount(static_cast<Mode::Mode>(99)); }, unsupported,
           "volume_capabilities[0].access_mode: mode 99 is not known"},
          {[](R& r) { *r.add_volume_capabilities() = Block(); }, unsupported,
           "volume_capabilities[1]: has another access type than volume_capabilities[0]"},
          {[](R& r) { r.mutable_volume_capabilities(0)->mutable_mount()->set_volume_mount_group("staff"); },
           bad, "volume_capabilities[0].mount.volume_mount_group: must be a group id"},
          {[](R& r) { r.mutable_capacity_range()->set_required_bytes(-1); }, bad,
           "capacity_range.required_bytes: must not be negative, is -1"},
          {[](R& r) { r.mutable_capacity_range()->set_limit_bytes(-7); }, bad,
           "capacity_range.limit_bytes: must not be negative, is -7"},
          {[](R& r) { r.mutable_capacity_range()->set_required_bytes(0); }, bad,
           "capacity_range: needs required_bytes or limit_bytes"},
          {[](R& r) { r.mutable_capacity_range()->set_limit_bytes(5); }, bad,
           "capacity_range.required_bytes: must not exceed limit_bytes, 1073741824 > 5"},
          {[](R& r) { r.mutable_volume_content_source()->mutable_snapshot(); }, bad,
           "volume_content_source.snapshot.snapshot_id: "},
          {[](R& r) { r.mutable_volume_content_source(); }, bad, "volume_content_source: "},
          {[](R& r) { r.mutable_volume_content_source()->mutable_volume(); }, bad,
           "volume_content_source.volume.volume_id: "},
          {[](R& r) { (*r.mutable_mutable_parameters())["XXX_FakeKey"] = "v"; }, unsupported,
           "mutable_parameters: "},
          {[](R& r) {
             (*r.mutable_accessibility_requirements()->add_requisite()->mutable_segments())["/"] = "v";
           },
           bad, "accessibility_requirements.requisite[0].segments: "},
          {[](R& r) {
             (*r.mutable_accessibility_requirements()
                   ->add_requisite()
                   ->mutable_segments())["quarry.csi.local/node"] = "node-2";
           },
           Code::kNoSpace, "accessibility_requirements.requisite: "},
      });
}

TEST(ParseCreate, RefusesEveryModeForSeveralNodesAndTakesEveryOtherKnownMode) {
  for (int mode = 1; mode <= 7; ++mode) {
    pb::CreateVolumeRequest request = Create();
    *request.mutable_volume_capabilities(0) = Mount(static_cast<Mode::Mode>(mode));
    const auto parsed = ParseCreate(request, kHere);
    const bool several = mode >= Mode::MULTI_NODE_READER_ONLY && mode <= Mode::MULTI_NODE_MULTI_WRITER;
    ASSERT_EQ(parsed.has_value(), !several) << mode;
    if (several) {
      EXPECT_EQ(parsed.error().code(), Code::kUnsupported);
      EXPECT_THAT(parsed.error().message(), StartsWith("volume_capabilities[0].access_mode: "));
      EXPECT_THAT(parsed.error().message(), HasSubstr("a node-local volume is on one node only"));
    }
  }
}

TEST(ParseCapabilities, ReportMalformedBeforeUnsupported) {
  Capabilities capabilities;
  *capabilities.Add() = Mount(static_cast<Mode::Mode>(99));
  capabilities.Add();
  const auto parsed = ParseCapabilities("c", capabilities);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(parsed.error().message(), StartsWith("c[1]: "));
}

TEST(ParseValidate, RefusesEachBadFieldByName) {
  using R = pb::ValidateVolumeCapabilitiesRequest;
  R good;
  good.set_volume_id("v");
  *good.add_volume_capabilities() = Mount();
  ExpectRefused<R>(
      good, [](const R& r) { return ParseValidate(r); },
      {
          {[](R& r) { r.clear_volume_id(); }, Code::kInvalidArgument, "volume_id: is required"},
          {[](R& r) { r.clear_volume_capabilities(); }, Code::kInvalidArgument,
           "volume_capabilities: is required"},
          {[](R& r) { r.mutable_volume_capabilities(0)->clear_mount(); }, Code::kInvalidArgument,
           "volume_capabilities[0]: needs an access type"},
          {[](R& r) { *r.mutable_volume_capabilities(0) = Mount(Mode::MULTI_NODE_MULTI_WRITER); },
           Code::kUnsupported, "volume_capabilities[0].access_mode: is for several nodes"},
          {[](R& r) { (*r.mutable_mutable_parameters())["k"] = "v"; }, Code::kUnsupported,
           "mutable_parameters: "},
      });
}

TEST(ParseMaxEntries, RefusesANegativeCount) {
  const auto parsed = ParseMaxEntries(-1);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(parsed.error().message(), "max_entries: must not be negative, is -1");
  EXPECT_EQ(*ParseMaxEntries(3), 3U);
}

TEST(ParseCapacity, RefusesOtherNodesAndSeveralNodesWithoutAnError) {
  using R = pb::GetCapacityRequest;
  ExpectRefused<R>(R(), [](const R& r) { return ParseCapacity(r, kHere); },
                   {
                       {[](R& r) {
                          (*r.mutable_accessible_topology()->mutable_segments())["quarry.csi.local/node"] =
                              "node-2";
                        },
                        Code::kUnsupported, "accessible_topology: is not this node (node-1)"},
                       {[](R& r) { *r.add_volume_capabilities() = Block(Mode::MULTI_NODE_SINGLE_WRITER); },
                        Code::kUnsupported, "volume_capabilities[0].access_mode: is for several nodes"},
                       {[](R& r) {
                          *r.add_volume_capabilities() = Block();
                          *r.add_volume_capabilities() = Mount();
                        },
                        Code::kUnsupported, "volume_capabilities[1]: has another access type"},
                       {[](R& r) { (*r.mutable_accessible_topology()->mutable_segments())["x y"] = "v"; },
                        Code::kInvalidArgument, "accessible_topology.segments: "},
                       {[](R& r) { r.add_volume_capabilities(); }, Code::kInvalidArgument,
                        "volume_capabilities[0]: needs an access type"},
                   });
}

TEST(ParseExpand, RefusesEachBadFieldByName) {
  using R = pb::ControllerExpandVolumeRequest;
  R good;
  good.set_volume_id("v");
  good.mutable_capacity_range()->set_required_bytes(1);
  ExpectRefused<R>(
      good, [](const R& r) { return ParseExpand(r); },
      {
          {[](R& r) { r.clear_volume_id(); }, Code::kInvalidArgument, "volume_id: is required"},
          {[](R& r) { r.clear_capacity_range(); }, Code::kInvalidArgument, "capacity_range: is required"},
          {[](R& r) { r.mutable_capacity_range()->set_required_bytes(0); }, Code::kInvalidArgument,
           "capacity_range: needs"},
          {[](R& r) { r.mutable_capacity_range()->set_required_bytes(-1); }, Code::kInvalidArgument,
           "capacity_range.required_bytes: must not be negative"},
          {[](R& r) { r.mutable_volume_capability(); }, Code::kInvalidArgument,
           "volume_capability: needs an access"},
          {[](R& r) { *r.mutable_volume_capability() = Mount(Mode::MULTI_NODE_MULTI_WRITER); },
           Code::kUnsupported, "volume_capability.access_mode: is for several nodes"},
      });
}

TEST(ParseStage, RefusesEachBadFieldByName) {
  using R = pb::NodeStageVolumeRequest;
  R good;
  good.set_volume_id("v");
  good.set_staging_target_path("/staging");
  *good.mutable_volume_capability() = Mount();
  ExpectRefused<R>(good, [](const R& r) { return ParseStage(r); },
                   {
                       {[](R& r) { r.clear_volume_id(); }, Code::kInvalidArgument, "volume_id: is required"},
                       {[](R& r) { r.clear_staging_target_path(); }, Code::kInvalidArgument,
                        "staging_target_path: is required"},
                       {[](R& r) { r.clear_volume_capability(); }, Code::kInvalidArgument,
                        "volume_capability: is required"},
                       {[](R& r) { r.mutable_volume_capability()->clear_mount(); }, Code::kInvalidArgument,
                        "volume_capability: needs an access type"},
                       {[](R& r) { r.set_staging_target_path("staging"); }, Code::kInvalidArgument,
                        "staging_target_path: must be an absolute path"},
                       {[](R& r) { r.set_staging_target_path("/a/../../etc"); }, Code::kInvalidArgument,
                        "staging_target_path: must not contain"},
                       {[](R& r) { *r.mutable_volume_capability() = Mount(Mode::MULTI_NODE_READER_ONLY); },
                        Code::kUnsupported, "volume_capability.access_mode: is for several nodes"},
                   });
}

TEST(ParsePublish, RefusesEachBadFieldByName) {
  using R = pb::NodePublishVolumeRequest;
  R good;
  good.set_volume_id("v");
  good.set_staging_target_path("/staging");
  good.set_target_path("/target");
  *good.mutable_volume_capability() = Block();
  ExpectRefused<R>(
      good, [](const R& r) { return ParsePublish(r); },
      {
          {[](R& r) { r.clear_volume_id(); }, Code::kInvalidArgument, "volume_id: is required"},
          {[](R& r) { r.clear_target_path(); }, Code::kInvalidArgument, "target_path: is required"},
          {[](R& r) { r.clear_volume_capability(); }, Code::kInvalidArgument,
           "volume_capability: is required"},
          {[](R& r) { r.clear_staging_target_path(); }, Code::kPrecondition,
           "staging_target_path: is not set"},
          {[](R& r) { r.set_target_path("../x"); }, Code::kInvalidArgument,
           "target_path: must be an absolute path"},
          {[](R& r) { r.set_target_path("/"); }, Code::kInvalidArgument, "target_path: must not be the root"},
          {[](R& r) { r.set_staging_target_path("x"); }, Code::kInvalidArgument,
           "staging_target_path: must be an absolute path"},
          {[](R& r) { r.set_target_path("/staging"); }, Code::kInvalidArgument,
           "target_path: must not be staging"},
          {[](R& r) { r.set_target_path("/staging/sub"); }, Code::kInvalidArgument,
           "target_path: must not be staging"},
      });
  R beside = good;
  beside.set_target_path("/staging2");
  beside.set_readonly(true);
  const auto parsed = ParsePublish(beside);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_TRUE(parsed->read_only);
  EXPECT_EQ(parsed->capability.access, engine::AccessType::kBlock);
}

TEST(ParseEphemeral, TellsInlineVolumesFromPersistentOnes) {
  pb::NodePublishVolumeRequest request;
  request.set_volume_id("csi-0a");
  request.set_target_path("/target");
  *request.mutable_volume_capability() = Mount();
  EXPECT_FALSE(ParseEphemeral(request)->has_value()) << "kubelet says nothing unless it is to";
  auto& context = *request.mutable_volume_context();
  context["csi.storage.k8s.io/ephemeral"] = "false";
  EXPECT_FALSE(ParseEphemeral(request)->has_value());

  context["csi.storage.k8s.io/ephemeral"] = "true";
  context["csi.storage.k8s.io/pod.name"] = "web-0";
  context["type"] = "raid1";
  auto parsed = ParseEphemeral(request);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
  ASSERT_TRUE(parsed->has_value());
  EXPECT_EQ((*parsed)->publish.id, "csi-0a");
  EXPECT_FALSE((*parsed)->publish.staging_path.has_value());
  EXPECT_EQ((*parsed)->size, Bytes{0});
  context["size"] = "2GiB";
  parsed = ParseEphemeral(request);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
  EXPECT_EQ((*parsed)->size, Bytes{2 * kGiB.value});
  EXPECT_EQ((*parsed)->parameters.at("type"), "raid1");
  EXPECT_FALSE((*parsed)->parameters.contains("size")) << "no parameter of a profile";
}

TEST(ParseEphemeral, RefusesEachBadFieldByName) {
  using R = pb::NodePublishVolumeRequest;
  const auto set = [](const char* key, const char* value) {
    return [key, value](R& r) { (*r.mutable_volume_context())[key] = value; };
  };
  R good;
  good.set_volume_id("csi-0a");
  good.set_target_path("/target");
  *good.mutable_volume_capability() = Mount();
  (*good.mutable_volume_context())["csi.storage.k8s.io/ephemeral"] = "true";
  ExpectRefused<R>(
      good, [](const R& r) { return ParseEphemeral(r); },
      {
          {set("csi.storage.k8s.io/ephemeral", "True"), Code::kInvalidArgument,
           "volume_context['csi.storage.k8s.io/ephemeral']: must be 'true' or 'false'"},
          {[](R& r) { r.set_staging_target_path("/staging"); }, Code::kInvalidArgument,
           "staging_target_path: must be empty: an inline volume is not staged"},
          {[](R& r) { r.clear_volume_id(); }, Code::kInvalidArgument, "volume_id: is required"},
          {[](R& r) { r.set_volume_id("csi\x07"); }, Code::kInvalidArgument,
           "volume_id: must not contain the control character"},
          {[](R& r) { r.clear_target_path(); }, Code::kInvalidArgument, "target_path: is required"},
          {[](R& r) { r.clear_volume_capability(); }, Code::kInvalidArgument,
           "volume_capability: is required"},
          {set("size", "0"), Code::kInvalidArgument, "volume_context['size']: must not be 0"},
          {set("size", ""), Code::kInvalidArgument, "volume_context['size']: must be a size like"},
          {set("size", "-1"), Code::kInvalidArgument, "volume_context['size']: must be a size like"},
          {set("size", "1GB"), Code::kInvalidArgument, "volume_context['size']: must be a size like"},
          {set("size", "9000000T"), Code::kInvalidArgument, "volume_context['size']: must be smaller"},
      });
}

TEST(ParseUnstageAndUnpublish, RefuseEachBadFieldByName) {
  pb::NodeUnstageVolumeRequest unstage;
  unstage.set_volume_id("v");
  unstage.set_staging_target_path("/s");
  ExpectRefused<pb::NodeUnstageVolumeRequest>(
      unstage, [](const auto& r) { return ParseUnstage(r); },
      {{[](auto& r) { r.clear_volume_id(); }, Code::kInvalidArgument, "volume_id: is required"},
       {[](auto& r) { r.clear_staging_target_path(); }, Code::kInvalidArgument,
        "staging_target_path: is required"},
       {[](auto& r) { r.set_staging_target_path("s"); }, Code::kInvalidArgument,
        "staging_target_path: must be"}});
  pb::NodeUnpublishVolumeRequest unpublish;
  unpublish.set_volume_id("v");
  unpublish.set_target_path("/t");
  ExpectRefused<pb::NodeUnpublishVolumeRequest>(
      unpublish, [](const auto& r) { return ParseUnpublish(r); },
      {{[](auto& r) { r.clear_volume_id(); }, Code::kInvalidArgument, "volume_id: is required"},
       {[](auto& r) { r.clear_target_path(); }, Code::kInvalidArgument, "target_path: is required"},
       {[](auto& r) { r.set_target_path("/t/.."); }, Code::kInvalidArgument,
        "target_path: must not contain"}});
}

TEST(StatsAndNodeExpand, LeaveTheirPathsToTheEngine) {
  pb::NodeGetVolumeStatsRequest stats;
  stats.set_volume_id("v");
  stats.set_volume_path("some/path");
  ExpectRefused<pb::NodeGetVolumeStatsRequest>(
      stats, [](const auto& r) { return CheckStats(r); },
      {{[](auto& r) { r.clear_volume_id(); }, Code::kInvalidArgument, "volume_id: is required"},
       {[](auto& r) { r.clear_volume_path(); }, Code::kInvalidArgument, "volume_path: is required"}});
  pb::NodeExpandVolumeRequest expand;
  expand.set_volume_id("v");
  expand.set_volume_path("some/path");
  ExpectRefused<pb::NodeExpandVolumeRequest>(
      expand, [](const auto& r) { return ParseNodeExpand(r); },
      {{[](auto& r) { r.clear_volume_id(); }, Code::kInvalidArgument, "volume_id: is required"},
       {[](auto& r) { r.clear_volume_path(); }, Code::kInvalidArgument, "volume_path: is required"},
       {[](auto& r) { r.mutable_capacity_range()->set_limit_bytes(-1); }, Code::kInvalidArgument,
        "capacity_range.limit_bytes: must not be negative, is -1"},
       {[](auto& r) { r.mutable_volume_capability(); }, Code::kInvalidArgument,
        "volume_capability: needs an access"}});
}

}  // namespace
}  // namespace quarry::csi::v1
