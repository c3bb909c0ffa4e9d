#include "tests/fakes/fake_dm_thin.h"

#include "dm/thin_message.h"
#include "tests/fakes/fake_dm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace quarry::fakes {
namespace {

// Calls `piece` with each range of the file that has data.
template <typename Piece>
void ForEachPiece(int file, const Piece& piece) {
  off_t end = 0;
  while (true) {
    const off_t begin = lseek(file, end, SEEK_DATA);
    if (begin < 0) {
      return;
    }
    end = lseek(file, begin, SEEK_HOLE);
    piece(begin, end);
  }
}

// Zeroes beyond the end.
std::vector<char> ReadAt(int file, uint64_t offset, uint64_t length) {
  std::vector<char> bytes(length);
  if (pread(file, bytes.data(), length, static_cast<off_t>(offset)) < 0) {
    throw std::system_error(errno, std::generic_category(), "reading a thin device");
  }
  return bytes;
}

void CopySparse(int from, int to) {
  if (ftruncate(to, lseek(from, 0, SEEK_END)) != 0) {
    throw std::system_error(errno, std::generic_category(), "ftruncate");
  }
  ForEachPiece(from, [&](off_t begin, off_t end) {
    const auto bytes = ReadAt(from, static_cast<uint64_t>(begin), static_cast<uint64_t>(end - begin));
    if (pwrite(to, bytes.data(), bytes.size(), begin) != end - begin) {
      throw std::system_error(errno, std::generic_category(), "copying a thin device");
    }
  });
}

}  // namespace

UniqueFd MakeFakeFile(const std::string& name) {
  UniqueFd file(memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!file.valid()) {
    throw std::system_error(errno, std::generic_category(), "memfd_create");
  }
  return file;
}

int FakeThinPool::FileOf(dm::ThinId id) const {
  const auto it = thins_.find(id);
  return it == thins_.end() ? -1 : it->second.file.get();
}

std::vector<uint64_t> FakeThinPool::MappedChunks(const Thin& thin) const {
  std::set<uint64_t> chunks;
  ForEachPiece(thin.file.get(), [&](off_t begin, off_t end) {
    for (uint64_t i = static_cast<uint64_t>(begin) / chunk_.value;
         i * chunk_.value < static_cast<uint64_t>(end); ++i) {
      chunks.insert(i);
    }
  });
  return {chunks.begin(), chunks.end()};
}

bool FakeThinPool::SameBytes(const Thin& one, const Thin& other, uint64_t chunk) const {
  const uint64_t at = chunk * chunk_.value;
  return ReadAt(one.file.get(), at, chunk_.value) == ReadAt(other.file.get(), at, chunk_.value);
}

void FakeThinPool::Settle() {
  // What became of each block: with one owner it stays, and each other content of it gets a block of its own.
  std::map<uint64_t, std::vector<std::pair<const Thin*, uint64_t>>> contents;
  for (auto& [id, thin] : thins_) {
    std::map<uint64_t, uint64_t> now;
    for (const uint64_t chunk : MappedChunks(thin)) {
      const auto before = thin.blocks.find(chunk);
      const uint64_t block = before == thin.blocks.end() ? next_block_++ : before->second;
      auto& known = contents[block];
      const auto same =
          std::ranges::find_if(known, [&](const auto& one) { return SameBytes(*one.first, thin, chunk); });
      now[chunk] = same != known.end() ? same->second : known.empty() ? block : next_block_++;
      if (same == known.end()) {
        known.emplace_back(&thin, now[chunk]);
      }
    }
    thin.blocks = std::move(now);
  }
}

dm::ThinPoolStatus FakeThinPool::Status() {
  Settle();
  std::set<uint64_t> used;
  for (const auto& [id, thin] : thins_) {
    for (const auto& [chunk, block] : thin.blocks) {
      used.insert(block);
    }
  }
  dm::ThinPoolStatus status = base;
  status.data_total = data_total_;
  status.data_used = std::min<uint64_t>(used.size(), data_total_);
  if (used.size() > data_total_ && status.mode == dm::ThinPoolStatus::Mode::kReadWrite) {
    status.mode = dm::ThinPoolStatus::Mode::kOutOfDataSpace;
  }
  return status;
}

