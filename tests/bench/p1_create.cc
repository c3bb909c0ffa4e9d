// P1: CreateVolume beside a bare lvcreate with the distribution's configuration, alternating in the same
// group. Both kinds of volumes stay until the end, so both see a group of the same size. CreateVolume places
// every extent, reads LVM's placement back, tags and flushes. A bare lvcreate does none of that.
#include <fmt/format.h>

#include "tests/bench/bench.h"
#include "tests/bench/report.h"

namespace quarry::bench {
namespace {

Status CreateOfType(Bench& bench, Site& site, const std::string& type, const std::vector<std::string>& shape,
                    double most) {
  Progress(fmt::format("P1 create {}", type));
  QUARRY_TRY(site.Clear());
  Finding found;
  found.name = "P1.create." + type;
  found.what = fmt::format("CreateVolume {} : lvcreate", type);
  found.peer.emplace();
  QUARRY_ASSIGN(const LvmTimes before, site.Times());
  for (size_t i = 0; i < bench.samples(); ++i) {
    Settle();
    const auto made = Timed(found.ours, [&] { return site.Create(fmt::format("p1-{}-{}", type, i), type); });
    if (!made.has_value()) {
      return made.error();
    }
    Settle();
    std::vector<std::string> lvcreate = {
        "lvcreate", "-y", "-n", fmt::format("peer-{}", i), "-L", fmt::format("{}b", kSmall)};
    lvcreate.insert(lvcreate.end(), shape.begin(), shape.end());
    lvcreate.push_back(site.group());
    QUARRY_TRY(RunTimed(*found.peer, lvcreate));
  }
  QUARRY_ASSIGN(const LvmTimes after, site.Times());
  found.more = PerCall(before, after, bench.samples());
  found.goal = fmt::format("ratio <= {}", most);
  found.met = found.Ratio() <= most;
  Report(found);
  return Ok();
}

}  // namespace

Status CreateBesideLvcreate(Bench& bench) {
  QUARRY_ASSIGN(Site* const site, bench.Main());
  QUARRY_TRY(CreateOfType(bench, *site, "linear", {}, 0.33));
  return CreateOfType(bench, *site, "raid1", {"--type", "raid1", "-m", "1"}, 0.5);
}

}  // namespace quarry::bench
