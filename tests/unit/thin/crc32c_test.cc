#include "thin/crc32c.h"

#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace quarry::thin {
namespace {

// RFC 3720, B.4: with the inversion that the kernel leaves to its callers.
TEST(Crc32cTest, ValuesOfRfc3720) {
  const auto of = [](const std::vector<unsigned char>& bytes) {
    EXPECT_EQ(KernelCrc32cByTables(std::as_bytes(std::span(bytes))),
              KernelCrc32c(std::as_bytes(std::span(bytes))));
    return ~KernelCrc32c(std::as_bytes(std::span(bytes)));
  };
  EXPECT_EQ(of(std::vector<unsigned char>(32, 0)), 0x8a9136aau);
  EXPECT_EQ(of(std::vector<unsigned char>(32, 0xff)), 0x62a8ab43u);
  std::vector<unsigned char> ascending;
  for (unsigned char i = 0; i < 32; ++i) {
    ascending.push_back(i);
  }
  EXPECT_EQ(of(ascending), 0x46dd794eu);
}

// The usual check value, with a length that no step of eight bytes covers.
TEST(Crc32cTest, AnyLengthIsCovered) {
  constexpr std::string_view kDigits = "123456789";
  EXPECT_EQ(~KernelCrc32c(std::as_bytes(std::span(kDigits))), 0xe3069283u);
  EXPECT_EQ(~KernelCrc32cByTables(std::as_bytes(std::span(kDigits))), 0xe3069283u);
}

}  // namespace
}  // namespace quarry::thin
