// A volume group on a few disks, as FreshLvm sees it from both sides: headers on the disks, reports of LVM.
// Commits are done as lvm2 does them, disk by disk; the report is what the newest header stands for.
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

  // Commits, one disk after the other; `between` is called before each but the first.
  void Commit(const std::function<void()>& between = {});
  void CommitOn(size_t disk);                                // half a commit: seqno rises, this disk has it
  void Edit(const std::function<void(VolumeGroup&)>& edit);  // of what the next commit writes
  void SetDisk(size_t disk, const std::function<void(PvState&)>& edit);
  // What LVM sees is what is linked; all disks are.
  void Unlink(size_t disk);
  // What the kernel tells when a disk comes.
  void Announce();
  // Called within a report, before and after LVM has read the disks.
  std::function<void()> before_reading;
  std::function<void()> after_reading;
  // Not OK: what reports fail with.
  Status report_failure;
  int reports() const;
  int updates() const;
  uint64_t newest() const;  // seqno of the newest commit begun

  // The disks' texts can be read; else they are of a kind that only LVM knows.
  bool texts = false;
  // Called within the reading of a text, once the bytes are there.
  std::function<void()> after_text;
  // What else the text of each commit from now on holds.
  std::string more_text;

  Result<std::vector<PvState>> Read(std::span<const std::string> paths, const Call& call) override;
  Result<std::string> ReadText(const std::string& path, DiskArea area, const RawLocation& location,
                               const Call& call) override;
  std::string PathOf(const std::string& pv_uuid) const override;
  Result<bool> Update(const Call& call) override;
  Result<bool> UpdateIfNews(const Call& call) override;
  Result<Snapshot> Read(const std::string& group, const Call& call) override;
  Status Create(const CreateGroup& spec, const Call&) override;
  Status Create(const CreateLv&, const Call&) override { return Commits(); }
  Status Extend(const ExtendLv&, const Call&) override { return Commits(); }
  Status Remove(const std::string&, const std::vector<std::string>&, uint64_t, const Call&) override {
    return Commits();
  }
  Status ChangeTags(const std::string&, const std::string&, const std::vector<std::string>&,
                    const std::vector<std::string>&, const Call&) override {
    return Commits();
  }
  Status Activate(const std::string&, const std::vector<std::string>&, const Call&) override;
  Status Deactivate(const std::string&, const std::string&, uint64_t, const Call&) override;
  Status Refresh(const std::string&, const std::vector<std::string>&, const Call&) override { return Ok(); }
  Status Repair(const RepairLv&, const Call&) override { return Commits(); }
  Status LimitRecovery(const std::string&, const std::vector<std::string>&, Bytes, const Call&) override {
    return Commits();
  }
  Status RestorePv(const std::string&, const std::string&, const Call&) override { return Commits(); }
  Status DropMissingPvs(const std::string&, const Call&) override { return Commits(); }
  Status ChangePv(const PvChange&, const Call&) override { return Commits(); }
  Status Move(const MoveExtents&, const Call&) override { return Commits(); }
  Status AbandonMove(const std::string&, const std::string&, const Call&) override { return Commits(); }
  Status RemovePv(const std::string&, const std::string&, const Call&) override { return Commits(); }
  Result<std::string> Version(const Call&) override { return std::string("2.03.16"); }
  Status Add(const AddPv& spec, const Call&) override;
  Result<std::string> Show(const std::string& device) override;
  void Hide(const std::string& device) override;
  // What was added, by the path that LVM was told, and what it is shown besides the group's PVs.
  std::vector<std::string> added;
  std::vector<std::string> shown;

 private:
  struct Disk {
    std::string uuid;
    PvState state;
    bool linked = true;
  };
  Status Commits() {
    Commit();
    return Ok();
  }
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
