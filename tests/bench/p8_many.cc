// P8: CreateVolume in a full group beside a bare lvcreate with the distribution's configuration in another
// group that is as full, alternating: linear at 1,000 volumes, raid1 at 250. Raw volumes over extents that
// quarryd knows to be zero. The peer's volumes have no tags, so its metadata is smaller.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "tests/bench/bench.h"
#include "tests/bench/multiply.h"
#include "tests/bench/report.h"

namespace quarry::bench {
namespace {

constexpr size_t kModels = 10;

std::vector<std::string> Lvcreate(const std::string& type, const std::string& name, int64_t size,
                                  const std::string& group) {
  std::vector<std::string> out = {"lvcreate", "-y", "-n", name, "-L", fmt::format("{}b", size)};
  if (type == "raid1") {
    out.insert(out.end(), {"--type", "raid1", "-m", "1"});
  }
  out.push_back(group);
  return out;
}

// As Site::Fill does it, for a group that no quarryd serves.
Status FillPeers(const std::string& group, const std::string& type, size_t count) {
  const std::string file = "/run/quarry-bench/peers";
  QUARRY_TRY(Run({"lvremove", "-y", "-f", group}));
  std::vector<Model> models;
  for (size_t i = 0; i < kModels; ++i) {
    const std::string name = fmt::format("model-{}-of-peers", i);
    models.push_back({.lv_name = name, .co_name = name});
    QUARRY_TRY(Run(Lvcreate(type, name, kFillSize, group)));
  }
  QUARRY_TRY(Run({"vgcfgbackup", "-f", file, group}));
  std::ifstream in(file, std::ios::binary);
  const std::string backup(std::istreambuf_iterator<char>(in), {});
  QUARRY_ASSIGN(const std::string filled, MultiplyVolumes(backup, models, count - kModels));
  std::ofstream(file, std::ios::binary | std::ios::trunc) << filled;
  QUARRY_TRY(Run({"vgcfgrestore", "-y", "-f", file, group}));
  return type == "linear" ? ActivateAll(group) : Ok();
}

Status CreateOfType(Bench& bench, const std::string& type, size_t many, double most) {
  QUARRY_ASSIGN(Site* const full, bench.Few());
  QUARRY_ASSIGN(const std::string peers, bench.Peers());
  Progress(fmt::format("P8 create {}: making {} volumes twice", type, many));
  QUARRY_TRY(full->Fill(type, many));
  QUARRY_TRY(FillPeers(peers, type, many));
  QUARRY_TRY(full->Zero(static_cast<int64_t>(bench.samples() + 1) * 2 * kSmall));
  Progress(fmt::format("P8 create {}", type));
  Finding found;
  found.peer.emplace();
  QUARRY_ASSIGN(const LvmTimes before, full->Times());
  for (size_t i = 0; i < bench.samples(); ++i) {
    const std::string name = fmt::format("p8-{}-{}", type, i);
    Settle();
    const auto made = Timed(found.ours, [&] { return full->Create(name, type, kSmall, "zero"); });
    if (!made.has_value()) {
      return made.error();
    }
    Settle();
    QUARRY_TRY(RunTimed(*found.peer, Lvcreate(type, name, kSmall, peers)));
  }
  found.name = "P8.create." + type;
  found.what = fmt::format("CreateVolume {} : lvcreate, at {}", type, many);
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
  QUARRY_TRY(CreateOfType(bench, "linear", 1000, 0.40));
  return CreateOfType(bench, "raid1", 250, 0.65);
}

}  // namespace quarry::bench
