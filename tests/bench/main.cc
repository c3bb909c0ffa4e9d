// quarry_bench: benchmarks of quarryd, in a guest with ten blank disks. scripts/bench runs it.
#include <fmt/format.h>
#include <strings.h>

#include <CLI/CLI.hpp>

#include "tests/bench/bench.h"
#include "tests/bench/report.h"
#include "tests/vm/kit/volume_group.h"

namespace quarry::bench {
namespace {

struct Entry {
  const char* name;
  Status (*run)(Bench& bench);
};
// Benchmarks that need many volumes are adjacent: a group that is already full is not filled again.
constexpr Entry kBenchmarks[] = {
    {"P1", CreateBesideLvcreate},
    {"P4", DeleteBesideLvremove},
    {"P5", PublishBesideMount},
    {"P6", CapacityWhileCreating},
    {"P2", CapacityBesideProbe},
    {"P3", ListBesideLvs},
    {"P7", MemoryAndStart},
    {"P8", CreateAmongMany},
    {"P9", ManyAtOnce},
    {"P10", DataPathBesideBareDevice},
    {"P11", AllBesideOtherDrivers},
    {"P12", CopiesBesideDd},
    {"P14", CutsBesideLvm},
    {"P15", ClonesBesideLvm},
    {"P16", ThinWritesBesideLinear},
};

bool Wanted(const std::vector<std::string>& names, const char* name) {
  return names.empty() || std::any_of(names.begin(), names.end(), [name](const std::string& wanted) {
           return strcasecmp(wanted.c_str(), name) == 0;
         });
}

bool Known(const std::string& name) {
  return std::any_of(std::begin(kBenchmarks), std::end(kBenchmarks),
                     [&name](const Entry& entry) { return strcasecmp(name.c_str(), entry.name) == 0; });
}

// Returns the status of the process: 0 if everything could be measured, with any figures.
int RunAll(const std::vector<std::string>& names, size_t samples, const std::optional<Costs>& native) {
  Slowdown slowdown;
  if (native.has_value()) {
    const Costs here = MeasureCosts();
    slowdown = {.work = here.work / native->work, .process = here.process / native->process};
    Progress(fmt::format(
        "this machine is {:.1f} times slower than its host at computing, {:.1f} times at starting "
        "a process",
        slowdown.work, slowdown.process));
  }
  Bench bench(samples, slowdown);
  int status = 0;
  for (const Entry& entry : kBenchmarks) {
    if (!Wanted(names, entry.name)) {
      continue;
    }
    if (const Status done = entry.run(bench); !done.has_value()) {
      fmt::print(stderr, "{}: {}\n", entry.name, done.error().message());
      status = 1;
    }
  }
  return status;
}

}  // namespace

Result<std::string> Bench::Peers() {
  const std::string group = "peers";
  if (!has_peers_) {
    QUARRY_TRY(Run({"vgcreate", "--metadatasize", "64m", group, vm::DiskNode(7), vm::DiskNode(8)}));
    has_peers_ = true;
  }
  return group;
}

Result<Site*> Bench::Stores() {
  std::map<std::string, std::string> stores;
  for (const int chunk : kChunks) {
    stores[fmt::format("chunk{}", chunk)] = fmt::format("1GiB type=linear chunk={}KiB", chunk);
  }
  return Get(thin_, "thin", 9, 10, stores);
}

Result<Site*> Bench::Get(std::unique_ptr<Site>& site, const std::string& group, int first, int last,
                         const std::map<std::string, std::string>& stores) {
  if (site == nullptr) {
    std::vector<std::string> disks;
    for (int i = first; i <= last; ++i) {
      disks.push_back(vm::DiskNode(i));
      if (disks.back().empty()) {
        return Error(Code::kNotFound, fmt::format("there is no disk {}: run this with scripts/bench", i));
      }
    }
    QUARRY_ASSIGN(site, Site::Make(group, std::move(disks), stores));
  }
  return site.get();
}

}  // namespace quarry::bench

int main(int argc, char** argv) {
  std::vector<std::string> names;
  size_t samples = 20;
  std::string native;
  bool calibrate = false;
  CLI::App app("Measures quarryd beside its peers, on the blank disks of a guest of scripts/vmtest.");
  app.add_option("names", names, "P1 … P12, P14 … P16 (default: all)");
  app.add_option("--samples", samples, "number of samples of everything that takes long")
      ->check(CLI::Range(1, 10000));
  app.add_option("--native", native, "what --calibrate printed on the host");
  app.add_flag("--calibrate", calibrate, "print the cost of some work on this machine");
  CLI11_PARSE(app, argc, argv);
  if (calibrate) {
    fmt::print("{}\n", quarry::bench::ToText(quarry::bench::MeasureCosts()));
    return 0;
  }
  for (const std::string& name : names) {
    if (!quarry::bench::Known(name)) {
      fmt::print(stderr, "there is no benchmark '{}'; there are P1 to P12 and P14 to P16\n", name);
      return 2;
    }
  }
  std::optional<quarry::bench::Costs> costs;
  if (!native.empty()) {
    const auto parsed = quarry::bench::ParseCosts(native);
    if (!parsed.has_value()) {
      fmt::print(stderr, "{}\n", parsed.error().message());
      return 2;
    }
    costs = *parsed;
  }
  return quarry::bench::RunAll(names, samples, costs);
}
