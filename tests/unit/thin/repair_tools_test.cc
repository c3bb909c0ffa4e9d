// RepairTools with Debian's thin-provisioning-tools, on images that these made.
#include "thin/repair_tools.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "tests/unit/thin/thin_tools.h"

namespace quarry::thin::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr off_t kBlock = 4096;
// thin_restore writes the superblock, and then the two blocks that index the space maps.
constexpr off_t kFirstIndex = 1;

constexpr char kPool[] =
    R"(<superblock uuid="" time="1" transaction="5" data_block_size="256" nr_data_blocks="4000">
  <device dev_id="1" mapped_blocks="300" transaction="0" creation_time="0" snap_time="0">
    <range_mapping origin_begin="0" data_begin="0" length="300" time="0"/>
  </device>
  <device dev_id="7" mapped_blocks="2" transaction="4" creation_time="1" snap_time="1">
    <single_mapping origin_block="5" data_block="310" time="1"/>
    <single_mapping origin_block="9" data_block="0" time="0"/>
  </device>
</superblock>)";

class RepairToolsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "repair_tools_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    ASSERT_NO_FATAL_FAILURE(Restore(kPool, "pool"));
  }
  void Restore(const std::string& xml, const std::string& name) {
    std::ofstream(folder_ + "/pool.xml") << xml;
    const auto restored = RunThinTool({"thin_restore", "-i", folder_ + "/pool.xml", "-o", Image(name)});
    ASSERT_TRUE(restored.has_value()) << restored.error().message();
  }
  // What `name` has otherwise than "pool".
  std::map<uint32_t, std::string> Differences(const std::string& name) {
    const auto compared = tools_.Compare(Image("pool"), Image(name), Soon());
    EXPECT_TRUE(compared.has_value()) << compared.error().message();
    return compared.value_or(std::map<uint32_t, std::string>());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A file of the size that the tools need.
  std::string Image(const std::string& name) const {
    const std::string path = folder_ + "/" + name;
    if (!std::filesystem::exists(path)) {
      std::ofstream(path).close();
      std::filesystem::resize_file(path, uint64_t{8} << 20);
    }
    return path;
  }
  static void Damage(const std::string& path, off_t block) {
    const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(pwrite(fd.get(), "\xff\xff\xff\xff", 4, block * kBlock + 100), 4);
    ASSERT_EQ(fsync(fd.get()), 0);
  }
  static Call Soon() { return CallWithin(std::chrono::minutes(1)); }

  std::string folder_;
  SpawnSubprocess children_;
  RepairTools tools_{children_};
};

void ExpectPool(const Result<StoredPool>& pool, uint64_t transaction_id) {
  ASSERT_TRUE(pool.has_value()) << pool.error().message();
  EXPECT_EQ(pool->transaction_id, transaction_id);
  ASSERT_EQ(pool->devices.size(), 2U);
  EXPECT_EQ(pool->devices.at(1).transaction_id, 0U);
  EXPECT_EQ(pool->devices.at(1).mapped, Bytes{uint64_t{300} * 128 * 1024});
  EXPECT_EQ(pool->devices.at(7).transaction_id, 4U);
  EXPECT_EQ(pool->devices.at(7).mapped, Bytes{uint64_t{2} * 128 * 1024});
}

TEST_F(RepairToolsTest, SoundMetadataAreFoundSound) {
  EXPECT_TRUE(tools_.Check(Image("pool"), Soon()).has_value());
  ExpectPool(tools_.Look(Image("pool"), Soon()), 5);
}

TEST_F(RepairToolsTest, ADamagedSpaceMapIsMadeAgainWithoutALoss) {
  Damage(Image("pool"), kFirstIndex);
  const Status checked = tools_.Check(Image("pool"), Soon());
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().code(), Code::kCorrupt);
  EXPECT_THAT(checked.error().message(), HasSubstr("thin_check"));
  ExpectPool(tools_.Look(Image("pool"), Soon()), 5);
  const Status repaired = tools_.Repair(Image("pool"), Image("new"), std::nullopt, Soon());
  ASSERT_TRUE(repaired.has_value()) << repaired.error().message();
  EXPECT_TRUE(tools_.Check(Image("new"), Soon()).has_value());
  ExpectPool(tools_.Look(Image("new"), Soon()), 5);
  EXPECT_THAT(Differences("new"), IsEmpty());
  EXPECT_FALSE(tools_.Check(Image("pool"), Soon()).has_value()) << "the damaged ones are only read";
}

TEST_F(RepairToolsTest, ATransactionIdIsReplaced) {
  ASSERT_TRUE(tools_.Repair(Image("pool"), Image("new"), 9, Soon()).has_value());
  EXPECT_TRUE(tools_.Check(Image("new"), Soon()).has_value());
  ExpectPool(tools_.Look(Image("new"), Soon()), 9);
  EXPECT_THAT(Differences("new"), IsEmpty());
}

