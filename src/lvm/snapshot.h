// A volume group as it was at one moment: plain values, read from one LVM report or from the metadata on the
// disks. A snapshot is immutable and shared by pointer to const; readers need no lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace quarry::lvm {

// `count` extents from `first`, within one PV (physical) or one LV (logical).
struct ExtentRange {
  Extents first;
  Extents count;
  auto operator<=>(const ExtentRange&) const = default;
  Extents end() const { return first + count; }
};

struct PhysicalVolume {
  std::string uuid;    // LVM's form, with hyphens
  std::string device;  // path as LVM reports it; empty if LVM sees no such device
  Bytes pe_start;      // where extent 0 begins on the device
  Extents extent_count;
  bool allocatable = true;
  // True if LVM does not see the PV. Also true if the PV returned after the group was changed without it; it
  // then has a device, and stays missing until vgextend --restoremissing.
  bool missing = false;
  std::vector<std::string> tags;
  std::vector<ExtentRange> free;  // ascending, disjoint, never adjacent
  Bytes metadata_size;            // of the metadata area; 0 if this PV has no area in use
  Bytes metadata_free;            // free space in the metadata area
  bool operator==(const PhysicalVolume&) const = default;
};

// A piece of a segment: on a PV, or on a hidden LV (a raid leg, the data of a thin pool).
struct SegmentArea {
  std::string pv_uuid;  // set for areas on a PV
  std::string lv_name;  // set for areas on a hidden LV
  ExtentRange range;    // physical extents of the PV, or logical extents of that LV
  bool operator==(const SegmentArea&) const = default;
};

// What a thin pool does with a discard of a thin volume.
enum class PoolDiscards {
  kIgnore,      // nothing: the chunks stay mapped
  kNoPassdown,  // it frees the chunks
  kPassdown,    // it frees the chunks, and discards them on its data volume
};
// By LVM's name of it; nullopt for any other word.
std::optional<PoolDiscards> PoolDiscardsNamed(std::string_view word);

// Of the segment of a thin pool, beside its data: the only area of that segment is on the hidden data volume.
struct ThinPool {
  std::string metadata_lv;  // the hidden LV with the pool's metadata
  // Increases with each change of the pool's set of thin volumes. The kernel has the pool's own number, which
  // is lower by one while a change is unfinished.
  uint64_t transaction_id = 0;
  PoolDiscards discards = PoolDiscards::kPassdown;
  bool zeroes_chunks = false;    // new chunks are zeroed before they are used
  bool error_when_full = false;  // writes that find no free chunk fail at once; otherwise they wait first
  // Devices of volumes that LVM has removed from its text, and may still have to delete from the pool.
  // No report shows them: empty if the text was not read.
  std::vector<uint32_t> queued_deletes = {};
  // LVM's text has a message to the pool, of a creation or a removal, be it sent or only left over. nullopt:
  // the text was not read.
  std::optional<bool> has_messages = false;
  bool operator==(const ThinPool&) const = default;
};

// Of the segment of a thin volume, which has no areas. LogicalVolume::pool names its pool.
struct ThinVolume {
  uint32_t device_id = 0;       // in the pool; LVM's ids begin with 1
  uint64_t transaction_id = 0;  // of the pool when the volume was made
  bool operator==(const ThinVolume&) const = default;
};

struct Segment {
  std::string type;  // LVM's segment type: linear, striped, raid1, raid5_ls, thin-pool, thin, error, …
  ExtentRange logical;
  // Legs with data of their own: 1 for linear and raid1, 0 where the number has no meaning.
  uint32_t data_stripes = 1;
  Bytes stripe_size;  // 0 where the type has none
  Bytes region_size;
  Bytes chunk_size;  // of a thin pool, and of a snapshot's store (COW); 0 for other types that Quarry knows
  // For raid: the highest rate at which each leg is read or written during a resync or scrub, in bytes per
  // second; whole KiB. 0: only the kernel's own limits apply.
  Bytes max_recovery_rate;
  std::vector<SegmentArea> areas;         // in leg order; for raid: the data legs (rimages), without rmeta
  std::optional<ThinPool> thin_pool;      // exactly if `type` is thin-pool
  std::optional<ThinVolume> thin_volume;  // exactly if `type` is thin
  bool operator==(const Segment&) const = default;
};

