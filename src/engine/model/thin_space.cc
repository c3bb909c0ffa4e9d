#include "engine/model/thin_space.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/model/greatest.h"
#include "lvm/layout.h"

namespace quarry::engine {
namespace {

constexpr Bytes kBlock{4096};
// Entries that a node of a tree has at least: the kernel joins nodes that have less than a third
// (drivers/md/persistent-data/dm-btree-remove.c). Mappings and roots have values of 8 bytes, details 24.
constexpr uint64_t kLeastMappings = 84;
constexpr uint64_t kLeastDetails = 42;
// Values of 4 bytes: numbers of owners that a bitmap has no room for.
constexpr uint64_t kLeastCounts = 112;
// Blocks that one bitmap counts: 2 bits each, behind a header of 16 bytes (dm-space-map-common.h).
constexpr uint64_t kCounted = (4096 - 16) * 4;
// The present blocks, those of the metadata snapshot, and those that the present transaction will replace.
constexpr uint64_t kCopies = 3;
// Superblock, indexes, roots, and the kernel's reserve.
constexpr uint64_t kFixed = 256;
// THIN_METADATA_MAX_SECTORS (drivers/md/dm-thin-metadata.h).
constexpr uint64_t kMostBlocks = 255ULL * ((1ULL << 14) - 64);
constexpr Bytes kUsualVolume{64 * kMiB.value};
constexpr uint64_t kLeastVolumes = 64;
constexpr uint64_t kMostVolumes = 16384;
// As many as the kernel can always have on their way (MAPPING_POOL_SIZE in drivers/md/dm-thin.c).
constexpr uint64_t kMostCopies = 1024;

uint64_t Ceil(uint64_t number, uint64_t by) {
  return (number + by - 1) / by;
}

// All nodes of a tree with this many entries.
uint64_t Tree(uint64_t entries, uint64_t least_per_node) {
  uint64_t level = Ceil(entries, least_per_node) + 1;
  uint64_t sum = level;
  while (level > 2) {
    level = Ceil(level, kLeastMappings) + 1;
    sum += level;
  }
  return sum + 1;
}

uint64_t Blocks(uint64_t mappings, uint64_t volumes, uint64_t data) {
  const uint64_t bitmaps = Ceil(data, kCounted);
  // A block with three owners or more, the held metadata among them, has two mappings at least.
  const uint64_t counts = Tree(data / 2, kLeastCounts);
  const uint64_t counted = mappings + Tree(volumes, kLeastMappings) + Tree(volumes, kLeastDetails) + bitmaps +
                           Tree(bitmaps, kLeastMappings) + counts;
  const uint64_t all = kCopies * counted + kFixed;
  return all + kCopies * (Ceil(all, kCounted) + Tree(all, kLeastCounts));
}

uint64_t ChunksIn(Bytes size, Bytes chunk) {
  return Ceil(size.value, chunk.value);
}

// What is in a store, but for one volume.
struct Content {
  Bytes promised;              // that volume too
  std::vector<uint64_t> each;  // chunks of every volume and snapshot, whoever made it
  uint64_t writable = 0;       // chunks of those that are not snapshots of Quarry's, together
};
Content ContentOf(const Catalog& catalog, const Store& store, const Record* except) {
  std::unordered_map<const lvm::LogicalVolume*, Bytes> snapshots;
  for (const Record& record : catalog.records) {
    if (IsThinSnapshot(record)) {
      snapshots.emplace(record.lv, record.tags.mapped);
    }
  }
  const Bytes extent = catalog.group->extent_size;
  Content out;
  for (const lvm::LogicalVolume& lv : catalog.group->lvs) {
    if (lv.pool != store.lv->name) {
      continue;
    }
    const auto snapshot = snapshots.find(&lv);
    const Bytes bytes = snapshot == snapshots.end() ? lv.size : snapshot->second;
    out.promised = out.promised + ToBytes(CeilToExtents(bytes, extent), extent);
    if (except == nullptr || except->lv != &lv) {
      out.each.push_back(ChunksIn(bytes, store.chunk()));
      out.writable += snapshot == snapshots.end() ? out.each.back() : 0;
    }
  }
  return out;
}

}  // namespace

uint64_t MetadataBlocks(const std::vector<uint64_t>& volumes, uint64_t data) {
  uint64_t mappings = 0;
  for (const uint64_t chunks : volumes) {
    mappings += Tree(chunks, kLeastMappings);
  }
  return Blocks(mappings, volumes.size(), data);
}

Result<Bytes> MetadataSize(Bytes data, Bytes chunk) {
  const uint64_t chunks = ChunksIn(data, chunk);
  const uint64_t volumes = std::clamp(Ceil(data.value, kUsualVolume.value), kLeastVolumes, kMostVolumes);
  const uint64_t each = Tree(Ceil(chunks, volumes), kLeastMappings);
  const uint64_t blocks = Blocks(volumes * each, volumes, chunks);
  if (blocks > kMostBlocks) {
    return Error(
        Code::kInvalidArgument,
        fmt::format("a thin store of {} has too many chunks of {} for its metadata, which the kernel limits "
                    "to {}: give it larger chunks, or make several stores",
                    HumanBytes(data), HumanBytes(chunk), HumanBytes({kMostBlocks * kBlock.value})));
  }
  return Bytes{blocks * kBlock.value};
}

StoreConfig RulesOf(const PoolConfig& pool, const Store& store) {
  const auto found = std::ranges::find(pool.stores, store.name(), &StoreConfig::name);
  return found != pool.stores.end() ? *found
                                    : StoreConfig{.name = store.name(),
                                                  .size = store.data->size,
                                                  .geometry = *lvm::Geometry::Make({}),
                                                  .chunk = store.chunk()};
}

StoreTerms TermsOf(const Store& store, const PoolConfig& pool) {
  return {.data = store.data->size,
          .metadata = store.metadata->size,
          .overcommit = RulesOf(pool, store).overcommit};
}

bool Overcommits(const Catalog& catalog, const PoolConfig& pool, const Store& store) {
  const StoreTerms terms = TermsOf(store, pool);
  return terms.overcommit > 100 || ContentOf(catalog, store, nullptr).promised > terms.data;
}

bool WasCut(const Catalog& catalog, const Store& store) {
  return std::ranges::any_of(catalog.group->lvs, [&](const lvm::LogicalVolume& lv) {
    // What LVM's commands make may be snapshots.
    return lv.pool == store.lv->name && (store.tags.cuts || !lvm::IsOurLvName(lv.name));
  });
}

StoreSpace SpaceOf(const Catalog& catalog, const Store& store, const StoreTerms& terms, const Record* grows,
                   Addition what, size_t count) {
  const Bytes extent = catalog.group->extent_size;
  const Bytes chunk = store.chunk();
  Content content = ContentOf(catalog, store, grows);
  StoreSpace out{.data = terms.data, .promised = content.promised};
  const Bytes promisable = terms.promisable();
  const uint64_t data = ChunksIn(out.data, chunk);
  const uint64_t blocks = terms.metadata.value / kBlock.value;
  const Bytes own = grows == nullptr ? Bytes{} : grows->lv->size;
  const bool is_cut = WasCut(catalog, store) || what != Addition::kBlank;
  const auto margin = [&](uint64_t writable) {
    return is_cut ? Bytes{std::min(writable, kMostCopies) * chunk.value} : Bytes{};
  };
  const size_t others = content.each.size();
  const auto fits = [&](uint64_t extents) {
    const Bytes added = ToBytes({extents}, extent);
    content.each.resize(others);
    const uint64_t chunks = ChunksIn(own + added, chunk);
    content.each.push_back(chunks);
    content.each.resize(others + count, 1);  // each has a tree of its own
    const uint64_t writable = content.writable + (what == Addition::kSnapshots ? 0 : chunks);
    return out.promised + added + margin(writable) <= promisable &&
           MetadataBlocks(content.each, data) <= blocks;
  };
  out.margin = margin(content.writable + ChunksIn(own, chunk));
  const Bytes taken = out.promised + out.margin;
  const Bytes free = promisable - std::min(promisable, taken);
  const uint64_t most = Greatest(free.value / extent.value, fits);
  const std::string blocked = lvm::FreeSpaceOf(*catalog.group).blocked;
  if (!blocked.empty()) {
    out.blocked = true;
    out.why = blocked;
    return out;
  }
  if (extent.value % chunk.value != 0) {
    out.why = fmt::format("the extents of volume group {} have {}, and thin store '{}' needs multiples of {}",
                          catalog.group->name, HumanBytes(extent), store.name(), HumanBytes(chunk));
    return out;
  }
  out.largest = ToBytes({most}, extent);
  if (most == 0) {
    const std::string whole =
        fmt::format("thin store '{}' has {}{}", store.name(), HumanBytes(out.data),
                    terms.overcommit > 100 ? fmt::format(" and may promise {}", HumanBytes(promisable)) : "");
    out.why =
        free < extent
            ? (out.margin > Bytes{}
                   ? fmt::format("{}: its volumes and snapshots have {}, and {} are set aside for copies of "
                                 "chunks that they share",
                                 whole, HumanBytes(out.promised), HumanBytes(out.margin))
                   : fmt::format("{}, and its volumes have all of it", whole))
            : fmt::format(
                  "the metadata of thin store '{}' have no room for the mappings of {} volumes: delete "
                  "some, or make fewer and larger ones",
                  store.name(), others + count);
  }
  return out;
}

Result<const Store*> FindStore(const Catalog& catalog, const PoolConfig& pool, const Profile& profile) {
  std::vector<std::string> names;
  for (const Store& store : catalog.stores) {
    names.push_back(store.name());
  }
  for (const StoreConfig& wanted : pool.stores) {
    if (std::ranges::find(names, wanted.name) == names.end()) {
      names.push_back(wanted.name);
    }
  }
  std::ranges::sort(names);
  if (names.empty()) {
    return Error(Code::kInvalidArgument,
                 fmt::format("parameters['type']: pool '{}' has no thin store; its configuration makes one "
                             "(store.NAME)",
                             pool.name));
  }
  if (profile.store.empty() && names.size() > 1) {
    return Error(Code::kInvalidArgument,
                 fmt::format("parameters['store']: pool '{}' has several thin stores: name one of {}",
                             pool.name, fmt::join(names, ", ")));
  }
  const std::string& name = profile.store.empty() ? names.front() : profile.store;
  const auto found = std::ranges::find(catalog.stores, name, [](const Store& store) { return store.name(); });
  if (found != catalog.stores.end()) {
    return &*found;
  }
  if (std::ranges::find(names, name) != names.end()) {
    return Error(
        Code::kUnavailable,
        fmt::format("thin store '{}' of pool '{}' is not made yet: the log says why", name, pool.name));
  }
  return Error(Code::kInvalidArgument,
               fmt::format("parameters['store']: pool '{}' has no thin store '{}', but {}", pool.name, name,
                           fmt::join(names, ", ")));
}

}  // namespace quarry::engine
