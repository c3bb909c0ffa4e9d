// P12: a snapshot of a raw volume, and a volume made of it, beside lvcreate and dd of as many bytes. quarryd
// reads and writes every byte too, and flushes them. Its own part is the proof that nobody uses the source,
// and the commits.
#include <fmt/format.h>

#include "tests/bench/bench.h"
#include "tests/bench/report.h"
#include "tests/vm/kit/pattern.h"

namespace quarry::bench {
namespace {

constexpr double kMost = 1.2;
constexpr int64_t kSize = 256 * vm::kMi;
constexpr uint64_t kSeed = 12;

Status CopyWithDd(Site& site, const std::string& from, Samples& samples) {
  const std::string to = fmt::format("/dev/{}/peer", site.group());
  const std::string script =
      fmt::format("lvcreate -y -Wn -Zn -n peer -L {}b {} && dd if={} of={} bs=1M iflag=direct oflag=direct "
                  "conv=fsync status=none",
                  kSize, site.group(), from, to);
  QUARRY_TRY(RunTimed(samples, {"sh", "-c", script}));
  QUARRY_TRY(vm::CheckPattern(to, kSeed, kSize));
  return Run({"lvremove", "-y", site.group() + "/peer"});
}

Status CopyOnce(Site& site, const std::string& source, size_t number, Finding& snapshot, Finding& volume) {
  const auto made =
      Timed(snapshot.ours, [&] { return site.client().Snapshot(fmt::format("p12-{}", number), source); });
  QUARRY_TRY(Must("CreateSnapshot", made));
  Settle();
  QUARRY_TRY(CopyWithDd(site, site.DeviceOf(source), *snapshot.peer));
  const std::string id = made.value.snapshot().snapshot_id();
  Settle();
  const auto restored = Timed(volume.ours, [&] {
    return site.client().Create({.name = fmt::format("p12-{}", number),
                                 .parameters = vm::TypeParameters("linear"),
                                 .capability = vm::BlockCapability(),
                                 .size = kSize,
                                 .snapshot = id});
  });
  QUARRY_TRY(Must("CreateVolume", restored));
  const std::string copy = restored.value.volume().volume_id();
  QUARRY_TRY(vm::CheckPattern(site.DeviceOf(copy), kSeed, kSize));
  Settle();
  QUARRY_TRY(CopyWithDd(site, site.DeviceOf(source), *volume.peer));
  QUARRY_TRY(site.Delete(copy));
  QUARRY_TRY(Must("DeleteSnapshot", site.client().DeleteSnapshot(id)));
  return site.WaitErased();
}

}  // namespace

Status CopiesBesideDd(Bench& bench) {
  QUARRY_ASSIGN(Site* const site, bench.Main());
  Progress("P12 snapshots");
  QUARRY_TRY(site->Clear());
  QUARRY_ASSIGN(const std::string source, site->Create("p12", "linear", kSize));
  QUARRY_TRY(vm::WritePattern(site->DeviceOf(source), kSeed, kSize));
  Finding snapshot{.name = "P12.snapshot", .what = "CreateSnapshot 256MiB : lvcreate, dd"};
  Finding volume{.name = "P12.restore", .what = "CreateVolume of a snapshot, 256MiB : lvcreate, dd"};
  snapshot.peer.emplace();
  volume.peer.emplace();
  for (size_t i = 0; i < bench.samples(); ++i) {
    QUARRY_TRY(CopyOnce(*site, source, i, snapshot, volume));
  }
  for (Finding* const found : {&snapshot, &volume}) {
    found->goal = fmt::format("ratio <= {}", kMost);
    found->met = found->Ratio() <= kMost;
    Report(*found);
  }
  return site->Delete(source);
}

}  // namespace quarry::bench
