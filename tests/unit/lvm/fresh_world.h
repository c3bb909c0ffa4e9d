// A volume group on a few disks, as FreshLvm sees it from both sides: headers on the disks, and LVM's
// reports. Commits proceed as in lvm2, disk by disk. The report shows what the newest header stands for.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "lvm/fresh/fresh_lvm.h"

namespace quarry::lvm {

class FreshWorld final : public LvmApi, public HeaderSource, public PvFinder {
 public:
  // Disks /dev/0 to /dev/<n-1>, PVs "pv0" to …, group "vg0" at seqno 1.
  explicit FreshWorld(int disks);

  // Commits, one disk after the other; `between` is called before each disk except the first.
  void Commit(const std::function<void()>& between = {});
  void CommitOn(size_t disk);  // half a commit: seqno increases, only this disk has it
  void Edit(const std::function<void(VolumeGroup&)>& edit);  // changes what the next commit writes
  void SetDisk(size_t disk, const std::function<void(PvState&)>& edit);
  // LVM sees linked disks only. At first all disks are linked.
  void Unlink(size_t disk);
  // Sends the kernel's event for a disk that came.
  void Announce();
  // Called during a report, before and after LVM has read the disks.
  std::function<void()> before_reading;
  std::function<void()> after_reading;
  // Not OK: the error of reports.
  Status report_failure;
  int reports() const;
  int updates() const;
  uint64_t newest() const;  // seqno of the newest commit begun

  // True: the disks' texts can be read. False: only LVM understands them.
  bool texts = false;
  // Called while a text is read, after the bytes were read.
  std::function<void()> after_text;
  // Added to the text of each commit from now on.
  std::string more_text;

  Result<std::vector<PvState>> Read(std::span<const std::string> paths, const Call& call) override;
  Result<std::string> ReadText(const std::string& path, DiskArea area, const RawLocation& location,
                               const Call& call) override;
  std::string PathOf(const std::string& pv_uuid) const override;
  Result<bool> Update(const Call& call) override;
  Result<bool> UpdateIfNews(const Call& call) override;
  Result<Snapshot> Read(const std::string& group, const Call& call) override;
  // Every verb commits, but for those that only the kernel sees.
  Status Apply(const Change& change, const Call&) override;
  Result<std::string> Version(const std::string&, const Call&) override { return std::string("2.03.16"); }
  Result<std::string> Show(const std::string& device) override;
  void Hide(const std::string& device) override;
  // Devices that were added, by the path given to LVM, and devices shown to LVM besides the group's PVs.
  std::vector<std::string> added;
  std::vector<std::string> shown;

 private:
  struct Disk {
    std::string uuid;
    PvState state;
    bool linked = true;
  };
  Result<Snapshot> Report(const std::string& group);
  void WriteTo(Disk& disk);

  mutable std::mutex mutex_;
  std::vector<Disk> disks_;
  VolumeGroup next_;
  std::map<uint32_t, VolumeGroup> committed_;  // by checksum, which is the seqno here
  std::map<uint32_t, std::string> committed_texts_;
  bool active_ = false;
  int reports_ = 0;
  int updates_ = 0;
  bool news_ = false;
};

}  // namespace quarry::lvm
