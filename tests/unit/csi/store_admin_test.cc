// Thin stores over the socket, as quarryctl sees them.
#include <gmock/gmock.h>
#include <quarry/admin/v1/admin.grpc.pb.h>

#include "tests/unit/csi/service_harness.h"

namespace quarry::csi {
namespace {

namespace admin = ::quarry::admin::v1;
using testing::HasSubstr;

HarnessOptions WithStores() {
  HarnessOptions options;
  options.stores = {{.name = "fast",
                     .size = Bytes{160 * kMiB.value},
                     .geometry = *lvm::Geometry::Make({.type = lvm::VolumeType::kRaid1}),
                     .chunk = Bytes{128 * 1024}},
                    {.name = "vast",
                     .size = Bytes{1000 * kGiB.value},
                     .geometry = *lvm::Geometry::Make({}),
                     .chunk = Bytes{128 * 1024}}};
  return options;
}

class StoreAdminTest : public testing::Test, public ServiceHarness {
 protected:
  StoreAdminTest()
      : ServiceHarness(WithStores()),
        stub_(admin::Admin::NewStub(
            grpc::CreateChannel("unix:" + admin_socket, grpc::InsecureChannelCredentials()))) {
    pb::CreateVolumeRequest request;
    request.set_name("one");
    request.mutable_capacity_range()->set_required_bytes(40 * kMebibyte);
    auto& capability = *request.add_volume_capabilities();
    capability.mutable_block();
    capability.mutable_access_mode()->set_mode(pb::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
    (*request.mutable_parameters())["type"] = "thin";
    (*request.mutable_parameters())["store"] = "fast";
    pb::CreateVolumeResponse made;
    const grpc::Status status = Do(&pb::Controller::Stub::CreateVolume, *controller, request, &made);
    EXPECT_TRUE(status.ok()) << status.error_message();
    id_ = made.volume().volume_id();
  }

  std::unique_ptr<admin::Admin::Stub> stub_;
  std::string id_;
};

TEST_F(StoreAdminTest, TheStatusHasEveryStoreOfAPool) {
  admin::GetStatusResponse status;
  ASSERT_TRUE(Do(&admin::Admin::Stub::GetStatus, *stub_, admin::GetStatusRequest(), &status).ok());
  ASSERT_EQ(status.pools(0).stores_size(), 2);
  const admin::ThinStore& fast = status.pools(0).stores(0);
  EXPECT_EQ(fast.name(), "fast");
  EXPECT_EQ(fast.mode(), "rw");
  EXPECT_EQ(fast.problem(), "");
  EXPECT_EQ(fast.condition(), "healthy");
  EXPECT_NE(fast.store_id(), "");
  EXPECT_NE(fast.logical_volume(), "");
  EXPECT_THAT(fast.layout(), HasSubstr("raid1"));
  EXPECT_EQ(fast.chunk_bytes(), 128 * 1024);
  EXPECT_EQ(fast.size_bytes(), 160 * kMebibyte);
  EXPECT_EQ(fast.promised_bytes(), 40 * kMebibyte);
  EXPECT_EQ(fast.free_bytes(), 120 * kMebibyte);
  EXPECT_EQ(fast.legs(), 4U);
  EXPECT_EQ(fast.degraded_legs(), 0U);
  EXPECT_EQ(fast.volumes(), 1U);
  ASSERT_TRUE(fast.has_use());
  EXPECT_EQ(fast.use().data_bytes(), 0);
  EXPECT_EQ(fast.use().metadata_bytes(), 10 * 4096);
  EXPECT_EQ(fast.use().metadata_size_bytes(), 1024 * 4096);
  const admin::ThinStore& vast = status.pools(0).stores(1);
  EXPECT_EQ(vast.mode(), "not-made");
  EXPECT_NE(vast.problem(), "");
  EXPECT_FALSE(vast.has_use());
}

TEST_F(StoreAdminTest, OneStoreHasItsVolumes) {
  admin::GetStoreRequest request;
  request.set_store("fast");
  admin::GetStoreResponse shown;
  ASSERT_TRUE(Do(&admin::Admin::Stub::GetStore, *stub_, request, &shown).ok());
  EXPECT_EQ(shown.pool(), "p");
  EXPECT_EQ(shown.volume_group(), "vg0");
  EXPECT_EQ(shown.store().name(), "fast");
  ASSERT_EQ(shown.volumes_size(), 1);
  EXPECT_EQ(shown.volumes(0).kind(), "volume");
  EXPECT_EQ(shown.volumes(0).volume_id(), id_);
  EXPECT_EQ(shown.volumes(0).name(), "one");
  EXPECT_NE(shown.volumes(0).logical_volume(), "");
  EXPECT_EQ(shown.volumes(0).size_bytes(), 40 * kMebibyte);
  EXPECT_TRUE(shown.volumes(0).has_mapped_bytes());
  EXPECT_FALSE(shown.volumes(0).has_exclusive_bytes());
  request.set_exclusive(true);
  request.set_pool("p");
  admin::GetStoreResponse counted;
  ASSERT_TRUE(Do(&admin::Admin::Stub::GetStore, *stub_, request, &counted).ok());
  EXPECT_TRUE(counted.volumes(0).has_exclusive_bytes());
}

TEST_F(StoreAdminTest, WhatIsNotThereIsNamed) {
  admin::GetStoreRequest request;
  const grpc::Status none = Do(&admin::Admin::Stub::GetStore, *stub_, request);
  EXPECT_EQ(none.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(none.error_message(), HasSubstr("store"));
  request.set_store("slow");
  const grpc::Status unknown = Do(&admin::Admin::Stub::GetStore, *stub_, request);
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(unknown.error_message(), HasSubstr("p/fast, p/vast"));
  request.set_pool("q");
  EXPECT_EQ(Do(&admin::Admin::Stub::GetStore, *stub_, request).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace quarry::csi
