#include "dm/pv_label.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>

namespace quarry::dm {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kRawUuid = "abcdefGHIJklmnOPQRstuvWXYZ012345";
constexpr std::string_view kUuid = "abcdef-GHIJ-klmn-OPQR-stuv-WXYZ-012345";
constexpr uint64_t kSize = 8ULL << 30;

// lvm2's checksum, implemented a second time: by table instead of bit by bit.
uint32_t Checksum(const std::byte* data, size_t size) {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value & 1) != 0 ? (value >> 1) ^ 0xEDB88320U : value >> 1;
    }
    table[i] = value;
  }
  uint32_t crc = 0xF597A6CF;
  for (size_t i = 0; i < size; ++i) {
    crc = table[(crc ^ std::to_integer<uint32_t>(data[i])) & 0xFF] ^ (crc >> 8);
  }
  return crc;
}

// The first sectors of a PV with one data area at 1 MiB and one metadata area at 4 KiB.
class Start {
 public:
  explicit Start(size_t sector = 1) : sector_(sector) {
    Text(0, "LABELONE");
    Number(8, sector);
    Number(20, 32, 4);
    Text(24, "LVM2 001");
    Text(32, kRawUuid);
    Number(64, kSize);
    Number(72, 1 << 20);
    Number(80, 0);
    // 88, 96: end of the data areas
    Number(104, 4096);
    Number(112, (1 << 20) - 4096);
    // 120, 128: end of the metadata areas
    Seal();
  }
  Start& Text(size_t at, std::string_view text) {
    std::memcpy(raw_.data() + sector_ * 512 + at, text.data(), text.size());
    return *this;
  }
  Start& Number(size_t at, uint64_t value, size_t width = 8) {
    std::memcpy(raw_.data() + sector_ * 512 + at, &value, width);
    return *this;
  }
  Start& Seal() { return Number(16, Checksum(raw_.data() + sector_ * 512 + 20, 512 - 20), 4); }
  Result<PvLabel> Parse() const { return ParsePvLabel(raw_); }
  std::array<std::byte, kPvLabelScan>& raw() { return raw_; }

 private:
  size_t sector_;
  std::array<std::byte, kPvLabelScan> raw_{};
};

TEST(PvLabel, IsFoundInAnyOfTheFirstFourSectors) {
  for (size_t sector = 0; sector < 4; ++sector) {
    const auto label = Start(sector).Parse();
    ASSERT_TRUE(label.has_value()) << label.error().message();
    EXPECT_EQ(label->uuid, kUuid);
    EXPECT_EQ(label->device_size.value, kSize);
    ASSERT_EQ(label->data.size(), 1U);
    EXPECT_EQ(label->data[0].offset, kMiB);
    ASSERT_EQ(label->metadata.size(), 1U);
    EXPECT_EQ(label->metadata[0].offset.value, 4096U);
  }
}

TEST(PvLabel, NothingThereIsCorrupt) {
  EXPECT_EQ(ParsePvLabel({}).error().code(), Code::kCorrupt);
  const std::array<std::byte, kPvLabelScan> zeroes{};
  EXPECT_THAT(ParsePvLabel(zeroes).error().message(), HasSubstr("none"));
}

TEST(PvLabel, OfAnotherTypeIsRefused) {
  EXPECT_FALSE(Start().Text(24, "LVM3 001").Seal().Parse().has_value());
  EXPECT_FALSE(Start().Text(0, "LABELTWO").Seal().Parse().has_value());
}

TEST(PvLabel, MustBeInTheSectorThatItSays) {
  EXPECT_THAT(Start().Number(8, 2).Seal().Parse().error().message(), HasSubstr("sector"));
}

TEST(PvLabel, MustHaveTheRightChecksum) {
  EXPECT_THAT(Start().Text(32, "b").Parse().error().message(), HasSubstr("checksum"));
}

TEST(PvLabel, MustPointWithinItsSector) {
  for (const uint64_t offset : {0, 31, 473, 512, 0x7FFFFFFF}) {
    EXPECT_THAT(Start().Number(20, offset, 4).Seal().Parse().error().message(), HasSubstr("offset"))
        << offset;
  }
}

TEST(PvLabel, MustHaveAUuidOfLvmsCharacters) {
  EXPECT_FALSE(Start().Text(40, "-").Seal().Parse().has_value());
  EXPECT_FALSE(Start().Number(40, 0, 1).Seal().Parse().has_value());
}

