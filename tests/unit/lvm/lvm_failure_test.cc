#include "lvm/run/lvm_failure.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::lvm {
namespace {

using ::testing::HasSubstr;

// The meaning of each refusal; the files have the words of both releases.
const std::map<std::string, Code>& Meanings() {
  static const std::map<std::string, Code> meanings = {
      {"activate_exported", Code::kPrecondition},
      {"create_bad_tag", Code::kInternal},
      {"create_duplicate_name", Code::kPrecondition},
      {"create_exists", Code::kAlreadyExists},
      {"create_exported", Code::kPrecondition},
      {"create_locked", Code::kUnavailable},
      {"create_metadata_full", Code::kNoSpace},
      {"create_no_group", Code::kNotFound},
      {"create_no_space", Code::kNoSpace},
      {"create_on_unallocatable_pv", Code::kNoSpace},
      {"create_pv_missing", Code::kUnavailable},
      {"create_pv_unknown", Code::kUnavailable},
      {"create_raid_range_in_use", Code::kNoSpace},
      {"create_range_in_use", Code::kNoSpace},
      {"create_range_too_small", Code::kNoSpace},
      {"create_unreadable", Code::kNotFound},
      {"deactivate_held", Code::kPrecondition},
      {"deactivate_mounted", Code::kPrecondition},
      {"deactivate_open", Code::kPrecondition},
      {"extend_absent", Code::kNotFound},
      {"extend_no_group", Code::kNotFound},
      {"extend_no_space", Code::kNoSpace},
      {"extend_pv_missing", Code::kUnavailable},
      {"lvchange_addtag_x_absent", Code::kNotFound},
      {"lvchange_addtag_x_no_group", Code::kNotFound},
      {"lvchange_an_absent", Code::kNotFound},
      {"lvchange_an_no_group", Code::kNotFound},
      {"lvchange_ay_absent", Code::kNotFound},
      {"lvchange_ay_no_group", Code::kNotFound},
      {"lvremove_y_absent", Code::kNotFound},
      {"lvremove_y_no_group", Code::kNotFound},
      {"remove_held", Code::kPrecondition},
      {"remove_mounted", Code::kPrecondition},
      {"remove_open", Code::kPrecondition},
      {"report_duplicate_name", Code::kPrecondition},
      {"report_locked", Code::kUnavailable},
      {"report_no_group", Code::kNotFound},
      {"report_unreadable", Code::kNotFound},
      {"tag_metadata_full", Code::kNoSpace},
  };
  return meanings;
}

Finished Load(const std::filesystem::path& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.is_open()) << path;
  Finished finished;
  in >> finished.exit_status;
  std::stringstream rest;
  rest << in.rdbuf();
  finished.err = rest.str();
  return finished;
}

class EveryRefusal : public ::testing::TestWithParam<std::string> {
 protected:
  Finished Said() const { return Load(std::filesystem::path(QUARRY_FIXTURES) / "lvm" / GetParam()); }
  std::string Case() const { return std::filesystem::path(GetParam()).stem().string(); }
};

