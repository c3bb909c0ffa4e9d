// P5: NodePublishVolume of a formatted, staged volume beside mount(2) of the same device by this program.
// There are two peers. "cold": the device is mounted nowhere else, as with drivers that do not stage. "warm":
// it is staged, so the kernel only adds a mount of a file system that it has in memory.
#include <fmt/format.h>
#include <sys/mount.h>

#include <filesystem>

#include "tests/bench/bench.h"
#include "tests/bench/processes.h"
#include "tests/bench/report.h"

namespace quarry::bench {
namespace {

constexpr double kMost = 2;
constexpr char kFolder[] = "/run/quarry-bench/mnt";

std::string Place(const char* name) {
  return fmt::format("{}/{}", kFolder, name);
}

// Measures mount(2) only, not umount(2).
Status MountOnce(Samples& samples, const std::string& device) {
  const std::string place = Place("peer");
  const int failed =
      Timed(samples, [&] { return ::mount(device.c_str(), place.c_str(), "ext4", 0, nullptr); });
  if (failed != 0) {
    return ErrnoError("mounting " + device);
  }
  return ::umount(place.c_str()) == 0 ? Ok() : Status(ErrnoError("unmounting " + place));
}

struct Measured {
  Samples publish;
  Samples warm;
  Samples cold;
  Samples empty;  // GetPluginInfo: an RPC that does nothing
  size_t children = 0;
};

Status PublishOnce(Site& site, const vm::v1::Volume& volume, Measured& out) {
  vm::CsiClient& client = site.client();
  const std::string device = site.DeviceOf(volume.volume_id());
  QUARRY_TRY(MountOnce(out.cold, device));
  QUARRY_TRY(Must("NodeStageVolume", client.Stage(volume, Place("staging"), vm::MountCapability())));
  QUARRY_TRY(Must("GetPluginInfo", Timed(out.empty, [&] { return client.PluginInfo(); })));
  {
    QUARRY_ASSIGN(const ForkWatch watch, ForkWatch::Start(ProcessTree(site.quarryd().pid())));
    const auto published = Timed(out.publish, [&] {
      return client.Publish(volume, Place("staging"), Place("target"), vm::MountCapability());
    });
    QUARRY_TRY(Must("NodePublishVolume", published));
    QUARRY_ASSIGN(const size_t started, watch.Count());
    out.children += started;
  }
  QUARRY_TRY(MountOnce(out.warm, device));
  QUARRY_TRY(Must("NodeUnpublishVolume", client.Unpublish(volume.volume_id(), Place("target"))));
  return Must("NodeUnstageVolume", client.Unstage(volume.volume_id(), Place("staging")));
}

void ReportBeside(const Measured& measured, const std::string& name, const Samples& peer, const char* state) {
  Finding found;
  found.name = "P5.publish." + name;
  found.what = fmt::format("NodePublishVolume : mount(2), {}", state);
  found.ours = measured.publish;
  found.peer = peer;
  const double limit = kMost * (peer.Median() + measured.empty.Median());
  found.more = {{"empty_rpc_ms", measured.empty.Median()},
                {"limit_ms", limit},
                {"children", static_cast<double>(measured.children)}};
  found.goal = fmt::format("ours <= {} x (peer + an empty RPC); no child process", kMost);
  found.met = found.ours.Median() <= limit && measured.children == 0;
  Report(found);
}

}  // namespace

Status PublishBesideMount(Bench& bench) {
  QUARRY_ASSIGN(Site* const site, bench.Main());
  Progress("P5 publish");
  QUARRY_TRY(site->Clear());
  std::filesystem::create_directories(Place("staging"));
  std::filesystem::create_directories(Place("peer"));
  const auto made = site->client().Create({.name = "p5", .parameters = vm::TypeParameters("linear")});
  QUARRY_TRY(Must("CreateVolume", made));
  const vm::v1::Volume& volume = made.value.volume();
  // The first staging formats the volume.
  QUARRY_TRY(Must("NodeStageVolume", site->client().Stage(volume, Place("staging"), vm::MountCapability())));
  QUARRY_TRY(Must("NodeUnstageVolume", site->client().Unstage(volume.volume_id(), Place("staging"))));
  Measured measured;
  for (size_t i = 0; i < bench.samples(); ++i) {
    Settle();
    QUARRY_TRY(PublishOnce(*site, volume, measured));
  }
  ReportBeside(measured, "cold", measured.cold, "not mounted elsewhere");
  ReportBeside(measured, "warm", measured.warm, "mounted already");
  return Ok();
}

}  // namespace quarry::bench
