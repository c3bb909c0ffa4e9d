// An administrator in the same volume group. With LVM's own tools he creates, changes, moves and removes
// unmanaged logical volumes ("own"), builds on managed ones ("others"), and removes what looks unfinished. He
// knows every byte of his own volumes.
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

// The managed volumes, as the administrator may know them. He calls this from his thread while the test uses
// them.
class OthersVolumes {
 public:
  struct Seen {
    uint64_t version;  // changes with the bytes and with the kind of the volume
    KnownBytes bytes;
  };
  virtual ~OthersVolumes() = default;
  // The logical volumes that are in use, by name.
  virtual std::vector<std::string> Ready() = 0;
  // nullopt: the bytes are being changed, or are not known.
  virtual std::optional<Seen> Look(const std::string& lv) = 0;
  // Taken: he is about to remove or overwrite it. Spared: that attempt failed.
  virtual void Taken(const std::string& lv) = 0;
  virtual void Spared(const std::string& lv) = 0;
  virtual void Renamed(const std::string& from, const std::string& to) = 0;
};

// What he does most of the time.
enum class Mood { kEverything, kMoving, kBuilding, kTidying };

// Not thread-safe. Only a pvmove that he started runs in a thread of its own.
class Administrator {
 public:
  // `disks` are the disks of the group. Its extents have 1 MiB.
  Administrator(std::string group, std::vector<std::string> disks, OthersVolumes& others, Story& story);
  ~Administrator();
  Administrator(const Administrator&) = delete;
  Administrator& operator=(const Administrator&) = delete;

  // Runs one or a few commands. They may fail if something is in their way.
  void Act(Mood mood, std::mt19937& random);
  // Creates a logical volume of his own, to begin with.
  void MakeOne(std::mt19937& random) { Create(random); }
  // Every volume of his own exists with its bytes, and a finished pvmove has moved its volumes. Otherwise
  // kCorrupt or kNotFound, with the logical volume. Activates a volume that another process has deactivated.
  Status Check();
  // Ends his pvmove, undoes what he did to others' volumes, and removes his own.
  Status Leave();

 private:
  using Command = void (Administrator::*)(std::mt19937&);
  // LVM's settings. Without udev, whose part costs more here than LVM's, and without work after the command's
  // end.
  static constexpr char kConfig[] =
      "activation{udev_sync=0 udev_rules=0 monitoring=0} global{use_lvmpolld=0} backup{backup=0 archive=0}";
  enum class Kind { kPlain, kSnapshot, kThin, kThinPool };
  struct Own {
    Kind kind = Kind::kPlain;
    KnownBytes bytes;  // empty: not known, or the volume has none
    bool cached = false;
    std::string origin = {};  // of a snapshot
  };
  struct Move {
    std::string from;            // disk
    std::set<std::string> what;  // his own linear logical volumes that lay there
    std::atomic<bool> aborted = false;
    std::atomic<bool> over = false;
    Outcome outcome;  // valid once over
    std::jthread thread;
  };

  static const std::vector<std::pair<int, Command>>& CommandsOf(Mood mood);

  // On his own volumes.
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
  // On others' volumes.
  void Snapshot(std::mt19937& random);
  void MirrorOthers(std::mt19937& random);
  void CacheOthers(std::mt19937& random);
  void PoolOfOthers(std::mt19937& random);
  void RenameOthers(std::mt19937& random);
  void RemoveOthers(std::mt19937& random);
  // Removes a volume that carries the marker of an unfinished or deleted one, and creates his own in its
  // place.
  void TidyUp(std::mt19937& random);

  Outcome Run(std::vector<std::string> argv);
  void ResumeOwn();
  // Repeats the command until it succeeds, for some time: another process may have the device open for a
  // moment.
  Status MustRun(const std::vector<std::string>& argv);
  // The output of `lvs`: rows of fields.
  std::vector<std::vector<std::string>> Report(const std::string& fields, bool hidden = false) const;
  std::string Path(const std::string& lv) const { return group_ + "/" + lv; }
  std::string Node(const std::string& lv) const { return "/dev/" + group_ + "/" + lv; }
  std::string NewName() { return "his" + std::to_string(++names_); }
  int Pick(std::mt19937& random, int below) const;
  std::string PickDisk(std::mt19937& random) const;
  // nullptr if he has no such volume.
  std::pair<const std::string, Own>* PickOwn(std::mt19937& random, bool plain);
  std::string PickOthers(std::mt19937& random);  // "" if there is none
  // Writes to the whole volume and remembers the bytes.
  void Fill(const std::string& lv, uint64_t extents, Kind kind = Kind::kPlain);
  void Expect(const Status& written);
  void ThinOn(const std::string& pool);
  void Cache(const std::string& lv, bool* cached);
  bool RemoveTheirs(const std::string& lv);
  // After he changes one of his volumes, its place no longer shows whether a pvmove has moved it.
  void Disturb(const std::string& lv);
  bool HasSnapshots(const std::string& lv) const;
  void NoteNewName(const std::string& from, const std::string& to);
  void StartMove(const std::string& from, const std::vector<std::string>& more, std::set<std::string> what);
  Status EndOfMove();
  Status CheckOwn(const std::string& lv, const KnownBytes& bytes);
  std::set<std::string> PlainOnesOn(const std::string& disk) const;
  std::string DiskOf(const std::string& lv) const;  // "" if LVM names none

  const std::string group_;
  const std::vector<std::string> disks_;
  OthersVolumes& others_;
  Story& story_;
  int names_ = 0;
  std::map<std::string, Own> own_;                    // by name
  std::set<std::string> cached_, mirrored_, pooled_;  // others' volumes
  std::map<std::string, std::string> renamed_;        // others' volumes: present name → original name
  std::string reduced_;                               // the disk that he took out of the group
  std::unique_ptr<Move> move_;
  Status trouble_ = Ok();  // the first error of a write
};

}  // namespace quarry::vm
