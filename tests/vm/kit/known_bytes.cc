#include "tests/vm/kit/known_bytes.h"

#include <atomic>

#include "tests/vm/kit/pattern.h"

namespace quarry::vm {

void KnownBytes::AddPattern(uint64_t length) {
  static std::atomic<uint64_t> last = 0;
  pieces_.push_back({++last, length});
}

void KnownBytes::AddZeroes(uint64_t length) {
  pieces_.push_back({0, length});
}

uint64_t KnownBytes::size() const {
  uint64_t size = 0;
  for (const Piece& piece : pieces_) {
    size += piece.length;
  }
  return size;
}

Status KnownBytes::Write(const std::string& path) const {
  uint64_t offset = 0;
  for (const Piece& piece : pieces_) {
    if (piece.seed != 0) {
      QUARRY_TRY(WritePattern(path, piece.seed, piece.length, offset));
    }
    offset += piece.length;
  }
  return Ok();
}

Status KnownBytes::WriteLast(const std::string& path) const {
  const Piece& last = pieces_.back();
  return WritePattern(path, last.seed, last.length, size() - last.length);
}

Status KnownBytes::Check(const std::string& path) const {
  uint64_t offset = 0;
  for (const Piece& piece : pieces_) {
    QUARRY_TRY(piece.seed == 0 ? CheckZero(path, piece.length, offset)
                               : CheckPattern(path, piece.seed, piece.length, offset));
    offset += piece.length;
  }
  return Ok();
}

}  // namespace quarry::vm