std::vector<std::string> AllRefusals() {
  std::vector<std::string> out;
  for (const char* release : {"bookworm"}) {
    for (const auto& [name, code] : Meanings()) {
      out.push_back(std::string(release) + "/errors/" + name + ".txt");
    }
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, EveryRefusal, ::testing::ValuesIn(AllRefusals()), [](const auto& test) {
  std::string name = test.param.substr(0, test.param.find('.'));
  std::ranges::replace(name, '/', '_');
  return name;
});

TEST_P(EveryRefusal, MeansOneThing) {
  const Finished said = Said();
  ASSERT_NE(said.exit_status, 0);
  const Error error = LvmFailure("lvm x", said);
  EXPECT_EQ(error.code(), Meanings().at(Case())) << CodeName(error.code()) << ": " << said.err;
  EXPECT_THAT(error.message(), HasSubstr("lvm x: "));
}

TEST_P(EveryRefusal, SaysWhatIsAbsent) {
  const Finished said = Said();
  EXPECT_EQ(SaysNoSuchGroup(said), Case().ends_with("no_group") || Case().ends_with("unreadable"))
      << said.err;
  EXPECT_EQ(SaysNoSuchLv(said), Case().ends_with("_absent")) << said.err;
}

Finished Said(int status, std::string words) {
  Finished finished;
  finished.exit_status = status;
  finished.err = std::move(words);
  return finished;
}

TEST(LvmFailureTest, UnknownWordsAreInternalAndKept) {
  const Error error = LvmFailure("lvcreate vg/x", Said(5, "  Something nobody ever heard of.\n"));
  EXPECT_EQ(error.code(), Code::kInternal);
  EXPECT_EQ(error.message(), "lvcreate vg/x: exit status 5: Something nobody ever heard of.");
}

TEST(LvmFailureTest, ASignalIsNoAnswer) {
  Finished finished;
  finished.signal = 9;
  finished.err = "Volume group \"vg\" not found\n";
  EXPECT_EQ(LvmFailure("lvs", finished).code(), Code::kUnavailable);
}

TEST(LvmFailureTest, AVolumeCalledLikeARefusalChangesNothing) {
  EXPECT_EQ(
      LvmFailure("x", Said(5, "  Logical Volume \"not\" already exists in volume group \"found\"\n")).code(),
      Code::kAlreadyExists);
  EXPECT_FALSE(
      SaysNoSuchGroup(Said(5, "Volume group \"vg\" has insufficient free space (1 extents): 2 required.")));
}

// Words of lvm2 2.03.16 on Linux 6.1.
TEST(LvmFailureTest, AFrozenFileSystemIsToldByTheFirstCause) {
  Finished finished;
  finished.exit_status = 5;
  finished.err =
      "  device-mapper: suspend ioctl on  (254:4) failed: Device or resource busy\n"
      "  Unable to suspend vg-q (254:4)\n"
      "  Failed to suspend logical volume vg/q.\n"
      "  Device vg-q-real (254:6) is used by another device.\n"
      "  Failed to revert logical volume vg/q.\n";
  const Error error = LvmFailure("lvcreate vg/q", finished);
  EXPECT_EQ(error.code(), Code::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("fsfreeze"));
}

// Words of lvm2 2.03.16 and 2.03.31, which differ in the last one.
TEST(LvmFailureTest, RefusalsOfThinPoolsAreTold) {
  const auto code = [](const char* words) { return LvmFailure("x", Said(5, words)).code(); };
  EXPECT_EQ(
      code("  Activation of logical volume g/p is prohibited while logical volume g/p_tmeta is active.\n"
           "  Aborting. Failed to locally activate thin pool g/p.\n"),
      Code::kPrecondition);
  EXPECT_EQ(
      code("  Command on LV g/p does not accept LV type thinpool.\n  Command not permitted on LV g/p.\n"),
      Code::kPrecondition);
  EXPECT_EQ(code("  Refusing activation of partial LV g/p.  Use '--activationmode partial' to override.\n"
                 "  Failed to update pool g/p.\n"),
            Code::kUnavailable);
  EXPECT_EQ(code("  Refusing refresh of partial LV g/p. Use '--activationmode partial' to override.\n"),
            Code::kUnavailable);
  EXPECT_EQ(code("  Pool q not found in Volume group g.\n"), Code::kNotFound);
  EXPECT_EQ(code("  Thin pool g-p-tpool (254:2) already contain thin device with device_id 2.\n"
                 "  Failed to suspend thin pool g/p with queued messages.\n"),
            Code::kPrecondition);
  EXPECT_EQ(code("Removing pool g/p will remove 1 dependent volume(s). Proceed? [y/n]: [n]\n"
                 "  Logical volume g/p not removed.\n"),
            Code::kPrecondition);
  EXPECT_EQ(code("  Cannot create new thin volume, free space in thin pool g/p reached threshold.\n"),
            Code::kNoSpace);
  EXPECT_EQ(code("  New size given (15 extents) not larger than existing size (16 extents)\n"),
            Code::kPrecondition);
  EXPECT_TRUE(SaysNothingToChange(Said(5, "  New size (16 extents) matches existing size (16 extents).\n")));
  EXPECT_TRUE(SaysNothingToChange(Said(5, "  No size change.\n")));
  EXPECT_TRUE(SaysNothingToChange(Said(5, "  Allocation policy of logical volume g/m is already normal.\n")));
  EXPECT_FALSE(SaysNothingToChange(Said(5, "  New size given (15 extents) not larger than existing size\n")));
}

TEST(LvmFailureTest, IoErrorsAreNamedSo) {
  EXPECT_EQ(LvmFailure(
                "x", Said(5, "  Error writing device /dev/x at 4096 length 512.\n  Failed to write VG vg.\n"))
                .code(),
            Code::kIo);
}

TEST(LvmFailureTest, WithoutDeviceMapperNothingCanBeMade) {
  EXPECT_EQ(
      LvmFailure("x", Said(5, "  striped: Required device-mapper target(s) not detected in your kernel.\n"))
          .code(),
      Code::kUnsupported);
}

}  // namespace
}  // namespace quarry::lvm
