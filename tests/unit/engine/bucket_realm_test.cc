// A bucket's volume belongs to the faces of buckets: the faces of volumes refuse it, and the other way round.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr Bytes kSize{400 * kMiB.value};

AbsolutePath Path(const std::string& text) {
  return *AbsolutePath::Parse(text);
}

class BucketRealmTest : public testing::Test {
 protected:
  BucketRealmTest() {
    lvm_.AddGroup("vg0", Bytes{4 * kMiB.value}, {{"/dev/a", Extents{1000}}});
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory("/srv");
    Restart();
    bucket_ = Create(engine_->bucket_volumes(), "s3:logs", "name=logs")->volume.id;
    volume_ = Create(engine_->volumes(), "data", "")->volume.id;
  }

  void Restart() {
    engine_.reset();
    engine_ = std::make_unique<Engine>(EngineConfig{.pools = {{.name = "p", .group = "vg0", .reserve = {}}}},
                                       fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }
  static Call Soon() { return CallWithin(milliseconds(20000)); }
  static Capability Xfs() { return {.access = AccessType::kMount, .fs_type = "xfs"}; }

  static Result<CreateResult> Create(Volumes& volumes, const std::string& name, const std::string& s3) {
    return volumes.Create(
        {.name = name, .range = {kSize, {}}, .capabilities = {Xfs()}, .parameters = {}, .s3 = s3}, Soon());
  }
  template <typename T>
  static void ExpectRefused(const Result<T>& result) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code(), Code::kPrecondition) << result.error().message();
    EXPECT_THAT(result.error().message(), HasSubstr("quarryctl bucket"));
  }

  fakes::FakeDm dm_;
  fakes::FakeLvm lvm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
  std::string bucket_, volume_;
};

TEST_F(BucketRealmTest, ABucketKeepsItsParametersOverARestart) {
  Restart();
  const auto bucket = engine_->bucket_volumes().Get(bucket_, Soon());
  ASSERT_TRUE(bucket.has_value()) << bucket.error().message();
  EXPECT_EQ(bucket->s3, "name=logs");
  const auto again = Create(engine_->bucket_volumes(), "s3:logs", "name=logs");
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(again->created);
  EXPECT_EQ(again->volume.s3, "name=logs");
}

TEST_F(BucketRealmTest, CallsForVolumesRefuseABucket) {
  Volumes& volumes = engine_->volumes();
  ExpectRefused(volumes.Delete(bucket_, Soon()));
  ExpectRefused(volumes.Get(bucket_, Soon()));
  ExpectRefused(volumes.Expand(bucket_, {Bytes{2 * kSize.value}, {}}, {}, Soon()));
  ExpectRefused(volumes.Validate({.id = bucket_, .capabilities = {Xfs()}}, Soon()));
  ExpectRefused(volumes.Stage({bucket_, Path("/srv"), Xfs()}, Soon()));
  ExpectRefused(volumes.Unstage(bucket_, Path("/srv"), Soon()));
  ExpectRefused(volumes.Publish({bucket_, std::nullopt, Path("/srv/x"), Xfs()}, Soon()));
  ExpectRefused(volumes.Unpublish(bucket_, Path("/srv/x"), Soon()));
  ExpectRefused(engine_->mounts().Mount({.id = bucket_, .path = Path("/srv/x")}, Soon()));
  ExpectRefused(engine_->mounts().Unmount(bucket_, std::nullopt, Soon()));
  ExpectRefused(engine_->snapshots().Create({"s", bucket_, {}}, Soon()));
  ExpectRefused(engine_->adoption().Release(bucket_, false, Soon()));
  CreateRequest clone{.name = "clone", .range = {kSize, {}}, .capabilities = {Xfs()}, .parameters = {}};
  clone.source = {.id = bucket_};
  ExpectRefused(volumes.Create(clone, Soon()));
  EXPECT_TRUE(engine_->bucket_volumes().Get(bucket_, Soon()).has_value()) << "nothing has touched it";
}

