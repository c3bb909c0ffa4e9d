#include "lvm/fresh/metadata_header_reader.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/direct_io.h"
#include "base/mutex.h"
#include "base/scsi_recovery.h"
#include "base/unique_fd.h"
#include "lvm/read/metadata_header_aio.h"
#include "lvm/read/metadata_text.h"

// From <linux/fs.h> since Linux 5.15.
#ifndef BLKGETDISKSEQ
#define BLKGETDISKSEQ _IOR(0x12, 128, __u64)
#endif

namespace quarry::lvm {
namespace {

using std::chrono::milliseconds;

// The label's sectors and the header of an area at 4096, where LVM places the first area.
constexpr size_t kFrontSize = 8192;
// A header may be read while it is being written. A disk changes a sector at once; a loop device may not.
constexpr int kAttempts = 3;
constexpr milliseconds kBetweenAttempts{1};
// A read that fails once does not prove that the disk is lost.
constexpr milliseconds kBetweenFailures{50};

constexpr size_t kTextChunk = size_t{1} << 20;
// More than any metadata area in use holds. The limit keeps a hostile header from causing the read of a whole
// disk.
constexpr uint64_t kMaxText = uint64_t{256} << 20;

// One device while it is being read.
struct Target {
  UniqueFd fd;
  PvState state;
  int failure = 0;  // errno
};

// The key of a device for IsSilent(); for a file (tests, images) its inode.
uint64_t Identity(const struct stat& status) {
  return S_ISBLK(status.st_mode) ? status.st_rdev : status.st_ino;
}

bool MeansAbsent(int error) {
  return error == ENOENT || error == ENOTDIR || error == ENXIO || error == ENODEV || error == ENOMEDIUM;
}

// Whether the last attempt to read the disk failed with a disk error.
bool Failed(const Target& target) {
  return target.state.kind == PvState::Kind::kUnreadable && IsDiskError(target.state.error);
}

void Fail(Target& target, int error) {
  target.fd.Reset();
  target.failure = error;
  target.state = PvState{};
  if (MeansAbsent(error)) {
    target.state.kind = PvState::Kind::kAbsent;
  } else if (error == ETIMEDOUT) {
    target.state.kind = PvState::Kind::kSilent;
  } else {
    target.state.kind = PvState::Kind::kUnreadable;
    target.state.error = error;
  }
}

bool IsDamaged(const PvState& state) {
  return state.kind == PvState::Kind::kDamaged ||
         std::any_of(state.areas.begin(), state.areas.end(),
                     [](const AreaState& area) { return area.damaged; });
}

void ParseArea(AreaState& area, std::span<const std::byte> block) {
  auto header = ParseMetadataHeader(block, area.area);
  area.damaged = !header.has_value();
  area.damage = area.damaged ? Checksum(block) : 0;
  if (header.has_value()) {
    area.ignored = header->ignored;
    area.committed = header->committed;
  }
}

void ParseFront(PvState& state, std::span<const std::byte> front) {
  state.areas.clear();
  state.uuid.clear();
  auto label = ParseLabel(front);
  if (!label.has_value()) {
    state.kind = label.error().code() == Code::kNotFound ? PvState::Kind::kNoPv : PvState::Kind::kDamaged;
    return;
  }
  state.kind = PvState::Kind::kPv;
  state.uuid = std::move(label->uuid);
  for (const DiskArea& area : label->metadata_areas) {
    state.areas.emplace_back().area = area;
  }
}

PvFacts::Kind KindOf(PvState::Kind kind) {
  switch (kind) {
    case PvState::Kind::kPv:
      return PvFacts::Kind::kPv;
    case PvState::Kind::kNoPv:
      return PvFacts::Kind::kNoPv;
    case PvState::Kind::kDamaged:
      return PvFacts::Kind::kDamaged;
    case PvState::Kind::kSilent:
      return PvFacts::Kind::kSilent;
    case PvState::Kind::kAbsent:
    case PvState::Kind::kUnreadable:
      return PvFacts::Kind::kUnreadable;
  }
  return PvFacts::Kind::kUnreadable;
}

// If the text cannot be read, the group stays unknown. The important fact is that the disk is a PV.
void FindGroup(HeaderSource& headers, const std::string& device, const PvState& state, const Call& call,
               PvFacts& facts) {
  for (const AreaState& area : state.areas) {
    if (!area.HoldsText()) {
      continue;
    }
    const auto text = headers.ReadText(device, area.area, *area.committed, call);
    const auto group = text.has_value() ? ParseGroupMembers(*text) : Result<GroupMembers>(text.error());
    if (group.has_value()) {
      facts.group = group->name;
      facts.group_uuid = group->uuid;
      return;
    }
  }
}

}  // namespace

bool IsDiskError(int error) {
  return error == EIO || error == ENODATA || error == EREMOTEIO || error == ENOLINK || error == EILSEQ;
}

class HeaderReader::Pool {
 public:
  explicit Pool(milliseconds patience) : patience_(patience) {}

