#include "lvm/run/pv_flush.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::lvm {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kUuid = "Cs6RcW-Zyld-wABZ-N0Eo-03Xo-04mc-FfmcYK";
constexpr const char* kOther = "7Bd31h-qRQb-WeOo-KPhc-YCea-Kjd2-LqvI04";

// Files with PV labels.
class PvFlushTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::current_path() / "pv-flush-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  // A disk labelled as by pvcreate: sector 1, header at 32. `header`: the offset in the label.
  std::string Disk(const std::string& name, std::string uuid, size_t sector = 1, char header = 32) {
    std::erase(uuid, '-');
    std::string block(8192, '\0');
    block.replace(sector * 512, 8, "LABELONE");
    block[sector * 512 + 20] = header;
    block.replace(sector * 512 + 32, uuid.size(), uuid);
    std::ofstream(root_ / name, std::ios::binary) << block;
    return root_ / name;
  }

  fs::path root_;
};

TEST_F(PvFlushTest, LabelledDisksAreFlushed) {
  const Status status =
      FlushPvs({{kUuid, Disk("a", kUuid), true}, {kOther, Disk("b", kOther, 3), false}}, {});
  EXPECT_TRUE(status.has_value()) << status.error().message();
}

TEST_F(PvFlushTest, OneDurableCopyOfTheMetadataIsEnough) {
  const std::string gone = root_ / "gone";
  EXPECT_TRUE(FlushPvs({{kOther, gone, true}, {kUuid, Disk("a", kUuid), true}}, {}).has_value());
}

TEST_F(PvFlushTest, ADiskWithoutMetadataDoesNotCount) {
  const Status status = FlushPvs({{kOther, root_ / "gone", true}, {kUuid, Disk("a", kUuid), false}}, {});
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message(), HasSubstr("gone"));
}

TEST_F(PvFlushTest, AnotherDiskAtTheSamePathDoesNotCount) {
  for (const std::string& disk :
       {Disk("other", kOther), Disk("far", kUuid, 4), Disk("bent", kUuid, 1, 127)}) {
    const Status status = FlushPvs({{kUuid, disk, true}}, {});
    ASSERT_FALSE(status.has_value()) << disk;
    EXPECT_EQ(status.error().code(), Code::kUnavailable);
    EXPECT_THAT(status.error().message(), HasSubstr(kUuid));
  }
  std::ofstream(root_ / "short") << "LABELONE";
  EXPECT_FALSE(FlushPvs({{kUuid, root_ / "short", true}}, {}).has_value());
}

TEST_F(PvFlushTest, ANewPvIsFlushedWhateverItsUuid) {
  const Status status = FlushNewPv(Disk("a", kUuid), {});
  EXPECT_TRUE(status.has_value()) << status.error().message();
  EXPECT_EQ(FlushNewPv(Disk("far", kUuid, 4), {}).error().code(), Code::kUnavailable);
  EXPECT_FALSE(FlushNewPv(root_ / "gone", {}).has_value());
}

TEST_F(PvFlushTest, NoDiskIsNotDurable) {
  EXPECT_EQ(FlushPvs({}, {}).error().code(), Code::kUnavailable);
}

TEST_F(PvFlushTest, KeepsTheDeadline) {
  EXPECT_EQ(FlushPvs({{kUuid, Disk("a", kUuid), true}}, {.deadline = SteadyTime::min()}).error().code(),
            Code::kTimeout);
}

}  // namespace
}  // namespace quarry::lvm
