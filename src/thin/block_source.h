// Where the metadata of a thin pool is read from, in blocks of 4 KiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace quarry::thin {

// Of metadata. Data blocks have the size that the superblock tells.
inline constexpr size_t kBlockSize = 4096;

class BlockSource {
 public:
  virtual ~BlockSource() = default;
  // How many blocks there are.
  virtual uint64_t blocks() const = 0;
  // Reads as many blocks as `memory` holds, which must exist. `memory` is aligned as O_DIRECT needs it.
  virtual Status Read(uint64_t first, std::span<std::byte> memory) = 0;
  // How many blocks together cost about as much as one: a power of two.
  virtual uint64_t read_ahead() const { return 1; }
};

// An image in a file, or a block device. Thread-safe.
class MetadataFile final : public BlockSource {
 public:
  // Opens read-only and past the page cache: the kernel writes the metadata of an active pool below the page
  // cache, so a cached block may be older than its parent. A trailing part of a block is not read.
  static Result<MetadataFile> Open(const std::string& path);

  uint64_t blocks() const override { return blocks_; }
  Status Read(uint64_t first, std::span<std::byte> memory) override;
  uint64_t read_ahead() const override { return 64; }

 private:
  MetadataFile(UniqueFd fd, uint64_t blocks) : fd_(std::move(fd)), blocks_(blocks) {}

  UniqueFd fd_;
  uint64_t blocks_;
};

// A pool's metadata device, for the questions of one step. kUnavailable: it is not there, for kNotFound is
// said of thin devices. Otherwise as MetadataFile::Open.
Result<std::shared_ptr<BlockSource>> OpenMetadataDevice(const std::string& path);

}  // namespace quarry::thin
