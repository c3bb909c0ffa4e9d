#include "mount/kernel_mount.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace quarry::mount {
namespace {

namespace fs = std::filesystem;

class PathsTest : public ::testing::Test {
 protected:
  PathsTest() {
    std::string pattern = (fs::temp_directory_path() / "quarry-paths-XXXXXX").string();
    base_ = fs::canonical(mkdtemp(pattern.data())).string();
    fs::create_directories(base_ + "/root/dir");
    fs::create_directories(base_ + "/outside");
    std::ofstream(base_ + "/root/file");
    std::ofstream(base_ + "/root/full") << "x";
    fs::create_symlink(base_ + "/outside", base_ + "/root/away");
    fs::create_symlink("dir", base_ + "/root/near");
    fs::create_symlink(base_ + "/root", base_ + "/entrance");
  }
  ~PathsTest() override { fs::remove_all(base_); }
  AbsolutePath In(const std::string& name) const { return *AbsolutePath::Parse(base_ + "/" + name); }
  static Code CodeOf(const Status& status) {
    EXPECT_FALSE(status.has_value());
    return status.has_value() ? Code::kInternal : status.error().code();
  }

  std::string base_;
  SpawnSubprocess subprocess_;
  KernelMount free_{subprocess_};
};

TEST_F(PathsTest, ALinkAtTheLastComponentIsNeverFollowed) {
  EXPECT_EQ(*free_.Inspect(In("root/near")), PathKind::kOther);
  EXPECT_EQ(CodeOf(free_.MakeDirectory(In("root/near"))), Code::kPrecondition);
  EXPECT_EQ(CodeOf(free_.MakeFile(In("root/near"))), Code::kPrecondition);
  EXPECT_EQ(CodeOf(free_.RemovePath(In("root/near"))), Code::kPrecondition);
  EXPECT_TRUE(fs::is_symlink(base_ + "/root/near"));
}

TEST_F(PathsTest, OtherLinksAreFollowed) {
  EXPECT_TRUE(free_.MakeDirectory(In("root/near/new")).has_value());
  EXPECT_TRUE(fs::is_directory(base_ + "/root/dir/new"));
  EXPECT_TRUE(free_.MakeFile(In("root/away/new")).has_value());
  EXPECT_TRUE(fs::is_regular_file(base_ + "/outside/new"));
}

TEST_F(PathsTest, APathThroughAFileIsNotFound) {
  EXPECT_EQ(*free_.Inspect(In("root/file/x")), PathKind::kAbsent);
  EXPECT_TRUE(free_.RemovePath(In("root/file/x")).has_value());
  EXPECT_EQ(CodeOf(free_.MakeDirectory(In("root/file/x"))), Code::kNotFound);
}

TEST_F(PathsTest, TheRootDirectoryIsNotAPathOfAVolume) {
  const AbsolutePath root = *AbsolutePath::Parse("/");
  EXPECT_EQ(CodeOf(free_.MakeDirectory(root)), Code::kInvalidArgument);
  EXPECT_EQ(CodeOf(free_.MakeFile(root)), Code::kInvalidArgument);
  EXPECT_FALSE(free_.RemovePath(root).has_value());
}

TEST_F(PathsTest, LinksAboveTheLastComponentAreResolved) {
  EXPECT_EQ(free_.Resolve(In("entrance/near/new"))->str(), base_ + "/root/dir/new");
  EXPECT_EQ(free_.Resolve(In("root/away/new"))->str(), base_ + "/outside/new");
  EXPECT_EQ(free_.Resolve(In("root/near"))->str(), base_ + "/root/near") << "the last one is kept as it is";
  EXPECT_EQ(free_.Resolve(*AbsolutePath::Parse("/new"))->str(), "/new");
  EXPECT_EQ(free_.Resolve(*AbsolutePath::Parse("/"))->str(), "/");
}

TEST_F(PathsTest, AMissingPathAndADanglingLinkDiffer) {
  fs::create_symlink(base_ + "/never", base_ + "/dead");
  fs::create_symlink(base_ + "/dead", base_ + "/root/dead");
  fs::create_symlink(base_ + "/round", base_ + "/turn");
  fs::create_symlink(base_ + "/turn", base_ + "/round");
  for (const char* name : {"never/x", "root/away/never/x", "root/file/x"}) {
    EXPECT_EQ(free_.Resolve(In(name)).error().code(), Code::kNotFound) << name;
  }
  for (const auto& [name, link] : {std::pair{"root/dead/deep/x", "/root/dead"}, std::pair{"dead/x", "/dead"},
                                   std::pair{"turn/deep/x", "/turn"}}) {
    const auto resolved = free_.Resolve(In(name));
    ASSERT_FALSE(resolved.has_value()) << name;
    EXPECT_EQ(resolved.error().code(), Code::kPrecondition);
    EXPECT_NE(resolved.error().message().find("symbolic link " + base_ + link), std::string::npos)
        << resolved.error().message();
  }
}

TEST_F(PathsTest, AFolderWhoseNameLooksRemovedStillExists) {
  fs::create_directories(base_ + "/odd (deleted)");
  EXPECT_EQ(free_.Resolve(In("odd (deleted)/x"))->str(), base_ + "/odd (deleted)/x");
}

TEST_F(PathsTest, ADeviceNodeIsIdentifiedByItsNumber) {
  EXPECT_EQ(*free_.FileSystemOfNode("/dev/no such node", {7, 0}), std::nullopt);
  EXPECT_EQ(*free_.FileSystemOfNode("/dev/null", {1, 3}), std::nullopt) << "no block device";
  EXPECT_EQ(*free_.FileSystemOfNode(base_ + "/root/file", {7, 0}), std::nullopt);
}

TEST_F(PathsTest, NewPathsAreNotForEveryUser) {
  ASSERT_TRUE(free_.MakeDirectory(In("d")).has_value());
  ASSERT_TRUE(free_.MakeFile(In("f")).has_value());
  EXPECT_EQ(fs::status(base_ + "/d").permissions() & fs::perms::others_all, fs::perms::none);
  EXPECT_EQ(fs::status(base_ + "/f").permissions() & fs::perms::others_all, fs::perms::none);
}

TEST_F(PathsTest, RemovesOnlyEmptyObjects) {
  EXPECT_EQ(CodeOf(free_.RemovePath(In("root/full"))), Code::kPrecondition);
  EXPECT_EQ(CodeOf(free_.RemovePath(In("root"))), Code::kPrecondition);
  EXPECT_TRUE(free_.RemovePath(In("root/file")).has_value());
  EXPECT_TRUE(free_.RemovePath(In("root/dir")).has_value());
  EXPECT_TRUE(free_.RemovePath(In("root/dir")).has_value());
  EXPECT_TRUE(fs::exists(base_ + "/root/full"));
}

TEST_F(PathsTest, ANameMayBeAsLongAsTheKernelAllowsAndNoLonger) {
  EXPECT_TRUE(free_.MakeDirectory(In(std::string(255, 'n'))).has_value());
  EXPECT_FALSE(free_.MakeDirectory(In(std::string(256, 'n'))).has_value());
}

TEST_F(PathsTest, UsageIsThatOfTheFileSystem) {
  const auto usage = free_.Usage(In("root"));
  ASSERT_TRUE(usage.has_value());
  EXPECT_GT(usage->total.value, 0U);
  EXPECT_GE(usage->total, usage->used);
}

}  // namespace
}  // namespace quarry::mount