  Target Open(const std::string& path) {
    Target target;
    struct stat status{};
    if (stat(path.c_str(), &status) != 0) {
      Fail(target, errno);
      return target;
    }
    if (!S_ISBLK(status.st_mode) && !S_ISREG(status.st_mode)) {
      Fail(target, ENOTBLK);
      return target;
    }
    if (reads_.IsSilent(Identity(status)) || IsInScsiRecovery(status.st_rdev)) {
      Fail(target, ETIMEDOUT);
      return target;
    }
    target.fd.Reset(open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOCTTY));
    if (!target.fd.valid() || fstat(target.fd.get(), &status) != 0) {
      Fail(target, errno);
      return target;
    }
    target.state.device_number = Identity(status);
    if (ioctl(target.fd.get(), BLKGETDISKSEQ, &target.state.disk_sequence) != 0) {
      target.state.disk_sequence = 0;
    }
    return target;
  }

  // Reads and parses the targets in `wanted`.
  Status ReadStates(std::span<Target> targets, const std::vector<size_t>& wanted, const Call& call) {
    std::vector<DirectRead> fronts;
    for (const size_t i : wanted) {
      fronts.push_back(ReadOf(targets[i], 0, kFrontSize));
    }
    QUARRY_TRY(reads_.Run(fronts, patience_, call));

    std::vector<DirectRead> rest;
    std::vector<std::pair<size_t, size_t>> owners;  // target, area
    for (size_t k = 0; k < wanted.size(); ++k) {
      Target& target = targets[wanted[k]];
      if (fronts[k].error != 0) {
        Fail(target, fronts[k].error);
        continue;
      }
      ParseFront(target.state, fronts[k].data);
      for (size_t a = 0; a < target.state.areas.size(); ++a) {
        const uint64_t at = target.state.areas[a].area.offset;
        if (at + kMetadataHeaderSize <= fronts[k].data.size()) {
          ParseArea(target.state.areas[a], std::span(fronts[k].data).subspan(at, kMetadataHeaderSize));
        } else {
          rest.push_back(ReadOf(target, at - at % kDirectAlignment, kDirectAlignment));
          owners.emplace_back(wanted[k], a);
        }
      }
    }
    QUARRY_TRY(reads_.Run(rest, patience_, call));
    for (size_t k = 0; k < rest.size(); ++k) {
      Target& target = targets[owners[k].first];
      FinishArea(target, owners[k].second, rest[k]);
    }
    return Ok();
  }

  static DirectRead ReadOf(const Target& target, uint64_t offset, size_t size) {
    return {.fd = target.fd.get(),
            .device = target.state.device_number,
            .offset = offset,
            .size = size,
            .error = 0,
            .data = {}};
  }

  Status Run(std::span<DirectRead> reads, const Call& call) { return reads_.Run(reads, patience_, call); }

  // Whether all attempts failed at the last read of the device.
  bool IsFailing(const std::string& path) {
    const MutexLock lock(mutex_);
    return failing_.contains(path);
  }
  void SetFailing(const std::string& path, bool failing) {
    const MutexLock lock(mutex_);
    if (failing) {
      failing_.insert(path);
    } else {
      failing_.erase(path);
    }
  }

 private:
  // Handles the read of a single area. A device that fails only there is still unreadable.
  static void FinishArea(Target& target, size_t index, const DirectRead& read) {
    if (target.state.areas.size() <= index) {
      return;  // an earlier area of this device failed
    }
    AreaState& area = target.state.areas[index];
    const size_t at = area.area.offset % kDirectAlignment;
    if (read.error != 0) {
      Fail(target, read.error);
    } else if (read.data.size() < at + kMetadataHeaderSize) {
      area.damaged = true;  // beyond the end of the device
    } else {
      ParseArea(area, std::span(read.data).subspan(at, kMetadataHeaderSize));
    }
  }

