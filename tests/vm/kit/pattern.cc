#include "tests/vm/kit/pattern.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "base/unique_fd.h"

namespace quarry::vm {
namespace {

constexpr uint64_t kChunk = 1 << 20;

// splitmix64: seed and offset decide every 8 bytes, so a shifted or foreign block is detected.
uint64_t Word(uint64_t seed, uint64_t index) {
  uint64_t z = seed * 0x9E3779B97F4A7C15ULL + (index + 1) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

void Fill(std::vector<uint64_t>& words, uint64_t seed, uint64_t first_byte) {
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = Word(seed, first_byte / 8 + i);
  }
}

std::vector<uint64_t> Chunk(uint64_t length) {
  return std::vector<uint64_t>(std::min(kChunk, length) / 8);
}

// Reads `length` bytes at `offset` and passes them on in pieces: (words, offset from the start).
Status ReadAll(const std::string& path, uint64_t length, uint64_t offset,
               const std::function<Status(const std::vector<uint64_t>&, uint64_t)>& take) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoError(path);
  }
  // Drops clean pages, so that the bytes come from the device.
  ::posix_fadvise(fd.get(), static_cast<off_t>(offset), static_cast<off_t>(length), POSIX_FADV_DONTNEED);
  for (uint64_t done = 0; done < length;) {
    std::vector<uint64_t> words = Chunk(length - done);
    const size_t want = words.size() * 8;
    const ssize_t got = ::pread(fd.get(), words.data(), want, static_cast<off_t>(offset + done));
    if (got != static_cast<ssize_t>(want)) {
      return got < 0 ? ErrnoError(path)
                     : Error(Code::kIo, fmt::format("{}: ends at byte {}", path, offset + done));
    }
    QUARRY_TRY(take(words, done));
    done += want;
  }
  return Ok();
}

}  // namespace

Status WritePattern(const std::string& path, uint64_t seed, uint64_t length, uint64_t offset) {
  const int create = path.starts_with("/dev/") ? 0 : O_CREAT;
  UniqueFd fd(::open(path.c_str(), O_WRONLY | create | O_CLOEXEC, 0644));
  if (!fd.valid()) {
    return ErrnoError(path);
  }
  for (uint64_t done = 0; done < length;) {
    std::vector<uint64_t> words = Chunk(length - done);
    Fill(words, seed, done);
    const size_t size = words.size() * 8;
    const ssize_t put = ::pwrite(fd.get(), words.data(), size, static_cast<off_t>(offset + done));
    if (put != static_cast<ssize_t>(size)) {
      return put < 0 ? ErrnoError(path) : Error(Code::kNoSpace, path + ": short write");
    }
    done += size;
  }
  if (::fsync(fd.get()) != 0) {
    return ErrnoError(path + ": fsync");
  }
  return Ok();
}

Status CheckPattern(const std::string& path, uint64_t seed, uint64_t length, uint64_t offset) {
  std::vector<uint64_t> expected;
  return ReadAll(path, length, offset, [&](const std::vector<uint64_t>& words, uint64_t done) -> Status {
    expected.resize(words.size());
    Fill(expected, seed, done);
    const auto differs = std::ranges::mismatch(words, expected);
    if (differs.in1 != words.end()) {
      const auto at = offset + done + 8 * static_cast<uint64_t>(differs.in1 - words.begin());
      return Error(Code::kCorrupt, fmt::format("{}: differs at byte {}", path, at));
    }
    return Ok();
  });
}

Status CheckZero(const std::string& path, uint64_t length, uint64_t offset) {
  return ReadAll(path, length, offset, [&](const std::vector<uint64_t>& words, uint64_t done) -> Status {
    const auto found = std::ranges::find_if(words, [](uint64_t word) { return word != 0; });
    if (found != words.end()) {
      const auto at = offset + done + 8 * static_cast<uint64_t>(found - words.begin());
      return Error(Code::kCorrupt, fmt::format("{}: byte {} is not zero", path, at));
    }
    return Ok();
  });
}

std::string PatternDigest(uint64_t seed, uint64_t length) {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (uint64_t i = 0; i < length / 8; ++i) {
    hash = (hash ^ Word(seed, i)) * 0x100000001B3ULL;
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace quarry::vm
