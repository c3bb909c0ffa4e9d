#include "gateway/environment_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/scratch_folder.h"

namespace quarry::gateway {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::Pair;

constexpr std::string_view kGood = "ROOT_ACCESS_KEY=a\nROOT_SECRET_KEY=s\nVGW_PORT=127.0.0.1:7070\n";

std::string ProblemOf(const std::string& text) {
  const auto parsed = ParseEnvironment(text);
  EXPECT_FALSE(parsed.has_value()) << text;
  return parsed.has_value() ? "" : parsed.error().message();
}

TEST(ParseEnvironment, KeepsValuesAsTheyAre) {
  const auto parsed =
      ParseEnvironment(std::string(kGood) + "\n# a remark\nVGW_REGION=a=b \"c\" $d\nQUARRY_GENERATION=");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
  EXPECT_THAT(*parsed,
              testing::ElementsAre(Pair("ROOT_ACCESS_KEY", "a"), Pair("ROOT_SECRET_KEY", "s"),
                                   Pair("VGW_PORT", "127.0.0.1:7070"), Pair("VGW_REGION", "a=b \"c\" $d"),
                                   Pair("QUARRY_GENERATION", "")));
}

TEST(ParseEnvironment, RefusesWhatIsNoAssignmentWithoutRepeatingIt) {
  for (const std::string line :
       {"secret", "=secret", "lower=secret", "A B=secret", " A=secret", "export A=secret"}) {
    EXPECT_EQ(ProblemOf("A=1\n" + line + "\n" + std::string(kGood)), "line 2 is not KEY=VALUE");
  }
  const std::string with_nul("A=x\0y\n", 6);
  EXPECT_EQ(ProblemOf(with_nul + std::string(kGood)), "line 1 is not KEY=VALUE");
}

TEST(ParseEnvironment, RefusesAKeyThatIsThereTwice) {
  EXPECT_EQ(ProblemOf(std::string(kGood) + "VGW_PORT=secret\n"), "line 4 sets VGW_PORT a second time");
}

TEST(ParseEnvironment, NamesTheVariableThatIsMissing) {
  EXPECT_EQ(ProblemOf("ROOT_ACCESS_KEY=a\nROOT_SECRET_KEY=s\n"), "VGW_PORT is missing");
  EXPECT_EQ(ProblemOf("ROOT_ACCESS_KEY=a\nROOT_SECRET_KEY=\nVGW_PORT=p\n"), "ROOT_SECRET_KEY is missing");
  EXPECT_EQ(ProblemOf(""), "ROOT_ACCESS_KEY is missing");
}

class EnvironmentFileOnDisk : public testing::Test {
 protected:
  void SetUp() override {
    ::chmod(folder_.path().c_str(), 0755);
    Write(std::string(kGood), 0600);
  }

  void Write(const std::string& text, mode_t mode) {
    std::ofstream(path_.str()) << text;
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    if (::geteuid() == 0) {
      ASSERT_EQ(::chown(path_.c_str(), 12345, 12346), 0);
    }
  }

  std::string Problem() {
    const auto read = ReadEnvironmentFile(path_);
    EXPECT_FALSE(read.has_value());
    return read.has_value() ? "" : read.error().message();
  }

  ScratchFolder folder_ = ScratchFolder::Make(testing::TempDir() + "/environment_XXXXXX").value();
  AbsolutePath path_ = AbsolutePath::Parse(folder_.path() + "/gateway.env").value();
};

TEST_F(EnvironmentFileOnDisk, SaysWhoseItIs) {
  const auto read = ReadEnvironmentFile(path_);
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(read->owner, ::geteuid() == 0 ? 12345 : ::geteuid());
  EXPECT_EQ(read->group, ::geteuid() == 0 ? 12346 : ::getegid());
  EXPECT_EQ(ValueOf(read->variables, "VGW_PORT"), "127.0.0.1:7070");
  EXPECT_EQ(ValueOf(read->variables, "VGW_CERT"), "");
}

TEST_F(EnvironmentFileOnDisk, MissingIsNotFound) {
  std::filesystem::remove(path_.str());
  EXPECT_EQ(ReadEnvironmentFile(path_).error().code(), Code::kNotFound);
}

TEST_F(EnvironmentFileOnDisk, RefusesOneThatOthersMayRead) {
  Write(std::string(kGood), 0640);
  EXPECT_THAT(Problem(), HasSubstr("its mode is 0640: it must be 0600"));
}

TEST_F(EnvironmentFileOnDisk, RefusesAFolderThatOthersMayChange) {
  ::chmod(folder_.path().c_str(), 0777);
  EXPECT_THAT(Problem(), HasSubstr("users other than root may change the folder"));
}

TEST_F(EnvironmentFileOnDisk, RefusesRootsFile) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make a file of root's";
  }
  ASSERT_EQ(::chown(path_.c_str(), 0, 0), 0);
  EXPECT_THAT(Problem(), HasSubstr("never runs as root"));
}

TEST_F(EnvironmentFileOnDisk, FollowsNoLinkAndOpensNoPipe) {
  const std::string elsewhere = path_.str() + ".elsewhere";
  std::filesystem::rename(path_.str(), elsewhere);
  std::filesystem::create_symlink(elsewhere, path_.str());
  EXPECT_FALSE(ReadEnvironmentFile(path_).has_value());
  std::filesystem::remove(path_.str());
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(Problem(), HasSubstr("not a regular file"));
}

TEST_F(EnvironmentFileOnDisk, ProblemsNameTheFileAndNoValue) {
  Write("ROOT_SECRET_KEY=verysecret\nverysecret\n", 0600);
  EXPECT_THAT(Problem(), HasSubstr(path_.str()));
  EXPECT_THAT(Problem(), Not(HasSubstr("verysecret")));
}

TEST_F(EnvironmentFileOnDisk, TheMarkDiffersAfterAReplacementOfTheSameSize) {
  const auto before = MarkOf(path_.str());
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(*before, *MarkOf(path_.str()));
  std::ofstream(path_.str() + ".new") << kGood;
  std::filesystem::rename(path_.str() + ".new", path_.str());
  EXPECT_NE(*before, *MarkOf(path_.str()));
}

}  // namespace
}  // namespace quarry::gateway
