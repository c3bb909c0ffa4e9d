#include "base/direct_io.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>

#include "base/unique_fd.h"

namespace quarry {
namespace {

TEST(DirectIo, TransfersWholePiecesAndLessOnlyAtTheEnd) {
  const UniqueFd file(memfd_create("direct-io", MFD_CLOEXEC));
  ASSERT_TRUE(file.valid());
  std::array<std::byte, 1000> written{};
  written.fill(std::byte{7});
  EXPECT_EQ(*WriteWhole(file.get(), written, 24), 1000U);
  std::array<std::byte, 2000> read{};
  EXPECT_EQ(*ReadWhole(file.get(), read, 0), 1024U);
  EXPECT_EQ(read[23], std::byte{0});
  EXPECT_EQ(read[24], std::byte{7});
  EXPECT_EQ(read[1023], std::byte{7});
  EXPECT_EQ(*ReadWhole(file.get(), read, 5000), 0U);
}

TEST(DirectIo, NamesWhatFailed) {
  std::array<std::byte, 16> memory{};
  const auto failed = ReadWhole(-1, memory, 4096);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().sys_errno(), EBADF);
  EXPECT_NE(failed.error().message().find("reading 16 bytes at 4096"), std::string::npos);
  EXPECT_FALSE(WriteWhole(-1, memory, 0).has_value());
  EXPECT_FALSE(BypassPageCache(-1).has_value());
}

}  // namespace
}  // namespace quarry
