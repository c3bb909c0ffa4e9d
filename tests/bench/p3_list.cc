// P3: ListVolumes of 1,000 volumes in one page, beside `lvs` with the distribution's configuration.
#include <fmt/format.h>

#include "tests/bench/bench.h"
#include "tests/bench/processes.h"
#include "tests/bench/report.h"

namespace quarry::bench {
namespace {

constexpr size_t kVolumes = 1000;
constexpr double kMost = 0.05;
constexpr double kNativeMilliseconds = 10;

}  // namespace

Status ListBesideLvs(Bench& bench) {
  QUARRY_ASSIGN(Site* const site, bench.Main());
  Progress(fmt::format("P3 list: making {} volumes", kVolumes));
  QUARRY_TRY(site->Fill("linear", kVolumes));
  Progress("P3 list");
  Finding found;
  found.name = "P3.list";
  found.what = fmt::format("ListVolumes of {} : lvs", kVolumes);
  found.peer.emplace();
  size_t children = 0;
  for (size_t i = 0; i < bench.samples(); ++i) {
    {
      QUARRY_ASSIGN(const ForkWatch watch, ForkWatch::Start(ProcessTree(site->quarryd().pid())));
      const auto listed = Timed(found.ours, [&] { return site->client().List(); });
      QUARRY_TRY(Must("ListVolumes", listed));
      QUARRY_ASSIGN(const size_t started, watch.Count());
      children += started;
      if (listed.value.size() != kVolumes) {
        return Error(Code::kInternal, fmt::format("{} volumes were listed", listed.value.size()));
      }
    }
    QUARRY_TRY(RunTimed(*found.peer, {"lvs", "--reportformat", "json", site->group()}));
  }
  const double native = found.ours.Median() / bench.slowdown().work;
  found.more = {{"volumes", kVolumes},
                {"children", static_cast<double>(children)},
                {"native_equivalent_ms", native},
                {"slowdown", bench.slowdown().work}};
  found.goal = fmt::format("ratio <= {}; {} ms natively; no child process", kMost, kNativeMilliseconds);
  found.met = found.Ratio() <= kMost && native <= kNativeMilliseconds && children == 0;
  Report(found);
  return Ok();
}

}  // namespace quarry::bench
