#include "daemon/on_change/command_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/daemon/temporary_directory.h"

namespace quarry::daemon {
namespace {

using ::testing::HasSubstr;

// Empty: it may be run.
std::string Refusal(const std::string& path) {
  const Status fit = CheckCommandFile(*AbsolutePath::Parse(path));
  return fit.has_value() ? "" : fit.error().message();
}

TEST(CheckCommandFile, AFileThatOthersCanWriteIsRefusedWithTheRemedy) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/hook";
  std::ofstream(file) << "#!/bin/sh\n";
  const auto refusal = [&file] { return Refusal(file); };
  ASSERT_EQ(chmod(file.c_str(), 0755), 0);
  EXPECT_EQ(refusal(), "");
  ASSERT_EQ(chmod(file.c_str(), 0757), 0);
  EXPECT_THAT(refusal(), HasSubstr("can be written by others: chmod go-w " + file));
  ASSERT_EQ(chmod(file.c_str(), 0644), 0);
  EXPECT_THAT(refusal(), HasSubstr("is not executable: chmod +x " + file));
  if (geteuid() == 0) {
    ASSERT_EQ(chmod(file.c_str(), 0775), 0);
    ASSERT_EQ(chown(file.c_str(), 0, 7), 0);
    EXPECT_THAT(refusal(), HasSubstr("can be written by others"));
    ASSERT_EQ(chmod(file.c_str(), 0755), 0);
    EXPECT_EQ(refusal(), "");
    ASSERT_EQ(chown(file.c_str(), 7, 7), 0);
    EXPECT_THAT(refusal(), HasSubstr("belongs to user 7: chown root " + file));
  }
  std::filesystem::remove(file);
  EXPECT_EQ(CheckCommandFile(*AbsolutePath::Parse(file)).error().code(), Code::kNotFound);
}

class CommandFolders : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ + "/inner");
    std::ofstream(folder_ + "/inner/hook") << "#!/bin/sh\n";
    ASSERT_EQ(chmod((folder_ + "/inner/hook").c_str(), 0755), 0);
    ASSERT_EQ(Refusal(folder_ + "/inner/hook"), "");
  }

  const TemporaryDirectory directory_;
  const std::string folder_ = directory_.path() + "/folder";
};

TEST_F(CommandFolders, AFolderThatOthersCanWriteIsRefusedWherever) {
  for (const std::string& folder : {folder_ + "/inner", folder_}) {
    ASSERT_EQ(chmod(folder.c_str(), 0757), 0);
    EXPECT_THAT(Refusal(folder_ + "/inner/hook"), HasSubstr("chmod go-w " + folder)) << folder;
    ASSERT_EQ(chmod(folder.c_str(), 01757), 0);
    EXPECT_EQ(Refusal(folder_ + "/inner/hook"), "") << "others cannot replace what is not theirs";
    ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  }
}

TEST_F(CommandFolders, AFolderOfAnotherUserOrGroupIsRefused) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root gives files away";
  }
  ASSERT_EQ(chown(folder_.c_str(), 7, 0), 0);
  EXPECT_THAT(Refusal(folder_ + "/inner/hook"), HasSubstr("belongs to user 7: chown root " + folder_));
  ASSERT_EQ(chown(folder_.c_str(), 0, 7), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0775), 0);
  EXPECT_THAT(Refusal(folder_ + "/inner/hook"), HasSubstr("chmod go-w " + folder_));
  ASSERT_EQ(chown(folder_.c_str(), 0, 0), 0);
  EXPECT_EQ(Refusal(folder_ + "/inner/hook"), "") << "the group of root";
}

TEST_F(CommandFolders, TheFoldersBehindALinkCount) {
  const std::string link = directory_.path() + "/link";
  std::filesystem::create_symlink("folder/../folder/inner", link);
  EXPECT_EQ(Refusal(link + "/hook"), "");
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  EXPECT_THAT(Refusal(link + "/hook"), HasSubstr("chmod go-w " + folder_));
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  if (geteuid() == 0) {
    ASSERT_EQ(lchown(link.c_str(), 7, 7), 0);
    EXPECT_THAT(Refusal(link + "/hook"), HasSubstr("chown -h root " + link));
  }
  std::filesystem::create_symlink("circle", directory_.path() + "/circle");
  EXPECT_THAT(Refusal(directory_.path() + "/circle"), HasSubstr("cannot be followed"));
}

TEST_F(CommandFolders, AFolderIsNoCommand) {
  EXPECT_THAT(Refusal(folder_), HasSubstr("is not a file"));
}

}  // namespace
}  // namespace quarry::daemon
