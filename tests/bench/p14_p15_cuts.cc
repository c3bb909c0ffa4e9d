// P14, snapshots in a thin store, and P15, clones and deletions, beside LVM's own lvcreate -s and lvremove of
// the same volumes in the same store, in turns. For P14 a thread writes to each volume meanwhile, and what it
// feels is compared too: the longest durable write of 4 KiB while the snapshot was made. LVM's commands run
// with Debian's configuration, as an administrator's do. Two differences work against quarryd: its answer
// comes when the snapshot is recorded with its name and read back, and each commit of the other side makes it
// read the group again. One works for it: it starts no process. No goals: this shows what a snapshot costs.
#include <fmt/format.h>
#include <grpcpp/create_channel.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "csi/v1/csi.grpc.pb.h"
#include "tests/bench/bench.h"
#include "tests/bench/report.h"
#include "tests/bench/stall_meter.h"
#include "tests/vm/kit/pattern.h"
#include "tests/vm/kit/volume_group.h"

namespace quarry::bench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSize = 64 * vm::kMi;
constexpr int64_t kArea = 16 * vm::kMi;  // that the writers write to
constexpr int64_t kChanged = 32 * vm::kMi;
constexpr uint64_t kSeed = 14;
constexpr size_t kGroup = 3;
constexpr char kFolder[] = "/run/quarry-bench/cuts";

// A volume in the store with chunks of 128 KiB that is in use.
struct Used {
  vm::v1::Volume volume;
  vm::v1::VolumeCapability how;
  std::string staging, target;
  std::string lv;  // GROUP/NAME
  std::string file() const { return how.has_block() ? target : target + "/file"; }
};

Status Use(Site& site, Used& used, const std::string& name) {
  used.staging = fmt::format("{}/{}.staging", kFolder, name);
  used.target = fmt::format("{}/{}", kFolder, name);
  used.lv = site.group() + "/" + vm::LvNameIn(used.volume.volume_id());
  fs::create_directories(used.staging);
  QUARRY_TRY(Must("NodeStageVolume", site.client().Stage(used.volume, used.staging, used.how)));
  return Must("NodePublishVolume", site.client().Publish(used.volume, used.staging, used.target, used.how));
}

vm::VolumeSpec SpecOf(const std::string& name, const vm::v1::VolumeCapability& how) {
  return {.name = "p14-" + name,
          .parameters = vm::TypeParameters("thin", {{"store", "chunk128"}}),
          .capability = how,
          .size = kSize};
}

// A new volume that has a chunk for each of the bytes that are written later.
Result<Used> MakeUsed(Site& site, const std::string& name, const vm::v1::VolumeCapability& how) {
  Used used{.how = how};
  const auto made = site.client().Create(SpecOf(name, how));
  QUARRY_TRY(Must("CreateVolume", made));
  used.volume = made.value.volume();
  QUARRY_TRY(Use(site, used, name));
  QUARRY_TRY(vm::WritePattern(used.file(), kSeed, kChanged));
  return used;
}

Status End(Site& site, const Used& used) {
  QUARRY_TRY(Must("NodeUnpublishVolume", site.client().Unpublish(used.volume.volume_id(), used.target)));
  QUARRY_TRY(Must("NodeUnstageVolume", site.client().Unstage(used.volume.volume_id(), used.staging)));
  QUARRY_TRY(site.Delete(used.volume.volume_id()));
  return site.WaitErased();
}

std::vector<std::string> LvmSnapshot(const std::string& lv, const std::string& name) {
  return {"lvcreate", "-y", "-s", "-n", name, lv};
}

Status RemovePeers(Site& site, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    QUARRY_TRY(Run({"lvremove", "-y", fmt::format("{}/peer{}", site.group(), i)}));
  }
  return Ok();
}

