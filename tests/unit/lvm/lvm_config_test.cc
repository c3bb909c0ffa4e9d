#include "lvm/run/lvm_config.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/subprocess.h"

namespace quarry::lvm {
namespace {

using ::testing::HasSubstr;

std::string Load(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class LvmConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "quarry-config-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    config_.system_dir = name + "/state/lvm";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::filesystem::path root_;
  LvmConfig config_;
};

TEST_F(LvmConfigTest, IsWrittenForRootAlone) {
  ASSERT_TRUE(WriteLvmConfig(config_).has_value());
  EXPECT_EQ(Load(config_.system_dir + "/lvm.conf"), LvmConfText(config_).value());
  struct stat info{};
  ASSERT_EQ(stat(config_.system_dir.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

TEST_F(LvmConfigTest, ReplacesAnOlderOneAndLeavesNothingBehind) {
  ASSERT_TRUE(WriteLvmConfig(config_).has_value());
  std::ofstream(config_.system_dir + "/lvm.conf") << "old";
  std::ofstream(config_.system_dir + "/lvm.conf.new") << "left by a crash";
  ASSERT_TRUE(WriteLvmConfig(config_).has_value());
  EXPECT_EQ(Load(config_.system_dir + "/lvm.conf"), LvmConfText(config_).value());
  EXPECT_FALSE(std::filesystem::exists(config_.system_dir + "/lvm.conf.new"));
}

TEST_F(LvmConfigTest, AnEqualFileIsNotTouched) {
  ASSERT_TRUE(WriteLvmConfig(config_).has_value());
  struct stat before{};
  ASSERT_EQ(stat((config_.system_dir + "/lvm.conf").c_str(), &before), 0);
  ASSERT_TRUE(WriteLvmConfig(config_).has_value());
  struct stat after{};
  ASSERT_EQ(stat((config_.system_dir + "/lvm.conf").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST_F(LvmConfigTest, HoldsTheGivenDirectories) {
  config_.locking_dir = "/run/lock/other";
  config_.scan_dirs = {"/run/quarry/pv", "/dev/mapper"};
  const std::string text = LvmConfText(config_).value();
  EXPECT_THAT(text, HasSubstr("global/locking_dir = \"/run/lock/other\"\n"));
  EXPECT_THAT(text, HasSubstr("devices/scan = [ \"/run/quarry/pv\", \"/dev/mapper\" ]\n"));
}

TEST_F(LvmConfigTest, RefusesPathsThatWouldEndTheString) {
  for (const char* bad : {"", "relative", "/a\"b", "/a\\b", "/a\nb", "/a'b"}) {
    LvmConfig config = config_;
    config.locking_dir = bad;
    EXPECT_EQ(LvmConfText(config).error().code(), Code::kInvalidArgument) << bad;
    config = config_;
    config.scan_dirs = {bad};
    EXPECT_EQ(LvmConfText(config).error().code(), Code::kInvalidArgument) << bad;
  }
}

TEST_F(LvmConfigTest, SaysWhereItCouldNotWrite) {
  std::ofstream(root_ / "state") << "a file where the directory should be";
  const Status status = WriteLvmConfig(config_);
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message(), HasSubstr(config_.system_dir));
}

// Every setting exists in the installed lvm, with this name and type.
TEST_F(LvmConfigTest, IsValidForTheInstalledLvm) {
  if (!std::filesystem::exists("/usr/sbin/lvm")) {
    GTEST_SKIP() << "no lvm here";
  }
  ASSERT_TRUE(WriteLvmConfig(config_).has_value());
  Command command;
  command.argv = {"/usr/sbin/lvm", "lvmconfig", "--validate"};
  command.env = {{"LVM_SYSTEM_DIR", config_.system_dir}, {"LC_ALL", "C"}};
  SpawnSubprocess subprocess;
  const auto finished = subprocess.Run(command, CallWithin(std::chrono::seconds(20)));
  ASSERT_TRUE(finished.has_value()) << finished.error().message();
  EXPECT_TRUE(finished->ok()) << finished->err;
  EXPECT_THAT(finished->out, HasSubstr("LVM configuration valid"));
}

}  // namespace
}  // namespace quarry::lvm
