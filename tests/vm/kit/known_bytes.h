// The bytes that a device or a file is known to hold, from its first byte on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace quarry::vm {

// A value: consecutive pieces, each with a pattern of its own or zeroes. Lengths are multiples of 4096 bytes.
class KnownBytes {
 public:
  void AddPattern(uint64_t length);  // a pattern that no other piece of this process has
  void AddZeroes(uint64_t length);

  uint64_t size() const;
  // Writes the patterns, not the zeroes. Creates the file if there is none.
  Status Write(const std::string& path) const;
  // Writes the last piece only.
  Status WriteLast(const std::string& path) const;
  // kCorrupt names the first byte that differs.
  Status Check(const std::string& path) const;

 private:
  struct Piece {
    uint64_t seed;  // 0: zeroes
    uint64_t length;
  };
  std::vector<Piece> pieces_;
};

}  // namespace quarry::vm
