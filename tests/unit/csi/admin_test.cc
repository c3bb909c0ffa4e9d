// quarry.admin.v1 over the socket, as quarryctl sees it.
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <quarry/admin/v1/admin.grpc.pb.h>

#include "lvm/names.h"
#include "tests/unit/csi/service_harness.h"

namespace quarry::csi {
namespace {

namespace admin = ::quarry::admin::v1;
using testing::HasSubstr;

class AdminTest : public testing::Test, public ServiceHarness {
 protected:
  explicit AdminTest(const HarnessOptions& options = {})
      : ServiceHarness(options),
        stub_(admin::Admin::NewStub(
            grpc::CreateChannel("unix:" + admin_socket, grpc::InsecureChannelCredentials()))) {
    const auto group = *lvm.Read("vg0", Call{});
    const auto linear = *lvm::Geometry::Make({});
    const auto placement = *lvm::Place(lvm::FreeSpaceOf(*group), linear, Extents{4}, *group);
    EXPECT_TRUE(lvm.Apply(lvm::CreateLv{.group = "vg0",
                                        .name = "csilvdata",
                                        .geometry = linear,
                                        .step = placement.steps.front(),
                                        .tags = {"VN.n"}},
                          Call{})
                    .has_value());
  }
  grpc::Status Adopt(admin::AdoptRequest request, admin::AdoptResponse& response) {
    request.set_volume_group("vg0");
    request.set_logical_volume("csilvdata");
    return Do(&admin::Admin::Stub::Adopt, *stub_, request, &response);
  }