dm::ThinStatus FakeThinPool::StatusOf(dm::ThinId id) const {
  dm::ThinStatus status;
  const auto it = thins_.find(id);
  status.failed = it == thins_.end() || base.mode == dm::ThinPoolStatus::Mode::kFailed;
  if (!status.failed) {
    const auto chunks = MappedChunks(it->second);
    status.mapped = {chunks.size() * chunk_.value};
    status.mapped_end = {chunks.empty() ? 0 : (chunks.back() + 1) * chunk_.value};
  }
  return status;
}

std::vector<thin::ByteRange> FakeThinPool::Mapped(dm::ThinId id) const {
  std::vector<thin::ByteRange> out;
  const auto it = thins_.find(id);
  for (const uint64_t chunk : it == thins_.end() ? std::vector<uint64_t>() : MappedChunks(it->second)) {
    const Bytes at{chunk * chunk_.value};
    if (!out.empty() && out.back().end() == at) {
      out.back().length = out.back().length + chunk_;
    } else {
      out.push_back({at, chunk_});
    }
  }
  return out;
}

std::vector<thin::ByteRange> FakeThinPool::Exclusive(dm::ThinId id) {
  Settle();
  std::map<uint64_t, int> owners;
  for (const auto& [other, thin] : thins_) {
    for (const auto& [chunk, block] : thin.blocks) {
      ++owners[block];
    }
  }
  std::set<uint64_t> own;
  for (const auto& [chunk, block] : thins_.at(id).blocks) {
    if (owners[block] == 1) {
      own.insert(block);
    }
  }
  std::vector<thin::ByteRange> out;
  for (const uint64_t block : own) {
    const Bytes at{block * chunk_.value};
    if (!out.empty() && out.back().end() == at) {
      out.back().length = out.back().length + chunk_;
    } else {
      out.push_back({at, chunk_});
    }
  }
  return out;
}

thin::WalkedRanges FakeThinPool::Walked(std::optional<dm::ThinId> older, dm::ThinId target, Bytes from,
                                        const thin::WalkLimit& limit) {
  Settle();
  // Whether a chunk that one of them has is different.
  std::map<uint64_t, bool> chunks;
  for (const auto& [chunk, block] : thins_.at(target).blocks) {
    chunks[chunk] = true;
  }
  for (const auto& [chunk, block] :
       older.has_value() ? thins_.at(*older).blocks : std::map<uint64_t, uint64_t>()) {
    const auto now = thins_.at(target).blocks.find(chunk);
    chunks[chunk] = now == thins_.at(target).blocks.end() || now->second != block;
  }
  thin::WalkedRanges out;
  uint64_t reads = 0;
  for (auto one = chunks.lower_bound(from.value / chunk_.value); one != chunks.end(); ++one) {
    const Bytes at{one->first * chunk_.value};
    const bool adjacent = !out.ranges.empty() && out.ranges.back().end() == at;
    if (++reads > limit.reads || (one->second && !adjacent && out.ranges.size() == limit.ranges)) {
      out.end = at;
      return out;
    }
    if (one->second && adjacent) {
      out.ranges.back().length = out.ranges.back().length + chunk_;
    } else if (one->second) {
      out.ranges.push_back({at, chunk_});
    }
  }
  out.end = {UINT64_MAX};
  out.whole = true;
  return out;
}

int FakeThinPool::Create(dm::ThinId id) {
  return thins_.try_emplace(id, Thin{MakeFakeFile(fmt::format("dm:thin{}", id)), {}, time_}).second ? 0
                                                                                                    : EEXIST;
}

int FakeThinPool::Snapshot(dm::ThinId id, dm::ThinId origin) {
  if (const auto from = thins_.find(origin); from != thins_.end() && !thins_.contains(id)) {
    Settle();
    ++time_;
    Create(id);
    Thin& made = thins_.at(id);
    CopySparse(from->second.file.get(), made.file.get());
    made.blocks = from->second.blocks;
    shared_.insert({origin, id});
    return 0;
  }
  return thins_.contains(id) ? EEXIST : ENODATA;
}

