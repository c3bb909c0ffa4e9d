// Files that quarryd shares with the gateway, and a tenant's files.
#include "bucket/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/scratch_folder.h"

namespace quarry::bucket {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::system_clock;

Owner Self() {
  return {geteuid(), getegid()};
}

class FilesTest : public testing::Test {
 protected:
  FilesTest() : top_(open(path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  const fs::path& path() const { return path_; }
  int top() const { return top_.get(); }
  void Put(const std::string& key, const std::string& text = "x") const {
    fs::create_directories((path_ / key).parent_path());
    std::ofstream(path_ / key) << text;
  }
  static Call Soon() { return CallWithin(std::chrono::seconds(20)); }

 private:
  const ScratchFolder folder_ =
      ScratchFolder::Make((fs::temp_directory_path() / "quarry-bucket-XXXXXX").string()).value();
  const fs::path path_ = folder_.path();
  const UniqueFd top_;
};

TEST_F(FilesTest, AFileIsWrittenWholeWithItsMode) {
  ASSERT_TRUE(WriteFile(top(), "a", "one", Self(), 0600, true).has_value());
  ASSERT_TRUE(WriteFile(top(), "a", "two", Self(), 0600, false).has_value());
  EXPECT_EQ(*ReadFile(top(), "a", 10), "two");
  struct stat found{};
  ASSERT_EQ(stat((path() / "a").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
  EXPECT_THAT(*NamesIn(top()), testing::ElementsAre("a"));
}

TEST_F(FilesTest, ALinkIsNeverFollowed) {
  fs::create_directory(path() / "elsewhere");
  fs::create_symlink(path() / "elsewhere", path() / "data");
  EXPECT_FALSE(OpenFolder(top(), "data").has_value());
  const auto made = MakeFolder(top(), "data", Self(), 0700);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), Code::kPrecondition) << made.error().message();
  Put("secret");
  fs::create_symlink("secret", path() / "link");
  EXPECT_FALSE(ReadFile(top(), "link", 100).has_value());
  fs::create_symlink(path() / "secret", path() / ".a.new");
  ASSERT_TRUE(WriteFile(top(), "a", "text", Self(), 0600, false).has_value());
  EXPECT_EQ(*ReadFile(top(), "secret", 10), "x");
}

TEST_F(FilesTest, ObjectsAreCountedWithoutUploadsAndLinks) {
  EXPECT_EQ(CountObjects(top(), 100, Soon())->objects, 0U);
  Put("a");
  Put("deep/er/b");
  Put(".sgwtmp/multipart/hash/id/1");
  fs::create_directory(path() / "empty");
  fs::create_directory_symlink("/", path() / "link");
  const auto count = CountObjects(top(), 100, Soon());
  ASSERT_TRUE(count.has_value()) << count.error().message();
  EXPECT_EQ(count->objects, 2U);
  EXPECT_TRUE(count->is_complete);
  EXPECT_FALSE(CountObjects(top(), 1, Soon())->is_complete);
}

TEST_F(FilesTest, OnlyStaleUploadsAreSwept) {
  Put(".sgwtmp/multipart/hash/id/1");
  Put("object");
  EXPECT_EQ(SweepUploads(top(), system_clock::now() - hours(1), Soon())->removed, 0U);
  EXPECT_TRUE(fs::exists(path() / ".sgwtmp/multipart/hash/id/1"));
  EXPECT_EQ(SweepUploads(top(), system_clock::now() + hours(1), Soon())->removed, 1U);
  EXPECT_FALSE(fs::exists(path() / ".sgwtmp/multipart/hash"));
  EXPECT_TRUE(fs::exists(path() / "object"));
}

// A folder may be full of entries that are no objects.
TEST_F(FilesTest, ACountThatIsOutOfTimeEndsAtTheNextEntry) {
  for (int i = 0; i < 10; ++i) {
    fs::create_directory(path() / std::to_string(i));
    fs::create_symlink("nowhere", path() / ("link" + std::to_string(i)));
  }
  const Call ended = CallWithin(std::chrono::milliseconds(0));
  const auto count = CountObjects(top(), 100, ended);
  ASSERT_TRUE(count.has_value()) << count.error().message();
  EXPECT_EQ(count->objects, 0U);
  EXPECT_FALSE(count->is_complete) << "nobody knows whether there are any";
  EXPECT_TRUE(CountObjects(top(), 100, Soon())->is_complete);
}

TEST_F(FilesTest, ASweepThatIsOutOfTimeSaysSoAndRemovesNothing) {
  Put(".sgwtmp/multipart/hash/id/1");
  const auto swept =
      SweepUploads(top(), system_clock::now() + hours(1), CallWithin(std::chrono::milliseconds(0)));
  ASSERT_TRUE(swept.has_value()) << swept.error().message();
  EXPECT_FALSE(swept->is_complete);
  EXPECT_EQ(swept->removed, 0U);
  EXPECT_TRUE(fs::exists(path() / ".sgwtmp/multipart/hash/id/1"));
}

// A removed part touches its upload, which would then count as new.
TEST_F(FilesTest, AnUploadWhoseRemovalWasCutOffIsRemovedByTheNextSweep) {
  Put(".sgwtmp/multipart/hash/begun/2");
  Put(".sgwtmp/multipart/hash/other/1");
  const std::string begun = path() / ".sgwtmp/multipart/hash/begun";
  if (setxattr(begun.c_str(), "user.quarry.stale", "1", 1, 0) != 0) {
    GTEST_SKIP() << "this file system has no attributes of users";
  }
  const auto swept = SweepUploads(top(), system_clock::now() - hours(1), Soon());
  EXPECT_EQ(swept->removed, 1U);
  EXPECT_TRUE(swept->is_complete);
  EXPECT_FALSE(fs::exists(begun));
  EXPECT_TRUE(fs::exists(path() / ".sgwtmp/multipart/hash/other/1"));
}

TEST_F(FilesTest, AnUploadIsMarkedBeforeItsPartsGo) {
  Put(".sgwtmp/multipart/hash/id/1");
  const std::string upload = path() / ".sgwtmp/multipart/hash/id";
  fs::create_directory(upload + "/folder");  // no part: it cannot be unlinked
  EXPECT_FALSE(SweepUploads(top(), system_clock::now() + hours(1), Soon()).has_value());
  EXPECT_TRUE(getxattr(upload.c_str(), "user.quarry.stale", nullptr, 0) >= 0 || errno == ENOTSUP);
}

TEST_F(FilesTest, OnlyTheMountOfTheVolumesDeviceIsProved) {
  const UniqueFd mounted(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat found{};
  ASSERT_EQ(fstat(mounted.get(), &found), 0);
  EXPECT_TRUE(ProveMount(mounted.get(), found.st_dev).has_value());
  const Status other = ProveMount(mounted.get(), found.st_dev + 1);
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message(), testing::HasSubstr("not its volume"));
  // A folder of the right device that is no mount, as beneath a volume that was unmounted.
  ASSERT_EQ(fstat(top(), &found), 0);
  EXPECT_EQ(ProveMount(top(), found.st_dev).error().code(), Code::kUnavailable);
}

TEST_F(FilesTest, ASweepStaysInTheBucket) {
  EXPECT_EQ(SweepUploads(top(), system_clock::now() + hours(1), Soon())->removed, 0U);
  Put("victim/hash/id/1");
  fs::create_directory(path() / ".sgwtmp");
  fs::create_directory_symlink(path() / "victim", path() / ".sgwtmp/multipart");
  EXPECT_FALSE(SweepUploads(top(), system_clock::now() + hours(1), Soon()).has_value());
  fs::remove(path() / ".sgwtmp/multipart");
  fs::create_directory(path() / ".sgwtmp/multipart");
  fs::create_directory_symlink(path() / "victim/hash", path() / ".sgwtmp/multipart/hash");
  EXPECT_EQ(SweepUploads(top(), system_clock::now() + hours(1), Soon())->removed, 0U);
  EXPECT_TRUE(fs::exists(path() / "victim/hash/id/1"));
}

}  // namespace
}  // namespace quarry::bucket
