// P1: CreateVolume beside a bare lvcreate with the distribution's configuration, alternating, in two groups
// of the same size. CreateVolume places every extent, reads LVM's placement back, tags and flushes. A bare
// lvcreate does none of that.
//
// "clear": raw volumes over extents that quarryd knows to be zero. "unknown": over extents of any content,
// which the volume's parameters permit.
#include <fmt/format.h>

#include <utility>

#include "tests/bench/bench.h"
#include "tests/bench/creates.h"

namespace quarry::bench {
namespace {

Status Clear(Bench& bench) {
  QUARRY_ASSIGN(Site* const site, bench.Few());
  QUARRY_ASSIGN(const std::string peers, bench.Peers());
  QUARRY_TRY(Run({"lvremove", "-y", "-f", peers}));
  return site->Clear();
}

}  // namespace

Status CreateBesideLvcreate(Bench& bench) {
  QUARRY_ASSIGN(Site* const site, bench.Few());
  for (const auto& [type, most] : {std::pair{"linear", 0.30}, std::pair{"raid1", 0.65}}) {
    QUARRY_TRY(Clear(bench));
    QUARRY_TRY(site->Zero(BytesOfCreates(bench)));
    QUARRY_TRY(MeasureCreates(bench, {fmt::format("P1.create.{}.clear", type), type, "zero", most}));
  }
  for (const auto& [type, most] : {std::pair{"linear", 0.49}, std::pair{"raid1", 0.77}}) {
    QUARRY_TRY(Clear(bench));
    QUARRY_TRY(MeasureCreates(bench, {fmt::format("P1.create.{}.unknown", type), type, "none", most}));
  }
  return Ok();
}

}  // namespace quarry::bench
