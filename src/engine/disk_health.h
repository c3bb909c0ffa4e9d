// How the pools' disks are by their own word, and what follows from it: what gets no new data, and what is
// said of the volumes that lie there.
//
// Failing: the disk says that its spare blocks run out, that it is not reliable any more, or that it takes no
// more writes. Worn: it has had the whole life that its vendor expects of it (100 % used), and may go on for
// long. What it says of its temperature concerns neither. Failing is also, of any kind of disk, one on which
// legs fail again each time that they are taken back.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/catalog.h"
#include "engine/types.h"
#include "lvm/layout.h"
#include "udev/disk_health.h"

namespace quarry::engine {

enum class DiskState { kGood, kWorn, kFailing };
std::string_view DiskStateName(DiskState state);  // "good", "worn", "failing"

struct DiskVerdict {
  DiskState state = DiskState::kGood;
  std::string words;  // why; empty if it is good
};
// Pure.
DiskVerdict JudgeHealth(const udev::DiskHealth& health);

// PVs of the group that get nothing new: those that fail, and those that are worn as long as a present disk
// of the group is neither. Pure.
std::set<std::string> Withheld(const lvm::VolumeGroup& group, const WeakDisks& weak);
// `space` less what lies on these PVs. Pure.
lvm::FreeSpace Without(lvm::FreeSpace space, const std::set<std::string>& pvs);
// An error of placing in a pool, with a word on the disks that were left out. Pure.
Error TellOfWithheld(Error error, const Catalog& catalog);
// What `place` makes of the group's free room: not onto a disk that fails, and onto a worn one only if no
// other will do, for there it is better than nowhere. Pure if `place` is.
template <typename Place>
auto PlaceOnSoundDisks(const lvm::VolumeGroup& group, const WeakDisks& weak, Place place) {
  const lvm::FreeSpace all = lvm::FreeSpaceOf(group);
  auto placed = place(Without(all, Withheld(group, weak)));
  if (!placed.has_value() && placed.error().code() == Code::kNoSpace && !weak.worn.empty()) {
    placed = place(Without(all, Withheld(group, {weak.failing, {}, {}})));
  }
  return placed;
}
// lvm::PlaceLegs like that. Pure.
Result<lvm::LegReplacement> PlaceRebuiltLegs(const lvm::VolumeGroup& group, const WeakDisks& weak,
                                             const lvm::Geometry& geometry, const lvm::LogicalVolume& lv,
                                             const std::vector<bool>& which);
// What is to be said of a volume with a part on failing disks; nullopt if it has none. Pure.
std::optional<Ailment> DiskFailing(const Record& record, const WeakDisks& weak);

// What the disks said when they were last asked, by PV UUID. In memory only: a start asks anew. Thread-safe.
class DiskHealths {
 public:
  struct Known {
    udev::DiskHealth health;
    DiskVerdict verdict;
  };
  // One that is as it was is none.
  struct Change {
    std::string pv;
    DiskState was = DiskState::kGood, is = DiskState::kGood;
    std::string words;
    std::optional<Error> silent;  // it does not answer, or not as it should; what it is, it stays
  };

  // Whom to ask.
  struct Round {
    std::map<std::string, std::string> nodes;  // by PV UUID; empty: it is away
    bool complete = true;                      // there are no others: what is known of others is forgotten
  };

  // Asks each disk on a thread of its own, for one that does not answer must not hold up the others; one that
  // owes an answer is not asked again. Waits for the answers until `call` ends, at most a minute; what comes
  // later is told by the next call.
  std::vector<Change> Ask(const std::shared_ptr<udev::DiskHealthApi>& api, const Round& round,
                          const Call& call);

  // A disk that fails by what the kernel got of it, whatever it says itself; until it is forgiven.
  void Blame(const std::string& pv, std::string words);
  void Forgive(const std::string& pv);

  std::optional<Known> Of(const std::string& pv) const;
  std::shared_ptr<const WeakDisks> Weak() const;  // the same object until something changes

 private:
  using Answer = Result<std::optional<udev::DiskHealth>>;
  // What the threads that ask share with us, and keep when we are gone.
  struct Asked {
    std::mutex mutex;
    std::condition_variable_any answered;
    std::set<std::string> open;
    std::map<std::string, Answer> answers;
  };

  static void AskOne(std::shared_ptr<udev::DiskHealthApi> api, std::shared_ptr<Asked> asked, std::string pv,
                     std::string node);
  std::optional<Change> Take(const std::string& pv, Answer answer);
  void Summarize();

  const std::shared_ptr<Asked> asked_ = std::make_shared<Asked>();
  std::mutex asking_;  // one round at a time
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::map<std::string, Known> known_;
  std::map<std::string, std::string> silent_;  // errors that were told
  std::map<std::string, std::string> blamed_;
  std::shared_ptr<const WeakDisks> weak_ = std::make_shared<const WeakDisks>();
};

}  // namespace quarry::engine
