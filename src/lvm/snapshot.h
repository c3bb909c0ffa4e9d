// A volume group as it was at one moment: plain values, read from one LVM report or from the metadata itself.
// Immutable once made, shared by pointer to const; nobody locks to read one.
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
  std::string device;  // path as LVM reports it; empty while LVM sees no such device
  Bytes pe_start;      // where extent 0 begins on the device
  Extents extent_count;
  bool allocatable = true;
  // Not seen now, or seen again after the group was changed without it: then it has a device, and stays
  // missing until vgextend --restoremissing.
  bool missing = false;
  std::vector<std::string> tags;
  std::vector<ExtentRange> free;  // ascending, disjoint, never adjacent
  Bytes metadata_size;            // of the metadata area; 0 if this PV has none in use
  Bytes metadata_free;            // what is left in it
  bool operator==(const PhysicalVolume&) const = default;
};

// A piece of a logical volume: on a PV, or on a hidden LV (a raid leg).
struct SegmentArea {
  std::string pv_uuid;  // set for areas on a PV
  std::string lv_name;  // set for areas on a hidden LV
  ExtentRange range;    // physical extents of the PV, or logical extents of that LV
  bool operator==(const SegmentArea&) const = default;
};

struct Segment {
  std::string type;  // LVM's segment type: linear, striped, raid1, raid5_ls, error, …
  ExtentRange logical;
  uint32_t data_stripes =
      1;              // legs with data of their own: 1 for linear and raid1, 0 where it has no meaning
  Bytes stripe_size;  // 0 where it has no meaning
  Bytes region_size;
  // Of raid: bytes a second that each leg is read or written with at most while legs are filled or compared;
  // whole KiB. 0: only the kernel's own limits.
  Bytes max_recovery_rate;
  std::vector<SegmentArea> areas;  // in leg order; for raid: the data legs (rimages), without rmeta
  bool operator==(const Segment&) const = default;
};

struct LogicalVolume {
  std::string name;  // without brackets
  std::string uuid;
  bool hidden = false;  // raid legs and the like, shown in [brackets] by LVM
  Bytes size;
  std::string segment_type;  // of the first segment
  std::vector<std::string> tags;
  // Nobody's pool, leg, origin or snapshot: a volume by itself (lv_role is "public" and nothing else).
  bool independent = true;
  // What it stands on, without brackets, where LVM says so. Volumes of linear, striped and raid segments have
  // neither.
  std::string origin;    // of a snapshot; of a cached volume, the hidden part that it was
  std::string pool;      // of a thin, VDO or cached volume
  std::string leaves;    // of a pvmove: path of the PV that it leaves
  bool partial = false;  // some of its extents are on a missing PV
  uint64_t created = 0;  // seconds since 1970; 0: LVM does not know
  // The kernel's view when LVM made the report; it changes without a commit, so ask device-mapper where it
  // matters. FreshLvm leaves it out.
  bool active = false;
  std::string health;  // lv_health_status, empty when fine
  std::optional<double> sync_percent;
  std::string sync_action;  // idle, resync, recover, …; empty if not raid or not active
  std::vector<Segment> segments;
  bool operator==(const LogicalVolume&) const = default;
};

struct VolumeGroup {
  std::string name;
  std::string uuid;
  uint64_t seqno = 0;  // rises by one with every commit
  Bytes extent_size;
  Extents extent_count;
  Extents free_count;
  bool exported = false;
  bool extendable = true;  // else LVM adds and removes no PVs (vgchange --resizeable n)
  uint64_t max_lvs = 0;    // as many as may be that are not hidden; 0: no limit
  std::vector<std::string> tags;
  std::vector<PhysicalVolume> pvs;
  std::vector<LogicalVolume> lvs;  // hidden ones included

  // nullptr if there is none. The pointer lives as long as the snapshot.
  const PhysicalVolume* FindPv(std::string_view uuid) const;
  const LogicalVolume* FindLv(std::string_view name) const;
  // Whether the PV is missing, or not of this group.
  bool LacksPv(std::string_view uuid) const;
  // Number of PVs that LVM cannot see now. With any, LVM refuses every create and extend in the group.
  size_t MissingPvs() const;
  // The same without the kernel's view: what the metadata alone says.
  VolumeGroup MetadataOnly() const;
  bool operator==(const VolumeGroup&) const = default;
};

using Snapshot = std::shared_ptr<const VolumeGroup>;

// Physical extents that hold `lv` and everything below it (legs, their metadata), in no particular order. Of
// what is below and not its leg, no more than what it names. What may be written to below LVM says
// OwnedExtents (ownership.h).
struct PhysicalRange {
  std::string pv_uuid;
  ExtentRange range;
};
std::vector<PhysicalRange> PhysicalExtents(const VolumeGroup& group, const LogicalVolume& lv);

// The same leg by leg: one entry per leg, in order, metadata sub-volume included. A linear LV is one leg.
std::vector<std::vector<PhysicalRange>> ExtentsByLeg(const VolumeGroup& group, const LogicalVolume& lv);

// PVs that each leg of `lv` touches: one set (sorted, unique uuids) per leg, metadata sub-volume included. A
// linear LV is one leg.
std::vector<std::vector<std::string>> LegPvs(const VolumeGroup& group, const LogicalVolume& lv);

// For each leg of `lv` whether it lies, in part at least, on a missing PV, or nowhere any more (it was given
// up for lost).
std::vector<bool> LostLegs(const VolumeGroup& group, const LogicalVolume& lv);

// For each leg of `lv` whether it lies, in part at least, on this PV.
std::vector<bool> LegsOn(const VolumeGroup& group, const LogicalVolume& lv, std::string_view pv_uuid);

// OK if no two legs of `lv` share a PV; else kCorrupt naming legs and PV is for the caller to say: this
// returns the uuid of the first shared PV, or nullopt.
std::optional<std::string> SharedPv(const VolumeGroup& group, const LogicalVolume& lv);

}  // namespace quarry::lvm