TEST(PvLabel, MustHaveListsThatEnd) {
  Start start;
  for (size_t at = 72; at + 16 <= 512; at += 16) {
    start.Number(at, 1 << 20);
  }
  EXPECT_THAT(start.Seal().Parse().error().message(), HasSubstr("does not end"));
}

TEST(PvLabel, MustHaveExactlyOneDataArea) {
  EXPECT_THAT(Start().Number(72, 0).Seal().Parse().error().message(), HasSubstr("data area"));
}

// Every wrong byte in a label is detected or harmless, and no read goes beyond the label.
TEST(PvLabel, EverySingleWrongByteIsNoticedOrHarmless) {
  std::mt19937 random(1);
  for (size_t at = 0; at < 512; ++at) {
    Start start;
    std::byte& byte = start.raw()[512 + at];
    byte ^= std::byte{static_cast<unsigned char>(1 + random() % 255)};
    const auto label = start.Parse();
    EXPECT_FALSE(label.has_value()) << at;
  }
}

TEST(PvLabel, GarbageBehindAValidChecksumDoesNoHarm) {
  std::mt19937 random(2);
  for (int round = 0; round < 20000; ++round) {
    Start start;
    for (int i = 0; i < 8; ++i) {
      start.Number(20 + random() % 484, (uint64_t{random()} << 32) | random());
    }
    start.Text(24, "LVM2 001").Seal();
    const auto label = start.Parse();
    if (label.has_value()) {
      EXPECT_EQ(label->uuid.size(), kUuid.size());
      (void)CheckWithinExtents(*label, kMiB, kMiB, {kSize});
    }
  }
}

class WithinExtents : public ::testing::Test {
 protected:
  PvLabel label_ = *Start().Parse();
  Code CodeOf(Bytes offset, Bytes length) {
    const Status status = CheckWithinExtents(label_, offset, length, {kSize});
    return status.has_value() ? Code::kNotFound : status.error().code();  // kNotFound stands for "fine" here
  }
};

TEST_F(WithinExtents, TheDataAreaIsFine) {
  EXPECT_TRUE(CheckWithinExtents(label_, kMiB, kMiB, {kSize}).has_value());
  EXPECT_TRUE(CheckWithinExtents(label_, kMiB, Bytes{kSize} - kMiB, {kSize}).has_value());
}

TEST_F(WithinExtents, NothingBeforeTheFirstExtent) {
  EXPECT_EQ(CodeOf({0}, {512}), Code::kCorrupt);
  EXPECT_EQ(CodeOf(kMiB - Bytes{512}, {1024}), Code::kCorrupt);
}

TEST_F(WithinExtents, NothingBeyondTheDevice) {
  EXPECT_EQ(CodeOf(kMiB, {kSize}), Code::kCorrupt);
  EXPECT_EQ(CodeOf({kSize + 512}, {0}), Code::kCorrupt);
  EXPECT_EQ(CodeOf({UINT64_MAX - 511}, {512}), Code::kCorrupt);
  EXPECT_EQ(CodeOf(kMiB, {UINT64_MAX}), Code::kCorrupt);
}

TEST_F(WithinExtents, NothingOfAMetadataAreaAtTheEnd) {
  label_.metadata.push_back({Bytes{kSize} - kMiB, kMiB});
  EXPECT_EQ(CodeOf(kMiB, Bytes{kSize} - kMiB), Code::kCorrupt);
  EXPECT_EQ(CodeOf(Bytes{kSize} - kMiB, {512}), Code::kCorrupt);
  EXPECT_TRUE(CheckWithinExtents(label_, kMiB, Bytes{kSize} - kMiB - kMiB, {kSize}).has_value());
}

TEST_F(WithinExtents, NothingWhereAnAreaCannotBe) {
  label_.metadata.push_back({{UINT64_MAX}, {UINT64_MAX}});
  EXPECT_EQ(CodeOf(kMiB, kMiB), Code::kCorrupt);
}

TEST_F(WithinExtents, NothingBeyondABoundedDataArea) {
  label_.data[0].length = kMiB;
  EXPECT_TRUE(CheckWithinExtents(label_, kMiB, kMiB, {kSize}).has_value());
  EXPECT_EQ(CodeOf(kMiB, kMiB + Bytes{512}), Code::kCorrupt);
}

}  // namespace
}  // namespace quarry::dm
