// CSI v0 and v0.1 as their callers see them: every error of csi-spec section 10, the behaviour that Mesos
// relies on, and one volume used through several versions. Through a real socket, over fakes.
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/csi/holdup.h"
#include "tests/unit/csi/older_harness.h"

namespace quarry::csi {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;

const std::string kUnknown = "p.qaaaaaaaaaaaaaaaaaaaaaaaaaa";

TYPED_TEST_SUITE_P(Older);

TYPED_TEST_P(Older, ErrorsOfCreateVolume) {
  using V = TypeParam;
  using R = typename V::CreateRequest;
  const auto bad = StatusCode::INVALID_ARGUMENT;
  this->ExpectErrors(
      &V::Controller::Stub::CreateVolume, *this->old_controller, this->CreateOld("refused"),
      std::vector<typename TestFixture::template Row<R>>{
          {bad, "name: is required", [](R& r) { r.clear_name(); }},
          {bad, "name: must be at most 128 bytes, is 129", [](R& r) { r.set_name(std::string(129, 'n')); }},
          {bad, "volume_capabilities: is required", [](R& r) { r.clear_volume_capabilities(); }},
          {bad, "volume_capabilities[0]: needs an access type",
           [](R& r) { r.mutable_volume_capabilities(0)->clear_access_type(); }},
          {bad, "volume_capabilities[0].access_mode: is required",
           [](R& r) { r.mutable_volume_capabilities(0)->clear_access_mode(); }},
          {bad, "volume_capabilities[0].access_mode: is for several nodes",
           [](R& r) {
             r.mutable_volume_capabilities(0)->mutable_access_mode()->set_mode(
                 V::Mode::MULTI_NODE_MULTI_WRITER);
           }},
          // SINGLE_NODE_SINGLE_WRITER of v1, a number that has no meaning here.
          {bad, "volume_capabilities[0].access_mode: mode 6 is not known",
           [](R& r) {
             r.mutable_volume_capabilities(0)->mutable_access_mode()->set_mode(
                 static_cast<typename V::Mode::Mode>(6));
           }},
          {bad, "volume_capabilities[0].mount.fs_type: 'ntfs' is not supported",
           [](R& r) { r.mutable_volume_capabilities(0)->mutable_mount()->set_fs_type("ntfs"); }},
          {bad, "capacity_range: needs required_bytes or limit_bytes",
           [](R& r) {
             r.mutable_capacity_range()->set_required_bytes(0);
             r.mutable_capacity_range()->set_limit_bytes(0);
           }},
          {bad, "capacity_range.required_bytes: must not exceed limit_bytes",
           [](R& r) { r.mutable_capacity_range()->set_limit_bytes(1); }},
          {bad, "capacity_range.required_bytes: must not be negative",
           [](R& r) { r.mutable_capacity_range()->set_required_bytes(-1); }},
          {bad, "parameters['colour']: no such parameter",
           [](R& r) { (*r.mutable_parameters())["colour"] = "red"; }},
          {bad, "parameters: keys and values must be at most 4096 bytes in all",
           [](R& r) { (*r.mutable_parameters())["type"] = std::string(4093, 'x'); }},
          {bad, "", [](R& r) { V::SecretsOf(r)["key"] = std::string(4094, 'x'); }},
          // A size of Mesos that is not a multiple of the extent size.
          {StatusCode::OUT_OF_RANGE, "capacity_range.limit_bytes: ",
           [](R& r) {
             r.mutable_capacity_range()->set_required_bytes(64 * kMebibyte + 1049);
             r.mutable_capacity_range()->set_limit_bytes(64 * kMebibyte + 1049);
           }},
          {StatusCode::OUT_OF_RANGE, "pool 'p': ",
           [](R& r) {
             r.mutable_capacity_range()->set_required_bytes(1LL << 50);
             r.mutable_capacity_range()->set_limit_bytes(0);
           }},
      });
  EXPECT_EQ(this->List().entries_size(), 0) << "a refused request leaves nothing behind";

  this->MakeOld("taken");
  R other = this->CreateOld("taken", false, 128 * kMebibyte);
  EXPECT_EQ(this->Do(&V::Controller::Stub::CreateVolume, *this->old_controller, other).error_code(),
            StatusCode::ALREADY_EXISTS);
  ASSERT_TRUE(this->Do(&V::Controller::Stub::CreateVolume, *this->old_controller,
                       this->CreateOld("big", true, 3LL << 30))
                  .ok());
  EXPECT_EQ(this->Do(&V::Controller::Stub::CreateVolume, *this->old_controller,
                     this->CreateOld("too", true, 2LL << 30))
                .error_code(),
            V::kNoRoomNow);
}

TYPED_TEST_P(Older, ErrorsOfTheOtherControllerCalls) {
  using V = TypeParam;
  const std::string id = this->MakeOld("v");
  ASSERT_TRUE(this->Publish(this->PublishOld(id)).ok());
  EXPECT_EQ(this->Delete("").error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(this->Delete(std::string(129, 'i')).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(this->Delete(kUnknown).ok());
  EXPECT_TRUE(this->Delete("some-vol-id").ok());
  const grpc::Status in_use = this->Delete(id);
  EXPECT_EQ(in_use.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(in_use.error_message(), HasSubstr("/target"));

  using R = typename V::ValidateRequest;
  R good = this->template New<R>();
  good.set_volume_id(id);
  *good.add_volume_capabilities() = this->Capability();
  this->ExpectErrors(
      &V::Controller::Stub::ValidateVolumeCapabilities, *this->old_controller, good,
      std::vector<typename TestFixture::template Row<R>>{
          {StatusCode::INVALID_ARGUMENT, "volume_id: is required", [](R& r) { r.clear_volume_id(); }},
          {StatusCode::INVALID_ARGUMENT, "volume_capabilities: is required",
           [](R& r) { r.clear_volume_capabilities(); }},
          {StatusCode::NOT_FOUND, "volume_id: no volume", [](R& r) { r.set_volume_id(kUnknown); }},
      });
  using L = typename V::ListRequest;
  L list = this->template New<L>();
  list.set_starting_token("page 2");
  EXPECT_EQ(this->Do(&V::Controller::Stub::ListVolumes, *this->old_controller, list).error_code(),
            StatusCode::ABORTED);
}

TYPED_TEST_P(Older, ErrorsOfNodePublishAndUnpublish) {
  using V = TypeParam;
  using R = typename V::PublishRequest;
  const std::string id = this->MakeOld("v");
  const auto bad = StatusCode::INVALID_ARGUMENT;
  this->ExpectErrors(
      &V::Node::Stub::NodePublishVolume, *this->old_node, this->PublishOld(id),
      std::vector<typename TestFixture::template Row<R>>{
          {bad, "volume_id: is required", [](R& r) { r.clear_volume_id(); }},
          {bad, "target_path: is required", [](R& r) { r.clear_target_path(); }},
          {bad, "target_path: ", [](R& r) { r.set_target_path("relative/path"); }},
          {bad, "volume_capability: is required", [](R& r) { r.clear_volume_capability(); }},
          {StatusCode::NOT_FOUND, "volume_id: no volume", [](R& r) { r.set_volume_id(kUnknown); }},
          {StatusCode::FAILED_PRECONDITION, "volume_capability: volume " + id,
           [](R& r) { r.mutable_volume_capability()->mutable_block(); }},
          {StatusCode::FAILED_PRECONDITION, "volume_capability: volume " + id,
           [](R& r) { r.mutable_volume_capability()->mutable_mount()->set_fs_type("xfs"); }},
      });
  ASSERT_TRUE(this->Publish(this->PublishOld(id)).ok());
  EXPECT_TRUE(this->Publish(this->PublishOld(id)).ok()) << "a repeat";
  R read_only = this->PublishOld(id);
  read_only.set_readonly(true);
  EXPECT_EQ(this->Publish(read_only).error_code(), StatusCode::ALREADY_EXISTS);
  const std::string other = this->MakeOld("other");
  EXPECT_EQ(this->Publish(this->PublishOld(other)).error_code(), StatusCode::FAILED_PRECONDITION)
      << "another volume is there";

  EXPECT_EQ(this->Unpublish("").error_code(), bad);
  EXPECT_EQ(this->Unpublish(id, "").error_code(), bad);
  EXPECT_TRUE(this->Unpublish(id, "/never").ok());
  EXPECT_TRUE(this->Unpublish(kUnknown).ok()) << "a volume that is gone is published nowhere";
  EXPECT_TRUE(this->Unpublish(id).ok());
  EXPECT_TRUE(this->Unpublish(id).ok());
}

TYPED_TEST_P(Older, ThePathBelongsToTheCallerEvenADirectoryForARawVolume) {
  const std::string id = this->MakeOld("raw", true);
  this->mount.AddDirectory("/mesos");
  this->mount.AddDirectory("/mesos/target");
  const AbsolutePath target = *AbsolutePath::Parse("/mesos/target");
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(this->Publish(this->PublishOld(id, target.str(), true)).ok());
    EXPECT_TRUE(this->mount.BlockDeviceAt(target)->has_value());
    EXPECT_EQ(this->Delete(id).error_code(), StatusCode::FAILED_PRECONDITION);
    ASSERT_TRUE(this->Unpublish(id, target.str()).ok());
    EXPECT_FALSE(this->mount.BlockDeviceAt(target)->has_value());
    EXPECT_NE(*this->mount.Inspect(target), mount::PathKind::kAbsent) << "never removed";
  }
  const std::string mounted = this->MakeOld("mounted");
  this->mount.AddDirectory("/mesos/mount");
  const AbsolutePath directory = *AbsolutePath::Parse("/mesos/mount");
  ASSERT_TRUE(this->Publish(this->PublishOld(mounted, directory.str())).ok());
  ASSERT_TRUE(this->Unpublish(mounted, directory.str()).ok());
  EXPECT_EQ(*this->mount.Inspect(directory), mount::PathKind::kDirectory);
}

TYPED_TEST_P(Older, PublishesWithoutStagingAlsoAfterAReboot) {
  const std::string id = this->MakeOld("v");
  ASSERT_TRUE(this->Publish(this->PublishOld(id)).ok());
  ASSERT_TRUE(this->Publish(this->PublishOld(id, "/second")).ok());
  auto reader = this->PublishOld(id, "/third");
  reader.set_readonly(true);
  ASSERT_TRUE(this->Publish(reader).ok());
  EXPECT_TRUE(this->mount.Mounts()->At(*AbsolutePath::Parse("/third"))->read_only());
  for (const char* target : {"/target", "/second", "/third"}) {
    ASSERT_TRUE(this->Unpublish(id, target).ok());
  }
  this->lvm.Reboot();
  this->dm.Reboot();
  ASSERT_TRUE(this->Publish(this->PublishOld(id)).ok());
  ASSERT_TRUE(this->Unpublish(id).ok());
  ASSERT_TRUE(this->Delete(id).ok());
}

TYPED_TEST_P(Older, ARepeatOfWorkInFlightJoinsIt) {
  using V = TypeParam;
  const auto create = this->CreateOld("same");
  std::vector<grpc::Status> answers(3);
  std::vector<typename V::CreateResponse> responses(3);
  {
    Holdup holdup(this->lvm, "Create");
    std::vector<std::jthread> callers;
    for (size_t i = 0; i < answers.size(); ++i) {
      callers.emplace_back([&, i] {
        answers[i] =
            this->Do(&V::Controller::Stub::CreateVolume, *this->old_controller, create, &responses[i]);
      });
    }
    holdup.WaitUntilReached();
    holdup.Release();
    callers.clear();
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_TRUE(answers[i].ok()) << answers[i].error_message();
    EXPECT_EQ(V::VolumeOf(responses[i]).id(), V::VolumeOf(responses[0]).id());
  }
  EXPECT_EQ(this->List().entries_size(), 1);
}

TYPED_TEST_P(Older, ARepeatThatTimesOutIsNeverAborted) {
  using V = TypeParam;
  Holdup holdup(this->lvm, "Create");
  std::jthread first([&] {
    (void)this->Do(&V::Controller::Stub::CreateVolume, *this->old_controller, this->CreateOld("same"));
  });
  holdup.WaitUntilReached();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  typename V::CreateResponse response;
  const grpc::Status second =
      this->old_controller->CreateVolume(&context, this->CreateOld("same"), &response);
  EXPECT_TRUE(second.error_code() == StatusCode::UNAVAILABLE ||
              second.error_code() == StatusCode::DEADLINE_EXCEEDED)
      << second.error_code() << " " << second.error_message();
  holdup.Release();
}

TYPED_TEST_P(Older, KeepsSizesAndAttributesByteForByte) {
  using V = TypeParam;
  typename V::CreateResponse created, repeated;
  auto request = this->CreateOld("exact", true, 68 * kMebibyte);
  (*request.mutable_parameters())["type"] = "raid1";
  for (auto* response : {&created, &repeated}) {
    ASSERT_TRUE(this->Do(&V::Controller::Stub::CreateVolume, *this->old_controller, request, response).ok());
  }
  EXPECT_EQ(V::VolumeOf(created).capacity_bytes(), 68 * kMebibyte);
  EXPECT_FALSE(V::VolumeOf(created).attributes().empty());
  // An administrator's tag does not change what Quarry reports about the volume.
  this->lvm.Edit("vg0", [](lvm::VolumeGroup& group) { group.lvs.front().tags.push_back("colour.red"); });
  const auto list = this->List();
  ASSERT_EQ(list.entries_size(), 1);
  const auto facts = [](const auto& volume) {
    return std::tuple(
        volume.id(), volume.capacity_bytes(),
        std::map<std::string, std::string>(volume.attributes().begin(), volume.attributes().end()));
  };
  EXPECT_EQ(facts(V::VolumeOf(repeated)), facts(V::VolumeOf(created)));
  EXPECT_EQ(facts(V::VolumeOf(list.entries(0))), facts(V::VolumeOf(created)));

  typename V::ValidateRequest validate = this->template New<typename V::ValidateRequest>();
  validate.set_volume_id(V::VolumeOf(created).id());
  *validate.mutable_volume_attributes() = V::VolumeOf(created).attributes();
  *validate.add_volume_capabilities() = this->Capability(true);
  typename V::ValidateResponse answer;
  const auto ask = [&] {
    return this->Do(&V::Controller::Stub::ValidateVolumeCapabilities, *this->old_controller, validate,
                    &answer);
  };
  ASSERT_TRUE(ask().ok());
  EXPECT_TRUE(answer.supported()) << answer.message();
  *validate.mutable_volume_capabilities(0) = this->Capability(false);
  ASSERT_TRUE(ask().ok());
  EXPECT_FALSE(answer.supported());
  EXPECT_NE(answer.message(), "");
}

TYPED_TEST_P(Older, CapacityIsNeverAnErrorForAProfile) {
  using V = TypeParam;
  this->dm.SetTarget("raid", false);
  const auto ask = [&](const std::map<std::string, std::string>& parameters, const std::string& fs_type) {
    auto request = this->template New<typename V::CapacityRequest>();
    auto& capability = *request.add_volume_capabilities() = this->Capability();
    capability.mutable_mount()->set_fs_type(fs_type);
    request.mutable_parameters()->insert(parameters.begin(), parameters.end());
    typename V::CapacityResponse response;
    const auto status =
        this->Do(&V::Controller::Stub::GetCapacity, *this->old_controller, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.available_capacity();
  };
  EXPECT_GT(ask({}, ""), 0);
  EXPECT_EQ(ask({{"type", "raid1"}}, ""), 0);  // the kernel target is missing, yet Probe succeeds
  EXPECT_EQ(ask({{"type", "raid77"}}, ""), 0);
  EXPECT_EQ(ask({{"colour", "red"}}, ""), 0);
  EXPECT_EQ(ask({}, "ntfs"), 0);
  EXPECT_TRUE(this->Do(&pb::Identity::Stub::Probe, *this->identity, pb::ProbeRequest()).ok());
}

TYPED_TEST_P(Older, AnnouncesTheCapabilitiesThatItServes) {
  using V = TypeParam;
  typename V::InfoResponse info;
  ASSERT_TRUE(this->Do(&V::Identity::Stub::GetPluginInfo, *this->old_identity,
                       this->template New<typename V::InfoRequest>(), &info)
                  .ok());
  EXPECT_EQ(info.name(), "quarry.csi.local");
  EXPECT_EQ(info.manifest().at("csi"), V::kCsi);
  typename V::ControllerCapabilitiesResponse controller_offer;
  ASSERT_TRUE(this->Do(&V::Controller::Stub::ControllerGetCapabilities, *this->old_controller,
                       this->template New<typename V::ControllerCapabilitiesRequest>(), &controller_offer)
                  .ok());
  std::vector<int> types;
  for (const auto& capability : controller_offer.capabilities()) {
    types.push_back(capability.rpc().type());
  }
  EXPECT_THAT(types, testing::ElementsAre(1, 3, 4));  // create/delete, list, capacity
  typename V::NodeCapabilitiesResponse node_offer;
  ASSERT_TRUE(this->Do(&V::Node::Stub::NodeGetCapabilities, *this->old_node,
                       this->template New<typename V::NodeCapabilitiesRequest>(), &node_offer)
                  .ok());
  // No capabilities. v0 returns a list with UNKNOWN, because the conformance suite of 0.2 expects a list.
  constexpr bool kListed = std::is_same_v<V, V0>;
  EXPECT_EQ(node_offer.capabilities_size(), kListed ? 1 : 0);
  for (const auto& capability : node_offer.capabilities()) {
    ASSERT_TRUE(capability.has_rpc());
    EXPECT_EQ(static_cast<int>(capability.rpc().type()), 0);
  }
}

TYPED_TEST_P(Older, OneVolumeThroughTwoVersions) {
  const std::string id = this->MakeOld("shared");
  pb::ListVolumesResponse listed;
  ASSERT_TRUE(
      this->Do(&pb::Controller::Stub::ListVolumes, *this->controller, pb::ListVolumesRequest(), &listed)
          .ok());
  ASSERT_EQ(listed.entries_size(), 1);
  EXPECT_EQ(listed.entries(0).volume().volume_id(), id);
  EXPECT_EQ(listed.entries(0).volume().capacity_bytes(), 64 * kMebibyte);
  // Mounted by the older version, staged and published by v1 too, and unmounted by the respective other one.
  ASSERT_TRUE(this->Publish(this->PublishOld(id, "/old")).ok());
  this->StageAndPublish(id);
  ASSERT_TRUE(this->Unpublish(id, "/old").ok());
  EXPECT_EQ(this->Delete(id).error_code(), StatusCode::FAILED_PRECONDITION);
  ASSERT_TRUE(this->Publish(this->PublishOld(id, "/old")).ok());
  ASSERT_TRUE(this->Unpublish(id, "/target").ok());
  pb::NodeUnstageVolumeRequest unstage;
  unstage.set_volume_id(id);
  unstage.set_staging_target_path("/staging");
  ASSERT_TRUE(this->Do(&pb::Node::Stub::NodeUnstageVolume, *this->node, unstage).ok());
  ASSERT_TRUE(this->Unpublish(id, "/old").ok());

  const std::string newer = this->MakeVolume("of v1");
  ASSERT_TRUE(this->Publish(this->PublishOld(newer)).ok());
  ASSERT_TRUE(this->Unpublish(newer).ok());
  EXPECT_TRUE(this->Delete(newer).ok());
  EXPECT_TRUE(this->Delete(id).ok());
}

TYPED_TEST_P(Older, WaitsForAStartInProgress) {
  using V = TypeParam;
  ServiceHarness late({.start = false});
  auto stub = V::Controller::NewStub(late.channel);
  grpc::Status status;
  std::jthread caller([&] {
    status = ServiceHarness::Do(&V::Controller::Stub::ListVolumes, *stub,
                                this->template New<typename V::ListRequest>());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // long enough for a refusal to arrive
  ASSERT_TRUE(late.engine->lifecycle().Start(Call{}).has_value());
  caller.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

REGISTER_TYPED_TEST_SUITE_P(Older, ErrorsOfCreateVolume, ErrorsOfTheOtherControllerCalls,
                            ErrorsOfNodePublishAndUnpublish,
                            ThePathBelongsToTheCallerEvenADirectoryForARawVolume,
                            PublishesWithoutStagingAlsoAfterAReboot, ARepeatOfWorkInFlightJoinsIt,
                            ARepeatThatTimesOutIsNeverAborted, KeepsSizesAndAttributesByteForByte,
                            CapacityIsNeverAnErrorForAProfile, AnnouncesTheCapabilitiesThatItServes,
                            OneVolumeThroughTwoVersions, WaitsForAStartInProgress);
using BothVersions = ::testing::Types<V0, V0_1>;
INSTANTIATE_TYPED_TEST_SUITE_P(Versions, Older, BothVersions);

}  // namespace
}  // namespace quarry::csi
