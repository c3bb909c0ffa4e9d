#include "tests/bench/stall_meter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

#include "base/direct_io.h"

namespace quarry::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBlock = 4096;
constexpr std::chrono::milliseconds kPause{1};
constexpr std::chrono::seconds kLimit{60};

}  // namespace

StallMeter::StallMeter(std::string path, int64_t area)
    : path_(std::move(path)),
      blocks_(static_cast<uint64_t>(area) / kBlock),
      thread_([this](const std::stop_token& stop) { Write(stop); }) {}

StallMeter::~StallMeter() = default;

void StallMeter::Begin() {
  const std::lock_guard lock(mutex_);
  longest_ = 0;
}

Result<double> StallMeter::Longest() {
  std::unique_lock lock(mutex_);
  const uint64_t before = writes_;
  if (!ended_.wait_for(lock, kLimit, [&] { return !result_.has_value() || writes_ > before; })) {
    return Error(Code::kTimeout, fmt::format("writing {} takes more than {} s", path_, kLimit.count()));
  }
  QUARRY_TRY(result_);
  return longest_;
}

Status StallMeter::WriteOnce(int fd, const void* bytes, uint64_t block) {
  const auto began = Clock::now();
  if (pwrite(fd, bytes, kBlock, static_cast<off_t>(block * kBlock)) != static_cast<ssize_t>(kBlock)) {
    return ErrnoError("writing " + path_);
  }
  const std::chrono::duration<double, std::milli> took = Clock::now() - began;
  const std::lock_guard lock(mutex_);
  longest_ = std::max(longest_, took.count());
  ++writes_;
  ended_.notify_all();
  return Ok();
}

void StallMeter::Write(const std::stop_token& stop) {
  const UniqueFd fd(open(path_.c_str(), O_WRONLY | O_DSYNC | O_CLOEXEC));
  Status done = fd.valid() ? BypassPageCache(fd.get()) : Status(ErrnoError("opening " + path_));
  const DirectBuffer bytes = MakeDirectBuffer(kBlock);
  std::fill_n(reinterpret_cast<char*>(bytes.get()), kBlock, 'q');
  std::minstd_rand places(1);
  while (done.has_value() && !stop.stop_requested()) {
    done = WriteOnce(fd.get(), bytes.get(), places() % blocks_);
    std::this_thread::sleep_for(kPause);
  }
  const std::lock_guard lock(mutex_);
  result_ = done;
  ended_.notify_all();
}

}  // namespace quarry::bench
