// A neighbour in the volume group: with LVM's own tools he makes, changes, moves and removes logical volumes
// of his own, builds on those of others, and takes away what looks half-made. He knows every byte that is
// his.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tests/vm/kit/known_bytes.h"
#include "tests/vm/kit/shell.h"
#include "tests/vm/kit/story.h"

namespace quarry::vm {

// The others' volumes as the neighbour may know them. Called from his thread while the others go on.
class OthersVolumes {
 public:
  struct Seen {
    uint64_t version;  // another one after every change of the bytes, or of what the volume is
    KnownBytes bytes;
  };
  virtual ~OthersVolumes() = default;
  // Logical volumes that are in use, by name.
  virtual std::vector<std::string> Ready() = 0;
  // nullopt: they are being changed, or not known.
  virtual std::optional<Seen> Look(const std::string& lv) = 0;
  // He is about to take it away, or to overwrite it; and it did not come to that.
  virtual void Taken(const std::string& lv) = 0;
  virtual void Spared(const std::string& lv) = 0;
  virtual void Renamed(const std::string& from, const std::string& to) = 0;
};

// What he is mostly at.
enum class Mood { kEverything, kMoving, kBuilding, kTidying };

// One thread at a time, but for the pvmove that he has left running.
class Administrator {
 public:
  // `disks` are the group's; extents of 1 MiB.
  Administrator(std::string group, std::vector<std::string> disks, OthersVolumes& others, Story& story);
  ~Administrator();
  Administrator(const Administrator&) = delete;
  Administrator& operator=(const Administrator&) = delete;

  // One or a few commands, which may fail: then something is in the way.
  void Act(Mood mood, std::mt19937& random);
  // A logical volume of his own, for a beginning.
  void MakeOne(std::mt19937& random) { Create(random); }
  // Everything of his is there with its bytes, and what he moved has arrived: kCorrupt, or kNotFound, with
  // the logical volume. Activates what somebody has deactivated.
  Status Check();
  // Ends what he is moving, takes back what he did to others' volumes, and removes what is his.
  Status Leave();

 private:
  using Command = void (Administrator::*)(std::mt19937&);
  // Of LVM. Without udev's part, which costs more here than LVM's; and without what would go on after a
  // command.
  static constexpr char kConfig[] =
      "activation{udev_sync=0 udev_rules=0 monitoring=0} global{use_lvmpolld=0} backup{backup=0 archive=0}";
  enum class Kind { kPlain, kSnapshot, kThin, kThinPool };
  struct Own {
    Kind kind = Kind::kPlain;
    KnownBytes bytes;  // none: not known, or there are none
    bool cached = false;
    std::string origin = {};  // of a snapshot: whose
  };
  struct Move {
    std::string from;            // disk
    std::set<std::string> what;  // logical volumes of his, that lay there as a plain one
    std::atomic<bool> aborted = false;
    std::atomic<bool> over = false;
    Outcome outcome;  // once over
    std::jthread thread;
  };

  static const std::vector<std::pair<int, Command>>& CommandsOf(Mood mood);

  // On his own.
  void Create(std::mt19937& random);
  void CreateThin(std::mt19937& random);
  void Extend(std::mt19937& random);
  void Remove(std::mt19937& random);
  void Rename(std::mt19937& random);
  void Mirror(std::mt19937& random);
  void CacheOwn(std::mt19937& random);
  void Tag(std::mt19937& random);
  // On the group.
  void MoveDisk(std::mt19937& random);
  void MoveByName(std::mt19937& random);
  void Abort(std::mt19937& random);
  void ReduceAndExtend(std::mt19937& random);
  // On others'.
  void Snapshot(std::mt19937& random);
  void MirrorOthers(std::mt19937& random);
  void CacheOthers(std::mt19937& random);
  void PoolOfOthers(std::mt19937& random);
  void RenameOthers(std::mt19937& random);
  void RemoveOthers(std::mt19937& random);
  // What bears a marker of a half-made or deleted volume goes, and his own comes into its place.
  void TidyUp(std::mt19937& random);

  Outcome Run(std::vector<std::string> argv);
  // The same until it works, for some time: somebody may have the device open for a moment.
  Status MustRun(const std::vector<std::string>& argv);
  // What `lvs` says, rows of fields.
  std::vector<std::vector<std::string>> Report(const std::string& fields, bool hidden = false) const;
  std::string Path(const std::string& lv) const { return group_ + "/" + lv; }
  std::string Node(const std::string& lv) const { return "/dev/" + group_ + "/" + lv; }
  std::string NewName() { return "his" + std::to_string(++names_); }
  int Pick(std::mt19937& random, int below) const;
  std::string PickDisk(std::mt19937& random) const;
  // nullptr: he has none such.
  std::pair<const std::string, Own>* PickOwn(std::mt19937& random, bool plain);
  std::string PickOthers(std::mt19937& random);  // "": there is none
  // Writes to all of it, and knows it from then on.
  void Fill(const std::string& lv, uint64_t extents, Kind kind = Kind::kPlain);
  void Expect(const Status& written);
  void ThinOn(const std::string& pool);
  void Cache(const std::string& lv, bool* cached);
  bool RemoveTheirs(const std::string& lv);
  // What he does to one of his no longer tells whether a move has moved it.
  void Disturb(const std::string& lv);
  bool HasSnapshots(const std::string& lv) const;
  void NoteNewName(const std::string& from, const std::string& to);
  void StartMove(const std::string& from, const std::vector<std::string>& more, std::set<std::string> what);
  Status EndOfMove();
  Status CheckOwn(const std::string& lv, const KnownBytes& bytes);
  std::set<std::string> PlainOnesOn(const std::string& disk) const;
  std::string DiskOf(const std::string& lv) const;  // "": it has none of its own

  const std::string group_;
  const std::vector<std::string> disks_;
  OthersVolumes& others_;
  Story& story_;
  int names_ = 0;
  std::map<std::string, Own> own_;                    // by name
  std::set<std::string> cached_, mirrored_, pooled_;  // of others'
  std::map<std::string, std::string> renamed_;        // of others': what they are called, what they were
  std::string reduced_;                               // disk that he took out
  std::unique_ptr<Move> move_;
  Status trouble_ = Ok();  // the first that a write met
};

}  // namespace quarry::vm