// What two sides need for the same, and what the writers feel meanwhile.
struct Cut {
  Samples ours, peer;  // the call
  Samples ours_stall, peer_stall,
      no_stall;  // the longest write during each, and during half a second without one
};

using Meters = std::vector<std::unique_ptr<StallMeter>>;

// Adds the time of `what`, and the longest write of any meter meanwhile.
Status Felt(const Meters& meters, Samples& times, Samples& stalls, const std::function<Status()>& what) {
  for (const auto& meter : meters) {
    meter->Begin();
  }
  QUARRY_TRY(Timed(times, what));
  double longest = 0;
  for (const auto& meter : meters) {
    QUARRY_ASSIGN(const double of_this, meter->Longest());
    longest = std::max(longest, of_this);
  }
  stalls.Add(longest);
  return Ok();
}

void ReportCut(const std::string& name, const std::string& what, const std::string& peers, const Cut& cut) {
  Finding call{.name = fmt::format("P14.{}", name), .what = fmt::format("{} : {}", what, peers)};
  call.ours = cut.ours;
  call.peer = cut.peer;
  Report(call);
  Finding stall{.name = fmt::format("P14.{}.stall", name), .what = "longest write meanwhile : the same"};
  stall.ours = cut.ours_stall;
  stall.peer = cut.peer_stall;
  stall.more = {{"without_snapshot", cut.no_stall.Median()}};
  Report(stall);
}

// Each writer writes for half a second first, so that the copies that the last snapshot caused are made.
Status Undisturbed(const Meters& meters, Cut& cut) {
  Samples unused;
  return Felt(meters, unused, cut.no_stall, [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return Ok();
  });
}

Status Snapshots(Bench& bench, Site& site, const std::string& name, const vm::v1::VolumeCapability& how) {
  Progress("P14 snapshots of a volume in use: " + name);
  QUARRY_ASSIGN(const Used used, MakeUsed(site, name, how));
  Cut cut;
  {
    Meters meters;
    meters.push_back(std::make_unique<StallMeter>(used.file(), kArea));
    for (size_t i = 0; i < bench.samples(); ++i) {
      Settle();
      QUARRY_TRY(Undisturbed(meters, cut));
      std::string id;
      QUARRY_TRY(Felt(meters, cut.ours, cut.ours_stall, [&] {
        const auto made = site.client().Snapshot(fmt::format("p14-{}-{}", name, i), used.volume.volume_id());
        id = made.value.snapshot().snapshot_id();
        return Must("CreateSnapshot", made);
      }));
      QUARRY_TRY(Must("DeleteSnapshot", site.client().DeleteSnapshot(id)));
      QUARRY_TRY(site.WaitErased());
      Settle();
      QUARRY_TRY(Undisturbed(meters, cut));
      QUARRY_TRY(Felt(meters, cut.peer, cut.peer_stall, [&] { return Run(LvmSnapshot(used.lv, "peer0")); }));
      QUARRY_TRY(RemovePeers(site, 1));
    }
  }
  ReportCut("snapshot." + name, "CreateSnapshot, " + name + " in use", "lvcreate -s", cut);
  return End(site, used);
}

Status LvmSnapshots(const std::vector<Used>& volumes) {
  for (size_t i = 0; i < volumes.size(); ++i) {
    QUARRY_TRY(Run(LvmSnapshot(volumes[i].lv, fmt::format("peer{}", i))));
  }
  return Ok();
}

// Repeats the call while the answer asks for it, as any caller does.
template <typename Method, typename Request>
auto AskPatiently(Site& site, vm::v1::GroupController::Stub& stub, Method method, const Request& request) {
  auto reply = site.client().Invoke(stub, method, request);
  while (reply.code() == grpc::StatusCode::UNAVAILABLE &&
         reply.text().find("ask again") != std::string::npos) {
    reply = site.client().Invoke(stub, method, request);
  }
  return reply;
}

