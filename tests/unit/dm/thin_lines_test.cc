#include "dm/thin_lines.h"

#include <gtest/gtest.h>

namespace quarry::dm {
namespace {

using Mode = ThinPoolStatus::Mode;
using Discards = ThinPoolStatus::Discards;

// Lines from kernels 6.1 and 6.12.
TEST(ParseThinPoolStatus, ReadsEveryWord) {
  const auto pool = ParseThinPoolStatus("3 12/1024 5/800 - rw discard_passdown queue_if_no_space - 256 ");
  ASSERT_TRUE(pool.has_value()) << pool.error().message();
  EXPECT_EQ(pool->transaction_id, 3U);
  EXPECT_EQ(pool->metadata_used, 12U);
  EXPECT_EQ(pool->metadata_total, 1024U);
  EXPECT_EQ(pool->metadata_free(), 1012U);
  EXPECT_EQ(pool->data_used, 5U);
  EXPECT_EQ(pool->data_total, 800U);
  EXPECT_EQ(pool->metadata_low_water, 256U);
  EXPECT_FALSE(pool->held_root.has_value());
  EXPECT_EQ(pool->mode, Mode::kReadWrite);
  EXPECT_EQ(pool->discards, Discards::kPassedDown);
  EXPECT_FALSE(pool->fails_when_full);
  EXPECT_FALSE(pool->needs_check);

  const auto other = ParseThinPoolStatus(
      "0 12/1024 800/800 77 out_of_data_space no_discard_passdown error_if_no_space - 256");
  ASSERT_TRUE(other.has_value()) << other.error().message();
  EXPECT_EQ(other->held_root, 77U);
  EXPECT_EQ(other->mode, Mode::kOutOfDataSpace);
  EXPECT_EQ(other->discards, Discards::kNotPassedDown);
  EXPECT_TRUE(other->fails_when_full);

  const auto flagged = ParseThinPoolStatus("0 9/9 0/8 - ro ignore_discard queue_if_no_space needs_check 2");
  ASSERT_TRUE(flagged.has_value()) << flagged.error().message();
  EXPECT_EQ(flagged->mode, Mode::kReadOnly);
  EXPECT_EQ(flagged->discards, Discards::kIgnored);
  EXPECT_TRUE(flagged->needs_check);
}

TEST(ParseThinPoolStatus, ADeadPoolHasFailed) {
  for (const char* line : {"Fail", "Error", "Fail "}) {
    const auto pool = ParseThinPoolStatus(line);
    ASSERT_TRUE(pool.has_value()) << line;
    EXPECT_EQ(pool->mode, Mode::kFailed);
  }
}

TEST(ParseThinPoolStatus, RefusesWhatItDoesNotKnowAndShowsIt) {
  for (const std::string line :
       {"", "Failed", "Fail Fail", "rw", "3 12/1024 5/800 - rw discard_passdown queue_if_no_space -",
        "3 12/1024 5/800 - rw discard_passdown queue_if_no_space - 256 more",
        "3 12/1024 5/800 - rx discard_passdown queue_if_no_space - 256",
        "3 12/1024 5/800 - rw discard queue_if_no_space - 256",
        "3 12/1024 5/800 - rw discard_passdown maybe - 256",
        "3 12/1024 5/800 - rw discard_passdown queue_if_no_space check 256",
        "3 12/1024 5/800 x rw discard_passdown queue_if_no_space - 256",
        "-3 12/1024 5/800 - rw discard_passdown queue_if_no_space - 256",
        "3 12 5/800 - rw discard_passdown queue_if_no_space - 256",
        "3 12/ 5/800 - rw discard_passdown queue_if_no_space - 256",
        "3 1025/1024 5/800 - rw discard_passdown queue_if_no_space - 256",
        "3 12/1024 801/800 - rw discard_passdown queue_if_no_space - 256",
        "3 12/1024 5/800 - rw discard_passdown queue_if_no_space - -",
        "99999999999999999999 12/1024 5/800 - rw discard_passdown queue_if_no_space - 256"}) {
    const auto pool = ParseThinPoolStatus(line);
    ASSERT_FALSE(pool.has_value()) << line;
    EXPECT_EQ(pool.error().code(), Code::kCorrupt);
    EXPECT_NE(pool.error().message().find("'" + line + "'"), std::string::npos) << pool.error().message();
  }
}

TEST(ParseThinStatus, ReadsBothNumbersAsBytes) {
  const auto thin = ParseThinStatus("8192 20479");
  ASSERT_TRUE(thin.has_value()) << thin.error().message();
  EXPECT_FALSE(thin->failed);
  EXPECT_EQ(thin->mapped, Bytes{4 * kMiB.value});
  EXPECT_EQ(thin->mapped_end, Bytes{10 * kMiB.value});
  const auto blank = ParseThinStatus("0 -");
  ASSERT_TRUE(blank.has_value());
  EXPECT_EQ(blank->mapped, Bytes{0});
  EXPECT_EQ(blank->mapped_end, Bytes{0});
}

TEST(ParseThinStatus, ADeviceOfADeadPoolHasFailed) {
  EXPECT_TRUE(ParseThinStatus("Fail")->failed);
  EXPECT_TRUE(ParseThinStatus("Error")->failed);
}

TEST(ParseThinStatus, RefusesWhatItDoesNotKnow) {
  for (const char* line : {"", "-", "8192", "- 8192", "8192 x", "x 8192", "1 2 3", "Fail 3", "-1 5",
                           "36028797018963968 1", "1 36028797018963967", "1 18446744073709551615"}) {
    const auto thin = ParseThinStatus(line);
    ASSERT_FALSE(thin.has_value()) << line;
    EXPECT_EQ(thin.error().code(), Code::kCorrupt);
  }
}

}  // namespace
}  // namespace quarry::dm