int FakeThinPool::Take(const dm::PoolMessage& message, bool active) {
  if (std::holds_alternative<dm::ReserveMetadataSnap>(message)) {
    const bool held = base.held_root.has_value();
    base.held_root = base.held_root.value_or(7);
    return held ? EBUSY : 0;
  }
  if (std::holds_alternative<dm::ReleaseMetadataSnap>(message)) {
    return std::exchange(base.held_root, std::nullopt).has_value() ? 0 : EINVAL;
  }
  if (const auto* const blank = std::get_if<dm::CreateThin>(&message)) {
    return Create(blank->id);
  }
  if (const auto* const snap = std::get_if<dm::CreateSnap>(&message)) {
    return Snapshot(snap->id, snap->origin);
  }
  const dm::ThinId doomed = std::get<dm::DeleteThin>(message).id;
  if (!thins_.contains(doomed) || active) {
    return active ? EBUSY : ENODATA;
  }
  thins_.erase(doomed);
  shared_.erase(doomed);
  return 0;
}

// --- FakeDm's part.

namespace {

const std::string kPoolLayer = "-tpool";

std::string WithoutLayer(const std::string& uuid) {
  return uuid.ends_with(kPoolLayer) ? uuid.substr(0, uuid.size() - kPoolLayer.size()) : uuid;
}

Error NotActive(const std::string& uuid) {
  return {Code::kNotFound, fmt::format("device {} is not active", uuid)};
}

}  // namespace

std::optional<std::string> FakeDm::PoolDevice(const std::string& uuid) const {
  const std::string device = uuid + kPoolLayer;
  return pools_.contains(uuid) && devices_.contains(device) ? std::optional(device) : std::nullopt;
}

std::optional<dm::ThinPoolStatus> FakeDm::PoolStatus(const std::string& uuid) {
  // As the kernel, this takes the UUID of the layer, too.
  const std::string pool = WithoutLayer(uuid);
  const auto device = PoolDevice(pool);
  if (!device.has_value() || !devices_.at(*device).device.has_table) {
    return std::nullopt;
  }
  dm::ThinPoolStatus status = pools_.at(pool).Status();
  status.uuid = *device;
  status.name = devices_.at(*device).device.name;
  return status;
}

uint32_t FakeDm::ActiveThins(const std::string& uuid) const {
  const std::string pool = WithoutLayer(uuid);
  if (PoolDevice(pool) != uuid) {
    return 0;
  }
  return static_cast<uint32_t>(std::ranges::count_if(devices_, [&](const auto& device) {
    return device.second.thin.has_value() && device.second.thin->first == pool;
  }));
}

FakeDm::State* FakeDm::ActiveThin(const std::string& pool, dm::ThinId id) {
  for (auto& [uuid, state] : devices_) {
    if (state.thin == std::pair(pool, id)) {
      return &state;
    }
  }
  return nullptr;
}

void FakeDm::AddThinPool(const std::string& uuid, const std::string& name, Bytes chunk, uint64_t data_chunks,
                         bool has_volumes) {
  AddDevice(uuid + kPoolLayer, has_volumes ? name + kPoolLayer : name, {chunk.value * data_chunks});
  const std::lock_guard lock(mutex_);
  pools_.try_emplace(uuid, chunk, data_chunks).first->second.SetDataChunks(data_chunks);
}

void FakeDm::ChangeThins(const std::string& uuid, Bytes chunk, const std::set<dm::ThinId>& before,
                         const std::set<dm::ThinId>& now, uint64_t transaction_id) {
  const std::lock_guard lock(mutex_);
  FakeThinPool& pool = pools_.try_emplace(uuid, chunk, 0).first->second;
  const bool sends = std::exchange(pool.base.transaction_id, transaction_id) != transaction_id;
  for (const dm::ThinId id : now) {
    if (!before.contains(id)) {
      (void)pool.Take(dm::CreateThin{id}, false);  // as LVM, this takes a device that is there
    }
  }
  for (const dm::ThinId id : before) {
    if (sends && !now.contains(id)) {
      (void)pool.Take(dm::DeleteThin{id}, false);
    }
  }
}

void FakeDm::SetThinMetadata(const std::string& pool, const std::string& metadata_uuid) {
  const std::lock_guard lock(mutex_);
  thin_metadata_[metadata_uuid] = pool;
}

