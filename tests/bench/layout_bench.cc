// Planning on a badly fragmented group: 16 PVs with 10,000 free runs. Every create and GetCapacity includes a
// placement, so it must be negligible beside one LVM command (4 ms).
#include <random>

#include <benchmark/benchmark.h>

#include "lvm/layout.h"

namespace quarry::lvm {
namespace {

constexpr size_t kPvs = 16;
constexpr size_t kRuns = 10'000;

VolumeGroup Fragmented() {
  std::mt19937 random(1);
  VolumeGroup group;
  group.name = "vg";
  group.extent_size = Bytes{4 * kMiB.value};
  for (size_t i = 0; i < kPvs; ++i) {
    PhysicalVolume& pv = group.pvs.emplace_back();
    pv.uuid = "pv" + std::to_string(i);
    pv.device = "/dev/" + pv.uuid;
    Extents at;
    for (size_t run = 0; run < kRuns / kPvs; ++run) {
      at += Extents{1 + random() % 50};
      pv.free.push_back({at, {1 + random() % 200}});
      at = pv.free.back().end();
    }
    pv.extent_count = at;
  }
  return group;
}

Geometry GeometryOf(const benchmark::State& state) {
  GeometryRequest request;
  request.type = static_cast<VolumeType>(state.range(0));
  return *Geometry::Make(request);
}

void AllTypes(benchmark::internal::Benchmark* bench) {
  for (const VolumeType type :
       {VolumeType::kLinear, VolumeType::kRaid1, VolumeType::kRaid6, VolumeType::kRaid10}) {
    bench->Arg(static_cast<int>(type));
  }
  bench->Unit(benchmark::kMicrosecond);
}

void MaxExtentsOfAFragmentedGroup(benchmark::State& state) {
  const FreeSpace space = FreeSpaceOf(Fragmented());
  const Geometry geometry = GeometryOf(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(MaxExtents(space, geometry));
  }
  state.SetLabel(std::string(TypeName(geometry.type())));
}
BENCHMARK(MaxExtentsOfAFragmentedGroup)->Apply(AllTypes);

// The worst size: all free extents, in the most pieces.
void PlaceTheLargest(benchmark::State& state) {
  const VolumeGroup group = Fragmented();
  const FreeSpace space = FreeSpaceOf(group);
  const Geometry geometry = GeometryOf(state);
  const Extents most = MaxExtents(space, geometry);
  size_t steps = 0;
  for (auto _ : state) {
    const auto plan = Place(space, geometry, most, group);
    steps = plan->steps.size();
    benchmark::DoNotOptimize(plan);
  }
  state.SetLabel(std::string(TypeName(geometry.type())));
  state.counters["commands"] = static_cast<double>(steps);
}
BENCHMARK(PlaceTheLargest)->Apply(AllTypes);

// The cost of one GetCapacity for one profile, from the snapshot on.
void FromSnapshotToCapacity(benchmark::State& state) {
  const VolumeGroup group = Fragmented();
  const Geometry geometry = GeometryOf(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(MaxExtents(FreeSpaceOf(group), geometry));
  }
  state.SetLabel(std::string(TypeName(geometry.type())));
}
BENCHMARK(FromSnapshotToCapacity)->Apply(AllTypes);

}  // namespace
}  // namespace quarry::lvm

BENCHMARK_MAIN();
