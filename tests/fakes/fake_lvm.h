// LVM without disks. Groups are values in memory. Commands place extents as lvm2 does when PVs and ranges are
// given, refuse what lvm2 refuses, and commit completely or not at all.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "dm/raid_legs_api.h"
#include "lvm/lvm_api.h"
#include "lvm/pv_reader.h"
#include "tests/fakes/fake_lvm_thin.h"
#include "tests/fakes/faults.h"

namespace quarry::fakes {

class FakeDm;

struct FakeDisk {
  std::string device;
  Extents extents;
};

// Called under the fake's lock: must not call the fake.
struct FakeLvmHooks {
  // An LV that is not hidden became active, or changed its size while active.
  std::function<void(const lvm::VolumeGroup&, const lvm::LogicalVolume&)> active;
  // The LV is about to become inactive. An error (in use) stops the deactivation and the command.
  std::function<Status(const lvm::VolumeGroup&, const lvm::LogicalVolume&)> deactivate;
  // A store began to keep the present bytes of an LV.
  std::function<void(const lvm::VolumeGroup&, const lvm::LogicalVolume& lv, const lvm::LogicalVolume& store)>
      kept;
  // An active LV was refreshed, or got new legs.
  std::function<void(const lvm::VolumeGroup&, const lvm::LogicalVolume&)> renewed;
  // A commit has made the group what it is now.
  std::function<void(const lvm::VolumeGroup&)> committed;
};

// Thread-safe.
class FakeLvm final : public lvm::LvmApi, public lvm::PvReader {
 public:
  // The superblocks of its RAID legs (fake_lvm_superblocks.cc). Lives as long as this object.
  dm::RaidLegsApi& raid_legs() { return superblocks_; }

  // --- The world's side.

  void AddGroup(const std::string& name, Bytes extent_size, const std::vector<FakeDisk>& disks);
  void RemoveGroup(const std::string& name);
  // The group's only disk is pulled. LVM does not find the group until the disk returns with its content.
  // Active volumes stay active.
  void SetAway(const std::string& name, bool away);
  // The group's disk does not answer: every call for the group waits until the disk answers, or the call
  // ends.
  void SetGroupSilent(const std::string& name, bool silent);
  // A disk from which a group may be made, or that may be added to a group.
  void AddBlankDisk(const FakeDisk& disk);
  // The PV facts of a disk that is in no group here. Disks of groups report their group; all others report
  // that they are not PVs.
  void SetPvFacts(const std::string& device, lvm::PvFacts facts);
  // An administrator's change of the group, in one commit. Waits while the group is held. Free ranges,
  // counts, sizes and partial flags follow from PVs and segments. A missing PV keeps its device here; Read
  // returns it without device.
  void Edit(const std::string& name, const std::function<void(lvm::VolumeGroup&)>& change);
  // Whether a writer waits because the group is held.
  bool IsWaitedFor(const std::string& name);
  // Whether this disk counts as silent in Hold.
  void SetSilent(const std::string& pv_uuid, bool silent);
  // A change without a commit: a disk vanishes or returns, a sync progresses, a leg fails.
  void Happen(const std::string& name, const std::function<void(lvm::VolumeGroup&)>& change);
  // Somebody removed this device with device-mapper alone.
  void DeviceWasRemoved(const std::string& dm_uuid);
  // A missing disk is back, but the group was changed without it: it stays missing until RestorePv.
  void ReturnDisk(const std::string& name, const std::string& pv_uuid);
  // Space for metadata: half of each PV's area, because LVM keeps old and new text. At first practically
  // unlimited.
  void SetMetadataRoom(const std::string& name, Bytes room);
  // A process has the LV open.
  void SetOpen(const std::string& group, const std::string& lv, bool open);
  // New RAID volumes are in sync at once (the default), or stay at 0 % until Happen says otherwise.
  void SetInstantSync(bool instant);
  // Which release of lvm2 this is; at first 2.03.16.
  void SetVersion(const std::string& version);
  // As after a power cut: nothing is active or open.
  void Reboot();
  void SetHooks(FakeLvmHooks hooks);
  // Called at the start of every call with its name, without the lock: may block, to hold a command there.
  void SetOnCall(std::function<void(const std::string&)> on_call);

  // Faults by method name. Before: nothing happened. After: the change happened, but the caller gets an
  // error.
  Faults before;
  Faults after;

  // --- LvmApi.
  Result<lvm::Snapshot> Read(const std::string& group, const Call& call) override;
  // Faults: one name for each verb, as Act() in fake_lvm.cc is given it: "CreateGroup", "Create", "Extend",
  // "Remove", "ChangeTags", "Activate", "Deactivate", "Refresh", "Repair", "LimitRecovery", "RestorePv",
  // "DropMissingPvs", "ChangePv", "Move", "AbandonMove", "RemovePv", "AddPv", "CreateCow", "SplitCow",
  // "DropCow", "MakeThinPool", "AllocateAnywhere", "SkipActivation", "CreateThin", "ExtendThin",
  // "ExtendPoolMetadata", "ActivateDegraded", "SwapPoolMetadata".
  Status Apply(const lvm::Change& change, const Call& call) override;
  Result<std::string> Version(const std::string& group, const Call& call) override;
  // As LVM's lock does: a writer waits for those that hold the group, and later holders wait for the writer.
  Result<lvm::HeldGroup> Hold(const std::string& group, const Call& call) override;
  // Every commit changes it.
  Result<std::string> Fingerprint(const lvm::Snapshot& snapshot, const Call& call) override;

