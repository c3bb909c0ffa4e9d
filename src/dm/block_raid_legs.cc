#include "dm/block_raid_legs.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/mutex.h"
#include "dm/pv_device.h"
#include "dm/raid_superblock.h"

namespace quarry::dm {
namespace {

struct alignas(kRaidSuperblock) Block {
  std::array<std::byte, kRaidSuperblock> bytes{};
};

std::span<std::byte> BytesOf(std::vector<Block>& blocks) {
  return std::as_writable_bytes(std::span(blocks));
}

// `what`: for errors. `at`: offset from the start of the place.
Status ReadBlocks(int fd, const EraseRange& place, size_t at, std::vector<Block>& blocks,
                  std::string_view what) {
  const std::span<std::byte> bytes = BytesOf(blocks);
  if (at + bytes.size() > place.length.value) {
    return Error(Code::kCorrupt,
                 fmt::format("{} of {} is longer than its metadata sub-volume", what, place.device));
  }
  const ssize_t n = pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(place.offset.value + at));
  if (n < 0) {
    return ErrnoError(fmt::format("reading {} of {}", what, place.device));
  }
  if (static_cast<size_t>(n) != bytes.size()) {
    return Error(Code::kIo, fmt::format("{} ends within {}", place.device, what));
  }
  return Ok();
}

Status WriteBlocks(int fd, const EraseRange& place, size_t at, std::vector<Block>& blocks,
                   std::string_view what) {
  const std::span<std::byte> bytes = BytesOf(blocks);
  const ssize_t n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(place.offset.value + at));
  if (n >= 0 && static_cast<size_t>(n) != bytes.size()) {
    return Error(Code::kIo, fmt::format("{} took {} of {} bytes of {}", place.device, n, bytes.size(), what));
  }
  if (n < 0 || fsync(fd) != 0) {
    return ErrnoError(fmt::format("writing {} of {}", what, place.device));
  }
  return Ok();
}

constexpr std::string_view kSuperblock = "a raid superblock";
constexpr std::string_view kBitmap = "a raid bitmap";

// Loads the whole bitmap, which may be longer than RaidBitmapSize says.
Result<std::vector<Block>> LoadBitmap(int fd, const EraseRange& place) {
  std::vector<Block> bitmap(1);
  QUARRY_TRY(ReadBlocks(fd, place, kRaidSuperblock, bitmap, kBitmap));
  QUARRY_ASSIGN(const size_t size, RaidBitmapSize(BytesOf(bitmap)).Context(place.device));
  const size_t blocks = (size + sizeof(Block) - 1) / sizeof(Block);
  if (blocks > place.length.value / sizeof(Block)) {
    return Error(Code::kCorrupt,
                 fmt::format("{} of {} is longer than its metadata sub-volume", kBitmap, place.device));
  }
  if (blocks > 1) {
    bitmap.resize(blocks);
    QUARRY_TRY(ReadBlocks(fd, place, kRaidSuperblock, bitmap, kBitmap));
  }
  return bitmap;
}

Status Mark(int fd, const EraseRange& place, const RaidStart& start) {
  QUARRY_ASSIGN(std::vector<Block> bitmap, LoadBitmap(fd, place));
  QUARRY_TRY((start.mark_all.has_value() ? MarkAllRegions(BytesOf(bitmap), *start.mark_all)
                                         : MarkRegions(BytesOf(bitmap), start.marked))
                 .Context(place.device));
  return WriteBlocks(fd, place, kRaidSuperblock, bitmap, kBitmap);
}

}  // namespace

// Devices with an unanswered read, and when it began. The reading threads keep the object alive.
struct BlockRaidLegs::Asked {
  Mutex mutex;
  std::condition_variable_any answered;
  std::map<std::string, std::chrono::steady_clock::time_point> devices ABSL_GUARDED_BY(mutex);
};

BlockRaidLegs::BlockRaidLegs(std::chrono::milliseconds patience)
    : patience_(patience), asked_(std::make_shared<Asked>()) {}

template <typename T, typename Function>
Result<T> BlockRaidLegs::InTime(const EraseRange& place, Function read) const {
  const Error silent(
      Code::kTimeout,
      fmt::format("{} does not answer: try again when it does, or remove the disk", place.device));
  {
    // Another caller may be reading another leg on this device. Waits for that read, once.
    MutexLock lock(asked_->mutex);
    const auto is_free = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(asked_->mutex) {
      return !asked_->devices.contains(place.device);
    };
    if (!is_free() &&
        !asked_->answered.wait_until(lock, asked_->devices.at(place.device) + patience_, is_free)) {
      return silent;
    }
    asked_->devices.emplace(place.device, std::chrono::steady_clock::now());
  }
  std::promise<Result<T>> promise;
  std::future<Result<T>> answer = promise.get_future();
  std::thread([read, place, asked = asked_, promise = std::move(promise)]() mutable {
    Result<T> result = read(place);
    {
      const MutexLock lock(asked->mutex);
      asked->devices.erase(place.device);
    }
    asked->answered.notify_all();
    promise.set_value(std::move(result));
  }).detach();
  return answer.wait_for(patience_) == std::future_status::ready ? answer.get() : Result<T>(silent);
}

Result<RaidSuperblock> BlockRaidLegs::Read(const EraseRange& place) {
  return InTime<RaidSuperblock>(place, [](const EraseRange& from) -> Result<RaidSuperblock> {
    QUARRY_ASSIGN(const UniqueFd fd, OpenPvRange(from, O_RDONLY | O_DIRECT));
    std::vector<Block> block(1);
    QUARRY_TRY(ReadBlocks(fd.get(), from, 0, block, kSuperblock));
    return ParseRaidSuperblock(BytesOf(block)).Context(from.device);
  });
}

Result<RaidBitmap> BlockRaidLegs::ReadBitmap(const EraseRange& place) {
  return InTime<RaidBitmap>(place, [](const EraseRange& from) -> Result<RaidBitmap> {
    QUARRY_ASSIGN(const UniqueFd fd, OpenPvRange(from, O_RDONLY | O_DIRECT));
    QUARRY_ASSIGN(std::vector<Block> bitmap, LoadBitmap(fd.get(), from));
    return ParseRaidBitmap(BytesOf(bitmap)).Context(from.device);
  });
}

Status BlockRaidLegs::Write(const EraseRange& place, const RaidSuperblock& was, const RaidStart& start) {
  QUARRY_ASSIGN(const UniqueFd fd, OpenPvRange(place, O_RDWR | O_DIRECT));
  std::vector<Block> block(1);
  QUARRY_TRY(ReadBlocks(fd.get(), place, 0, block, kSuperblock));
  QUARRY_ASSIGN(const RaidSuperblock now, ParseRaidSuperblock(BytesOf(block)));
  if (now != was) {
    return Error(Code::kPrecondition, fmt::format("a raid superblock of {} has changed", place.device));
  }
  if (start.mark_all.has_value() || !start.marked.empty()) {
    QUARRY_TRY(Mark(fd.get(), place, start));
  }
  SetRaidStart(BytesOf(block), start);
  return WriteBlocks(fd.get(), place, 0, block, kSuperblock);
}

}  // namespace quarry::dm
