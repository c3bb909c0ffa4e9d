// Device-mapper without a kernel. A device is an unlinked file of its own. Open() returns real descriptors of
// it, which the caller may pass on, dup or keep. The fake still knows each device, and how often it is open.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "dm/dm_api.h"
#include "tests/fakes/fake_dm_thin.h"
#include "tests/fakes/faults.h"
#include "thin/pool_reader_api.h"

namespace quarry::fakes {

// Thread-safe.
class FakeDm : public dm::DmApi {
 public:
  static constexpr uint32_t kMajor = 253;

  // --- The world's side: what LVM does.

  // Creates the device with the lowest free minor, as the kernel does: the minor of a removed device is
  // reused. If the device exists, its size (and suspended state) is updated, as by a reload.
  dm::Device AddDevice(const std::string& uuid, const std::string& name, Bytes size, bool read_only = false);
  // A device with the present size and bytes of the device `of`, as of a snapshot.
  void AddCopy(const std::string& uuid, const std::string& name, const std::string& of);
  // kPrecondition "… is open n times" while a descriptor or a mount has it open; OK if already gone.
  Status RemoveDevice(const std::string& uuid);
  Status SetSize(const std::string& uuid, Bytes size);
  void SetSuspended(const std::string& uuid, bool suspended);
  // As a killed LVM leaves it: a table was loaded, and waits.
  void LoadTable(const std::string& uuid);
  // As between LVM's creation of the device and its table, which AddDevice gives it again.
  void TakeTable(const std::string& uuid);
  // nullopt: not a raid device, as every device is at first.
  void SetRaid(const std::string& uuid, std::optional<dm::RaidStatus> status);
  // The scrub in progress ends with this number of mismatches.
  void EndScrub(const std::string& uuid, uint64_t mismatches);
  void SetOnLostDisk(const std::string& uuid, bool lost);
  // What its table maps of the block device at `path`, replacing earlier mappings. At first nothing.
  void SetMappings(const std::string& uuid, const std::string& path,
                   const std::vector<std::pair<Bytes, Bytes>>& offsets_and_lengths);

  // A pool becomes active, as the device `uuid` and "-tpool". With `has_volumes` its name has the suffix,
  // too, as LVM does once there was a thin volume. If a pool of that uuid was active before, it is that one,
  // with its thin devices, and may be larger.
  void AddThinPool(const std::string& uuid, const std::string& name, Bytes chunk, uint64_t data_chunks,
                   bool has_volumes = true);
  // LVM's text had the devices `before`, and now has `now`: those that are new are made, those that are gone
  // are deleted. `transaction_id`: LVM's, which the pool gets.
  void ChangeThins(const std::string& uuid, Bytes chunk, const std::set<dm::ThinId>& before,
                   const std::set<dm::ThinId>& now, uint64_t transaction_id);
  // For FakePoolReader: the device with this UUID has the metadata of the pool.
  void SetThinMetadata(const std::string& pool, const std::string& metadata_uuid);
  // As PoolReaderApi. `metadata`: the node of that device.
  Result<std::optional<Bytes>> BytesOfThin(const std::string& metadata, dm::ThinId id);
  Result<uint64_t> CreationTimeOfThin(const std::string& metadata, dm::ThinId id);
  Result<thin::MappedRanges> MappedOfThin(const std::string& metadata, dm::ThinId id, Bytes from,
                                          size_t most);
  Result<thin::OwnRanges> ExclusiveOfThin(const std::string& metadata, dm::ThinId id, Bytes from,
                                          size_t most);
  Result<thin::WalkedRanges> AllocatedOfThin(const std::string& metadata, dm::ThinId id, Bytes from,
                                             const thin::WalkLimit& limit);
  Result<thin::WalkedRanges> DifferenceOfThins(const std::string& metadata, dm::ThinId base,
                                               dm::ThinId target, Bytes from, const thin::WalkLimit& limit);
  // A device of the pool becomes active. kNotFound: the pool has no device with this id.
  Status AddThin(const std::string& uuid, const std::string& name, const std::string& pool, dm::ThinId id,
                 Bytes size, bool read_only = false);
  // Changes what the pool's status has, except blocks of data: mode, held_root, needs_check, …
  void ChangeThinPool(const std::string& uuid, const std::function<void(dm::ThinPoolStatus&)>& change);

  // Its disks are reopened: failed legs are in sync again, as if nothing had been written meanwhile.
  void Renew(const std::string& uuid);
  // Descriptors of this process, plus those that the kernel would hold (KernelOpen). 0 if there is no such
  // device.
  uint32_t OpenCount(const std::string& uuid) const;
  std::vector<dm::Device> Devices() const;
  // As after a power cut: all devices are gone, even open ones. (Descriptors stay, but belong to no device.)
  void Reboot();
  void SetTarget(const std::string& target,
                 bool offered);  // at first: linear, striped, mirror, raid, error, zero, snapshot

