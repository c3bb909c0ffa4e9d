// Directories that volumes are mounted at, on the real file system.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ctl/mount_point.h"

namespace quarry::ctl {
namespace {

using testing::HasSubstr;

class MountPointTest : public testing::Test {
 protected:
  MountPointTest() {
    std::string path = testing::TempDir() + "mount-point-XXXXXX";
    folder_ = mkdtemp(path.data());
  }
  ~MountPointTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(MountPointTest, AMissingDirectoryIsMade) {
  const std::string path = folder_ + "/a/b";
  ASSERT_TRUE(PrepareMountPoint(path).has_value());
  EXPECT_TRUE(std::filesystem::is_directory(path));
  EXPECT_TRUE(PrepareMountPoint(path).has_value()) << "it may be there";
}

TEST_F(MountPointTest, FilesAreNotHidden) {
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_THAT(PrepareMountPoint(folder_).error().message(), HasSubstr("is not empty"));
  EXPECT_FALSE(PrepareMountPoint(folder_ + "/file").has_value()) << "no directory";
}

TEST_F(MountPointTest, LinksAreFollowed) {
  std::filesystem::create_directory(folder_ + "/real");
  std::filesystem::create_directory_symlink(folder_ + "/real", folder_ + "/link");
  EXPECT_EQ(WithoutLinks(folder_ + "/link/new"), folder_ + "/real/new");
}

TEST_F(MountPointTest, OwnersAreNamesOrNumbers) {
  const auto both = ParseOwner("root:0", 0750);
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->user, 0U);
  EXPECT_EQ(both->group, 0U);
  EXPECT_EQ(both->mode, 0750U);
  EXPECT_FALSE(ParseOwner(":12", {})->user.has_value());
  EXPECT_EQ(ParseOwner(":12", {})->group, 12U);
  EXPECT_TRUE(ParseOwner("", {})->empty());
  EXPECT_THAT(ParseOwner("nobody-like-that", {}).error().message(),
              HasSubstr("there is no user 'nobody-like-that'"));
  EXPECT_THAT(ParseOwner("root:none-such", {}).error().message(), HasSubstr("there is no group"));
  EXPECT_FALSE(ParseOwner("4294967295", {}).has_value()) << "chown(2) takes it for nobody";
  EXPECT_THAT(ParseOwner(":", {}).error().message(), HasSubstr("must be USER"));
}

TEST_F(MountPointTest, OwnershipChangesOnlyWhatDiffers) {
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  const Ownership wish{.user = getuid(), .group = {}, .mode = 0755};
  EXPECT_TRUE(Differs(folder_, wish).value());
  EXPECT_TRUE(SetOwnership(folder_, wish).value());
  EXPECT_FALSE(Differs(folder_, wish).value());
  struct stat now{};
  ASSERT_EQ(stat(folder_.c_str(), &now), 0);
  EXPECT_EQ(now.st_mode & 07777U, 0755U);
  EXPECT_FALSE(SetOwnership(folder_, wish).value());
  EXPECT_FALSE(SetOwnership(folder_ + "/none", wish).has_value());
}

}  // namespace
}  // namespace quarry::ctl
