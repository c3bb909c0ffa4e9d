#include "engine/plan/device_copy.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/direct_io.h"

namespace quarry::engine {
namespace {

constexpr size_t kPiece = 1 << 20;
// So many pieces that differ in a row end the comparison (DeviceCopy::compare).
constexpr int kHopeless = 64;
constexpr char kWhat[] = "copying a volume";

// OK if the whole piece was transferred. `which`: for the error.
Status Whole(Result<size_t> transferred, size_t size, std::string_view which) {
  const std::string context = fmt::format("{}: the {}", kWhat, which);
  QUARRY_ASSIGN(const size_t bytes, std::move(transferred).Context(context));
  return bytes == size ? Ok() : Status(Error(Code::kIo, context + " ends too early"));
}

bool IsZero(std::span<const std::byte> piece) {
  // The first byte is zero, and each byte is equal to the next one.
  return piece.front() == std::byte{} && std::memcmp(piece.data(), piece.data() + 1, piece.size() - 1) == 0;
}

// Waits until the piece has taken as long as `rate` demands. What a stalled disk has lost is not caught up.
void Pace(Bytes piece, Bytes rate, SteadyTime begun, const Call& call) {
  if (rate.value == 0) {
    return;
  }
  const auto due = begun + std::chrono::duration_cast<SteadyTime::duration>(std::chrono::duration<double>(
                               static_cast<double>(piece.value) / static_cast<double>(rate.value)));
  const auto now = std::chrono::steady_clock::now();
  if (now < due) {
    Sleep(call.stop, std::chrono::ceil<std::chrono::milliseconds>(due - now));
  }
}

bool IsSame(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

Status CopyDevice(const DeviceCopy& copy, const Call& call, const std::function<void(Bytes)>& progress) {
  const DirectBuffer buffer = MakeDirectBuffer(kPiece);
  const DirectBuffer other = copy.compare ? MakeDirectBuffer(kPiece) : nullptr;
  if (buffer == nullptr || (copy.compare && other == nullptr)) {
    return Error(Code::kUnavailable, fmt::format("{}: out of memory", kWhat));
  }
  QUARRY_TRY(BypassPageCache(copy.from).Context(kWhat));
  QUARRY_TRY(BypassPageCache(copy.to).Context(kWhat));
  int different = 0;  // pieces in a row
  for (Bytes done; done < copy.length;) {
    QUARRY_TRY(call.Check(kWhat));
    const SteadyTime begun = std::chrono::steady_clock::now();
    const size_t size = std::min<uint64_t>(kPiece, (copy.length - done).value);
    const std::span<std::byte> piece(buffer.get(), size);
    QUARRY_TRY(Whole(ReadWhole(copy.from, piece, done.value), size, "source"));
    bool there = copy.to_is_zero && IsZero(piece);
    if (copy.compare && different < kHopeless) {
      const std::span<std::byte> has(other.get(), size);
      QUARRY_TRY(Whole(ReadWhole(copy.to, has, done.value), size, "copy"));
      there = IsSame(piece, has);
      different = there ? 0 : different + 1;
    }
    if (!there) {
      QUARRY_TRY(Whole(WriteWhole(copy.to, piece, done.value), size, "copy"));
    }
    done = done + Bytes{size};
    if (progress) {
      progress(done);
    }
    Pace(copy.compare && there ? Bytes{size / 4} : Bytes{size}, copy.rate, begun, call);
  }
  if (fsync(copy.to) != 0) {
    return ErrnoError(fmt::format("{}: flushing the copy", kWhat));
  }
  return Ok();
}

}  // namespace quarry::engine
