// What a start does before a pool is served.
#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include <fmt/format.h>

#include "engine/calls/steps.h"
#include "engine/calls/unfinished_copies.h"
#include "engine/disks/inventory.h"
#include "engine/disks/join.h"
#include "engine/model/config.h"
#include "engine/plan/left_suspended.h"
#include "engine/plan/plan_cow.h"
#include "engine/pool/reload.h"
#include "engine/pool/zeroed_file.h"

namespace quarry::engine {
namespace {

constexpr std::chrono::seconds kHoldLimit{30};

// Keeps the device of every published raw volume open, as the earlier process did.
Status TakeHolds(Parts& parts, const Catalog& catalog, const mount::MountTable& mounts) {
  for (const Record& record : catalog.records) {
    if (record.tags.state != lvm::VolumeState::kReady || record.access == Access::kMount) {
      continue;
    }
    QUARRY_ASSIGN(const auto stack, parts.node.StackOn(record.DmUuid()));
    if (!stack.has_value()) {
      continue;
    }
    QUARRY_ASSIGN(const auto published, parts.node.Published(mounts, *stack));
    if (!published.empty()) {
      QUARRY_ASSIGN(UniqueFd fd, parts.node.world.dm.Open(stack->top().uuid, O_RDONLY));
      parts.node.holds.Keep(record.tags.id, std::move(fd));
    }
  }
  return Ok();
}

constexpr int kAttempts = 5;

// Names and UUIDs of the logical volumes that an interrupted create or removal left.
std::map<std::string, std::string> HalfMade(const Catalog& catalog) {
  std::map<std::string, std::string> out;
  for (const std::string& name : catalog.stray_legs) {
    const lvm::LogicalVolume* lv = catalog.group->FindLv(name);
    out.emplace(name, lv == nullptr ? "" : lv->uuid);
  }
  for (const Record& record : catalog.records) {
    if (record.tags.state == lvm::VolumeState::kCreating) {
      out.emplace(record.lv->name, record.lv->uuid);
    }
  }
  return out;
}

// Removes an LV that HalfMade() found, if it is still unfinished. A command of another process may have
// finished the LV since, or given its name to another LV.
Status RemoveIfHalfMade(Parts& parts, Pool& pool, const std::pair<const std::string, std::string>& lv,
                        const Call& call) {
  QUARRY_ASSIGN(const auto now, parts.node.ReadGroup(pool, call));
  const auto left = HalfMade(*now);
  const auto found = left.find(lv.first);
  if (found == left.end() || found->second != lv.second) {
    return Error(Code::kUnavailable, "it changed since it was inspected: it is not touched");
  }
  return RunCounted(pool, {RemoveLvAction{now->group->name, {lv.first}, now->group->seqno}}, parts.node.world,
                    call);
}

// Removes what an interrupted create or removal left. The eraser removes later what cannot be removed now.
// True if there was anything.
bool RemoveHalfMade(Parts& parts, Pool& pool, const Catalog& catalog, const Call& call) {
  const auto left = HalfMade(catalog);
  for (const auto& lv : left) {
    const std::string& name = lv.first;
    Status removed;
    int attempts = 0;
    do {  // another process may commit meanwhile
      removed = RemoveIfHalfMade(parts, pool, lv, call);
    } while (!removed.has_value() && removed.error().code() == Code::kUnavailable && ++attempts < kAttempts);
    if (removed.has_value()) {
      parts.node.log.Info("removed an unfinished volume", {{"pool", pool.config.name}, {"lv", name}});
    } else {
      parts.node.log.Warning(
          "an unfinished volume cannot be removed yet",
          {{"pool", pool.config.name}, {"lv", name}, {"error", removed.error().message()}});
    }
  }
  return !left.empty();
}

// The LV name of the volume to which a device or leg device of this name belongs. Empty
// if that name is not one that Quarry gives to LVs of this group.
std::string VolumeOf(const std::string& device_name, const Catalog& catalog) {
  const std::string prefix = lvm::DmName(catalog.group->name, "");
  if (!device_name.starts_with(prefix)) {
    return "";
  }
  const std::string_view name =
      lvm::WithoutPoolLayer(lvm::WithoutLayer(std::string_view(device_name).substr(prefix.size())));
  for (const Store& store : catalog.stores) {
    if (const std::string_view kept = lvm::KeptMetadataNameIn(name, store.lv->name); !kept.empty()) {
      return std::string(kept);
    }
  }
  return std::string(lvm::IsOurLvName(name) ? name : lvm::OurLvNameIn(name));
}

// The name of the adopted volume to which this device or leg device belongs; empty: none. Adopted volumes
// keep their names, so VolumeOf does not find them.
std::string AdoptedVolumeOf(const dm::Device& device, const Catalog& catalog) {
  for (const Record& record : catalog.records) {
    const std::string name = lvm::DmName(catalog.group->name, record.lv->name);
    if (!lvm::IsOurLvName(record.lv->name) &&
        (device.name == name || device.uuid == lvm::DmUuidBelow(record.DmUuid()) ||
         device.name.starts_with(name + "_rimage_") || device.name.starts_with(name + "_rmeta_"))) {
      return record.lv->name;
    }
  }
  return "";
}

// Whether a killed or failed LVM left this device between a managed volume and the store of its copy, which
// are not bound to each other any more.
bool IsLooseLayer(const dm::Device& device, const Catalog& catalog) {
  return std::ranges::any_of(catalog.records, [&](const Record& record) {
    const auto is_bound = [&](const lvm::LogicalVolume& other) { return other.origin == record.lv->name; };
    return (device.uuid == lvm::DmUuidBelow(record.DmUuid()) &&
            std::ranges::none_of(catalog.group->lvs, is_bound)) ||
           (device.uuid == lvm::DmUuidOfStore(record.DmUuid()) && record.lv->origin.empty());
  });
}

// Removes stray devices of three kinds: devices with a name of Quarry's whose LV does not exist, devices of
// legs of a managed volume that itself has no device, and those of IsLooseLayer. A device cannot be removed
// while another device lies on it. So the remaining devices are tried again as long as a pass removes at
// least one.
void RemoveStrayDevices(Parts& parts, const std::string& group, std::vector<dm::Device> devices,
                        const Call& call) {
  for (size_t before = devices.size() + 1; !devices.empty() && devices.size() < before;) {
    before = devices.size();
    std::erase_if(devices, [&](const dm::Device& device) {
      return Execute({RemoveDeviceAction{device.name, device.uuid}}, parts.node.world, call).has_value();
    });
  }
  for (const dm::Device& device : devices) {
    parts.node.log.Warning("a device that a killed LVM left cannot be removed: it may be in use",
                           {{"group", group}, {"device", device.name}});
  }
}

// Device-mapper UUIDs of the legs of every volume whose own device does not exist. If a leg of such a volume
// has a device nevertheless, LVM was killed while it activated or deactivated the volume. LVM refuses to
// activate the volume while the leg's device exists.
std::set<std::string> LooseLegs(const Catalog& catalog, const std::set<std::string>& active) {
  std::set<std::string> out;
  for (const Record& record : catalog.records) {
    if (!active.contains(record.DmUuid())) {
      const std::vector<std::string> legs = record.DmUuids();
      out.insert(legs.begin(), legs.end());
    }
  }
  return out;
}

// Whether the whole mapping on the PV lies within `own`. True also if its length is unknown.
bool IsWithin(const dm::Mapping& mapping, const lvm::PhysicalVolume& pv, Bytes extent,
              const std::vector<lvm::ExtentRange>& own) {
  if (mapping.length.value == UINT64_MAX) {
    return true;
  }
  if (mapping.offset < pv.pe_start) {
    return false;
  }
  const uint64_t first = (mapping.offset - pv.pe_start).value / extent.value;
  const uint64_t end =
      (mapping.offset + mapping.length - pv.pe_start + extent - Bytes{1}).value / extent.value;
  return Without({{{first}, {end - first}}}, own).empty();
}

// Ends copies that an earlier process made of volumes in use. The eraser does later what cannot be done now;
// the volumes serve all the same. True if there were any.
bool EndCopiesInUse(Parts& parts, Pool& pool, const Catalog& catalog, const Call& call) {
  bool any = false;
  for (const Record& record : catalog.records) {
    const lvm::LogicalVolume* const kept = IsErasing(record) ? KeptVolume(record) : nullptr;
    if (kept == nullptr || catalog.copying.contains(record.lv->name)) {
      continue;
    }
    any = true;
    const Status ended = EndKeeping(pool, parts.node.world, parts.node.log, record, *kept, {}, call);
    if (!ended.has_value()) {
      parts.node.log.Warning("the temporary store of a copy cannot be separated from its volume yet",
                             {{"pool", pool.config.name},
                              {"volume", record.tags.source},
                              {"lv", record.lv->name},
                              {"error", ended.error().message()}});
    }
  }
  return any;
}

// Volumes with a device that maps more than the group gives them. How this happens: LVM loaded a larger table
// to grow the volume and was killed before the commit. A later command resumed the device, which made that
// table live, and was killed too, before it loaded the table that matches the metadata. For LVM the extra
// extents are free, so it may give them to another volume.
std::set<std::string> Overreaching(Parts& parts, const Catalog& catalog) {
  const lvm::VolumeGroup& group = *catalog.group;
  std::map<std::string, const Record*> owners;  // by device
  for (const std::vector<Record>* const list : {&catalog.records, &catalog.parts}) {
    for (const Record& record : *list) {
      if (record.tags.state == lvm::VolumeState::kReady && CheckAlone(record).has_value()) {
        for (std::string& uuid : record.DmUuids()) {
          owners.emplace(std::move(uuid), &record);
        }
      }
    }
  }
  std::set<std::string> out;
  for (const lvm::PhysicalVolume& pv : group.pvs) {
    const auto mappings = pv.device.empty() ? Result<std::vector<dm::Mapping>>(std::vector<dm::Mapping>())
                                            : parts.node.world.dm.MappingsOf(pv.device);
    for (const dm::Mapping& mapping : mappings.value_or(std::vector<dm::Mapping>())) {
      const auto owner = owners.find(mapping.uuid);
      if (owner == owners.end()) {
        continue;
      }
      const auto own = ByPv(lvm::PhysicalExtents(group, *owner->second->lv));
      const auto here = own.find(pv.uuid);
      if (here == own.end() || !IsWithin(mapping, pv, group.extent_size, here->second)) {
        out.insert(ActiveName(*owner->second));
      }
    }
  }
  return out;
}

void Resume(Parts& parts, const Record& record, const Call& call) {
  const std::string& group = record.group->name;
  const auto resumed = Execute({ActivateAction{group, {record.lv->name}}}, parts.node.world, call);
  if (resumed.has_value()) {
    parts.node.log.Info("resumed a volume that was left suspended",
                        {{"group", group}, {"lv", record.lv->name}});
  } else {
    parts.node.log.Warning("a volume was left suspended and cannot be resumed",
                           {{"group", group}, {"lv", record.lv->name}, {"error", resumed.error().message()}});
  }
}

// Volumes that a killed cut left suspended, past LVM: so their writers wait neither for what the start does
// with other stores, nor for a disk without which LVM activates nothing. A table that waits for the resume is
// that of a killed LVM, which ReconcileDevices replaces. It also tries again what fails here.
void ResumeAfterCuts(Parts& parts, const Catalog& catalog, const Call& call) {
  const World& world = parts.node.world;
  const lvm::VolumeGroup& group = *catalog.group;
  std::set<std::string> ours;
  for (const Record& record : catalog.records) {
    if (IsInPool(record)) {
      ours.insert(record.DmUuid());
    }
  }
  if (ours.empty()) {
    return;
  }
  // A command of LVM that is at work may have suspended it.
  const auto held = world.lvm.Hold(group.name, call.Within(kHoldLimit));
  const auto devices = held.has_value() ? world.dm.List(lvm::DmUuid(group.uuid, ""))
                                        : Result<std::vector<dm::Device>>(std::vector<dm::Device>());
  for (const dm::Device& device : devices.value_or(std::vector<dm::Device>())) {
    if (device.suspended && device.has_table && !device.waiting_table && ours.contains(device.uuid)) {
      const Status resumed = world.dm.Resume(device.uuid);
      parts.node.log.Log(resumed.has_value() ? LogLevel::kInfo : LogLevel::kWarning,
                         resumed.has_value() ? "resumed a volume that a cut had left suspended"
                                             : "a volume that a cut has left suspended cannot be resumed yet",
                         {{"group", group.name},
                          {"device", device.name},
                          {"error", resumed.has_value() ? "" : resumed.error().message()}});
    }
  }
}

// A killed LVM may have left devices without a logical volume, and suspended devices that wait for a table,
// so that any I/O to them hangs. Activating the volume loads the table of the committed metadata, and
// resumes.
Status ReconcileDevices(Parts& parts, const Catalog& catalog, const Call& call) {
  const lvm::VolumeGroup& group = *catalog.group;
  for (const Record& record : catalog.records) {
    if (record.tags.cow && !catalog.copying.contains(record.lv->name)) {
      DropDevicesOfStore(parts.node.world, record, call);
    }
  }
  QUARRY_ASSIGN(const std::vector<dm::Device> devices, parts.node.world.dm.List(lvm::DmUuid(group.uuid, "")));
  std::set<std::string> known;
  for (const lvm::LogicalVolume& lv : group.lvs) {
    known.insert(lvm::DmUuid(group.uuid, lv.uuid));
  }
  std::vector<dm::Device> strays;
  std::set<std::string> suspended;
  const size_t length =
      lvm::DmUuid(group.uuid, group.uuid).size();  // both UUIDs have the same length; a suffix may follow
  std::set<std::string> active;
  for (const dm::Device& device : devices) {
    active.insert(device.uuid);
  }
  const std::set<std::string> loose = LooseLegs(catalog, active);
  for (const dm::Device& device : devices) {
    const std::string volume = VolumeOf(device.name, catalog);
    const bool has_lv = known.contains(device.uuid.substr(0, length));
    if (loose.contains(device.uuid) || (!has_lv && !volume.empty()) || IsLooseLayer(device, catalog)) {
      strays.push_back(device);
    } else if (has_lv && device.suspended) {
      const lvm::LogicalVolume* const store = group.FindLv(volume);
      suspended.insert(volume.empty()                               ? AdoptedVolumeOf(device, catalog)
                       : store != nullptr && !store->origin.empty() ? store->origin
                                                                    : volume);
    }
  }
  for (const Store& store : catalog.stores) {
    if (const auto ready = PrepareReload(group, *store.lv, parts.node.world, call); !ready.has_value()) {
      parts.node.log.Warning("a killed command has left devices of a thin store that cannot be put right now",
                             {{"group", group.name}, {"error", ready.error().message()}});
    }
  }
  RemoveStrayDevices(parts, group.name, std::move(strays), call);
  parts.node.world.dm.RemoveStaleNodes(
      group.name, [&](const std::string& name) { return !VolumeOf(name, catalog).empty(); });
  for (const Record& record : catalog.records) {
    if (suspended.contains(record.lv->name)) {
      Resume(parts, record, call);
    }
  }
  for (const Store& store : catalog.stores) {
    if (suspended.contains(store.lv->name)) {
      const auto resumed = Execute({ActivateAction{group.name, {store.lv->name}}}, parts.node.world, call);
      parts.node.log.Log(resumed.has_value() ? LogLevel::kInfo : LogLevel::kWarning,
                         resumed.has_value() ? "resumed a thin store that was left suspended"
                                             : "a thin store was left suspended and cannot be resumed",
                         {{"group", group.name},
                          {"store", store.name()},
                          {"error", resumed.has_value() ? "" : resumed.error().message()}});
    }
  }
  for (const std::string& name : Overreaching(parts, catalog)) {
    const auto loaded = Execute({lvm::RefreshLvs{group.name, {name}}}, parts.node.world, call);
    parts.node.log.Warning(
        loaded.has_value()
            ? "a volume's device mapped extents that are not the volume's: its table was loaded again"
            : "a volume's device maps extents that are not the volume's, and its table cannot be loaded",
        {{"group", group.name}, {"lv", name}, {"error", loaded.has_value() ? "" : loaded.error().message()}});
  }
  return Ok();
}

// The disk that an explicit path names, if it is blank and not in use.
Result<std::string> BlankDiskAt(Parts& parts, const std::string& path) {
  QUARRY_ASSIGN(const AbsolutePath device, AbsolutePath::Parse(path));
  QUARRY_ASSIGN(const auto exclusive, parts.disks.notes.OpenExclusively());
  QUARRY_ASSIGN(const mount::Content content, parts.node.world.mount.ProbeDevice(device));
  if (content.kind != mount::Content::Kind::kBlank) {
    const std::string what = content.type.empty() ? "several signatures" : content.type;
    return Error(Code::kPrecondition,
                 fmt::format("{} is not blank: it holds {}. It is not touched", path, what));
  }
  return path;
}

// All disks that explicit paths name, and the present, blank disks that match the other rules.
Result<std::vector<std::string>> DisksToMakeOf(Parts& parts, const PoolConfig& pool, const Call& call) {
  std::vector<std::string> devices;
  for (const DeviceRule& rule : pool.devices) {
    if (rule.IsExplicit()) {
      QUARRY_ASSIGN(std::string device, BlankDiskAt(parts, rule.path));
      devices.push_back(std::move(device));
    }
  }
  if (Claims(pool)) {
    QUARRY_ASSIGN(const std::vector<std::string> more, DisksForNewGroup(parts.disks, pool, call));
    devices.insert(devices.end(), more.begin(), more.end());
  }
  if (devices.empty()) {
    return Error(Code::kPrecondition, "no blank disk meets its rules (see `quarryctl devices`)");
  }
  return devices;
}

// Makes the pool's volume group from its disks, if the group does not exist and the disks are blank and not
// in use.
Status EnsureGroup(Parts& parts, const PoolConfig& pool, const Call& call) {
  if (pool.devices.empty()) {
    return Ok();
  }
  const auto group = parts.node.world.lvm.Read(pool.group, call);
  if (group.has_value() || group.error().code() != Code::kNotFound) {
    return Ok();  // it exists, or could not be read: the read of the pool reports that
  }
  auto devices = DisksToMakeOf(parts, pool, call);
  if (!devices.has_value()) {
    return Error(Code::kPrecondition,
                 fmt::format("pool '{}': volume group '{}' does not exist and cannot be made: {}", pool.name,
                             pool.group, devices.error().message()));
  }
  const lvm::CreateGroup spec{
      .group = pool.group, .devices = std::move(*devices), .extent_size = parts.node.config.extent_size};
  {
    QUARRY_ASSIGN(const auto exclusive, parts.disks.notes.OpenExclusively());
    QUARRY_TRY(parts.node.world.lvm.Apply(spec, call).Context(fmt::format("pool '{}'", pool.name)));
  }
  parts.node.log.Info(
      "made a volume group",
      {{"pool", pool.name}, {"group", pool.group}, {"disks", static_cast<int64_t>(spec.devices.size())}});
  return Ok();
}

// Volumes whose ids name another node are served nevertheless. But if the orchestrator knows this node by a
// new name, it sends their pods elsewhere.
void WarnOfOtherNodes(const Parts& parts, const Pool& pool, const Catalog& catalog) {
  const auto others = std::ranges::count_if(catalog.records, [&](const Record& record) {
    return record.tags.state == lvm::VolumeState::kReady &&
           !parts.node.CheckNotElsewhere(record.tags.id).has_value();
  });
  if (others > 0) {
    parts.node.log.Warning(
        "ids of volumes name another node, so the orchestrator may look for these volumes there: if this "
        "node was renamed, give it its former name (--node-id)",
        {{"pool", pool.config.name},
         {"node", parts.node.config.node},
         {"volumes", static_cast<int64_t>(others)}});
  }
}

// Before this process commits anything: the file is true for one state of the group.
void RecallZeroed(Parts& parts, Pool& pool, const Call& call) {
  if (const Status loaded = LoadZeroed(parts.node, pool, call); !loaded.has_value()) {
    parts.node.log.Info(
        "which free extents are zero is not known any more: they are zeroed again when needed",
        {{"pool", pool.config.name}, {"why", loaded.error().message()}});
  }
}

}  // namespace

Status Reconcile(Parts& parts, Pool& pool, const Call& call) {
  QUARRY_ASSIGN(const std::string version, parts.node.world.lvm.Version(pool.config.group, call));
  QUARRY_ASSIGN(const auto turn, pool.writers.Wait("starting", call));
  QUARRY_TRY(EnsureGroup(parts, pool.config, call));
  QUARRY_ASSIGN(auto catalog, parts.node.ReadGroup(pool, call));
  RecallZeroed(parts, pool, call);
  for (const Unreadable& one : catalog->unreadable) {
    parts.node.log.Warning("a logical volume has Quarry's tag but cannot be understood: it is not touched",
                           {{"pool", pool.config.name}, {"lv", one.lv->name}, {"problem", one.why}});
  }
  WarnOfOtherNodes(parts, pool, *catalog);
  ResumeAfterCuts(parts, *catalog, call);
  StartStores(parts, pool, *catalog, call);
  EndRepairs(parts, pool, *catalog, call);
  QUARRY_ASSIGN(catalog, parts.node.ReadGroup(pool, call));
  if (RemoveHalfMade(parts, pool, *catalog, call)) {
    QUARRY_ASSIGN(catalog, parts.node.ReadGroup(pool, call));
  }
  QUARRY_TRY(ReconcileDevices(parts, *catalog, call));
  if (EndCopiesInUse(parts, pool, *catalog, call)) {
    QUARRY_ASSIGN(catalog, parts.node.ReadGroup(pool, call));
  }
  if (!pool.config.stores.empty()) {
    EnsureStores(parts, pool, call);
    QUARRY_ASSIGN(catalog, parts.node.ReadGroup(pool, call));
  }
  KeepUnfinished(parts, pool, *catalog);
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  QUARRY_TRY(TakeHolds(parts, *catalog, mounts));
  parts.node.log.Info("pool is ready", {{"pool", pool.config.name},
                                        {"group", pool.config.group},
                                        {"volumes", static_cast<int64_t>(catalog->records.size())},
                                        {"lvm", version}});
  return Ok();
}

}  // namespace quarry::engine
