#include "csi/fields.h"

#include <csi/v1/csi.pb.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::csi {
namespace {

namespace pb = ::csi::v1;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void ExpectInvalid(const Status& status, const std::string& beginning) {
  ASSERT_FALSE(status.has_value()) << beginning;
  EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(status.error().message(), StartsWith(beginning));
}

TEST(CheckName, RefusesExactlyTheControlCharactersOfTheSpecification) {
  for (unsigned point = 0; point <= 0x2FF; ++point) {
    std::string name = "a";
    if (point < 0x80) {
      name += static_cast<char>(point);
    } else {
      name += static_cast<char>(0xC0 | (point >> 6));
      name += static_cast<char>(0x80 | (point & 0x3F));
    }
    const bool forbidden = point <= 0x08 || point == 0x0B || point == 0x0C ||
                           (point >= 0x0E && point <= 0x1F) || (point >= 0x7F && point <= 0x9F);
    EXPECT_EQ(CheckName("name", name).has_value(), !forbidden) << "U+" << std::hex << point;
  }
}

TEST(CheckName, NamesTheRefusedCharacter) {
  ExpectInvalid(CheckName("name", "pvc\x07"), "name: must not contain the control character U+0007");
  ExpectInvalid(CheckName("name", "pvc\xC2\x85"), "name: must not contain the control character U+0085");
}

TEST(CheckName, TakesAnyOtherUnicodeAndRefusesInvalidUtf8) {
  for (const char* good : {"pvc-1", "日本語", "\xF4\x8F\xBF\xBF", "tab\tnewline\ncr\r", "é"}) {
    EXPECT_TRUE(CheckName("name", good).has_value()) << good;
  }
  // A lone continuation byte, a truncated sequence, an overlong one, a surrogate, one beyond U+10FFFF,
  // Latin-1.
  for (const char* bad :
       {"\x80", "a\xC3", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF"}) {
    ExpectInvalid(CheckName("name", bad), "name: must be valid UTF-8");
  }
}

TEST(CheckName, RefusesAnEmptyName) {
  ExpectInvalid(CheckName("name", ""), "name: is required");
}

TEST(ParsePath, NamesTheFieldAndWhatIsWrong) {
  const std::pair<std::string, const char*> bad[] = {
      {"", "target_path: is required"},
      {"relative/path", "target_path: must be an absolute path"},
      {"/a/../etc", "target_path: must not contain '.' or '..'"},
      {"/a/./b", "target_path: must not contain '.' or '..'"},
      {"/", "target_path: must not be the root directory"},
      {"///", "target_path: must not be the root directory"},
      {std::string("/a\0b", 4), "target_path: must not contain a NUL byte"},
      {"/" + std::string(5000, 'a'), "target_path: must be shorter than"},
  };
  for (const auto& [path, message] : bad) {
    const auto parsed = ParsePath("target_path", path);
    ASSERT_FALSE(parsed.has_value()) << path;
    EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(parsed.error().message(), StartsWith(message));
  }
  EXPECT_EQ(ParsePath("target_path", "/var//lib/x/")->str(), "/var/lib/x");
}

TEST(CheckLimits, TakesStringsOf128BytesAndNotOneMore) {
  pb::CreateVolumeRequest request;
  request.set_name(std::string(128, 'n'));
  EXPECT_TRUE(CheckLimits(request).has_value());
  request.set_name(std::string(129, 'n'));
  ExpectInvalid(CheckLimits(request), "name: must be at most 128 bytes, is 129");
}

TEST(CheckLimits, CountsKeysAndValuesOfAMap) {
  pb::CreateVolumeRequest request;
  (*request.mutable_parameters())["key"] = std::string(4096 - 3 - 2, 'v');
  (*request.mutable_parameters())["a"] = "b";
  EXPECT_TRUE(CheckLimits(request).has_value());
  (*request.mutable_parameters())["a"] = "bc";
  ExpectInvalid(CheckLimits(request),
                "parameters: keys and values must be at most 4096 bytes in all, are 4097");
}

TEST(CheckLimits, CountsAllMountFlagsOfACapabilityTogether) {
  pb::CreateVolumeRequest request;
  auto& mount = *request.add_volume_capabilities()->mutable_mount();
  mount.add_mount_flags(std::string(4000, 'f'));
  mount.add_mount_flags(std::string(96, 'f'));
  EXPECT_TRUE(CheckLimits(request).has_value());
  mount.add_mount_flags("x");
  ExpectInvalid(CheckLimits(request),
                "volume_capabilities[0].mount.mount_flags: must be at most 4096 bytes in all");
}

TEST(CheckLimits, NamesNestedFields) {
  pb::CreateVolumeRequest request;
  request.add_volume_capabilities();
  request.add_volume_capabilities()->mutable_mount()->set_fs_type(std::string(200, 'x'));
  ExpectInvalid(CheckLimits(request),
                "volume_capabilities[1].mount.fs_type: must be at most 128 bytes, is 200");

  pb::CreateVolumeRequest places;
  places.mutable_accessibility_requirements()->add_requisite()->mutable_segments()->insert(
      {"k", std::string(5000, 'v')});
  ExpectInvalid(CheckLimits(places), "accessibility_requirements.requisite[0].segments: keys and values");
}

TEST(CheckLimits, NeverRepeatsTheContentOfASecret) {
  pb::NodeStageVolumeRequest request;
  (*request.mutable_secrets())["password"] = std::string(5000, 's') + "hunter2";
  const Status checked = CheckLimits(request);
  ExpectInvalid(checked, "secrets: ");
  EXPECT_THAT(checked.error().message(), Not(HasSubstr("hunter2")));
  EXPECT_THAT(checked.error().message(), Not(HasSubstr("password")));
}

TEST(CheckLimits, AllowsLongPathsAndNodeIdsOf256Bytes) {
  pb::NodePublishVolumeRequest publish;
  publish.set_target_path("/" + std::string(3000, 'p'));
  publish.set_staging_target_path("/" + std::string(3000, 'p'));
  EXPECT_TRUE(CheckLimits(publish).has_value());

  pb::ControllerPublishVolumeRequest attach;
  attach.set_node_id(std::string(256, 'n'));
  EXPECT_TRUE(CheckLimits(attach).has_value());
  attach.set_node_id(std::string(257, 'n'));
  ExpectInvalid(CheckLimits(attach), "node_id: must be at most 256 bytes, is 257");
}

TEST(CheckLimits, ChecksEveryStringOfRepeatedFields) {
  pb::CreateVolumeGroupSnapshotRequest request;
  request.add_source_volume_ids("short");
  request.add_source_volume_ids(std::string(129, 'i'));
  ExpectInvalid(CheckLimits(request), "source_volume_ids[1]: must be at most 128 bytes, is 129");
}

}  // namespace
}  // namespace quarry::csi