  std::unique_ptr<admin::Admin::Stub> stub_;
};

TEST_F(AdminTest, CallsAreListedWithTheCallersTraceIdAndTheirSteps) {
  const std::string id = "4bf92f3577b34da6a3ce929d0e0e4736";
  grpc::ClientContext context;
  context.AddMetadata("traceparent", "00-" + id + "-00f067aa0ba902b7-01");
  admin::AdoptRequest request;
  request.set_volume_group("vg0");
  request.set_logical_volume("csilvdata");
  request.set_csilvm(true);
  admin::AdoptResponse adopted;
  ASSERT_TRUE(stub_->Adopt(&context, request, &adopted).ok());
  admin::AdoptRequest bad;
  admin::AdoptResponse refused;
  EXPECT_FALSE(Do(&admin::Admin::Stub::Adopt, *stub_, bad, &refused).ok());

  admin::ListCallsResponse calls;
  ASSERT_TRUE(Do(&admin::Admin::Stub::ListCalls, *stub_, admin::ListCallsRequest(), &calls).ok());
  ASSERT_EQ(calls.calls_size(), 2);
  EXPECT_EQ(calls.calls(0).code(), CodeName(Code::kInvalidArgument));
  EXPECT_EQ(calls.calls(0).trace_id().size(), 32U);
  EXPECT_NE(calls.calls(0).trace_id(), id);
  const auto& adopt = calls.calls(1);
  EXPECT_EQ(adopt.trace_id(), id);
  EXPECT_EQ(adopt.method(), "Adopt");
  EXPECT_EQ(adopt.version(), "admin");
  EXPECT_EQ(adopt.volume_id(), adopted.volume_id());
  EXPECT_EQ(adopt.code(), "ok");
  EXPECT_GT(adopt.took_us(), 0);
  EXPECT_GT(adopt.steps_size(), 0);
  EXPECT_THAT(Logged(), testing::ContainsRegex("Adopt.*\"trace\":\"" + id + "\""));
}

TEST_F(AdminTest, AdoptsListsAndReleases) {
  admin::ListForeignRequest question;
  question.set_volume_group("vg0");
  admin::ListForeignResponse listed;
  ASSERT_TRUE(Do(&admin::Admin::Stub::ListForeign, *stub_, question, &listed).ok());
  ASSERT_EQ(listed.logical_volumes_size(), 1);
  EXPECT_TRUE(listed.logical_volumes(0).csilvm());
  admin::AdoptRequest request;
  request.set_csilvm(true);
  admin::AdoptResponse adopted;
  const grpc::Status status = Adopt(request, adopted);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(adopted.volume_id(), listed.logical_volumes(0).volume_id());
  EXPECT_EQ(adopted.name(), "n");
  EXPECT_EQ(adopted.capacity_bytes(), 16 * kMebibyte);
  EXPECT_EQ(adopted.type(), "linear");
  EXPECT_TRUE(adopted.changed());
  EXPECT_THAT(Logged(), HasSubstr("vg0/csilvdata adopted"));
  StageAndPublish(adopted.volume_id());
  admin::ReleaseRequest release;
  release.set_volume_id(adopted.volume_id());
  admin::ReleaseResponse released;
  EXPECT_EQ(Do(&admin::Admin::Stub::Release, *stub_, release, &released).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  ASSERT_TRUE(
      engine->volumes().Unpublish(adopted.volume_id(), *AbsolutePath::Parse("/target"), Call{}).has_value());
  ASSERT_TRUE(
      engine->volumes().Unstage(adopted.volume_id(), *AbsolutePath::Parse("/staging"), Call{}).has_value());
  const grpc::Status done = Do(&admin::Admin::Stub::Release, *stub_, release, &released);
  ASSERT_TRUE(done.ok()) << done.error_message();
  EXPECT_EQ(released.logical_volume(), "csilvdata");
  EXPECT_TRUE(released.changed());
}

TEST_F(AdminTest, IsNotServedOnTheSocketForVolumes) {
  struct stat status{};
  ASSERT_EQ(stat(admin_socket.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  const auto there = admin::Admin::NewStub(channel);
  admin::GetStatusResponse answer;
  EXPECT_EQ(Do(&admin::Admin::Stub::GetStatus, *there, admin::GetStatusRequest(), &answer).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  const auto on_admin =
      pb::Identity::NewStub(grpc::CreateChannel("unix:" + admin_socket, grpc::InsecureChannelCredentials()));
  pb::ProbeResponse probed;
  EXPECT_EQ(Do(&pb::Identity::Stub::Probe, *on_admin, pb::ProbeRequest(), &probed).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  server->Shutdown(std::chrono::milliseconds::zero());
  EXPECT_NE(stat(admin_socket.c_str(), &status), 0) << "it is taken along";
}

TEST_F(AdminTest, TheCallerOfAChangeIsInTheLog) {
  admin::RepairResponse report;
  ASSERT_TRUE(Do(&admin::Admin::Stub::Repair, *stub_, admin::RepairRequest(), &report).ok());
  const std::string caller = fmt::format("\"caller\":\"pid {}, uid {}\"", getpid(), getuid());
  EXPECT_THAT(Logged(), HasSubstr(caller));
  MakeVolume("v");
  EXPECT_THAT(Logged().substr(Logged().find("CreateVolume")), testing::Not(HasSubstr("caller")));
}

class NodeOnlyAdminTest : public AdminTest {
 protected:
  NodeOnlyAdminTest() : AdminTest({.mode = Mode::kNode}) {}
};

TEST_F(NodeOnlyAdminTest, IsServedInEveryMode) {
  admin::GetStatusResponse answer;
  const grpc::Status status = Do(&admin::Admin::Stub::GetStatus, *stub_, admin::GetStatusRequest(), &answer);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(answer.pools_size(), 1);
}

TEST_F(AdminTest, ReportsEveryDiskEvenBeforeTheStart) {
  udev.Plug(fakes::PlainDisk("d0", "serial0", kGiB));
  udev::Disk other = fakes::PlainDisk("x", "serial1", kGiB);
  other.rotational = true;
  other.partitions = {"x1"};
  udev.Plug(other);
  admin::ListDevicesResponse there;
  const grpc::Status status =
      Do(&admin::Admin::Stub::ListDevices, *stub_, admin::ListDevicesRequest(), &there);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(there.devices_size(), 2);
  const auto& ours = there.devices(0);
  EXPECT_EQ(ours.path(), "/dev/d0");
  EXPECT_EQ(ours.identity(), "nvme.serial0");
  EXPECT_EQ(ours.size_bytes(), 1024 * kMebibyte);
  EXPECT_EQ(ours.transport(), "nvme");
  EXPECT_EQ(ours.logical_block_bytes(), 512);
  EXPECT_EQ(ours.pool(), "p");
  EXPECT_TRUE(ours.member());
  EXPECT_FALSE(ours.wanted());
  EXPECT_FALSE(ours.pv_uuid().empty());
  ASSERT_EQ(ours.links_size(), 1);
  EXPECT_EQ(ours.links(0), "/dev/disk/by-id/nvme-serial0");
  EXPECT_FALSE(there.devices(1).member());
  EXPECT_TRUE(there.devices(1).rotational());
  EXPECT_EQ(there.devices(1).reason(), "has partitions: x1");

  ServiceHarness early({.start = false});
  early.udev.Plug(other);
  const auto stub = admin::Admin::NewStub(
      grpc::CreateChannel("unix:" + early.admin_socket, grpc::InsecureChannelCredentials()));
  ASSERT_TRUE(Do(&admin::Admin::Stub::ListDevices, *stub, admin::ListDevicesRequest(), &there).ok());
  EXPECT_EQ(there.devices_size(), 1);
}

TEST_F(AdminTest, ReportsTheHealthOfDisks) {
  udev.Plug(fakes::PlainDisk("d0", "serial0", kGiB));
  udev::DiskHealth health;
  health.critical_warning = udev::kReadOnlyMedia;
  health.available_spare = 40;
  health.spare_threshold = 5;
  health.percentage_used = 77;
  health.temperature = -4;
  health.media_errors = 3;
  health.unsafe_shutdowns = 8;
  health.deallocated_is_zero = true;
  health.write_granularity = Bytes{4096};
  disk_health->Say("/dev/d0", health);
  admin::ListDevicesResponse devices;
  ASSERT_TRUE(Do(&admin::Admin::Stub::ListDevices, *stub_, admin::ListDevicesRequest(), &devices).ok());
  ASSERT_EQ(devices.devices_size(), 1);
  EXPECT_FALSE(devices.devices(0).has_health()) << "the disk was not polled yet";
  ASSERT_TRUE(engine->disks().PollDisks(CallWithin(std::chrono::seconds(20))).has_value());
  ASSERT_TRUE(Do(&admin::Admin::Stub::ListDevices, *stub_, admin::ListDevicesRequest(), &devices).ok());
  const admin::DiskHealth& told = devices.devices(devices.devices_size() - 1).health();
  EXPECT_EQ(told.critical_warning(), 8U);
  EXPECT_EQ(told.available_spare_percent(), 40U);
  EXPECT_EQ(told.spare_threshold_percent(), 5U);
  EXPECT_EQ(told.percentage_used(), 77U);
  EXPECT_EQ(told.temperature_celsius(), -4);
  EXPECT_EQ(told.media_errors(), 3U);
  EXPECT_EQ(told.unsafe_shutdowns(), 8U);
  EXPECT_TRUE(told.deallocated_is_zero());
  EXPECT_EQ(told.write_granularity_bytes(), 4096);
  EXPECT_EQ(told.discard_granularity_bytes(), 0);

  admin::GetStatusResponse status;
  ASSERT_TRUE(Do(&admin::Admin::Stub::GetStatus, *stub_, admin::GetStatusRequest(), &status).ok());
  const auto& disks = status.pools(0).disks();
  const auto failing = std::ranges::find(disks, "failing", [](const auto& disk) { return disk.state(); });
  ASSERT_NE(failing, disks.end());
  EXPECT_EQ(failing->device(), "/dev/d0");
  EXPECT_EQ(failing->detail(), "it takes no more writes");
  EXPECT_EQ(std::ranges::count(disks, "ok", [](const auto& disk) { return disk.state(); }), disks.size() - 1);
}

TEST_F(AdminTest, RequestsAreCheckedFirst) {
  admin::AdoptResponse ignored;
  EXPECT_EQ(Do(&admin::Admin::Stub::Adopt, *stub_, admin::AdoptRequest(), &ignored).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  admin::AdoptRequest request;
  request.set_name("bad\x01name");
  EXPECT_EQ(Adopt(request, ignored).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request.set_name(std::string(129, 'n'));
  EXPECT_EQ(Adopt(request, ignored).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request.set_name("n");
  request.set_csilvm(true);
  EXPECT_EQ(Adopt(request, ignored).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Do(&admin::Admin::Stub::Release, *stub_, admin::ReleaseRequest()).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Do(&admin::Admin::Stub::ListForeign, *stub_, admin::ListForeignRequest()).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(AdminTest, ScrubsVolumesThatHaveLegsToCompare) {
  const auto made = engine->volumes().Create({.name = "mirror",
                                              .range = {Bytes{16 * kMiB.value}, {}},
                                              .capabilities = {{}},
                                              .parameters = {{"type", "raid1"}}},
                                             Call{});
  ASSERT_TRUE(made.has_value()) << made.error().message();
  const std::string id = made->volume.id;
  const auto group = *lvm.Read("vg0", Call{});
  const std::string dm_uuid = lvm::DmUuid(group->uuid, group->FindLv(lvm::ParseVolumeId(id)->lv_name)->uuid);
  dm.SetRaid(dm_uuid,
             dm::RaidStatus{.type = "raid1", .legs = "AA", .in_sync = 8, .total = 8, .action = "idle"});
  admin::ScrubResponse asked;
  const grpc::Status status = Do(&admin::Admin::Stub::Scrub, *stub_, admin::ScrubRequest(), &asked);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(asked.volumes_size(), 1);
  EXPECT_EQ(asked.volumes(0).volume_id(), id);
  EXPECT_EQ(asked.volumes(0).refusal(), "");
  const auto told = [&] {
    admin::GetStatusResponse answer;
    EXPECT_TRUE(Do(&admin::Admin::Stub::GetStatus, *stub_, admin::GetStatusRequest(), &answer).ok());
    for (const auto& volume : answer.pools(0).volumes()) {
      if (volume.volume_id() == id) {
        return volume;
      }
    }
    return admin::GetStatusResponse::Volume();
  };
  EXPECT_TRUE(told().scrub_pending());
  ASSERT_TRUE(engine->upkeep().Repair(engine::RepairCause::kEvent, Call{}).has_value());
  dm.EndScrub(dm_uuid, 24);
  ASSERT_TRUE(engine->upkeep().Repair(engine::RepairCause::kEvent, Call{}).has_value());
  EXPECT_FALSE(told().scrub_pending());
  EXPECT_EQ(told().scrubbed().mismatched_bytes(), 12288);
  EXPECT_GT(told().scrubbed().ended_at(), 0);
  admin::ScrubRequest unknown;
  unknown.add_volume_ids("p.q");
  EXPECT_EQ(Do(&admin::Admin::Stub::Scrub, *stub_, unknown, &asked).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace quarry::csi
