// A directory of links to the PVs of Quarry's groups, the only place where LVM looks for PVs (devices/scan of
// the private configuration). Without it LVM visits every node of /dev for each command, which takes 115 ms
// with 20,000 volumes, and finds unmanaged disks.
//
//   <folder>/SAUvKF-89B5-KVMI-f3Hx-7NWV-6hI5-xKrZlk -> /dev/nvme0n1
//
// Links are named by the UUIDs of their PVs. So a disk that returns under another kernel name returns under
// its old path. The PVs of a group are read from the metadata on the disks. No LVM command is run for that,
// and nothing is written to a disk.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/mutex.h"
#include "base/result.h"
#include "lvm/fresh/device_events.h"
#include "lvm/fresh/fresh_lvm.h"
#include "lvm/read/metadata_text.h"

namespace quarry::lvm {

struct PvLinksOptions {
  std::string folder;               // used for the links only; its parent must exist
  std::vector<std::string> groups;  // by name
  std::string sysfs = "/sys/class/block";
  std::string dev = "/dev";
};

// Thread-safe.
//
// When to call Update: at start. FreshLvm calls it when a report lacks a PV or the group, when a known disk
// is gone, before a change of a group that lacks a PV, and after CreateGroup and AddPv. So an
// administrator's vgextend is noticed: it commits, the next Read asks LVM, the report shows the new PV
// without a device, and the link is made before any caller gets an answer. FreshLvm also calls UpdateIfNews()
// before each Read of a group that lacks a PV. So a disk that was plugged in again is noticed, under whatever
// name.
class PvLinks final : public PvFinder {
 public:
  // Creates the folder (0700) empty if it does not exist. `reader` must outlive the object.
  static Result<std::unique_ptr<PvLinks>> Make(HeaderReader& reader, PvLinksOptions options);

  std::string PathOf(const std::string& pv_uuid) const override { return options_.folder + "/" + pv_uuid; }

  // Reads the front of every block device that may be a PV, all at once. LVs are not read (a PV in a volume
  // is a tenant's). A device that is part of another device with the same PV (md, multipath) gets no link. A
  // device that cannot be read now keeps its link. The folder is replaced as a whole: LVM sees either the old
  // set or the new one.
  //
  // If two disks claim to be the same PV, both are linked (the second with its kernel name after the UUID).
  // LVM then sees both and protects the group, as it would without the folder. The same holds for two groups
  // of one name, unless an earlier search found one of them alone. Then only that group is linked, as long as
  // any of its PVs is present.
  Result<bool> Update(const Call& call) override;

  // Searches if the kernel reported an event of a block device that is not an LV, if the last search failed
  // or met a disk that it could not read, or if events are not available.
  Result<bool> UpdateIfNews(const Call& call) override;

  // UUID of a group of Quarry's, as the last search that found the group saw it on the disks, without asking
  // LVM. Empty: no search has found it, or the last one found several of that name, and not the known one.
  std::string UuidOf(const std::string& group);

  // The link is named "new-" and the last part of the path. kAlreadyExists: the device is already shown.
  Result<std::string> Show(const std::string& device) override;
  void Hide(const std::string& device) override;

 private:
  struct Disk {
    std::string name;  // the kernel name
    std::string path;
    PvState state;
  };
  using Links = std::map<std::string, std::string>;  // name in the folder, and its target

  PvLinks(HeaderReader& reader, PvLinksOptions options);

  Result<bool> Look(const Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Result<std::vector<Disk>> ReadDisks(const Call& call);
  Result<bool> ReadGroups(const std::vector<Disk>& disks, std::vector<GroupMembers>& groups,
                          const Call& call);
  std::set<std::string> Members(const std::vector<GroupMembers>& groups)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Result<Links> Present() const;
  Links Wanted(const std::vector<Disk>& disks, const std::set<std::string>& members,
               const Links& present) const;
  Status Replace(const Links& links) const;

  HeaderReader& reader_;
  const PvLinksOptions options_;
  Mutex mutex_;
  std::map<std::string, std::string> uuids_ ABSL_GUARDED_BY(mutex_);  // of Quarry's groups, by name
  Links shown_ ABSL_GUARDED_BY(mutex_);
  std::optional<DeviceEvents> events_ ABSL_GUARDED_BY(mutex_);
  bool look_again_ ABSL_GUARDED_BY(mutex_) =
      false;  // the last search failed, or a disk did not answer: no event announces its recovery
};

}  // namespace quarry::lvm
