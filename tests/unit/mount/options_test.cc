#include "mount/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include "tests/fakes/mount_words.h"

namespace quarry::mount {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

MountOptions Parsed(const std::vector<std::string>& words) {
  auto options = ParseMountOptions(words);
  EXPECT_TRUE(options.has_value()) << options.error().message();
  return options.value_or(MountOptions{});
}

// The options for the file system.
std::vector<std::string> DataOf(const std::vector<std::string>& words) {
  std::vector<std::string> texts;
  for (const DataOption& option : Parsed(words).data) {
    texts.push_back(option.text);
  }
  return texts;
}

std::string Refusal(const std::vector<std::string>& words) {
  const auto options = ParseMountOptions(words);
  if (options.has_value()) {
    return "accepted";
  }
  EXPECT_EQ(options.error().code(), Code::kInvalidArgument);
  return options.error().message();
}

TEST(MountOptions, NoWordsSetNothing) {
  EXPECT_EQ(Parsed({}), MountOptions{});
  EXPECT_EQ(Parsed({"defaults"}), MountOptions{});
}

TEST(MountOptions, SplitsFlagsFromOptionsOfTheFileSystem) {
  const MountOptions options = Parsed(
      {"noatime", "discard", "nodev", "logbufs=8", "noexec", "sync", "dirsync", "lazytime", "nodiratime"});
  EXPECT_EQ(options.flags, uint64_t{MS_NOATIME | MS_NODEV | MS_NOEXEC | MS_SYNCHRONOUS | MS_DIRSYNC |
                                    MS_LAZYTIME | MS_NODIRATIME});
  EXPECT_THAT(options.data, ElementsAre(DataOption{.text = "discard", .index = 1},
                                        DataOption{.text = "logbufs=8", .index = 3}));
}

TEST(MountOptions, TheLaterOfTwoContradictingWordsCounts) {
  EXPECT_EQ(Parsed({"ro", "rw"}).flags, 0U);
  EXPECT_EQ(Parsed({"ro", "rw"}).cleared, uint64_t{MS_RDONLY});
  EXPECT_EQ(Parsed({"rw", "ro"}).flags, uint64_t{MS_RDONLY});
  EXPECT_EQ(Parsed({"rw", "ro"}).cleared, 0U);
  EXPECT_EQ(Parsed({"noatime", "strictatime"}).flags, uint64_t{MS_STRICTATIME});
}

TEST(MountOptions, DefaultsYieldToAnOptOut) {
  constexpr uint64_t kDefaults = MS_NOSUID | MS_NODEV;
  EXPECT_EQ(Parsed({}).WithDefaults(kDefaults).flags, kDefaults);
  EXPECT_EQ(Parsed({"suid"}).WithDefaults(kDefaults).flags, uint64_t{MS_NODEV});
  EXPECT_EQ(Parsed({"suid", "dev"}).WithDefaults(kDefaults).flags, 0U);
  EXPECT_EQ(Parsed({"suid", "nosuid"}).WithDefaults(kDefaults).flags, kDefaults);
}

TEST(MountOptions, RefusesByNameWordsThatAreNotForMountFlags) {
  for (const char* word : {"bind",
                           "rbind",
                           "move",
                           "remount",
                           "private",
                           "rshared",
                           "slave",
                           "unbindable",
                           "loop",
                           "loop=/dev/loop3",
                           "offset=512",
                           "_netdev",
                           "nofail",
                           "user",
                           "uhelper=x",
                           "logdev=/dev/sda",
                           "rtdev=/dev/sda",
                           "device=/dev/sda",
                           "journal_path=/dev/sda",
                           "journal_dev=0x801"}) {
    const std::string name = std::string(word).substr(0, std::string_view(word).find('='));
    EXPECT_THAT(Refusal({"noatime", word}), AllOf(HasSubstr("mount_flags[1]"), HasSubstr("'" + name + "'")))
        << word;
    EXPECT_THAT(Refusal({"noatime", word}), Not(HasSubstr("/dev/sda"))) << word;
  }
  EXPECT_THAT(Refusal({"X-mount.mkdir"}), HasSubstr("fstab"));
  EXPECT_THAT(Refusal({"x-systemd.automount"}), HasSubstr("fstab"));
}

TEST(MountOptions, NamesThePositionAndNeverTheTextOfUnknownWords) {
  for (const std::string bad : {"", "secret,ro", "secret ", "se\ncret",
                                "se\x7f"
                                "cret",
                                "\"secret\"", "se\\cret", "=secret", "secret\x01", "context=\"sec ret\"",
                                "context=", "fscontext=sec\"ret"}) {
    EXPECT_THAT(Refusal({"ro", "ro", bad}), AllOf(HasSubstr("mount_flags[2]"), Not(HasSubstr("secret"))))
        << bad;
  }
  EXPECT_THAT(Refusal({std::string("a\0b", 3)}), HasSubstr("mount_flags[0]"));
}

TEST(MountOptions, SecurityContextsKeepTheirCommasInQuotes) {
  EXPECT_THAT(DataOf({"context=\"system_u:object_r:container_file_t:s0:c1,c2\""}),
              ElementsAre("context=\"system_u:object_r:container_file_t:s0:c1,c2\""));
  EXPECT_THAT(DataOf({"context=u:r:t:s0:c1,c2"}), ElementsAre("context=\"u:r:t:s0:c1,c2\""));
  EXPECT_THAT(DataOf({"seclabel"}), ElementsAre("seclabel"));
}

TEST(MountOptions, RefusesMoreThanOnePageOfOptions) {
  EXPECT_EQ(Parsed({std::string(4000, 'a')}).data.size(), 1U);
  EXPECT_THAT(Refusal({std::string(4000, 'a'), std::string(100, 'b')}), HasSubstr("mount_flags[1]"));
}

TEST(BindAttributes, AreSetForPerMountFlagsOnly) {
  const AttributeChange change = AttributesOf(
      Parsed({"ro", "nosuid", "nodev", "noexec", "nosymfollow", "nodiratime", "sync", "discard"}));
  EXPECT_EQ(change.set, uint64_t{MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                 MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOSYMFOLLOW | MOUNT_ATTR_NODIRATIME});
  EXPECT_EQ(change.clear, 0U);
}

TEST(BindAttributes, ClearOptedOutFlagsAndKeepTheRest) {
  const AttributeChange change = AttributesOf(Parsed({"rw", "suid"}));
  EXPECT_EQ(change.set, 0U);
  EXPECT_EQ(change.clear, uint64_t{MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID});
  MountOptions forced = Parsed({"rw"});
  forced.flags |= MS_RDONLY;  // the publication is read-only, whatever the flags are
  EXPECT_EQ(AttributesOf(forced).set, uint64_t{MOUNT_ATTR_RDONLY});
  EXPECT_EQ(AttributesOf(forced).clear, 0U);
}

TEST(BindAttributes, WriteAccessTimeAsOneField) {
  EXPECT_EQ(AttributesOf(Parsed({"noatime"})).clear, uint64_t{MOUNT_ATTR__ATIME});
  EXPECT_EQ(AttributesOf(Parsed({"noatime"})).set, uint64_t{MOUNT_ATTR_NOATIME});
  EXPECT_EQ(AttributesOf(Parsed({"strictatime"})).set, uint64_t{MOUNT_ATTR_STRICTATIME});
  EXPECT_EQ(AttributesOf(Parsed({"relatime"})).set, uint64_t{MOUNT_ATTR_RELATIME});
  EXPECT_EQ(AttributesOf(Parsed({})).clear, 0U);
}

TEST(PerMountWords, AreThoseOfMountinfo) {
  EXPECT_THAT(fakes::PerMountWords(0), ElementsAre("rw", "relatime"));
  EXPECT_THAT(fakes::PerMountWords(MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOATIME),
              ElementsAre("ro", "nosuid", "nodev", "noatime"));
  EXPECT_THAT(fakes::PerMountWords(MS_STRICTATIME), ElementsAre("rw"));
}

TEST(PerMountWords, MatchTheFlagsThatAreReadBackFromThem) {
  for (const uint64_t flags : {uint64_t{0}, uint64_t{MS_RDONLY}, uint64_t{MS_NOSUID | MS_NODEV | MS_NOEXEC},
                               uint64_t{MS_NODIRATIME | MS_NOSYMFOLLOW}}) {
    for (const uint64_t atime : {uint64_t{MS_NOATIME}, uint64_t{MS_RELATIME}, uint64_t{MS_STRICTATIME}}) {
      MountEntry entry;
      entry.options = fakes::PerMountWords(flags | atime);
      EXPECT_EQ(fakes::PerMountFlagsOf(entry), flags | atime);
    }
  }
}

}  // namespace
}  // namespace quarry::mount
