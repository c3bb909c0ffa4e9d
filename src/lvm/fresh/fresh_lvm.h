// Never stale, never asking: an LvmApi that answers reads from memory, having proven on the disks that
// nothing was committed since. docs/freshness.md has the whole argument.
//
// Every commit of LVM changes the header of every metadata area in use (metadata_header.h). So a snapshot is
// kept together with the headers of the group's PVs as they were before LVM was asked and still were
// afterwards; as long as they read the same, the snapshot is the group as it is now, whoever may have written
// to it, and no process is started. If they differ, the first of the readers who noticed reads the committed
// text from the disks (text_snapshot.h), between two equal readings of the headers again; what that text says
// is not all understood, LVM is asked. The others wait for that answer. So it is where a disk is gone, or
// fails to be read: the others have the text, and its PV is lost.
//
// An answer is always the group as it was committed at some moment between the call and its return. A reader
// takes no lock of LVM's and waits for no writer, unless only LVM can answer.
//
// Answers hold no view of the kernel's (VolumeGroup::MetadataOnly): for that, ask DmApi.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lvm/fresh/metadata_header_reader.h"
#include "lvm/group_locks.h"
#include "lvm/lvm_api.h"
#include "lvm/run/lvm_config.h"

namespace quarry::lvm {

// Knows where a PV is that LVM does not see, and how to make LVM see more. Thread-safe.
class PvFinder {
 public:
  virtual ~PvFinder() = default;
  // Where the PV would be if it came back; there need not be anything now.
  virtual std::string PathOf(const std::string& pv_uuid) const = 0;
  // Looks for PVs that came, went or joined a group. True: LVM may now see another set of them.
  virtual Result<bool> Update(const Call& call) = 0;
  // The same, if a block device may have come since anybody looked last. Cheap otherwise.
  virtual Result<bool> UpdateIfNews(const Call& call) = 0;
  // Lets LVM see one more device, which need not be a PV, until Hide: the path under which it does.
  virtual Result<std::string> Show(const std::string& device) = 0;
  // Takes effect with the next Update.
  virtual void Hide(const std::string& device) = 0;
};

// Thread-safe.
class FreshLvm final : public LvmApi {
 public:
  // All must outlive the object. Without a finder LVM is asked for every read while a PV is missing, because
  // only LVM can tell that it is back. `maker` makes groups, where `inner` does not see disks that are no PVs
  // yet. A group that `locks` finds to be no longer ours is not read either, whatever is proven of it: then
  // nothing is begun there. `locking_dir`: of LVM, for Hold.
  FreshLvm(LvmApi& inner, HeaderSource& headers, PvFinder* finder = nullptr, LvmApi* maker = nullptr,
           const GroupLocks* locks = nullptr, std::string locking_dir = LvmConfig().locking_dir);
  ~FreshLvm() override;

  // kPrecondition, besides what the inner Read says: the group of this name is not the one that it was at
  // the first Read, and its volumes are not ours to look for in there; or its metadata are older than those
  // that were read before (a disk that missed them is back, and those that have them are gone; or
  // vgcfgrestore). To accept it, start anew.
  Result<Snapshot> Read(const std::string& group, const Call& call) override;

  // A group that was made by this call is the one of its name from now on.
  Status Create(const CreateGroup& spec, const Call& call) override;
  // Passed on, once the group's identity is checked and every PV that can be seen is: LVM marks a PV that it
  // does not see as missing in whatever it commits.
  Status Create(const CreateLv& spec, const Call& call) override;
  Status Extend(const ExtendLv& spec, const Call& call) override;
  Status Remove(const std::string& group, const std::vector<std::string>& names, uint64_t seqno,
                const Call& call) override;
  Status ChangeTags(const std::string& group, const std::string& name, const std::vector<std::string>& add,
                    const std::vector<std::string>& remove, const Call& call) override;
  Status Activate(const std::string& group, const std::vector<std::string>& names, const Call& call) override;
  Status Deactivate(const std::string& group, const std::string& name, uint64_t seqno,
                    const Call& call) override;
  Status Refresh(const std::string& group, const std::vector<std::string>& names, const Call& call) override;
  Status Repair(const RepairLv& spec, const Call& call) override;
  Status LimitRecovery(const std::string& group, const std::vector<std::string>& names, Bytes rate,
                       const Call& call) override;
  Status RestorePv(const std::string& group, const std::string& device, const Call& call) override;
  Status DropMissingPvs(const std::string& group, const Call& call) override;
  Status ChangePv(const PvChange& spec, const Call& call) override;
  Status Move(const MoveExtents& spec, const Call& call) override;
  Status AbandonMove(const std::string& group, const std::string& device, const Call& call) override;
  Status RemovePv(const std::string& group, const std::string& device, const Call& call) override;
  Result<std::string> Version(const Call& call) override { return inner_.Version(call); }
  // Where LVM sees the pools' PVs only, it is shown the device as well, and nothing else: another group of
  // the same name, on disks that are none of ours, does not stand in the way.
  Status Add(const AddPv& spec, const Call& call) override;

  // Reads first, which may ask LVM; under LVM's lock then whether the headers are as they were, and if not
  // the text. Where that takes LVM to understand, the lock is let go and all of it done again, a few times.
  Result<HeldGroup> Hold(const std::string& group, const Call& call) override;

  // Reads so far, by how they were answered: for metrics and tests.
  struct Counts {
    uint64_t proven = 0;     // from memory
    uint64_t read = 0;       // from the text on the disks
    uint64_t refreshed = 0;  // asked LVM
    uint64_t joined = 0;     // waited for another reader's question
    uint64_t unproven = 0;   // of the refreshed: the answer was right, but could not be kept
  };
  Counts counts() const;

 private:
  struct Proof;
  struct Question;
  struct Group;

  Group& Find(const std::string& name);
  // The snapshot that is proven now; nullptr if there is none.
  Result<Snapshot> Prove(Group& group, const Call& call);
  // The snapshot, if the headers say that it is the group still, and who gave no answer; no snapshot: they do
  // not. Asks nobody else.
  Result<HeldGroup> ProveByHeaders(Group& group, const Call& call);
  // Under LVM's lock: what was committed before it was taken is read from the text, if that says it all.
  Status CatchUp(Group& group, const Call& call);
  // What the group's text says, and `proof` of that; nullptr: only LVM can tell.
  // `settled`: what became of every change of ours is known. `updated`, in and out: the finder has looked.
  Result<Snapshot> ReadText(Proof& proof, bool settled, bool& updated, const Call& call);
  Result<Snapshot> Ask(const std::string& name, Proof& proof, bool updated, const Call& call);
  Result<Snapshot> AskOnce(const std::string& name, bool& updated, const Call& call);
  std::vector<std::string> PathsOf(const VolumeGroup& group) const;
  // Whether disks that are gone would be seen again where the proof looks for them.
  bool WouldReturn(const VolumeGroup& last, const Proof& proof, const std::vector<PvState>& states) const;
  Status Change(const std::string& group, const Call& call, const std::function<Status()>& change);

  LvmApi& inner_;
  HeaderSource& headers_;
  PvFinder* const finder_;
  LvmApi* const maker_;
  const GroupLocks* const locks_;
  const std::string locking_dir_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Group>> groups_;  // guarded by mutex_, never erased from
  std::atomic<uint64_t> proven_ = 0;
  std::atomic<uint64_t> read_ = 0;
  std::atomic<uint64_t> refreshed_ = 0;
  std::atomic<uint64_t> joined_ = 0;
  std::atomic<uint64_t> unproven_ = 0;
};

}  // namespace quarry::lvm
