// Plans against the real lvm2 on this host, without device-mapper: for linear, striped and raid0 LVM changes
// metadata only. RAID with metadata needs the kernel: see layout_guest_test.
#include <cstdlib>
#include <iostream>
#include <random>

#include <gtest/gtest.h>

#include "tests/property/lvm_agreement.h"
#include "tests/unit/lvm/text_agreement.h"

namespace quarry::lvm {
namespace {

using testing::LoopDisk;
using testing::LvmLab;

constexpr size_t kDisks = 8;
constexpr Bytes kDiskSize{512 * kMiB.value};  // sparse

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(LayoutNative, LvmMakesExactlyWhatWasPlanned) {
  std::vector<LoopDisk> disks;
  std::vector<std::string> paths;
  for (size_t i = 0; i < kDisks; ++i) {
    auto disk = LoopDisk::Make(kDiskSize);
    if (!disk.has_value() && disk.error().code() == Code::kUnavailable) {
      GTEST_SKIP() << "NOT TESTED against the real lvm2: no loop devices here: " << disk.error().message();
    }
    ASSERT_TRUE(disk.has_value()) << disk.error().message();
    paths.push_back(disk->path());
    disks.push_back(std::move(*disk));
  }
  auto lab = LvmLab::Make(paths, false);
  if (!lab.has_value() && lab.error().code() == Code::kNotFound) {
    GTEST_SKIP() << "NOT TESTED against the real lvm2: it is not installed: " << lab.error().message();
  }
  ASSERT_TRUE(lab.has_value()) << lab.error().message();

  testing::AgreementOptions options;
  options.types = {VolumeType::kLinear, VolumeType::kStriped, VolumeType::kRaid0};
  options.seed = FromEnvironment("QUARRY_LAYOUT_SEED", std::random_device()());
  const uint64_t groups = FromEnvironment("QUARRY_LAYOUT_GROUPS", 20);
  std::map<VolumeType, testing::Tally> tallies;
  for (uint64_t round = 0; round < groups && !HasFatalFailure(); ++round) {
    testing::TryOneGroup(**lab, options, round, tallies);
  }
  std::cout << "seed " << options.seed << "\n" << testing::Report(tallies);
  std::cout << testing::Texts().compared << " texts parsed as LVM reports them, " << testing::Texts().asked
            << " left to LVM\n";
  EXPECT_EQ(testing::Texts().asked, 0U);
}

}  // namespace
}  // namespace quarry::lvm
