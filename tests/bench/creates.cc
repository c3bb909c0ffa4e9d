#include "tests/bench/creates.h"

#include <fmt/format.h>

#include "tests/bench/report.h"

namespace quarry::bench {

std::vector<std::string> Lvcreate(const std::string& type, const std::string& name, int64_t size,
                                  const std::string& group) {
  std::vector<std::string> out = {"lvcreate", "-y", "-n", name, "-L", fmt::format("{}b", size)};
  if (type == "raid1") {
    out.insert(out.end(), {"--type", "raid1", "-m", "1"});
  }
  out.push_back(group);
  return out;
}

int64_t BytesOfCreates(const Bench& bench) {
  return static_cast<int64_t>(bench.samples() + 1) * 2 * kSmall;
}

Status MeasureCreates(Bench& bench, const CreateRow& row) {
  Progress(row.name);
  QUARRY_ASSIGN(Site* const site, bench.Few());
  QUARRY_ASSIGN(const std::string peers, bench.Peers());
  Finding found;
  found.name = row.name;
  found.what = fmt::format("CreateVolume {} : lvcreate", row.type);
  found.peer.emplace();
  QUARRY_ASSIGN(const LvmTimes before, site->Times());
  for (size_t i = 0; i < bench.samples(); ++i) {
    const std::string name = fmt::format("{}-{}", row.name, i);
    Settle();
    const auto made = Timed(found.ours, [&] { return site->Create(name, row.type, kSmall, row.erase); });
    if (!made.has_value()) {
      return made.error();
    }
    Settle();
    QUARRY_TRY(RunTimed(*found.peer, Lvcreate(row.type, name, kSmall, peers)));
  }
  QUARRY_ASSIGN(const LvmTimes after, site->Times());
  found.more = PerCall(before, after, bench.samples());
  if (row.volumes > 0) {
    found.more.emplace_back("volumes", static_cast<double>(row.volumes));
  }
  found.goal = fmt::format("ratio <= {}", row.most);
  found.met = found.Ratio() <= row.most;
  Report(found);
  return Ok();
}

}  // namespace quarry::bench