Result<FakeThinPool*> FakeDm::ReservedPool(const std::string& metadata) {
  for (const auto& [uuid, pool] : thin_metadata_) {
    const auto device = devices_.find(uuid);
    if (device == devices_.end() || device->second.device.Node() != metadata) {
      continue;
    }
    FakeThinPool& found = pools_.at(pool);
    return found.base.held_root.has_value() ? Result<FakeThinPool*>(&found)
                                            : Error(Code::kPrecondition, "no metadata snapshot is reserved");
  }
  return Error(Code::kUnavailable, fmt::format("{} is no metadata of a pool", metadata));
}

Result<std::optional<Bytes>> FakeDm::BytesOfThin(const std::string& metadata, dm::ThinId id) {
  const std::lock_guard lock(mutex_);
  QUARRY_ASSIGN(const FakeThinPool* const pool, ReservedPool(metadata));
  return pool->FileOf(id) >= 0 ? std::optional(pool->StatusOf(id).mapped) : std::nullopt;
}

Result<uint64_t> FakeDm::CreationTimeOfThin(const std::string& metadata, dm::ThinId id) {
  const std::lock_guard lock(mutex_);
  QUARRY_ASSIGN(const FakeThinPool* const pool, ReservedPool(metadata));
  return pool->FileOf(id) >= 0 ? Result<uint64_t>(pool->CreationTime(id))
                               : Error(Code::kNotFound, fmt::format("no thin device {}", id));
}

Result<thin::OwnRanges> FakeDm::ExclusiveOfThin(const std::string& metadata, dm::ThinId id, Bytes from,
                                                size_t most) {
  const std::lock_guard lock(mutex_);
  QUARRY_ASSIGN(FakeThinPool* const pool, ReservedPool(metadata));
  if (pool->FileOf(id) < 0) {
    return Error(Code::kNotFound, fmt::format("no thin device {}", id));
  }
  thin::OwnRanges out{.ranges = pool->Exclusive(id), .whole = true};
  std::erase_if(out.ranges, [&](const thin::ByteRange& range) { return range.offset < from; });
  if (out.ranges.size() > most) {
    out.ranges.resize(most);
    out.whole = false;
  }
  return out;
}

Result<thin::MappedRanges> FakeDm::MappedOfThin(const std::string& metadata, dm::ThinId id, Bytes from,
                                                size_t most) {
  const std::lock_guard lock(mutex_);
  QUARRY_ASSIGN(const FakeThinPool* const pool, ReservedPool(metadata));
  if (pool->FileOf(id) < 0) {
    return Error(Code::kNotFound, fmt::format("no thin device {}", id));
  }
  thin::MappedRanges out{.ranges = pool->Mapped(id), .whole = true, .was_shared = pool->WasShared(id)};
  std::erase_if(out.ranges, [&](const thin::ByteRange& range) { return range.end() <= from; });
  if (!out.ranges.empty() && out.ranges.front().offset < from) {
    out.ranges.front() = {from, out.ranges.front().end() - from};
  }
  if (out.ranges.size() > most) {
    out.ranges.resize(most);
    out.whole = false;
  }
  out.end = out.ranges.empty() ? from : out.ranges.back().end();
  return out;
}

Result<thin::WalkedRanges> FakeDm::AllocatedOfThin(const std::string& metadata, dm::ThinId id, Bytes from,
                                                   const thin::WalkLimit& limit) {
  const std::lock_guard lock(mutex_);
  QUARRY_ASSIGN(FakeThinPool* const pool, ReservedPool(metadata));
  if (pool->FileOf(id) < 0) {
    return Error(Code::kNotFound, fmt::format("no thin device {}", id));
  }
  return pool->Walked(std::nullopt, id, from, limit);
}

Result<thin::WalkedRanges> FakeDm::DifferenceOfThins(const std::string& metadata, dm::ThinId base,
                                                     dm::ThinId target, Bytes from,
                                                     const thin::WalkLimit& limit) {
  const std::lock_guard lock(mutex_);
  QUARRY_ASSIGN(FakeThinPool* const pool, ReservedPool(metadata));
  for (const dm::ThinId id : {base, target}) {
    if (pool->FileOf(id) < 0) {
      return Error(Code::kNotFound, fmt::format("no thin device {}", id));
    }
  }
  return pool->Walked(base, target, from, limit);
}