  milliseconds patience_;
  DirectReads reads_;
  Mutex mutex_;
  std::set<std::string> failing_ ABSL_GUARDED_BY(mutex_);
};

HeaderReader::HeaderReader(milliseconds patience) : pool_(std::make_unique<Pool>(patience)) {}
HeaderReader::~HeaderReader() = default;

Result<std::vector<PvState>> HeaderReader::Read(std::span<const std::string> paths, const Call& call) {
  QUARRY_TRY(call.Check("reading metadata headers"));
  std::vector<Target> targets;
  std::vector<size_t> wanted;
  for (const std::string& path : paths) {
    targets.push_back(pool_->Open(path));
    if (targets.back().fd.valid()) {
      wanted.push_back(targets.size() - 1);
    }
  }
  for (int attempt = 0; attempt < kAttempts && !wanted.empty(); ++attempt) {
    if (attempt > 0) {
      const bool failed = std::ranges::any_of(wanted, [&](size_t i) { return Failed(targets[i]); });
      std::this_thread::sleep_for(failed ? kBetweenFailures : kBetweenAttempts);
    }
    for (const size_t i : wanted) {
      if (!targets[i].fd.valid()) {
        targets[i] = pool_->Open(paths[i]);
      }
    }
    std::erase_if(wanted, [&](size_t i) { return !targets[i].fd.valid(); });
    QUARRY_TRY(pool_->ReadStates(targets, wanted, call));
    std::erase_if(wanted, [&](size_t i) {
      return !IsDamaged(targets[i].state) && (!Failed(targets[i]) || pool_->IsFailing(paths[i]));
    });
  }
  std::vector<PvState> states;
  for (size_t i = 0; i < targets.size(); ++i) {
    pool_->SetFailing(paths[i], Failed(targets[i]));
    states.push_back(std::move(targets[i].state));
  }
  return states;
}

Result<std::string> HeaderReader::ReadText(const std::string& path, DiskArea area,
                                           const RawLocation& location, const Call& call) {
  if (location.size > kMaxText) {
    return Error(Code::kCorrupt, fmt::format("{}: a metadata text of {} bytes is too long (limit 256 MiB)",
                                             path, location.size));
  }
  const std::string what = fmt::format("reading {}", path);
  std::string text;
  uint32_t checksum = kChecksumSeed;
  for (const DiskArea& piece : TextPieces(area, location)) {
    QUARRY_TRY(call.Check("reading metadata"));
    const Target target = pool_->Open(path);
    if (!target.fd.valid()) {
      return ErrnoError(what, target.failure);
    }
    const uint64_t first = piece.offset - piece.offset % kDirectAlignment;
    const uint64_t end = piece.offset + piece.size;
    std::vector<DirectRead> reads;
    for (uint64_t at = first; at < end; at += kTextChunk) {
      const uint64_t left = (end - at + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
      reads.push_back(Pool::ReadOf(target, at, static_cast<size_t>(std::min<uint64_t>(left, kTextChunk))));
    }
    QUARRY_TRY(pool_->Run(reads, call));
    const size_t from = text.size();
    uint64_t skip = piece.offset - first;
    for (const DirectRead& read : reads) {
      if (read.error != 0) {
        return ErrnoError(what, read.error);
      }
      if (read.data.size() > skip) {
        text.append(reinterpret_cast<const char*>(read.data.data()) + skip, read.data.size() - skip);
      }
      skip = 0;
    }
    text.resize(std::min<size_t>(text.size(), from + piece.size));
    checksum = Checksum(std::as_bytes(std::span(text).subspan(from)), checksum);
  }
  if (text.size() != location.size || checksum != location.checksum) {
    return Error(Code::kCorrupt, fmt::format("{}: the metadata text has a wrong checksum", path));
  }
  return text;
}

Result<std::vector<PvFacts>> HeaderPvReader::ReadPvs(const std::vector<std::string>& devices,
                                                     const Call& call) {
  QUARRY_ASSIGN(const std::vector<PvState> states, headers_.Read(devices, call));
  std::vector<PvFacts> out;
  for (size_t i = 0; i < states.size(); ++i) {
    PvFacts& facts = out.emplace_back();
    facts.kind = KindOf(states[i].kind);
    if (facts.kind == PvFacts::Kind::kPv) {
      facts.uuid = states[i].uuid;
      FindGroup(headers_, devices[i], states[i], call, facts);
    }
  }
  QUARRY_TRY(call.Check("reading labels"));
  return out;
}

}  // namespace quarry::lvm
