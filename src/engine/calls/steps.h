// Steps that more than one file here uses; each names the file with its body. Unless a step says otherwise,
// its callers hold the volume's locks and a pass of the gate.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "engine/calls/parts.h"
#include "engine/model/config.h"
#include "engine/model/store_status.h"
#include "engine/model/upkeep_requests.h"
#include "engine/plan/plan_thin.h"
#include "engine/plan/plan_volume.h"
#include "engine/volumes.h"

namespace quarry::engine {

// Locks the volume with this id, or the inline volume with this handle, for a call of `rpc`.
inline Result<KeyLocks::Guard> LockVolume(Parts& parts, const std::string& id, std::string_view rpc,
                                          const Call& call) {
  return parts.node.locks.Lock(LockKey::Volume(id), fmt::format("{} of {}", rpc, id), call);
}

// The same for a volume with type=thin, whose space is in a thin store. (provision.cc)
Result<Volume> MakeThinVolume(Parts& parts, Pool& pool, CreateWish wish, const CapacityRange& range,
                              const std::string& what, const Call& call);

// The error for what does not fit into its store. Volumes that are being erased there make room.
// `elsewhere`: as CreateWish::elsewhere. (provision.cc)
Error ExplainFullStore(Error error, const Catalog& catalog, const PoolConfig& pool, const Store& store,
                       const StoreNeed& need, bool elsewhere);
// Whether the group's limit permits another volume; if not, whether the caller should ask other nodes.
// (provision.cc)
Status CheckLimitFor(Parts& parts, const Catalog& catalog, const CreateWish& wish, Pool& pool);

// What is left of making a volume that becomes a copy.
struct Unfilled {
  Plan rest;             // runs under the turn, once the bytes are in place
  bool is_zero = false;  // the new volume reads as zeroes
};
// Makes the volume that `wish` describes. Chooses its size, and its lv_name if that is empty. The volume must
// be known not to exist. Waits for the group's turn and for space that must be zeroed first. `what` names the
// call, for callers that wait behind it. `unfilled`, if not nullptr: the volume becomes a copy, its lv_name
// is in Pool::copying already, and it is made as StopBeforeReady says. (provision.cc)
Result<Volume> MakeNewVolume(Parts& parts, Pool& pool, CreateWish wish, const CapacityRange& range,
                             const std::string& what, const Call& call, Unfilled* unfilled = nullptr);

// A copy to be made: a volume of a volume or a snapshot, or a snapshot of a volume.
struct CopyRequest {
  std::string name;  // of the copy
  ContentSource source;
  bool to_snapshot = false;
  CapacityRange range = {};
  bool elsewhere = false;  // CreateRequest::elsewhere
};
// Makes a volume or snapshot with the bytes of request.source, which must not be in use meanwhile. The copy
// goes on when `call` ends; `guard`, the lock of the new name, is kept for as long. If an earlier process
// began this copy, it goes on with that. Everything else in `wish` is as for MakeNewVolume. (copy.cc)
Result<Volume> MakeCopy(Parts& parts, Pool& pool, CreateWish wish, const CopyRequest& request,
                        const std::string& what, KeyLocks::Guard& guard, const Call& call);
// The name of the store in which a copy of `source` with type=thin is. kInvalidArgument: it cannot be in the
// store that the wish names. (thin_copies.cc)
Result<std::string> StoreForCopy(const Record& source, const CreateWish& wish);
// The snapshot to make of `source`, for callers' parameters. Its legs are in sync from the start, where LVM
// can make them so, so that the snapshot need not wait for it. (snapshots.cc)
Result<CreateWish> SnapshotWish(const std::string& name, const Parameters& parameters, const Found& source);
// What a copy takes over from its source. `from`: the source, as the copy's tags name it; `asked`: the size
// that the caller asked for. (copy.cc)
void FillCopyWish(CreateWish& wish, const Record& source, ContentSource from, Bytes asked);
// Whether this volume or snapshot can be the source of the LV that `wish` describes. (copy.cc)
Status CheckCopySource(const Record& source, const CreateWish& wish);

// Makes all of them at one instant: a new volume, a snapshot, or with `group`, the name of it, the members of
// a group snapshot. Chooses their names; the origins are in one store, which is in the wishes' profiles.
// (thin_copies.cc)
Result<std::vector<Volume>> MakeThinCopies(Parts& parts, Pool& pool, std::vector<CutWish> wishes,
                                           const std::string& group, const std::string& what,
                                           const Call& call);
// The same for a copy in the thin store of its source, which may be in use. `wish`: its store is that of the
// source; `formatted`, `source` and `cut` are set. (thin_copies.cc)
Result<Volume> MakeThinCopy(Parts& parts, Pool& pool, CreateWish wish, const Record& source,
                            const CapacityRange& range, const std::string& what, const Call& call);
// For a repeated call, before it takes the lock of the name: waits for the copy that an earlier call left
// behind, as BackgroundSteps::Join does. (copy.cc)
Status JoinCopy(Parts& parts, const CopyRequest& request, const Call& call);

// The largest volume that a pool can make now, and the reason if there is none. `least_size`: the smallest
// size that is useful to the caller. Needs no lock. (controller.cc)
CapacityResult CapacityIn(const Catalog& catalog, const PoolConfig& pool, const lvm::Geometry& geometry,
                          Bytes least_size);

// Every thin store that the pool has or that its configuration names, by name. Starts no process.
// (store_report.cc)
std::vector<StoreStatus> StoresOf(Parts& parts, Pool& pool, const Catalog& catalog);

// The catalogs of all pools, in the order of the configuration. kUnavailable if one cannot be read: a list
// without its volumes would mean that they no longer exist. (listing.cc)
Result<std::vector<std::shared_ptr<const Catalog>>> AllCatalogs(Parts& parts, const Call& call);

// For a deletion whose volume or snapshot (`kind`) was not found: OK if it is gone. kPrecondition if it may
// still exist, on another node, in a pool that is not configured, or as a part of another LV. (controller.cc)
Status CheckDeleted(Parts& parts, const std::string& id, std::string_view kind, const Call& call);
// Remembers that it was deleted here although its id does not say that it was here. (controller.cc)
void NoteDeleted(Parts& parts, const std::string& id);

// OK if nothing uses the volume and nothing stands on it. Otherwise the errors of CheckAlone and CheckUnused
// (plan/in_use.h). Closes the descriptor that was kept of a raw volume if that is not published any more.
// (controller.cc)
Status CheckIdle(Parts& parts, const Record& record, const Call& call);

// Makes a volume unreachable and has its bytes erased. kPrecondition if the volume is in use, or if something
// stands on it (CheckAlone): the error names what. kUnavailable: the obstacle ends by itself. (controller.cc)
// `lost`: only if disks are missing without which it cannot be read, else kPrecondition.
Status EndVolume(Parts& parts, const Found& found, const std::string& what, const Call& call,
                 bool lost = false);

// Grows the volume's logical volume. Waits for the group's turn and for space that must be zeroed first.
// (provision.cc)
Result<ExpandResult> GrowTo(Parts& parts, Pool& pool, const std::string& id, const CapacityRange& range,
                            const std::string& what, const Call& call);

// Whether the first MiB of a device on which libblkid finds no signature reads as zeroes: file systems,
// databases and similar data begin there. `what` names the device in errors. (adoption.cc)
Result<bool> BeginsWithZeros(int fd, const std::string& what);

// Publishes a file system; one that was not staged is formatted first if needed. `guard`: the lock of
// request.id; steps that take longer than `call` keep it. (node.cc)
Status PublishMounted(Parts& parts, const Found& found, const Stack& stack, const PublishRequest& request,
                      KeyLocks::Guard& guard, const Call& call);

// Unmounts the volume at `asked`, which may be free already. `stack`: of the volume, if it is active. OK
// without a change if something else is mounted there. (node.cc)
Status TakeFromTarget(Parts& parts, const std::optional<Stack>& stack, const std::string& id,
                      const AbsolutePath& asked, TargetOwner target_owner, const Call& call);

// The second half of unpublishing an inline volume: deletes it. False: it is mounted elsewhere on this node,
// so it stays. Called under the lock of its handle. Fails as EndVolume does. (inline_volumes.cc)
Result<bool> EndEphemeral(Parts& parts, const Found& found, const Call& call);

// Deletes those inline volumes in `left_behind` that lie in this pool and can be deleted now. Empty
// `pool_name`: in any pool. Tries their locks itself. `report` gets the time of the next attempt.
// (inline_volumes.cc)
void EndLeftBehind(Parts& parts, const std::string& pool_name, const Call& call, RepairReport& report);

// Whether the kernel has nothing left to do for the legs of this device: it is not RAID, not active, or
// whole. (snapshots.cc)
bool AreLegsAtRest(const World& world, const std::string& dm_uuid);

// Deactivates whole snapshots in this pool that are active and not in use; empty `pool_name`: in any pool. A
// kill may have left them so, or they were scrubbed or rebuilt. A program could mount an active snapshot by
// the UUID of its file system, and change it. But somebody may have activated one to read it, and needs a
// moment to open it: `due` is true half a minute apart, and only what was found idle then, twice, is
// deactivated. The first call for a pool activates its RAID snapshots before, so that the kernel finishes
// what a reboot has cut off. (snapshots.cc)
void RestSnapshots(Parts& parts, const std::string& pool_name, bool due, const Call& call);

// The group, for a plan that may let a store grow: free space that is being zeroed is given back before, if
// there is a store that grows by itself. The caller has the turn. (store_upkeep.cc)
Result<std::shared_ptr<const Catalog>> ReadForStores(Parts& parts, Pool& pool, const Call& call);
// Whether something may be made in this store, or grow. kNoSpace: it is overcommitted, and its data are in
// use up to StoreConfig::refuse. Starts the store. The caller has the turn. (store_upkeep.cc)
Status CheckFill(Parts& parts, Pool& pool, const Catalog& catalog, const Store& store, const Call& call);
// Grows the store so that its data have at least this size. OK at once if they have it. The caller has the
// turn, and has read the group with ReadForStores. (store_upkeep.cc)
Status GrowStore(Parts& parts, Pool& pool, const Catalog& catalog, const Store& store, Bytes data,
                 const Call& call);
// Removes what a repair of a thin store left that was cut off, and takes Quarry's tags off former metadata.
// What cannot be done now is done at the next start, or before the next repair. (store_repair.cc)
void EndRepairs(Parts& parts, Pool& pool, const Catalog& catalog, const Call& call);

// A thin store that was looked for.
struct FoundStore {
  Pool* pool = nullptr;
  std::shared_ptr<const Catalog> catalog;
  StoreStatus status;
};
// By its name or id; `pool`: in which it is, or empty. Errors as for Lifecycle::ShowStore. (store_report.cc)
Result<FoundStore> FindStoreNamed(Parts& parts, const std::string& pool, const std::string& wanted,
                                  const Call& call);

// Every path where the volume is mounted or published. Empty also if that could not be found out.
// (listing.cc)
std::vector<std::string> UsedAt(Node& node, const Record& record, const Result<mount::MountTable>& mounts);

// Whether there is a thin store, or the configuration wants one. (thin_stores.cc)
bool HasStores(const Parts& parts);
// Starts the thin stores of the pool, before any LVM command can do so (plan/start_store.h). One that cannot
// be started is logged; the pool serves without it. The caller has the turn. (thin_stores.cc)
void StartStores(Parts& parts, Pool& pool, const Catalog& catalog, const Call& call);
// Makes and grows the stores that the configuration wants. What fails is logged, and tried again at the next
// start. The caller has the turn. (thin_stores.cc)
void EnsureStores(Parts& parts, Pool& pool, const Call& call);

// What a start does before a pool is served: finishes or undoes what an earlier process left unfinished.
// (startup.cc)
//
// Takes the pool's turn; the caller holds nothing. Under the turn it:
// - makes the group if the configuration wants it and it does not exist,
// - starts the thin stores, and makes and grows those that the configuration wants,
// - removes unfinished volumes, legs without a volume, devices without a logical volume, and devices of legs
//   whose volume has no device,
// - resumes devices that a killed LVM left suspended,
// - loads a volume's table again if one of its devices maps extents that are not the volume's,
// - keeps the device of every published raw volume open,
// - recalls which free extents the last process knew to be zero.
//
// Touches only what is proven to be managed. Logs and leaves what cannot be removed. On an error the pool is
// not served. May be repeated.
Status Reconcile(Parts& parts, Pool& pool, const Call& call);

}  // namespace quarry::engine
