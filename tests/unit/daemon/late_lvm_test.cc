#include "daemon/wiring/late_lvm.h"

#include <gtest/gtest.h>

#include "tests/fakes/fake_lvm.h"

namespace quarry::daemon {
namespace {

TEST(LateLvm, ReportsAMissingToolUntilItIsInstalledAndNeverAMissingGroup) {
  bool installed = false;
  int made = 0;
  LateLvm lvm([&](const Call&) -> Result<std::unique_ptr<lvm::LvmApi>> {
    if (!installed) {
      return Error(Code::kNotFound, "lvm is in none of /usr/sbin, /sbin");
    }
    ++made;
    auto fake = std::make_unique<fakes::FakeLvm>();
    fake->AddGroup("vg0", Bytes{4 * kMiB.value}, {{"/dev/d0", {16}}});
    return std::unique_ptr<lvm::LvmApi>(std::move(fake));
  });

  const auto missing = lvm.Read("vg0", Call{});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code(), Code::kPrecondition);

  installed = true;
  EXPECT_TRUE(lvm.Read("vg0", Call{}).has_value());
  EXPECT_TRUE(lvm.Version("vg", Call{}).has_value());
  EXPECT_EQ(made, 1);
  EXPECT_EQ(lvm.Read("vg1", Call{}).error().code(), Code::kNotFound);
}

TEST(LateLvm, KeepsTheCodeOfOtherFailures) {
  LateLvm lvm([](const Call&) -> Result<std::unique_ptr<lvm::LvmApi>> {
    return Error(Code::kTimeout, "lvm version");
  });
  EXPECT_EQ(lvm.Version("vg", Call{}).error().code(), Code::kTimeout);
}

}  // namespace
}  // namespace quarry::daemon
