// P9: a hundred requests at once beside the same count of bare LVM commands, one after the other:
// CreateVolume of raw volumes over extents that quarryd knows to be zero beside lvcreate, and the staging and
// publishing of raw volumes that are not active, as after a reboot, beside `lvchange -ay`.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <thread>

#include "tests/bench/bench.h"
#include "tests/bench/report.h"
#include "tests/vm/kit/volume_group.h"

namespace quarry::bench {
namespace {

constexpr size_t kAtOnce = 100;
constexpr double kMostOfCreates = 0.35;
constexpr double kMostOfPublishes = 1;
// A round takes a minute or more under emulation, and its figure is a sum of a hundred.
constexpr size_t kRounds = 3;
constexpr char kFolder[] = "/run/quarry-bench/many";

// Runs `one` for each number at the same time. The error is that of one of those that failed.
Status AllAtOnce(const std::function<Status(size_t)>& one) {
  std::vector<Status> done(kAtOnce, Ok());
  {
    std::vector<std::jthread> threads;
    threads.reserve(kAtOnce);
    for (size_t i = 0; i < kAtOnce; ++i) {
      threads.emplace_back([&, i] { done[i] = one(i); });
    }
  }
  const auto failed = std::ranges::find_if(done, [](const Status& status) { return !status.has_value(); });
  return failed == done.end() ? Ok() : *failed;
}

Status OneByOne(const std::function<std::vector<std::string>(size_t)>& argv) {
  for (size_t i = 0; i < kAtOnce; ++i) {
    QUARRY_TRY(Run(argv(i)));
  }
  return Ok();
}

void ReportSums(const char* name, const char* what, const Samples& ours, const Samples& peer, double most) {
  Finding found;
  found.name = name;
  found.what = what;
  found.ours = ours;
  found.peer = peer;
  found.more = {{"at_once", kAtOnce}};
  found.goal = fmt::format("ratio <= {}", most);
  found.met = found.Ratio() <= most;
  Report(found);
}

std::string Place(const char* kind, size_t i) {
  return fmt::format("{}/{}-{}", kFolder, kind, i);
}

struct Sums {
  Samples creates, lvcreates;
  Samples publishes, lvchanges;
};

// Leaves the group with the volumes of quarryd, all inactive.
Status CreateRound(Site& site, Sums& sums, std::vector<vm::v1::Volume>& volumes) {
  QUARRY_TRY(site.Clear());
  Settle();
  QUARRY_TRY(Timed(sums.lvcreates, [&] {
    return OneByOne([&](size_t i) -> std::vector<std::string> {
      return {"lvcreate",  "-y", "-n", fmt::format("peer-{}", i), "-L", fmt::format("{}b", kSmall),
              site.group()};
    });
  }));
  QUARRY_TRY(site.Clear());
  QUARRY_TRY(site.Zero(static_cast<int64_t>(kAtOnce + 1) * kSmall));
  Settle();
  return Timed(sums.creates, [&] {
    return AllAtOnce([&](size_t i) -> Status {
      const auto made = site.client().Create({.name = fmt::format("p9-{}", i),
                                              .parameters = vm::TypeParameters("linear"),
                                              .capability = vm::BlockCapability(),
                                              .size = kSmall});
      QUARRY_TRY(Must("CreateVolume", made));
      volumes[i] = made.value.volume();
      return Ok();
    });
  });
}

Status PublishRound(Site& site, Sums& sums, const std::vector<vm::v1::Volume>& volumes) {
  vm::CsiClient& client = site.client();
  QUARRY_TRY(Run({"vgchange", "-an", site.group()}));
  Settle();
  QUARRY_TRY(Timed(sums.lvchanges, [&] {
    return OneByOne([&](size_t i) -> std::vector<std::string> {
      return {"lvchange", "-ay", "-K", site.group() + "/" + vm::LvNameIn(volumes[i].volume_id())};
    });
  }));
  QUARRY_TRY(Run({"vgchange", "-an", site.group()}));
  Settle();
  const Status published = Timed(sums.publishes, [&] {
    return AllAtOnce([&](size_t i) -> Status {
      QUARRY_TRY(
          Must("NodeStageVolume", client.Stage(volumes[i], Place("staging", i), vm::BlockCapability())));
      return Must("NodePublishVolume",
                  client.Publish(volumes[i], Place("staging", i), Place("target", i), vm::BlockCapability()));
    });
  });
  QUARRY_TRY(published);
  for (size_t i = 0; i < kAtOnce; ++i) {
    const std::string& id = volumes[i].volume_id();
    QUARRY_TRY(Must("NodeUnpublishVolume", client.Unpublish(id, Place("target", i))));
    QUARRY_TRY(Must("NodeUnstageVolume", client.Unstage(id, Place("staging", i))));
  }
  return Ok();
}

}  // namespace

Status ManyAtOnce(Bench& bench) {
  QUARRY_ASSIGN(Site* const site, bench.Main());
  Progress(fmt::format("P9 {} at once", kAtOnce));
  Sums sums;
  for (size_t round = 0; round < std::min(kRounds, bench.samples()); ++round) {
    std::vector<vm::v1::Volume> volumes(kAtOnce);
    for (size_t i = 0; i < kAtOnce; ++i) {
      std::filesystem::create_directories(Place("staging", i));
    }
    QUARRY_TRY(CreateRound(*site, sums, volumes));
    QUARRY_TRY(PublishRound(*site, sums, volumes));
  }
  ReportSums("P9.create", "100 CreateVolume at once : 100 lvcreate", sums.creates, sums.lvcreates,
             kMostOfCreates);
  ReportSums("P9.publish", "100 staged and published at once : 100 lvchange -ay", sums.publishes,
             sums.lvchanges, kMostOfPublishes);
  return Ok();
}

}  // namespace quarry::bench
