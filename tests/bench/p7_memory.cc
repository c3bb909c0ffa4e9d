// P7: quarryd's costs with 1,000 volumes. Memory: the proportional set size of all its processes, after a
// list of all volumes. Start: from exec to the first Probe that reports ready.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "tests/bench/bench.h"
#include "tests/bench/processes.h"
#include "tests/bench/report.h"

namespace quarry::bench {
namespace {

constexpr size_t kVolumes = 1000;
constexpr double kMostMemory = 22;               // MiB
constexpr double kMostStart = 500;               // ms, natively
constexpr std::chrono::milliseconds kPause{10};  // the resolution of the measured start

}  // namespace

Status MemoryAndStart(Bench& bench) {
  QUARRY_ASSIGN(Site* const site, bench.Main());
  Progress(fmt::format("P7 memory and start: making {} volumes", kVolumes));
  QUARRY_TRY(site->Fill("linear", kVolumes));
  Progress("P7 memory and start");
  Finding memory;
  Samples heaps;
  Finding start;
  for (size_t i = 0; i < bench.samples(); ++i) {
    QUARRY_TRY(site->Stop());
    QUARRY_TRY(Timed(start.ours, [&]() -> Status {
      QUARRY_TRY(site->Launch());
      return site->quarryd().WaitReady(std::chrono::seconds(120), kPause);
    }));
    QUARRY_TRY(Must("ListVolumes", site->client().List()));
    QUARRY_ASSIGN(const Memory used, MemoryOf(ProcessTree(site->quarryd().pid())));
    memory.ours.Add(static_cast<double>(used.proportional) / static_cast<double>(vm::kMi));
    heaps.Add(static_cast<double>(used.anonymous) / static_cast<double>(vm::kMi));
  }
  memory.name = "P7.memory";
  memory.what = fmt::format("memory after {} volumes were listed", kVolumes);
  memory.unit = "MiB";
  memory.more = {{"anonymous_mib", heaps.Median()}};
  memory.goal = fmt::format("<= {} MiB, all processes", kMostMemory);
  memory.met = memory.ours.Median() <= kMostMemory;
  Report(memory);

  start.name = "P7.start";
  start.what = fmt::format("start to ready with {} volumes", kVolumes);
  const double slowdown = std::min(bench.slowdown().work, bench.slowdown().process);
  const double native = start.ours.Median() / slowdown;
  start.more = {{"native_equivalent_ms", native}, {"slowdown", slowdown}};
  start.goal = fmt::format("<= {} ms natively", kMostStart);
  start.met = native <= kMostStart;
  Report(start);
  return Ok();
}

}  // namespace quarry::bench
