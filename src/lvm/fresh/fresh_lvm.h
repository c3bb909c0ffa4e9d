// An LvmApi that answers reads from memory, after proving from the disks that nothing was committed since.
// docs/freshness.md has the whole argument.
//
// Every commit of LVM changes the header of every metadata area in use (metadata_header.h). So a snapshot is
// kept together with the headers of the group's PVs, which were equal before and after LVM was asked. While
// the headers read the same, the snapshot is the current group, no matter which process may write to it, and
// no process is started.
//
// If the headers differ, one reader reads the committed text from the disks (text_snapshot.h), between two
// equal readings of the headers. If any part of the text is not understood, LVM is asked. Other readers wait
// for this reader's result. A disk that is gone or cannot be read is handled in the same way: the text is
// read from another disk, and the PV of the disk that is gone counts as missing.
//
// An answer is always the group as committed at some moment between the call and its return. A reader takes
// no LVM lock and waits for no writer, unless only LVM can answer. LVM would wait for a change that this
// object is making; so the reader waits for the change first, and then reads the text again. Some changes
// commit twice, and only LVM understands the text in between.
//
// Answers do not contain the kernel's view (VolumeGroup::MetadataOnly): for that, ask DmApi.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "lvm/fresh/metadata_header_reader.h"
#include "lvm/group_locks.h"
#include "lvm/lvm_api.h"
#include "lvm/run/lvm_config.h"

namespace quarry::lvm {

// Finds PVs that LVM does not see, and makes them visible to LVM. Thread-safe.
class PvFinder {
 public:
  virtual ~PvFinder() = default;
  // The path that the PV has, or will have when it returns.
  virtual std::string PathOf(const std::string& pv_uuid) const = 0;
  // Looks for PVs that came, went or joined a group. True: the set of PVs that LVM sees may have changed.
  virtual Result<bool> Update(const Call& call) = 0;
  // The same, but only if a block device may have appeared since the last search. Cheap otherwise.
  virtual Result<bool> UpdateIfNews(const Call& call) = 0;
  // Makes one more device visible to LVM until Hide; the device need not be a PV. Returns the path under
  // which LVM sees it.
  virtual Result<std::string> Show(const std::string& device) = 0;
  // Takes effect with the next Update.
  virtual void Hide(const std::string& device) = 0;
};

// Thread-safe.
class FreshLvm final : public LvmApi {
 public:
  // All arguments must outlive the object. Without a finder, every read asks LVM while a PV is missing,
  // because only LVM can see when the PV returns. `maker` creates groups, because `inner` does not see disks
  // that are not PVs yet. If `locks` says that a group is no longer this process's, reads of the group fail
  // too, whatever the headers prove, so that no work on it begins. `locking_dir`: LVM's, for Hold.
  FreshLvm(LvmApi& inner, HeaderSource& headers, PvFinder* finder = nullptr, LvmApi* maker = nullptr,
           const GroupLocks* locks = nullptr, std::string locking_dir = LvmConfig().locking_dir);
  ~FreshLvm() override;

  // Errors of the inner Read. Also kPrecondition, in two cases. First: the group of this name has another
  // UUID than at the first Read. Second: its metadata is older than metadata read before, because
  // vgcfgrestore was run, or because a disk that missed commits returned while the disks that have them are
  // gone. A restart of quarryd accepts the group.
  Result<Snapshot> Read(const std::string& group, const Call& call) override;

  // Checks the group's identity, makes every PV that is present visible to LVM, and passes the change on. In
  // each commit, LVM marks the PVs that it does not see as missing. Three verbs need more:
  // - CreateGroup: the next Read accepts the new group, whatever group had its name before.
  // - AddPv: with a finder, LVM sees only the pools' PVs. The new device is shown to LVM too, and no other.
  //   So an unmanaged group of the same name, on other disks, is no obstacle.
  // - CreateLv with a sequence number: takes LVM's lock for writing, proves by the headers that the group has
  //   this number, and leaves the lock to the command. kBusy: nothing was run, because another process has
  //   committed since or has the lock, the headers prove nothing, a disk does not answer, or the call ended.
  Status Apply(const Change& change, const Call& call) override;
  Result<std::string> Version(const std::string& group, const Call& call) override {
    return inner_.Version(group, call);
  }