TEST_F(RepairToolsTest, NoOtherMappingAndNoOtherDetailPassesForTheSame) {
  const auto other = [&](const std::string& was, const std::string& is) {
    std::string xml = kPool;
    const size_t at = xml.find(was);
    EXPECT_NE(at, std::string::npos) << was;
    Restore(xml.replace(at, was.size(), is), "other");
    return Differences("other");
  };
  using ::testing::ElementsAre;
  using ::testing::Pair;
  EXPECT_THAT(other(R"(data_begin="0" length="300")", R"(data_begin="1" length="300")"),
              ElementsAre(Pair(1, "has other mappings")));
  EXPECT_THAT(other(R"(<single_mapping origin_block="9" data_block="0" time="0"/>)", ""),
              ElementsAre(Pair(7, "has other mappings")));
  EXPECT_THAT(other(R"(data_block="310" time="1")", R"(data_block="310" time="0")"),
              ElementsAre(Pair(7, "has other mappings")));
  EXPECT_THAT(other(R"(creation_time="1" snap_time="1")", R"(creation_time="1" snap_time="0")"),
              ElementsAre(Pair(7, "has other details")));
  EXPECT_THAT(other(R"(dev_id="7")", R"(dev_id="8")"),
              ElementsAre(Pair(7, "is lost"), Pair(8, "was not there before")));
  std::string xml = kPool;
  xml.replace(xml.find(R"(nr_data_blocks="4000")"), 21, R"(nr_data_blocks="4001")");
  Restore(xml, "other");
  EXPECT_EQ(tools_.Compare(Image("pool"), Image("other"), Soon()).error().code(), Code::kCorrupt);
}

// thin_repair leaves out what it cannot read, and succeeds.
TEST_F(RepairToolsTest, NoDamagedTreePassesForACompleteOne) {
  const auto image = [&] {
    std::ifstream in(Image("pool"), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  const auto nodes = static_cast<off_t>(image.find_last_not_of('\0')) / kBlock;
  int damaged = 0;
  for (off_t block = 0; block <= nodes; ++block) {
    SCOPED_TRACE(block);
    std::ofstream(Image("pool"), std::ios::binary | std::ios::trunc) << image;
    Damage(Image("pool"), block);
    const auto look = tools_.Look(Image("pool"), Soon());
    if (look.has_value()) {
      ExpectPool(look, 5);  // a block of the space maps, or of none
      continue;
    }
    ++damaged;
    EXPECT_EQ(look.error().code(), Code::kCorrupt) << look.error().message();
    EXPECT_FALSE(tools_.Check(Image("pool"), Soon()).has_value());
    if (tools_.Repair(Image("pool"), Image("new"), std::nullopt, Soon()).has_value()) {
      EXPECT_FALSE(tools_.Compare(Image("pool"), Image("new"), Soon()).has_value());
    }
  }
  EXPECT_GE(damaged, 4) << "the superblock, and the nodes of both trees of devices and of the mappings";
}

TEST_F(RepairToolsTest, WhatCannotBeFlushedIsNoSuccess) {
  const std::string tool = folder_ + "/thin_repair";
  std::ofstream(tool) << "#!/bin/sh\nexit 0\n";
  std::filesystem::permissions(tool, std::filesystem::perms::owner_all);
  RepairTools quick(children_, {folder_});
  const Status done = quick.Repair(Image("pool"), folder_ + "/absent", std::nullopt, Soon());
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code(), Code::kIo);
  EXPECT_TRUE(quick.Repair(Image("pool"), Image("new"), std::nullopt, Soon()).has_value());
}

TEST_F(RepairToolsTest, ALostSuperblockIsNoSuccess) {
  Damage(Image("pool"), 0);
  EXPECT_EQ(tools_.Look(Image("pool"), Soon()).error().code(), Code::kCorrupt);
  EXPECT_EQ(tools_.Check(Image("pool"), Soon()).error().code(), Code::kCorrupt);
  EXPECT_EQ(tools_.Repair(Image("pool"), Image("new"), std::nullopt, Soon()).error().code(), Code::kCorrupt);
}

TEST_F(RepairToolsTest, AMissingToolIsNamedWithItsPackage) {
  RepairTools none(children_, {folder_});
  EXPECT_TRUE(tools_.Ready().has_value());
  EXPECT_EQ(none.Ready().error().code(), Code::kPrecondition);
  const Status checked = none.Check(Image("pool"), Soon());
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().code(), Code::kPrecondition);
  EXPECT_THAT(checked.error().message(), HasSubstr("thin-provisioning-tools"));
}

}  // namespace
}  // namespace quarry::thin::testing