// The group of one instant. The peer has none: three snapshots, one after the other.
Status GroupOnce(Site& site, const vm::v1::CreateVolumeGroupSnapshotRequest& request, const Meters& meters,
                 const std::vector<Used>& volumes, Cut& cut) {
  using Group = vm::v1::GroupController::Stub;
  const auto stub = vm::v1::GroupController::NewStub(
      grpc::CreateChannel(site.Address(), grpc::InsecureChannelCredentials()));
  vm::v1::DeleteVolumeGroupSnapshotRequest gone;
  Settle();
  QUARRY_TRY(Undisturbed(meters, cut));
  QUARRY_TRY(Felt(meters, cut.ours, cut.ours_stall, [&] {
    const auto made = AskPatiently(site, *stub, &Group::CreateVolumeGroupSnapshot, request);
    gone.set_group_snapshot_id(made.value.group_snapshot().group_snapshot_id());
    for (const vm::v1::Snapshot& member : made.value.group_snapshot().snapshots()) {
      gone.add_snapshot_ids(member.snapshot_id());
    }
    return Must("CreateVolumeGroupSnapshot", made);
  }));
  QUARRY_TRY(
      Must("DeleteVolumeGroupSnapshot", AskPatiently(site, *stub, &Group::DeleteVolumeGroupSnapshot, gone)));
  QUARRY_TRY(site.WaitErased());
  Settle();
  QUARRY_TRY(Undisturbed(meters, cut));
  QUARRY_TRY(Felt(meters, cut.peer, cut.peer_stall, [&] { return LvmSnapshots(volumes); }));
  return RemovePeers(site, kGroup);
}

Status Groups(Bench& bench, Site& site) {
  Progress("P14 groups of three");
  std::vector<Used> volumes;
  vm::v1::CreateVolumeGroupSnapshotRequest request;
  for (size_t i = 0; i < kGroup; ++i) {
    QUARRY_ASSIGN(Used one, MakeUsed(site, fmt::format("member{}", i), vm::BlockCapability()));
    request.add_source_volume_ids(one.volume.volume_id());
    volumes.push_back(std::move(one));
  }
  Cut cut;
  {
    Meters meters;
    for (const Used& one : volumes) {
      meters.push_back(std::make_unique<StallMeter>(one.file(), kArea));
    }
    for (size_t i = 0; i < bench.samples(); ++i) {
      request.set_name(fmt::format("p14-group-{}", i));
      QUARRY_TRY(GroupOnce(site, request, meters, volumes, cut));
    }
  }
  ReportCut("group", "CreateVolumeGroupSnapshot of 3 in use", "3 lvcreate -s", cut);
  for (const Used& one : volumes) {
    QUARRY_TRY(End(site, one));
  }
  return Ok();
}

// Until a pod could open it: created, staged and published. The peer is activated by the command that makes
// it.
Status MakeReady(Site& site, const vm::VolumeSpec& spec, Samples& samples, Used& copy) {
  return Timed(samples, [&]() -> Status {
    const auto made = site.client().Create(spec);
    QUARRY_TRY(Must("CreateVolume", made));
    copy.volume = made.value.volume();
    return Use(site, copy, "copy");
  });
}

Status Copies(Bench& bench, Site& site, const Used& source, const std::string& snapshot) {
  Progress(snapshot.empty() ? "P15 clones" : "P15 restored volumes");
  const std::string name = snapshot.empty() ? "clone" : "restore";
  Finding found{.name = "P15." + name, .what = name + ", until it is published : lvcreate -s, active"};
  found.peer.emplace();
  std::vector<std::string> peers =
      LvmSnapshot(snapshot.empty() ? source.lv : site.group() + "/" + vm::LvNameIn(snapshot), "peer0");
  peers.insert(peers.end(), {"-kn", "-ay", "-prw"});
  for (size_t i = 0; i < bench.samples(); ++i) {
    vm::VolumeSpec spec = SpecOf(fmt::format("{}-{}", name, i), source.how);
    (snapshot.empty() ? spec.source : spec.snapshot) =
        snapshot.empty() ? source.volume.volume_id() : snapshot;
    Settle();
    Used copy{.how = source.how};
    QUARRY_TRY(MakeReady(site, spec, found.ours, copy));
    QUARRY_TRY(vm::CheckPattern(copy.file(), kSeed, kArea));
    QUARRY_TRY(End(site, copy));
    Settle();
    QUARRY_TRY(RunTimed(*found.peer, peers));
    QUARRY_TRY(vm::CheckPattern(fmt::format("/dev/{}/peer0", site.group()), kSeed, kArea));
    QUARRY_TRY(RemovePeers(site, 1));
  }
  Report(found);
  return Ok();
}

