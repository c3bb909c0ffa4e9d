#include "mount/filesystems/mkfs_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace quarry::mount {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::array kRules = std::to_array<MkfsOptionRule>(
    {{"-b"}, {"-l", true, "file,logdev"}, {"-K", false}, {"--csum"}, {"--mixed", false}});

std::vector<std::string> Words(std::string_view text) {
  const auto options = ParseMkfsOptions(text, kRules);
  EXPECT_TRUE(options.has_value()) << options.error().message();
  std::vector<std::string> words;
  AppendOptions(words, options.value_or(std::vector<MkfsOption>{}));
  return words;
}

TEST(MkfsOptions, AreWordsSplitAtBlanks) {
  EXPECT_THAT(Words(""), ElementsAre());
  EXPECT_THAT(Words(" \t -b 4096  -K\n"), ElementsAre("-b", "4096", "-K"));
}

TEST(MkfsOptions, MayHaveAnAttachedValue) {
  EXPECT_THAT(Words("-b4096 --csum=xxhash --csum blake2 --mixed"),
              ElementsAre("-b", "4096", "--csum", "xxhash", "--csum", "blake2", "--mixed"));
}

TEST(MkfsOptions, RefuseByNameOptionsThatAreNotInTheTable) {
  for (const char* bad :
       {"-n", "/dev/sda", "4096", "-b 4096 /dev/sda", "--", "-", "--cs", "--csum-more=x", "-Kn", "--mixed=1",
        "-b", "-b -K", "-l logdev=/dev/sda", "-l size=1m,logdev=/dev/sda", "-lfile"}) {
    const auto options = ParseMkfsOptions(bad, kRules);
    ASSERT_FALSE(options.has_value()) << bad;
    EXPECT_EQ(options.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(options.error().message(), HasSubstr("mkfsoptions")) << bad;
  }
  EXPECT_THAT(ParseMkfsOptions("-b 1 /dev/sda", kRules).error().message(), HasSubstr("'/dev/sda'"));
  EXPECT_FALSE(ParseMkfsOptions(std::string_view("-b\0", 3), kRules).has_value());
}

TEST(MkfsOptions, FindWhichKeysAreSet) {
  const auto options = *ParseMkfsOptions("-b su=1,sw -l size=2", kRules);
  EXPECT_TRUE(SetsKey(options, "-b", "su"));
  EXPECT_TRUE(SetsKey(options, "-b", "sw"));
  EXPECT_FALSE(SetsKey(options, "-b", "s"));
  EXPECT_FALSE(SetsKey(options, "-b", "size"));
  EXPECT_TRUE(SetsKey(options, "-l", "size"));
}

}  // namespace
}  // namespace quarry::mount