Status FakeDm::AddThin(const std::string& uuid, const std::string& name, const std::string& pool,
                       dm::ThinId id, Bytes size, bool read_only) {
  const std::lock_guard lock(mutex_);
  const auto known = pools_.find(pool);
  const int file = known == pools_.end() ? -1 : known->second.FileOf(id);
  if (file < 0 || !PoolDevice(pool).has_value()) {
    return Error(Code::kNotFound, fmt::format("pool {} has no thin device {}, or is not active", pool, id));
  }
  auto it = devices_.find(uuid);
  if (it == devices_.end()) {
    it = devices_.emplace(uuid, NewState(uuid, name, UniqueFd(fcntl(file, F_DUPFD_CLOEXEC, 0)))).first;
  }
  it->second.thin = {pool, id};
  it->second.Resize(size);
  it->second.device.read_only = read_only;
  it->second.device.suspended = false;
  it->second.device.has_table = true;
  return Ok();
}

void FakeDm::ChangeThinPool(const std::string& uuid, const std::function<void(dm::ThinPoolStatus&)>& change) {
  const std::lock_guard lock(mutex_);
  change(pools_.at(uuid).base);
}

Result<std::optional<dm::ThinPoolStatus>> FakeDm::ThinPool(const std::string& uuid) {
  QUARRY_TRY(faults.Check("ThinPool"));
  const std::lock_guard lock(mutex_);
  return PoolStatus(uuid);
}

Result<std::optional<dm::ThinStatus>> FakeDm::Thin(const std::string& uuid) {
  QUARRY_TRY(faults.Check("Thin"));
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(uuid);
  if (it == devices_.end() || !it->second.device.has_table) {
    return std::optional<dm::ThinStatus>();
  }
  const auto& thin = it->second.thin;
  return thin.has_value() ? std::optional(pools_.at(thin->first).StatusOf(thin->second)) : std::nullopt;
}

Status FakeDm::SendToPool(const std::string& uuid, const dm::PoolMessage& message) {
  QUARRY_TRY(faults.Check("SendToPool"));
  const std::lock_guard lock(mutex_);
  const auto status = PoolStatus(uuid);
  if (!status.has_value()) {
    return NoActivePool(message, uuid);
  }
  QUARRY_TRY(MaySend(message, *status));
  if (devices_.at(status->uuid).device.suspended) {
    return PoolIsSuspended(message, *status);
  }
  const std::string pool = WithoutLayer(uuid);
  if (const auto* const snap = std::get_if<dm::CreateSnap>(&message)) {
    const State* const origin = ActiveThin(pool, snap->origin);
    if (origin != nullptr && !origin->device.suspended) {
      return Error(Code::kInternal, fmt::format("'{}', but {} is not suspended: this would be no instant",
                                                Text(message), origin->device.name));
    }
  }
  const auto* const doomed = std::get_if<dm::DeleteThin>(&message);
  const int refused =
      pools_.at(pool).Take(message, doomed != nullptr && ActiveThin(pool, doomed->id) != nullptr);
  return refused == 0 ? Ok() : Status(Refusal(message, *status, refused));
}

Status FakeDm::Suspend(const std::string& uuid, dm::FileSystemLock /*lock*/) {
  QUARRY_TRY(faults.Check("Suspend"));
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(uuid);
  if (it == devices_.end()) {
    return NotActive(uuid);
  }
  it->second.device.suspended = true;
  return Ok();
}

Status FakeDm::Resume(const std::string& uuid) {
  QUARRY_TRY(faults.Check("Resume"));
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(uuid);
  if (it == devices_.end()) {
    return NotActive(uuid);
  }
  it->second.device.suspended = false;
  it->second.device.waiting_table = false;
  return Ok();
}

Status FakeDm::DropWaitingTable(const std::string& uuid) {
  QUARRY_TRY(faults.Check("DropWaitingTable"));
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(uuid);
  if (it == devices_.end()) {
    return NotActive(uuid);
  }
  it->second.device.waiting_table = false;
  return Ok();
}

}  // namespace quarry::fakes
