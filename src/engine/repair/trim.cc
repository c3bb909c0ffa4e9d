#include "engine/repair/requests.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/plan/plan_cow.h"
#include "engine/plan/plan_node.h"

namespace quarry::engine {
namespace {

// Calls for the volume wait while a piece is trimmed, so a piece must be short.
constexpr Bytes kPiece = kGiB;

bool CanTrim(const mount::MountEntry& entry) {
  return std::ranges::find(entry.super_options, "ro") == entry.super_options.end();
}

// Trims one piece if the volume is mounted and has no other operation. nullopt: there is nothing to trim,
// here or in later pieces.
Result<std::optional<Bytes>> TrimPiece(Node& node, const Record& record, Bytes from, Bytes length,
                                       const Call& call) {
  const LockKey key = LockKeyOf(record);
  const auto guard = node.locks.TryLock(key, fmt::format("trimming of {}", key.volume_id()));
  if (!guard.has_value()) {
    return std::optional(Bytes{});  // busy: a later trim does this piece
  }
  if (HasSnapshot(*record.group, *record.lv)) {
    return std::optional(Bytes{});  // so is a volume that is copied in use: the kernel takes no discards then
  }
  QUARRY_ASSIGN(const auto stack, node.StackOn(record.DmUuid()));
  if (!stack.has_value()) {
    return std::optional<Bytes>();
  }
  QUARRY_ASSIGN(const mount::MountTable mounts, node.world.mount.Mounts());
  const mount::MountEntry* entry = WholeMount({record, *stack, mounts});
  if (entry == nullptr || !CanTrim(*entry)) {
    return std::optional<Bytes>();
  }
  QUARRY_ASSIGN(const AbsolutePath path, AbsolutePath::Parse(entry->target));
  QUARRY_ASSIGN(const Bytes trimmed, node.world.mount.Trim(path, from, length, call));
  return std::optional(trimmed);
}

bool IsIn(const Catalog& catalog, const std::string& store, const Record& record) {
  const Store* const of = catalog.StoreOf(*record.lv);
  return of != nullptr && of->tags.id == store;
}

Status TrimVolume(Node& node, const Record& record, const Call& call, TrimResult& result) {
  // btrfs has its own address space, which does not end where the device ends: it is trimmed in one call.
  const Bytes piece = record.tags.fs_type == "btrfs" ? Bytes{UINT64_MAX} : kPiece;
  bool any = false;
  for (Bytes from; from < record.lv->size; from = piece < record.lv->size ? from + piece : record.lv->size) {
    QUARRY_TRY(call.Check("trimming"));
    QUARRY_ASSIGN(const auto trimmed, TrimPiece(node, record, from, piece, call));
    if (!trimmed.has_value()) {
      break;
    }
    any = true;
    result.trimmed = result.trimmed + *trimmed;
  }
  result.volumes += any ? 1 : 0;
  return Ok();
}

}  // namespace

Result<TrimResult> TrimAll(Node& node, const std::string& store, const Call& call) {
  TrimResult result;
  for (const auto& pool : node.pools) {
    std::shared_ptr<const Catalog> catalog;
    {
      QUARRY_ASSIGN(const auto pass, node.gate.Enter(call));
      auto looked = node.Look(*pool, kOthersPatience, call);
      if (!looked.has_value()) {
        QUARRY_TRY(call.Check("trimming"));
        result.failures.push_back(looked.error().message());
        continue;
      }
      catalog = std::move(*looked);
    }
    for (const Record& record : catalog->records) {
      if (record.tags.state != lvm::VolumeState::kReady || record.tags.fs_type.empty() ||
          (!store.empty() && !IsIn(*catalog, store, record))) {
        continue;
      }
      QUARRY_ASSIGN(const auto pass, node.gate.Enter(call));
      const auto done = TrimVolume(node, record, call, result);
      if (!done.has_value() && done.error().code() == Code::kCancelled) {
        return std::move(done.error());
      }
      if (!done.has_value() &&
          done.error().code() != Code::kUnsupported) {  // not every disk supports discards
        result.failures.push_back(fmt::format("{}: {}", record.tags.id, done.error().message()));
      }
    }
  }
  return result;
}

}  // namespace quarry::engine
