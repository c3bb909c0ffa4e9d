#include "udev/nvme_health.h"

#include <gtest/gtest.h>

namespace quarry::udev {
namespace {

template <size_t N>
void Put(std::array<std::byte, N>& page, size_t at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    page[at + i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
  }
}

// Offsets as in the specification: NVMe base 2.0, figure "SMART / Health Information Log Page", and the NVM
// command set, figure "Identify Namespace Data Structure".
SmartPage Smart() {
  SmartPage page{};
  Put(page, 0, 0x0d, 1);
  Put(page, 1, 273 + 41, 2);
  Put(page, 3, 87, 1);
  Put(page, 4, 10, 1);
  Put(page, 5, 103, 1);
  Put(page, 144, 0x0102030405060708, 8);  // unsafe shutdowns
  Put(page, 160, 70000, 8);               // media errors
  return page;
}

NamespacePage Namespace() {
  NamespacePage page{};
  Put(page, 24, 0x10, 1);     // NSFEAT: the preferred sizes are there
  Put(page, 26, 0x01, 1);     // FLBAS: format 1
  Put(page, 33, 0x09, 1);     // DLFEAT: zeroes, and by Write Zeroes too
  Put(page, 64, 7, 2);        // NPWG: 8 blocks
  Put(page, 68, 0x01ff, 2);   // NPDG: 512 blocks
  Put(page, 128 + 2, 9, 1);   // format 0: 512
  Put(page, 132 + 2, 12, 1);  // format 1: 4096
  return page;
}

TEST(DecodeHealth, ReadsEveryFieldWhereTheSpecificationPutsIt) {
  const DiskHealth health = DecodeHealth(Smart(), Namespace());
  EXPECT_EQ(health.critical_warning, kSpareLow | kReliabilityDegraded | kReadOnlyMedia);
  EXPECT_EQ(health.temperature, 41);
  EXPECT_EQ(health.available_spare, 87U);
  EXPECT_EQ(health.spare_threshold, 10U);
  EXPECT_EQ(health.percentage_used, 103U);
  EXPECT_EQ(health.unsafe_shutdowns, 0x0102030405060708U);
  EXPECT_EQ(health.media_errors, 70000U);
  EXPECT_TRUE(health.deallocated_is_zero);
  EXPECT_EQ(health.write_granularity, Bytes{8 * 4096});
  EXPECT_EQ(health.discard_granularity, Bytes{512 * 4096});
}

TEST(DecodeHealth, ACounterThatIsTooLargeStaysLarge) {
  SmartPage smart = Smart();
  Put(smart, 160 + 8, 1, 1);
  EXPECT_EQ(DecodeHealth(smart, Namespace()).media_errors, UINT64_MAX);
}

TEST(DecodeHealth, BelowZeroIsBelowZero) {
  SmartPage smart = Smart();
  Put(smart, 1, 263, 2);
  EXPECT_EQ(DecodeHealth(smart, Namespace()).temperature, -10);
}

TEST(DecodeHealth, WithoutTheFeatureTheGranularitiesAreUnknown) {
  NamespacePage page = Namespace();
  Put(page, 24, 0, 1);
  EXPECT_EQ(DecodeHealth(Smart(), page).write_granularity, std::nullopt);
  EXPECT_EQ(DecodeHealth(Smart(), page).discard_granularity, std::nullopt);
  page = Namespace();
  Put(page, 132 + 2, 0, 1);  // a format without a block size
  EXPECT_EQ(DecodeHealth(Smart(), page).write_granularity, std::nullopt);
}

TEST(DecodeHealth, OnlyZeroesAreZeroes) {
  for (const auto& [dlfeat, zero] : {std::pair{0x00, false}, {0x01, true}, {0x02, false}, {0x08, false}}) {
    NamespacePage page = Namespace();
    Put(page, 33, static_cast<uint64_t>(dlfeat), 1);
    EXPECT_EQ(DecodeHealth(Smart(), page).deallocated_is_zero, zero) << dlfeat;
  }
}

TEST(DecodeHealth, TheHigherBitsOfTheFormatCount) {
  NamespacePage page = Namespace();
  Put(page, 26, 0x21, 1);  // format 17
  Put(page, 128 + 17 * 4 + 2, 9, 1);
  EXPECT_EQ(DecodeHealth(Smart(), page).write_granularity, Bytes{8 * 512});
}

TEST(NvmeHealth, OtherDisksAreNotAsked) {
  const auto asked = NvmeHealth().Read("/dev/null");
  ASSERT_TRUE(asked.has_value()) << asked.error().message();
  EXPECT_EQ(*asked, std::nullopt);
}

TEST(NvmeHealth, AnAbsentDiskIsNotFound) {
  const auto asked = NvmeHealth().Read("/dev/quarry-no-such-disk");
  ASSERT_FALSE(asked.has_value());
  EXPECT_EQ(asked.error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace quarry::udev
