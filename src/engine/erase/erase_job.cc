#include "engine/erase/erase_job.h"

#include <algorithm>
#include <charconv>
#include <map>

#include <fmt/format.h>

namespace quarry::engine {
namespace {

// FNV-1a. It only has to distinguish the layouts of one volume.
std::string DigestOf(const std::vector<DiskPart>& parts) {
  uint64_t digest = 0xCBF29CE484222325;
  const auto add = [&](std::string_view text) {
    for (const char c : text) {
      digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001B3;
    }
  };
  for (const DiskPart& part : parts) {
    add(part.pv_uuid);
    for (const EraseAction& piece : part.pieces) {
      add(fmt::format(" {}+{}", piece.range.offset.value, piece.range.length.value));
    }
  }
  return fmt::format("{:016x}", digest);
}

}  // namespace

Bytes DiskPart::total() const {
  Bytes sum;
  for (const EraseAction& piece : pieces) {
    sum = sum + piece.range.length;
  }
  return sum;
}

std::vector<DiskPart> PartsOf(const Plan& erase) {
  std::map<std::string, DiskPart> by_disk;
  for (const Action& action : erase) {
    const auto& piece = std::get<EraseAction>(action);
    DiskPart& part = by_disk[piece.range.pv_uuid];
    part.pv_uuid = piece.range.pv_uuid;
    part.device = piece.range.device;
    part.pieces.push_back(piece);
  }
  std::vector<DiskPart> parts;
  for (auto& [uuid, part] : by_disk) {
    std::ranges::sort(part.pieces, {}, [](const EraseAction& piece) { return piece.range.offset; });
    parts.push_back(std::move(part));
  }
  return parts;
}

std::string ProgressText(const std::vector<DiskPart>& parts, const std::vector<Bytes>& done) {
  std::string text = DigestOf(parts);
  for (const Bytes bytes : done) {
    text += fmt::format(":{}", bytes.value);
  }
  return text;
}

std::vector<Bytes> ParseProgress(const std::vector<DiskPart>& parts, const std::string& text) {
  const std::vector<Bytes> none(parts.size());
  std::vector<Bytes> done;
  std::string_view rest = text;
  const std::string digest = DigestOf(parts);
  if (!rest.starts_with(digest)) {
    return none;
  }
  rest.remove_prefix(digest.size());
  while (!rest.empty()) {
    uint64_t value = 0;
    const char* const end = rest.data() + rest.size();
    const auto parsed =
        rest.front() == ':' ? std::from_chars(rest.data() + 1, end, value) : std::from_chars_result{};
    if (parsed.ptr == nullptr || parsed.ec != std::errc() || done.size() == parts.size() ||
        Bytes{value} > parts[done.size()].total()) {
      return none;
    }
    done.push_back({value});
    rest.remove_prefix(static_cast<size_t>(parsed.ptr - rest.data()));
  }
  return done.size() == parts.size() ? done : none;
}

EraseJob::EraseJob(Owner owner, std::vector<lvm::PhysicalRange> extents, std::vector<DiskPart> parts,
                   std::vector<Bytes> done, SteadyTime begun)
    : owner_(std::move(owner)),
      extents_(std::move(extents)),
      parts_(std::move(parts)),
      begun_(begun),
      done_(std::move(done)),
      open_parts_(parts_.size()) {}

std::optional<EraseAction> EraseJob::Next(size_t part, Bytes most) const {
  const MutexLock lock(mutex_);
  if (error_.has_value()) {
    return std::nullopt;
  }
  Bytes before;
  for (EraseAction piece : parts_[part].pieces) {
    const Bytes end = before + piece.range.length;
    if (done_[part] < end) {
      const Bytes inside = done_[part] - before;
      piece.range.offset = piece.range.offset + inside;
      piece.range.length = std::min(piece.range.length - inside, most);
      return piece;
    }
    before = end;
  }
  return std::nullopt;
}

void EraseJob::Advance(size_t part, Bytes cleared) {
  const MutexLock lock(mutex_);
  done_[part] = done_[part] + cleared;
}

void EraseJob::Fail(Error error) {
  const MutexLock lock(mutex_);
  if (!error_.has_value()) {
    error_ = std::move(error);
  }
}

void EraseJob::Leave() {
  const MutexLock lock(mutex_);
  --open_parts_;
  left_.notify_all();
}

bool EraseJob::Finished() const {
  const MutexLock lock(mutex_);
  return open_parts_ == 0;
}

bool EraseJob::WaitFinished(const Call& call) {
  MutexLock lock(mutex_);
  const auto done = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return open_parts_ == 0; };
  return WaitUntil(left_, lock, call, done);
}

std::optional<Error> EraseJob::Failure() const {
  const MutexLock lock(mutex_);
  return error_;
}

std::vector<Bytes> EraseJob::Done() const {
  const MutexLock lock(mutex_);
  return done_;
}

}  // namespace quarry::engine
