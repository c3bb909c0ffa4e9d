#include "gateway/gateway_version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include <fmt/format.h>

#include "base/scratch_folder.h"

namespace quarry::gateway {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(ParseVersion, ReadsWhatVersitygwPrints) {
  EXPECT_EQ(*ParseVersion("Version  : v1.8.0\nBuild    : quarry\nBuildTime: unknown\n"), "v1.8.0");
  EXPECT_EQ(*ParseVersion("warning\nVersion: v2.0.0-rc.1+x"), "v2.0.0-rc.1+x");
}

TEST(ParseVersion, RefusesEverythingElse) {
  for (const std::string& text :
       {std::string(), std::string("Version"), std::string("Version  :\n"), std::string("Version  : \n"),
        std::string("Version  : a b\n"), std::string("v1.8.0\n"), "Version  : " + std::string(65, 'x')}) {
    const auto parsed = ParseVersion(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code(), Code::kCorrupt);
  }
}

TEST(PinnedVersion, IsAVersion) {
  EXPECT_EQ(*ParseVersion(fmt::format("Version  : {}", PinnedVersion())), PinnedVersion());
}

class VersionCheckTest : public testing::Test {
 protected:
  // A program that counts how often it runs.
  void Put(const std::string& says) const {
    const std::string fresh = program_ + ".new";
    std::ofstream(fresh) << "#!/bin/sh\necho >>" << folder_.path() << "/runs\n" << says << "\n";
    ::chmod(fresh.c_str(), 0755);
    ::rename(fresh.c_str(), program_.c_str());
  }
  static std::string Says(std::string_view version) {
    return fmt::format("[ \"$1\" = --version ] && echo 'Version  : {}'", version);
  }
  int Runs() const {
    int lines = 0;
    std::ifstream file(folder_.path() + "/runs");
    for (std::string line; std::getline(file, line);) {
      ++lines;
    }
    return lines;
  }

  const ScratchFolder folder_ = ScratchFolder::Make(testing::TempDir() + "version_XXXXXX").value();
  const std::string program_ = folder_.path() + "/versitygw";
  SpawnSubprocess processes_;
  VersionCheck check_{false, milliseconds(20'000)};
};

TEST_F(VersionCheckTest, ThePinnedVersionRunsAndIsAskedOnce) {
  Put(Says(PinnedVersion()));
  EXPECT_EQ(check_.Check(program_, processes_).value(), PinnedVersion());
  EXPECT_EQ(check_.Check(program_, processes_).value(), PinnedVersion());
  EXPECT_EQ(Runs(), 1);
}

TEST_F(VersionCheckTest, AnotherVersionDoesNotRunUntilItIsReplaced) {
  Put(Says("v1.7.9"));
  for (int i = 0; i < 2; ++i) {
    const auto refused = check_.Check(program_, processes_);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), Code::kPrecondition);
    for (const std::string& word : {program_, std::string("v1.7.9"), std::string(PinnedVersion()),
                                    std::string("--any-versitygw"), std::string("quarry-s3-gateway")}) {
      EXPECT_THAT(refused.error().message(), HasSubstr(word));
    }
  }
  EXPECT_EQ(Runs(), 1);
  Put(Says(PinnedVersion()));
  EXPECT_TRUE(check_.Check(program_, processes_).has_value());
}

TEST_F(VersionCheckTest, AProgramThatTellsNoVersionDoesNotRun) {
  for (const char* says : {"echo hello", "exit 3"}) {
    Put(says);
    EXPECT_EQ(check_.Check(program_, processes_).error().code(), Code::kCorrupt) << says;
  }
}

TEST_F(VersionCheckTest, EveryVersionRunsIfTheAdministratorSaysSo) {
  VersionCheck any(true, milliseconds(20'000));
  Put(Says("v9.0.0"));
  EXPECT_EQ(any.Check(program_, processes_).value(), "v9.0.0");
  Put("exit 3");
  EXPECT_EQ(any.Check(program_, processes_).value(), "unknown");
}

TEST_F(VersionCheckTest, AProgramThatDoesNotAnswerIsAskedAgain) {
  VersionCheck impatient(false, milliseconds(200));
  Put("sleep 60");
  EXPECT_EQ(impatient.Check(program_, processes_).error().code(), Code::kTimeout);
  EXPECT_EQ(impatient.Check(program_, processes_).error().code(), Code::kTimeout);
}

TEST_F(VersionCheckTest, AMissingProgramIsNotFound) {
  EXPECT_EQ(check_.Check(program_, processes_).error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace quarry::gateway
