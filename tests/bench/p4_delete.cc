// P4: the answer to DeleteVolume beside a bare lvremove of a volume of the same size. quarryd must zero the
// volume before its extents may be used again. That happens after the answer and must not show in it: 64 GiB
// as fast as 64 MiB.
#include <fmt/format.h>

#include "tests/bench/bench.h"
#include "tests/bench/report.h"

namespace quarry::bench {
namespace {

constexpr double kMost = 0.4;
// The allowed quotient of the two sizes' medians: a busy machine moves it by more than a quarter.
constexpr double kSame = 1.5;

struct Size {
  const char* name;
  int64_t bytes;
};
constexpr Size kSizes[] = {{"64MiB", 64 * vm::kMi}, {"64GiB", 64 * 1024 * vm::kMi}};

Status DeleteOne(Site& site, const Size& size, size_t number, Finding& found) {
  const auto made = site.client().Create({.name = fmt::format("p4-{}-{}", size.name, number),
                                          .parameters = vm::TypeParameters("linear"),
                                          .capability = vm::BlockCapability(),
                                          .size = size.bytes});
  QUARRY_TRY(Must("CreateVolume", made));
  QUARRY_TRY(Run({"lvcreate", "-y", "-n", "peer", "-L", fmt::format("{}b", size.bytes), site.group()}));
  Settle();
  const std::string& id = made.value.volume().volume_id();
  QUARRY_TRY(Timed(found.ours, [&] { return site.Delete(id); }));
  QUARRY_TRY(site.WaitErased());
  Settle();
  return RunTimed(*found.peer, {"lvremove", "-y", site.group() + "/peer"});
}

}  // namespace

Status DeleteBesideLvremove(Bench& bench) {
  QUARRY_ASSIGN(Site* const site, bench.Main());
  Progress("P4 delete");
  QUARRY_TRY(site->Clear());
  Finding found[2];
  for (size_t i = 0; i < bench.samples(); ++i) {
    for (size_t s = 0; s < 2; ++s) {
      if (i == 0) {
        found[s].peer.emplace();
      }
      QUARRY_TRY(DeleteOne(*site, kSizes[s], i, found[s]));
    }
  }
  const double growth = found[1].ours.Median() / found[0].ours.Median();
  for (size_t s = 0; s < 2; ++s) {
    found[s].name = fmt::format("P4.delete.{}", kSizes[s].name);
    found[s].what = fmt::format("DeleteVolume {} : lvremove", kSizes[s].name);
    found[s].more = {{"large_to_small", growth}};
    found[s].goal = fmt::format("ratio <= {}; the same for both sizes", kMost);
    found[s].met = found[s].Ratio() <= kMost && growth <= kSame;
    Report(found[s]);
  }
  return Ok();
}

}  // namespace quarry::bench