  // --- For FakeMount.

  // The device of a descriptor or a node path ("/dev/dm-3", "/dev/mapper/vg-lv"); nullopt: not a device of
  // this fake.
  std::optional<std::string> UuidOfFd(int fd) const;
  std::optional<dm::Device> DeviceOfNode(const std::string& node) const;
  Result<Bytes> SizeOf(const std::string& uuid) const;
  // Is called after Remove() has removed a device. Set it before other threads use this object.
  void OnRemove(std::function<void(const std::string& uuid)> hook) { removed_ = std::move(hook); }
  // A mounted file system holds its device open, exclusively.
  void KernelOpen(const std::string& uuid, int change);

  // --- DmApi. Faults: "Find", "List", "Raid", "Scrub", "Instance", "Size", "LiesOnLostDisk", "MappingsOf",
  // "Remove", "Open", "SetReadOnly", "HasTarget", "ThinPool", "Thin", "SendToPool", "Suspend", "Resume",
  // "DropWaitingTable".
  Result<std::optional<dm::Device>> Find(const std::string& uuid) override;
  Result<std::vector<dm::Device>> List(const std::string& prefix) override;
  Result<std::optional<dm::RaidStatus>> Raid(const std::string& uuid) override;
  Status Scrub(const std::string& uuid, bool repair) override;
  Result<uint64_t> Instance(const std::string& uuid) override;
  Result<std::optional<Bytes>> Size(const std::string& uuid) override;
  Result<bool> LiesOnLostDisk(const std::string& uuid) override;
  Result<std::vector<dm::Mapping>> MappingsOf(const std::string& path) override;
  Status Remove(const std::string& uuid) override;
  void RemoveStaleNodes(const std::string& /*group*/,
                        const std::function<bool(const std::string&)>& /*ours*/) override {}  // has no nodes
  Result<UniqueFd> Open(const std::string& uuid, int flags) override;
  Result<UniqueFd> OpenAlways(const std::string& uuid, int flags);  // without faults, for other fakes
  Status SetReadOnly(const std::string& uuid, bool read_only) override;
  Result<bool> HasTarget(const std::string& target) override;
  Result<std::optional<dm::ThinPoolStatus>> ThinPool(const std::string& uuid) override;
  Result<std::optional<dm::ThinStatus>> Thin(const std::string& uuid) override;
  // As the kernel. But a snapshot of an active device that is not suspended, which the kernel makes of
  // whatever has reached it, is kInternal.
  Status SendToPool(const std::string& uuid, const dm::PoolMessage& message) override;
  Status Suspend(const std::string& uuid, dm::FileSystemLock lock) override;
  Status Resume(const std::string& uuid) override;
  Status DropWaitingTable(const std::string& uuid) override;

  Faults faults;

 private:
  struct State {
    dm::Device device;
    Bytes size;
    UniqueFd file;  // keeps the file alive; every Open makes a new open file description
    uint64_t inode = 0;
    int kernel_opens = 0;
    std::optional<dm::RaidStatus> raid;
    bool on_lost_disk = false;
    std::map<std::string, std::vector<std::pair<Bytes, Bytes>>> mappings;  // by path
    uint64_t instance = 0;
    std::optional<std::pair<std::string, dm::ThinId>> thin;  // the uuid of its pool, without suffix
    // The file is as long as the device. Its end reads as zeroes until somebody writes there.
    void Resize(Bytes to);
  };
  uint32_t OpenCountLocked(const State& state) const;
  uint32_t FreeMinor() const;
  State NewState(const std::string& uuid, const std::string& name, UniqueFd file);
  // The uuid of the pool's device; nullopt: it is not active.
  std::optional<std::string> PoolDevice(const std::string& uuid) const;
  std::optional<dm::ThinPoolStatus> PoolStatus(const std::string& uuid);
  // The pool whose metadata this node has, if they are reserved.
  Result<FakeThinPool*> ReservedPool(const std::string& metadata);
  // How many devices of the pool are active; 0: not a pool.
  uint32_t ActiveThins(const std::string& uuid) const;
  State* ActiveThin(const std::string& pool, dm::ThinId id);

  std::function<void(const std::string&)> removed_;
  mutable std::mutex mutex_;
  std::map<std::string, State> devices_;       // by uuid
  std::map<std::string, UniqueFd> bytes_;      // of removed devices, by uuid: the disks still have them
  std::map<std::string, FakeThinPool> pools_;  // by uuid without suffix; the disks have them, too
  std::map<std::string, std::string> thin_metadata_;  // uuid of the metadata device → pool
  uint64_t instances_ = 0;
  std::map<std::string, bool> targets_ = {{"linear", true},   {"striped", true},  {"mirror", true},
                                          {"raid", true},     {"error", true},    {"zero", true},
                                          {"snapshot", true}, {"thin-pool", true}};
};

}  // namespace quarry::fakes
