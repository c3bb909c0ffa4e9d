// A directory of links to the PVs of our groups, for LVM to look in and nowhere else (devices/scan of the
// private configuration). Without it LVM goes through every node of /dev for each command, which with 20,000
// volumes costs 115 ms, and meets other people's disks.
//
//   <folder>/SAUvKF-89B5-KVMI-f3Hx-7NWV-6hI5-xKrZlk -> /dev/nvme0n1
//
// Links bear the UUIDs of their PVs, so that a disk that comes back under another kernel name comes back
// under its old path. Which PVs make up a group is read from the metadata on the disks; no LVM is started for
// it, and nothing is written to a disk.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "lvm/fresh/device_events.h"
#include "lvm/fresh/fresh_lvm.h"
#include "lvm/read/metadata_text.h"

namespace quarry::lvm {

struct PvLinksOptions {
  std::string folder;               // for the links alone; its parent must exist
  std::vector<std::string> groups;  // by name
  std::string sysfs = "/sys/class/block";
  std::string dev = "/dev";
};

// Thread-safe.
//
// When to Update: at start. FreshLvm does it when a report lacks a PV or finds no group, before a change of a
// group that lacks one, and after making a group. So an administrator's vgextend is noticed: it commits, the
// next Read asks LVM, the report lacks the new PV, and the link is made before anybody gets an answer. And
// with UpdateIfNews() before each Read of a group that lacks a PV: so a disk that was plugged in again is
// noticed, under whatever name.
class PvLinks final : public PvFinder {
 public:
  // Makes the folder (0700), empty if it is new. `reader` must outlive the object.
  static Result<std::unique_ptr<PvLinks>> Make(HeaderReader& reader, PvLinksOptions options);

  std::string PathOf(const std::string& pv_uuid) const override { return options_.folder + "/" + pv_uuid; }

  // Reads the front of every block device that may be a PV: not LVs (a PV in a volume is a tenant's), not
  // parts of another device that bears the same PV (md, multipath). All of them at once; one that cannot be
  // read now keeps the link it has. The folder is exchanged as a whole: LVM sees the old set or the new one.
  //
  // Two disks that say they are the same PV are both linked (the second with its kernel name behind the
  // UUID): LVM sees that and protects the group, as it would without us. So are two groups of one name,
  // unless one of them was here alone before: that one is ours as long as any of its PVs is there.
  Result<bool> Update(const Call& call) override;

  // News are the kernel's device events, but for those of LVs. Where they cannot be had every call looks.
  Result<bool> UpdateIfNews(const Call& call) override;

  // UUID of a group of ours as the last look found it on the disks, LVM not asked. Empty: none was found, or
  // several of that name.
  std::string UuidOf(const std::string& group);

  // The link is called "new-" and the device's kernel name. kAlreadyExists: it is shown already.
  Result<std::string> Show(const std::string& device) override;
  void Hide(const std::string& device) override;

 private:
  struct Disk {
    std::string name;  // of the kernel
    std::string path;
    PvState state;
  };
  using Links = std::map<std::string, std::string>;  // name in the folder: where it points

  PvLinks(HeaderReader& reader, PvLinksOptions options);

  Result<bool> Look(const Call& call);
  bool MayHoldPv(const std::string& device) const;
  Result<std::vector<Disk>> ReadDisks(const Call& call);
  Result<bool> ReadGroups(const std::vector<Disk>& disks, std::vector<GroupMembers>& groups,
                          const Call& call);
  std::set<std::string> Members(const std::vector<GroupMembers>& groups);
  Result<Links> Present() const;
  Links Wanted(const std::vector<Disk>& disks, const std::set<std::string>& members,
               const Links& present) const;
  Status Replace(const Links& links) const;

  HeaderReader& reader_;
  const PvLinksOptions options_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::map<std::string, std::string> uuids_;  // of our groups, by name
  Links shown_;
  std::optional<DeviceEvents> events_;
  bool look_again_ = false;  // the last look failed, or a disk did not answer: no event tells of its recovery
};

}  // namespace quarry::lvm