Status ClonesAndRestores(Bench& bench, Site& site) {
  QUARRY_ASSIGN(const Used source, MakeUsed(site, "source", vm::BlockCapability()));
  const auto made = site.client().Snapshot("p14-source", source.volume.volume_id());
  QUARRY_TRY(Must("CreateSnapshot", made));
  QUARRY_TRY(Copies(bench, site, source, ""));
  QUARRY_TRY(Copies(bench, site, source, made.value.snapshot().snapshot_id()));
  QUARRY_TRY(Must("DeleteSnapshot", site.client().DeleteSnapshot(made.value.snapshot().snapshot_id())));
  return End(site, source);
}

// `answered` gets the time of the call alone.
Status DeleteAndErase(Site& site, const std::string& id, Samples& answered) {
  const auto gone = Timed(answered, [&] { return site.client().DeleteSnapshot(id); });
  QUARRY_TRY(Must("DeleteSnapshot", gone));
  return site.WaitErased();
}

// Of a snapshot that alone has 32 MiB, because its volume has changed. lvremove leaves their bytes on the
// disk.
Status Deletes(Bench& bench, Site& site) {
  Progress("P15 deletes");
  QUARRY_ASSIGN(const Used used, MakeUsed(site, "changed", vm::BlockCapability()));
  Finding found{.name = "P15.delete", .what = "DeleteSnapshot of 32MiB of its own : lvremove"};
  found.peer.emplace();
  Samples erased;
  for (size_t i = 0; i < bench.samples(); ++i) {
    const auto made = site.client().Snapshot(fmt::format("p14-delete-{}", i), used.volume.volume_id());
    QUARRY_TRY(Must("CreateSnapshot", made));
    QUARRY_TRY(vm::WritePattern(used.file(), kSeed, kChanged));
    Settle();
    const std::string id = made.value.snapshot().snapshot_id();
    QUARRY_TRY(Timed(erased, [&] { return DeleteAndErase(site, id, found.ours); }));
    QUARRY_TRY(Run(LvmSnapshot(used.lv, "peer0")));
    QUARRY_TRY(vm::WritePattern(used.file(), kSeed, kChanged));
    Settle();
    QUARRY_TRY(RunTimed(*found.peer, {"lvremove", "-y", site.group() + "/peer0"}));
  }
  found.more = {{"until_erased", erased.Median()}};
  Report(found);
  return End(site, used);
}

}  // namespace

Status CutsBesideLvm(Bench& bench) {
  QUARRY_ASSIGN(Site* const site, bench.Stores());
  fs::create_directories(kFolder);
  QUARRY_TRY(Snapshots(bench, *site, "raw", vm::BlockCapability()));
  QUARRY_TRY(Snapshots(bench, *site, "ext4", vm::MountCapability("ext4")));
  return Groups(bench, *site);
}

Status ClonesBesideLvm(Bench& bench) {
  QUARRY_ASSIGN(Site* const site, bench.Stores());
  fs::create_directories(kFolder);
  QUARRY_TRY(ClonesAndRestores(bench, *site));
  return Deletes(bench, *site);
}

}  // namespace quarry::bench
