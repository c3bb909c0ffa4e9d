#include "tests/fakes/fake_erase.h"

#include <fcntl.h>

#include <algorithm>

#include <fmt/format.h>

namespace quarry::fakes {

void FakeErase::AddPv(const std::string& device, const std::string& pv_uuid) {
  const std::lock_guard lock(mutex_);
  labels_[device] = pv_uuid;
}

void FakeErase::SetCanDiscard(bool can) {
  const std::lock_guard lock(mutex_);
  can_discard_ = can;
}

void FakeErase::OnPiece(std::function<void(const Piece&)> hook) {
  const std::lock_guard lock(mutex_);
  hook_ = std::move(hook);
}

std::vector<FakeErase::Piece> FakeErase::Pieces() const {
  const std::lock_guard lock(mutex_);
  return pieces_;
}

void FakeErase::Forget() {
  const std::lock_guard lock(mutex_);
  pieces_.clear();
}

bool FakeErase::IsZeroed(const std::string& pv_uuid, Bytes offset, Bytes length) const {
  const std::lock_guard lock(mutex_);
  std::vector<Piece> ours;
  std::copy_if(pieces_.begin(), pieces_.end(), std::back_inserter(ours), [&](const Piece& piece) {
    return piece.pv_uuid == pv_uuid && piece.method == dm::EraseMethod::kZero;
  });
  std::sort(ours.begin(), ours.end(), [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  Bytes reached = offset;
  for (const Piece& piece : ours) {
    if (piece.offset <= reached) {
      reached = std::max(reached, piece.offset + piece.length);
    }
  }
  return reached >= offset + length;
}

Status FakeErase::CheckDevice(const dm::EraseRange& range, dm::EraseMethod method) const {
  const std::lock_guard lock(mutex_);
  if (!labels_.empty()) {
    const auto it = labels_.find(range.device);
    if (it == labels_.end()) {
      return Error(Code::kNotFound, fmt::format("no device {}", range.device));
    }
    if (it->second != range.pv_uuid) {
      return Error(Code::kCorrupt, fmt::format("{} is PV {}, not {}: nothing was erased", range.device,
                                               it->second, range.pv_uuid));
    }
  }
  if (method == dm::EraseMethod::kDiscard && !can_discard_) {
    return Error(Code::kUnsupported, fmt::format("{} cannot discard", range.device));
  }
  return Ok();
}

Status FakeErase::Erase(const dm::EraseRange& range, dm::EraseMethod method, const Call& call,
                        const std::function<void(Bytes)>& progress) {
  QUARRY_TRY(faults.Check("Erase"));
  QUARRY_TRY(CheckDevice(range, method));
  for (Bytes done; done < range.length;) {
    QUARRY_TRY(call.Check("erasing"));
    QUARRY_TRY(faults.Check("Piece"));
    const Piece piece{range.pv_uuid, range.offset + done, std::min(kGiB, range.length - done), method};
    std::function<void(const Piece&)> hook;
    {
      const std::lock_guard lock(mutex_);
      pieces_.push_back(piece);
      hook = hook_;
    }
    done = done + piece.length;
    if (hook) {
      hook(piece);
    }
    if (progress) {
      progress(done);
    }
  }
  return Ok();
}

Status FakeErase::Zero(int fd, const std::vector<dm::OpenRange>& ranges, const Call& call) {
  QUARRY_TRY(call.Check("erasing"));
  QUARRY_TRY(faults.Check("Zero"));
  for (const dm::OpenRange& range : ranges) {
    const std::vector<char> zeroes(range.length.value);
    const auto written = pwrite(fd, zeroes.data(), zeroes.size(), static_cast<off_t>(range.offset.value));
    if (written != static_cast<ssize_t>(zeroes.size())) {
      return ErrnoError("erasing in a thin store");
    }
  }
  return Ok();
}

Status FakeErase::ZeroAndFree(int fd, int data, Bytes offset, Bytes length, const Call& call) {
  QUARRY_TRY(call.Check("erasing"));
  QUARRY_TRY(faults.Check("ZeroAndFree"));
  if (fcntl(data, F_GETFD) < 0) {
    return ErrnoError("flushing a thin store");
  }
  const int failed = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               static_cast<off_t>(offset.value), static_cast<off_t>(length.value));
  return failed == 0 ? Ok() : Status(ErrnoError("erasing a thin volume"));
}

}  // namespace quarry::fakes