TEST_F(BucketRealmTest, AMountedBucketIsNeitherUnpublishedNorMeasuredAsAVolume) {
  ASSERT_TRUE(engine_->bucket_mounts().Mount({.id = bucket_, .path = Path("/srv/b")}, Soon()).has_value());
  ExpectRefused(engine_->volumes().Unpublish(bucket_, Path("/srv/b"), Soon()));
  ExpectRefused(engine_->volumes().Stats(bucket_, "/srv/b", Soon()));
  ExpectRefused(engine_->volumes().NodeExpand(
      {.id = bucket_, .volume_path = "/srv/b", .staging_path = "", .range = {}}, Soon()));
  EXPECT_TRUE(engine_->bucket_volumes().Stats(bucket_, "/srv/b", Soon()).has_value());
}

TEST_F(BucketRealmTest, EachFaceListsItsOwn) {
  const auto volumes = engine_->volumes().List(0, "", Soon());
  ASSERT_TRUE(volumes.has_value());
  ASSERT_EQ(volumes->volumes.size(), 1U);
  EXPECT_EQ(volumes->volumes[0].id, volume_);
  const auto buckets = engine_->bucket_volumes().List(0, "", Soon());
  ASSERT_TRUE(buckets.has_value());
  ASSERT_EQ(buckets->volumes.size(), 1U);
  EXPECT_EQ(buckets->volumes[0].id, bucket_);
  const auto status = engine_->lifecycle().NodeStatus(Soon());
  ASSERT_TRUE(status.has_value());
  ASSERT_EQ(status->front().volumes.size(), 2U) << "the status shows both";
  EXPECT_FALSE(status->front().volumes[0].is_bucket);
  EXPECT_TRUE(status->front().volumes[1].is_bucket);
}

TEST_F(BucketRealmTest, TheNameOfOneIsTakenForTheOther) {
  const auto as_volume = Create(engine_->volumes(), "s3:logs", "");
  ASSERT_FALSE(as_volume.has_value());
  EXPECT_EQ(as_volume.error().code(), Code::kAlreadyExists);
  ASSERT_TRUE(Create(engine_->volumes(), "s3:other", "").has_value());
  const auto as_bucket = Create(engine_->bucket_volumes(), "s3:other", "name=other");
  ASSERT_FALSE(as_bucket.has_value());
  EXPECT_EQ(as_bucket.error().code(), Code::kAlreadyExists) << as_bucket.error().message();
}

TEST_F(BucketRealmTest, TheFacesOfBucketsDoNotKnowVolumes) {
  const auto got = engine_->bucket_volumes().Get(volume_, Soon());
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code(), Code::kNotFound);
  EXPECT_FALSE(engine_->bucket_volumes().Delete(volume_, Soon()).has_value());
  EXPECT_FALSE(engine_->bucket_mounts().Mount({.id = volume_, .path = Path("/srv/x")}, Soon()).has_value());
  EXPECT_TRUE(engine_->volumes().Get(volume_, Soon()).has_value());
}

TEST_F(BucketRealmTest, OnlyTheStartOfBucketsMountsThem) {
  ASSERT_TRUE(engine_->bucket_mounts().Mount({.id = bucket_, .path = Path("/srv/b")}, Soon()).has_value());
  engine_.reset();
  dm_.Reboot();
  mount_.Reboot();
  Restart();
  KeptMounts past;
  ASSERT_TRUE(engine_->mounts().MountKept("p", past, Soon()).has_value());
  EXPECT_EQ(mount_.Mounts()->At(Path("/srv/b")), nullptr);
  ASSERT_TRUE(engine_->bucket_mounts().MountKept("p", past, Soon()).has_value());
  EXPECT_NE(mount_.Mounts()->At(Path("/srv/b")), nullptr);
}

TEST_F(BucketRealmTest, ADeletedBucketIsErasedAsAVolumeIs) {
  const auto deleted = engine_->bucket_volumes().Delete(bucket_, Soon());
  ASSERT_TRUE(deleted.has_value()) << deleted.error().message();
  EXPECT_TRUE(deleted->deleted);
  EXPECT_FALSE(engine_->bucket_volumes().Get(bucket_, Soon()).has_value());
}

}  // namespace
}  // namespace quarry::engine
