// P8: CreateVolume in a full group beside a bare lvcreate with the distribution's configuration in another
// group that is as full, alternating: linear at 1,000 volumes, raid1 at 250. Raw volumes over extents that
// quarryd knows to be zero. The peer's volumes have no tags, so its metadata is smaller.
#include <fmt/format.h>

#include <fstream>

#include "tests/bench/bench.h"
#include "tests/bench/creates.h"
#include "tests/bench/multiply.h"
#include "tests/bench/report.h"

namespace quarry::bench {
namespace {

constexpr size_t kModels = 10;

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
  QUARRY_ASSIGN(const std::string backup, FileText(file));
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
  QUARRY_TRY(full->Zero(BytesOfCreates(bench)));
  return MeasureCreates(bench, {"P8.create." + type, type, "zero", most, many});
}

}  // namespace

Status CreateAmongMany(Bench& bench) {
  QUARRY_TRY(CreateOfType(bench, "linear", 1000, 0.40));
  return CreateOfType(bench, "raid1", 250, 0.65);
}

}  // namespace quarry::bench
