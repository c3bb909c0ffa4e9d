// P2: GetCapacity, five profiles in turn, in a group of 200 volumes, beside Probe of the same server, which
// reads the group too. No answer is stale: the very next one lacks what an administrator's lvcreate has
// taken.
#include <fmt/format.h>

#include <array>
#include <map>

#include "tests/bench/bench.h"
#include "tests/bench/report.h"

namespace quarry::bench {
namespace {

constexpr size_t kVolumes = 200;
constexpr size_t kRounds = 40;  // of five profiles
constexpr double kMost = 1.5;
constexpr std::array kProfiles = {"linear", "striped", "raid1", "raid5", "raid10"};

// The capacity of every profile must be smaller right after an lvcreate by another process.
Status CheckForeign(Site& site) {
  for (const char* profile : kProfiles) {
    const auto before = site.client().Capacity(vm::TypeParameters(profile));
    QUARRY_TRY(Must("GetCapacity", before));
    // Takes the same from every disk, so that each profile's capacity shrinks.
    QUARRY_TRY(Run({"lvcreate", "-y", "-i", "4", "-L", fmt::format("{}b", 4 * kSmall), "-n",
                    fmt::format("foreign-{}", profile), site.group()}));
    const auto after = site.client().Capacity(vm::TypeParameters(profile));
    QUARRY_TRY(Must("GetCapacity", after));
    if (after.value.available_capacity() >= before.value.available_capacity()) {
      return Error(Code::kInternal,
                   fmt::format("{}: a foreign lvcreate does not show: {} bytes before, {} after", profile,
                               before.value.available_capacity(), after.value.available_capacity()));
    }
  }
  return Ok();
}

}  // namespace

Status CapacityBesideProbe(Bench& bench) {
  QUARRY_ASSIGN(Site* const site, bench.Main());
  Progress(fmt::format("P2 capacity: making {} volumes", kVolumes));
  QUARRY_TRY(site->Fill("linear", kVolumes));
  Progress("P2 capacity");
  Finding found;
  found.name = "P2.capacity";
  found.what = "GetCapacity : Probe";
  found.peer.emplace();
  for (size_t i = 0; i < kRounds * kProfiles.size(); ++i) {
    const auto parameters = vm::TypeParameters(kProfiles.at(i % kProfiles.size()));
    const auto capacity = Timed(found.ours, [&] { return site->client().Capacity(parameters); });
    QUARRY_TRY(Must("GetCapacity", capacity));
    const auto probe = Timed(*found.peer, [&] { return site->client().Probe(); });
    QUARRY_TRY(Must("Probe", probe));
  }
  QUARRY_TRY(CheckForeign(*site));
  found.more = {{"volumes", kVolumes}, {"foreign_changes_seen", kProfiles.size()}};
  found.goal = fmt::format("ratio <= {}; a foreign lvcreate shows at once", kMost);
  found.met = found.Ratio() <= kMost;
  Report(found);
  return Ok();
}

}  // namespace quarry::bench