  // Reads the group, which may ask LVM. Then takes LVM's lock and checks the headers; if they changed, reads
  // the text. If only LVM can interpret the text, the lock is released and everything is repeated, a few
  // times.
  Result<HeldGroup> Hold(const std::string& group, const Call& call) override;

  // The headers of all disks. kUnsupported before Linux 5.15, which does not number attached disks.
  Result<std::string> Fingerprint(const Snapshot& snapshot, const Call& call) override;

  // Reads so far, by how they were answered; for metrics and tests.
  struct Counts {
    uint64_t proven = 0;     // from memory
    uint64_t read = 0;       // from the text on the disks
    uint64_t refreshed = 0;  // by asking LVM
    uint64_t joined = 0;     // by waiting for another reader's refresh
    uint64_t unproven = 0;   // of `refreshed`: answers that are correct, but not kept
  };
  Counts counts() const;

 private:
  struct Proof;
  struct Question;
  struct Seen;
  struct Group;

  Group& Find(const std::string& name);
  // The snapshot, if it is proven now; else nullptr. `seen` gets what the disks said meanwhile.
  Result<Snapshot> Prove(Group& group, const Call& call, Seen* seen = nullptr);
  // If the headers prove the snapshot: the snapshot, and the PVs that did not answer. Else no snapshot. Runs
  // no LVM command and no search for PVs.
  Result<HeldGroup> ProveByHeaders(Group& group, const Call& call);
  // Call under LVM's lock. If commits came before the lock, reads the text to learn them. Does nothing if
  // only LVM can interpret the text.
  Status CatchUp(Group& group, const Call& call);
  // Call under LVM's lock: ProveByHeaders, after CatchUp if necessary.
  Result<HeldGroup> ProveUnderLock(Group& group, const Call& call);
  // Call under LVM's lock. OK if the group has this sequence number; the errors of a CreateLv with a number.
  Status CheckNumber(const std::string& name, uint64_t seqno, const Call& call);
  // The group according to its text, and the `proof` for it; nullptr: only LVM can tell. `settled`: the
  // outcome of every change by this object is known. `updated`, in and out: the finder has searched. `seen`:
  // the states of the proof's disks, read during this call; empty: they are read.
  Result<Snapshot> ReadText(Proof& proof, bool settled, bool& updated, std::vector<PvState> seen,
                            const Call& call);
  Result<Snapshot> Ask(const std::string& name, Proof& proof, bool updated, const Call& call);
  // The snapshot of the proof, which is a report, with what only the text says: the messages to thin pools.
  Snapshot WithQueues(const Proof& proof, const Call& call);
  Result<Snapshot> AskOnce(const std::string& name, bool& updated, const Call& call);
  std::vector<std::string> PathsOf(const VolumeGroup& group) const;
  // Whether each disk that is gone would, after its return, be at the path where the proof looks for it.
  bool WouldReturn(const VolumeGroup& last, const Proof& proof, const std::vector<PvState>& states) const;
  Status Do(const CreateGroup& change, const Call& call);
  Status Do(const AddPv& change, const Call& call);
  Status Do(const CreateLv& change, const Call& call);
  // Any other verb.
  template <typename Verb>
  Status Do(const Verb& change, const Call& call);
  // `brief`: the command commits, and has LVM's lock until it ends.
  // `proven`: whether the group must be proven before.
  Status Prepared(const std::string& group, const Call& call, bool brief,
                  const std::function<Status()>& change, bool proven = true);
  // Waits until no brief change by this object is running, and then reads the text. Does nothing if none is
  // running.
  Result<Snapshot> ReadTextAfterChange(Group& group, Proof& proof, bool& updated, const Call& call);

  LvmApi& inner_;
  HeaderSource& headers_;
  PvFinder* const finder_;
  LvmApi* const maker_;
  const GroupLocks* const locks_;
  const std::string locking_dir_;
  Mutex mutex_;
  std::map<std::string, std::unique_ptr<Group>> groups_ ABSL_GUARDED_BY(mutex_);  // entries are never erased
  std::atomic<uint64_t> proven_ = 0;
  std::atomic<uint64_t> read_ = 0;
  std::atomic<uint64_t> refreshed_ = 0;
  std::atomic<uint64_t> joined_ = 0;
  std::atomic<uint64_t> unproven_ = 0;
};

}  // namespace quarry::lvm
