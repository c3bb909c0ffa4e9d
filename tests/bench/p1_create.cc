// P1: CreateVolume beside a bare lvcreate with the distribution's configuration, alternating, in two groups
// of the same size. All volumes stay until the end, so both groups grow alike. CreateVolume places every
// extent, reads LVM's placement back, tags and flushes. A bare lvcreate does none of that.
//
// "clear": raw volumes over extents that quarryd knows to be zero. "unknown": over extents of any content,
// which the volume's parameters permit.
#include <fmt/format.h>

#include "tests/bench/bench.h"
#include "tests/bench/report.h"

namespace quarry::bench {
namespace {

struct Row {
  const char* type;
  bool clear;
  double most;
};
constexpr Row kRows[] = {
    {"linear", true, 0.30}, {"raid1", true, 0.65}, {"linear", false, 0.49}, {"raid1", false, 0.77}};

std::vector<std::string> Lvcreate(const Row& row, size_t i, const std::string& group) {
  std::vector<std::string> out = {
      "lvcreate", "-y", "-n", fmt::format("peer-{}-{}", row.type, i), "-L", fmt::format("{}b", kSmall)};
  if (std::string_view(row.type) == "raid1") {
    out.insert(out.end(), {"--type", "raid1", "-m", "1"});
  }
  out.push_back(group);
  return out;
}

Status Measure(Bench& bench, const Row& row) {
  const std::string name = fmt::format("{}.{}", row.type, row.clear ? "clear" : "unknown");
  Progress("P1 create " + name);
  QUARRY_ASSIGN(Site* const site, bench.Few());
  QUARRY_ASSIGN(const std::string peers, bench.Peers());
  QUARRY_TRY(Run({"lvremove", "-y", "-f", peers}));
  const auto size = static_cast<int64_t>(bench.samples() + 1) * 2 * kSmall;
  QUARRY_TRY(site->Clear());
  QUARRY_TRY(row.clear ? site->Zero(size) : Ok());
  Finding found;
  found.name = "P1.create." + name;
  found.what = fmt::format("CreateVolume {} : lvcreate", name);
  found.peer.emplace();
  QUARRY_ASSIGN(const LvmTimes before, site->Times());
  for (size_t i = 0; i < bench.samples(); ++i) {
    Settle();
    const auto made = Timed(found.ours, [&] {
      return site->Create(fmt::format("p1-{}-{}", name, i), row.type, kSmall, row.clear ? "zero" : "none");
    });
    if (!made.has_value()) {
      return made.error();
    }
    Settle();
    QUARRY_TRY(RunTimed(*found.peer, Lvcreate(row, i, peers)));
  }
  QUARRY_ASSIGN(const LvmTimes after, site->Times());
  found.more = PerCall(before, after, bench.samples());
  found.goal = fmt::format("ratio <= {}", row.most);
  found.met = found.Ratio() <= row.most;
  Report(found);
  return Ok();
}

}  // namespace

Status CreateBesideLvcreate(Bench& bench) {
  for (const Row& row : kRows) {
    QUARRY_TRY(Measure(bench, row));
  }
  return Ok();
}

}  // namespace quarry::bench