  // --- PvReader.
  Result<std::vector<lvm::PvFacts>> ReadPvs(const std::vector<std::string>& devices,
                                            const Call& call) override;

 private:
  struct Group {
    lvm::VolumeGroup now;
    Bytes metadata_room;
    std::set<std::string> back;  // missing PVs that are visible again
    int holds = 0;
    int writers = 0;  // writers waiting for the holds to end
    bool away = false;
  };
  class Holding;
  Status Do(const lvm::CreateGroup& verb, const Call& call);
  Status Do(const lvm::AddPv& verb, const Call& call);
  Status Do(const lvm::RemovePv& verb, const Call& call);
  Status Do(const lvm::RestorePv& verb, const Call& call);
  Status Do(const lvm::DropMissingPvs& verb, const Call& call);
  Status Do(const lvm::ChangePv& verb, const Call& call);
  Status Do(const lvm::CreateLv& verb, const Call& call);
  Status Do(const lvm::ExtendLv& verb, const Call& call);
  Status Do(const lvm::RemoveLvs& verb, const Call& call);
  Status Do(const lvm::ChangeTags& verb, const Call& call);
  Status Do(const lvm::ActivateLvs& verb, const Call& call);
  Status Do(const lvm::DeactivateLv& verb, const Call& call);
  Status Do(const lvm::RefreshLvs& verb, const Call& call);
  Status Do(const lvm::RepairLv& verb, const Call& call);
  Status Do(const lvm::LimitRecovery& verb, const Call& call);
  Status Do(const lvm::MoveExtents& verb, const Call& call);
  Status Do(const lvm::AbortMove& verb, const Call& call);
  Status Do(const lvm::CreateCow& verb, const Call& call);
  Status Do(const lvm::SplitCow& verb, const Call& call);
  Status Do(const lvm::DropCow& verb, const Call& call);
  Status Do(const lvm::MakeThinPool& verb, const Call& call);
  Status Do(const lvm::AllocateAnywhere& verb, const Call& call);
  Status Do(const lvm::SkipActivation& verb, const Call& call);
  Status Do(const lvm::CreateThinLv& verb, const Call& call);
  Status Do(const lvm::ExtendThinLv& verb, const Call& call);
  Status Do(const lvm::ExtendPoolMetadata& verb, const Call& call);
  Status Do(const lvm::ActivateDegradedThin& verb, const Call& call);
  Status Do(const lvm::SwapPoolMetadata& verb, const Call& call);
  Status ActivateThin(Group& group, const std::string& name, bool degraded);
  class Superblocks final : public dm::RaidLegsApi {
   public:
    explicit Superblocks(FakeLvm& lvm) : lvm_(lvm) {}
    Result<dm::RaidSuperblock> Read(const dm::EraseRange& place) override;
    Result<dm::RaidBitmap> ReadBitmap(const dm::EraseRange& place) override;
    Status Write(const dm::EraseRange& place, const dm::RaidSuperblock& was,
                 const dm::RaidStart& start) override;

   private:
    FakeLvm& lvm_;
  };
  // Waits until the group is not held. Returns the call's error if the call ends first.
  Status WaitToWrite(std::unique_lock<std::mutex>& lock, Group& group, const Call& call);
  template <typename Function>
  Status Act(const std::string& method, const std::string& group, const Call& call, Function act);
  // kTimeout or kCancelled: `call` ended before the disk answered.
  Status AwaitAnswer(const std::string& group, const std::string& method, const Call& call);
  Status Commit(Group& group, lvm::VolumeGroup next);
  Status MayDeactivate(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv);
  void TellActive(const lvm::VolumeGroup& group, const std::string& name);
  std::string NewUuid();

  std::mutex mutex_;
  std::condition_variable_any let_go_;
  std::condition_variable_any answered_;
  std::set<std::string> silent_groups_;
  std::map<std::string, Group> groups_;
  std::map<std::string, Extents> blank_;      // by device
  std::map<std::string, lvm::PvFacts> told_;  // by device
  std::set<std::pair<std::string, std::string>> open_;
  FakeLvmHooks hooks_;
  std::function<void(const std::string&)> on_call_;
  std::set<std::string> silent_;
  bool instant_sync_ = true;
  std::string version_ = "2.03.16";
  std::map<std::string, std::string> policies_;  // with which volumes were made, by uuid
  uint64_t uuids_ = 0;
  Superblocks superblocks_{*this};
};

// Gives `dm` a device for every active LV, and refuses to deactivate an open one. Both must outlive their
// use.
void Follow(FakeLvm& lvm, FakeDm& dm);

}  // namespace quarry::fakes