struct LogicalVolume {
  std::string name;  // without brackets
  std::string uuid;
  bool hidden = false;  // raid legs and the like, shown in [brackets] by LVM
  Bytes size;
  std::string segment_type;  // of the first segment
  std::vector<std::string> tags;
  // Not a pool, leg, origin or snapshot of another volume (lv_role is "public" and nothing else).
  bool independent = true;
  // What the volume is built on, without brackets, if LVM reports it.
  std::string origin;    // of a snapshot, COW or thin; for a cached volume, the hidden LV that was cached
  std::string pool;      // of a thin, VDO or cached volume
  std::string leaves;    // of a pvmove: path of the PV that it vacates
  bool partial = false;  // some of its extents are on a missing PV
  uint64_t created = 0;  // seconds since 1970; 0: unknown to LVM
  // The kernel's view when LVM made the report. These values change without a commit, so ask device-mapper
  // where they matter. FreshLvm leaves them out.
  bool active = false;
  std::string health;  // lv_health_status, empty if healthy
  std::optional<double> sync_percent;
  std::string sync_action;  // idle, resync, recover, …; empty if not raid or not active
  std::vector<Segment> segments;
  // True for every RAID type of LVM, also for raid0, which has no redundancy.
  bool IsRaid() const { return segment_type.starts_with("raid"); }
  bool operator==(const LogicalVolume&) const = default;
};

struct VolumeGroup {
  std::string name;
  std::string uuid;
  uint64_t seqno = 0;  // increases by one with every commit
  Bytes extent_size;
  Extents extent_count;
  Extents free_count;
  bool exported = false;
  bool extendable = true;  // false: LVM adds and removes no PVs (vgchange --resizeable n)
  uint64_t max_lvs = 0;    // limit for LVs that are not hidden; 0: no limit
  std::vector<std::string> tags;
  std::vector<PhysicalVolume> pvs;
  std::vector<LogicalVolume> lvs;  // including hidden ones

  // nullptr if not found. The pointer is valid as long as the snapshot exists.
  const PhysicalVolume* FindPv(std::string_view uuid) const;
  const LogicalVolume* FindLv(std::string_view name) const;
  // Whether the PV is missing, or not in this group.
  bool LacksPv(std::string_view uuid) const;
  // Number of missing PVs. If it is not 0, LVM refuses every create and extend in the group.
  size_t MissingPvs() const;
  // A copy without the kernel's view: only what the metadata says.
  VolumeGroup MetadataOnly() const;
  bool operator==(const VolumeGroup&) const = default;
};

using Snapshot = std::shared_ptr<const VolumeGroup>;

struct PhysicalRange {
  std::string pv_uuid;
  ExtentRange range;
  auto operator<=>(const PhysicalRange&) const = default;
};
// Physical extents of `lv` and of everything below it (legs, their metadata, data and metadata of a thin
// pool), in no particular order. If a volume below is not a leg, only the part that `lv` uses counts. A thin
// volume has none: its pool has them. To find out which extents may be written
// below LVM, use OwnedExtents (ownership.h).
std::vector<PhysicalRange> PhysicalExtents(const VolumeGroup& group, const LogicalVolume& lv);

// The same per leg: one entry for each leg, in order, metadata sub-volume included. A linear LV is one leg,
// and so is a thin pool.
std::vector<std::vector<PhysicalRange>> ExtentsByLeg(const VolumeGroup& group, const LogicalVolume& lv);

// The PVs of each leg of `lv`: one set (sorted, unique uuids) per leg, metadata sub-volume included. A linear
// LV is one leg.
std::vector<std::vector<std::string>> LegPvs(const VolumeGroup& group, const LogicalVolume& lv);

// For each leg of `lv`: whether any part of it is on a missing PV, or whether LVM has replaced the leg by an
// error segment, so that it has no extents.
std::vector<bool> LostLegs(const VolumeGroup& group, const LogicalVolume& lv);

// For each leg of `lv`: whether any part of it is on this PV.
std::vector<bool> LegsOn(const VolumeGroup& group, const LogicalVolume& lv, std::string_view pv_uuid);

// The uuid of the first PV that two legs of `lv` share, or nullopt. A caller that treats sharing as damage
// reports kCorrupt, naming the PV.
std::optional<std::string> SharedPv(const VolumeGroup& group, const LogicalVolume& lv);

}  // namespace quarry::lvm
