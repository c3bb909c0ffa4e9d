// P8: CreateVolume in a full group beside the same in a group of ten: linear at 1,000 volumes, raid1 at 250.
// Two groups and two quarryd, alternating. A volume made in the group of ten is deleted again, so that the
// group stays at ten.
#include <fmt/format.h>

#include "tests/bench/bench.h"
#include "tests/bench/report.h"

namespace quarry::bench {
namespace {

constexpr size_t kFew = 10;

Status CreateOfType(Bench& bench, const std::string& type, size_t many, double most) {
  QUARRY_ASSIGN(Site* const full, bench.Main());
  QUARRY_ASSIGN(Site* const few, bench.Few());
  Progress(fmt::format("P8 create {}: making {} volumes", type, many));
  QUARRY_TRY(full->Fill(type, many));
  QUARRY_TRY(few->Fill(type, kFew));
  Progress(fmt::format("P8 create {}", type));
  Finding found;
  found.peer.emplace();
  QUARRY_ASSIGN(const LvmTimes before, full->Times());
  for (size_t i = 0; i < bench.samples(); ++i) {
    const std::string name = fmt::format("p8-{}-{}", type, i);
    Settle();
    const auto in_full = Timed(found.ours, [&] { return full->Create(name, type); });
    if (!in_full.has_value()) {
      return in_full.error();
    }
    Settle();
    const auto in_few = Timed(*found.peer, [&] { return few->Create(name, type); });
    if (!in_few.has_value()) {
      return in_few.error();
    }
    QUARRY_TRY(few->Delete(*in_few));
  }
  found.name = "P8.create." + type;
  found.what = fmt::format("CreateVolume {} at {} : at {}", type, many, kFew);
  QUARRY_ASSIGN(const LvmTimes after, full->Times());
  found.more = PerCall(before, after, bench.samples());
  found.more.emplace_back("volumes", static_cast<double>(many));
  found.goal = fmt::format("ratio <= {}", most);
  found.met = found.Ratio() <= most;
  Report(found);
  return Ok();
}

}  // namespace

Status CreateAmongMany(Bench& bench) {
  QUARRY_TRY(CreateOfType(bench, "linear", 1000, 3));
  return CreateOfType(bench, "raid1", 250, 4);
}

}  // namespace quarry::bench
