// LVM without disks. Groups are values in memory; commands place extents as lvm2 does when it is told PVs and
// ranges, refuse what it refuses, and commit whole or not at all.
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
#include "lvm/lvm_api.h"
#include "lvm/pv_reader.h"
#include "tests/fakes/faults.h"

namespace quarry::fakes {

class FakeDm;

struct FakeDisk {
  std::string device;
  Extents extents;
};

// Told under the fake's lock: must not call back into it.
struct FakeLvmHooks {
  // An LV that is not hidden became active, or changed its size while active.
  std::function<void(const lvm::VolumeGroup&, const lvm::LogicalVolume&)> active;
  // It is about to become inactive. An error (in use) stops that, and with it the command.
  std::function<Status(const lvm::VolumeGroup&, const lvm::LogicalVolume&)> deactivate;
  // An active one was refreshed, or has got new legs.
  std::function<void(const lvm::VolumeGroup&, const lvm::LogicalVolume&)> renewed;
};

// Thread-safe.
class FakeLvm final : public lvm::LvmApi, public lvm::PvReader {
 public:
  // --- The world's side.

  void AddGroup(const std::string& name, Bytes extent_size, const std::vector<FakeDisk>& disks);
  void RemoveGroup(const std::string& name);
  // Its only disk is pulled: LVM does not find it, until it is back with all that was on it. What is active
  // stays so.
  void SetAway(const std::string& name, bool away);
  // Its disk does not answer: every call for the group waits until that ends, or the call does.
  void SetGroupSilent(const std::string& name, bool silent);
  // A disk that a group may be made of, or that may be added to one.
  void AddBlankDisk(const FakeDisk& disk);
  // What a disk that is none of a group here says of itself. Disks of groups say what they are, all others
  // that they are no PV.
  void SetPvFacts(const std::string& device, lvm::PvFacts facts);
  // What an administrator does: changes the group by hand, in one commit; waits as long as somebody holds the
  // group. Free ranges, counts, sizes and
  // partial flags follow from PVs and segments; a PV that is missing keeps its device here and loses it in
  // what Read gives.
  void Edit(const std::string& name, const std::function<void(lvm::VolumeGroup&)>& change);
  // Whether somebody waits to change it, because it is held.
  bool IsWaitedFor(const std::string& name);
  // Whether this disk gives no answer, as far as Hold says.
  void SetSilent(const std::string& pv_uuid, bool silent);
  // What happens without a commit: a disk vanishes or returns, a sync goes on, a leg fails.
  void Happen(const std::string& name, const std::function<void(lvm::VolumeGroup&)>& change);
  // A disk that was missing is back, but the group was changed without it: it stays missing until RestorePv.
  void ReturnDisk(const std::string& name, const std::string& pv_uuid);
  // The room for metadata: half of each PV's area, as LVM keeps old and new. At first as good as endless.
  void SetMetadataRoom(const std::string& name, Bytes room);
  // Somebody has the LV open.
  void SetOpen(const std::string& group, const std::string& lv, bool open);
  // New raid volumes are in sync at once (the default), or stay at 0 % until Happen says otherwise.
  void SetInstantSync(bool instant);
  // As after a power cut: nothing is active or open.
  void Reboot();
  void SetHooks(FakeLvmHooks hooks);
  // Called at the start of every call with its name, without the lock held: may block, to hold a command
  // there.
  void SetOnCall(std::function<void(const std::string&)> on_call);

  // Faults by name of the method. Before: nothing happened. After: it happened, and the caller does not know.
  Faults before;
  Faults after;

  // --- LvmApi.
  Result<lvm::Snapshot> Read(const std::string& group, const Call& call) override;
  // Faults: "CreateGroup".
  Status Create(const lvm::CreateGroup& spec, const Call& call) override;
  Status Create(const lvm::CreateLv& spec, const Call& call) override;
  Status Extend(const lvm::ExtendLv& spec, const Call& call) override;
  Status Remove(const std::string& group, const std::vector<std::string>& names, uint64_t seqno,
                const Call& call) override;
  Status ChangeTags(const std::string& group, const std::string& name, const std::vector<std::string>& add,
                    const std::vector<std::string>& remove, const Call& call) override;
  Status Activate(const std::string& group, const std::vector<std::string>& names, const Call& call) override;
  Status Deactivate(const std::string& group, const std::string& name, uint64_t seqno,
                    const Call& call) override;
  Status Refresh(const std::string& group, const std::vector<std::string>& names, const Call& call) override;
  Status Repair(const lvm::RepairLv& spec, const Call& call) override;
  Status LimitRecovery(const std::string& group, const std::vector<std::string>& names, Bytes rate,
                       const Call& call) override;
  Status RestorePv(const std::string& group, const std::string& device, const Call& call) override;
  Status DropMissingPvs(const std::string& group, const Call& call) override;
  Status ChangePv(const lvm::PvChange& spec, const Call& call) override;
  Status Move(const lvm::MoveExtents& spec, const Call& call) override;
  Status AbandonMove(const std::string& group, const std::string& device, const Call& call) override;
  Status RemovePv(const std::string& group, const std::string& device, const Call& call) override;
  Result<std::string> Version(const Call& call) override;
  // Faults: "AddPv".
  Status Add(const lvm::AddPv& spec, const Call& call) override;
  // As LVM's lock does: whoever changes the group waits for those who hold it, and those who come later wait
  // for him.
  Result<lvm::HeldGroup> Hold(const std::string& group, const Call& call) override;

  // --- PvReader.
  Result<std::vector<lvm::PvFacts>> ReadPvs(const std::vector<std::string>& devices,
                                            const Call& call) override;

 private:
  struct Group {
    lvm::VolumeGroup now;
    Bytes metadata_room;
    std::set<std::string> back;  // missing PVs that can be seen
    int holds = 0;
    int writers = 0;  // that wait for those to end
    bool away = false;
  };
  class Holding;
  // Until nobody holds the group. The call's error if that ends first.
  Status WaitToWrite(std::unique_lock<std::mutex>& lock, Group& group, const Call& call);
  template <typename Function>
  Status Act(const std::string& method, const std::string& group, const Call& call, Function act);
  // kTimeout or kCancelled: the disk has not answered before `call` ended.
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
  uint64_t uuids_ = 0;
};

// Lets `dm` have a device for every active LV, and refuse to lose one that is open. Both must outlive their
// use.
void Follow(FakeLvm& lvm, FakeDm& dm);

}  // namespace quarry::fakes
