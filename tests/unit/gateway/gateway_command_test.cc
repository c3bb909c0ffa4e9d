#include "gateway/gateway_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/scratch_folder.h"

namespace quarry::gateway {
namespace {

using testing::HasSubstr;

TEST(GatewayCommand, ServesTheRootAndKeepsTheAdminInterfacePrivate) {
  const auto argv = GatewayCommand("/x/versitygw", AbsolutePath::Parse("/run/quarry/s3").value());
  EXPECT_EQ(argv.front(), "/x/versitygw");
  EXPECT_EQ(argv.back(), "/run/quarry/s3/root");
  const auto value_of = [&](const std::string& flag) {
    const auto at = std::ranges::find(argv, flag);
    return at == argv.end() ? "" : *std::next(at);
  };
  EXPECT_EQ(value_of("--admin-port"), "/run/quarry/s3/private/admin.sock");
  EXPECT_EQ(value_of("--socket-perm"), "0600");
  EXPECT_EQ(value_of("--iam-dir"), "/run/quarry/s3/iam");
  EXPECT_EQ(value_of("--metrics-dogstatsd-servers"), "unixgram:///run/quarry/s3/reports.sock");
  for (const char* flag : {"--keep-alive", "--disable-acl", "--bucketlinks", "--iam-cache-disable"}) {
    EXPECT_THAT(argv, testing::Contains(flag));
  }
}

class FindsVersitygw : public testing::Test {
 protected:
  std::string Put(const std::string& folder, mode_t mode = 0755) {
    std::filesystem::create_directories(folder_.path() + "/" + folder);
    std::string path = folder_.path() + "/" + folder + "/versitygw";
    std::ofstream(path) << "#!/bin/sh\n";
    ::chmod(path.c_str(), mode);
    return path;
  }
  Result<std::string> Find() {
    return FindVersitygw(folder_.path() + "/bin",
                         "relative:" + folder_.path() + "/one:" + folder_.path() + "/two");
  }

  ScratchFolder folder_ = ScratchFolder::Make(testing::TempDir() + "versitygw_XXXXXX").value();
};

TEST_F(FindsVersitygw, InItsOrder) {
  const std::string two = Put("two");
  EXPECT_EQ(Find().value(), two);
  const std::string one = Put("one");
  EXPECT_EQ(Find().value(), one);
  const std::string libexec = Put("libexec/quarry");
  std::filesystem::create_directory(folder_.path() + "/bin");
  EXPECT_EQ(Find().value(), libexec);
  const std::string beside = Put("bin");
  EXPECT_EQ(Find().value(), beside);
}

TEST_F(FindsVersitygw, OrSaysHowToGetIt) {
  Put("two", 0644);
  std::filesystem::create_directories(folder_.path() + "/one/versitygw");
  const auto found = Find();
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code(), Code::kNotFound);
  EXPECT_THAT(found.error().message(), HasSubstr("quarry-s3-gateway"));
  EXPECT_THAT(found.error().message(), HasSubstr("scripts/gateway"));
}

}  // namespace
}  // namespace quarry::gateway
