// What the bytes of a device or a file are known to be, from its first byte on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace quarry::vm {

// A value: pieces one after the other, each a pattern of its own or zeroes. Lengths are multiples of 4096
// bytes.
class KnownBytes {
 public:
  void AddPattern(uint64_t length);  // one that no other piece of this process has
  void AddZeroes(uint64_t length);

  uint64_t size() const;
  // The patterns, not the zeroes. Creates a file where there is nothing.
  Status Write(const std::string& path) const;
  // The last piece alone.
  Status WriteLast(const std::string& path) const;
  // kCorrupt naming the first byte that differs.
  Status Check(const std::string& path) const;

 private:
  struct Piece {
    uint64_t seed;  // 0: zeroes
    uint64_t length;
  };
  std::vector<Piece> pieces_;
};

}  // namespace quarry::vm
