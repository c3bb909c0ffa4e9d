// P11: quarryd beside the LVM commands that two other drivers run for the same request, as their sources have
// them: TopoLVM's lvmd, and csilvm. Only the commands run, one after the other, with the distribution's
// configuration. So the peers pay for no RPC, no JSON and no nsenter, and csilvm not for overwriting what it
// deletes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "tests/bench/bench.h"
#include "tests/bench/report.h"

namespace quarry::bench {
namespace {

// csilvm's list takes two commands for each volume, so the group is small.
constexpr size_t kVolumes = 50;
constexpr double kMostOfWrites = 0.15;
constexpr double kMostOfReads = 0.02;

using Commands = std::vector<std::vector<std::string>>;

// Everything that one driver runs.
struct Driver {
  const char* name;
  Commands (*create)(const std::string& group, const std::string& lv);
  Commands (*remove)(const std::string& group, const std::string& lv);
  Commands (*list)(const std::string& group);
  Commands (*capacity)(const std::string& group);
};

// lvmd asks for the group before and for the volume after each change.
namespace lvmd {

std::vector<std::string> Group(const std::string& group) {
  return {"vgs",     group, "-o",         "vg_uuid,vg_name,vg_size,vg_free",
          "--units", "b",   "--nosuffix", "--reportformat",
          "json"};
}

std::vector<std::string> Volumes(const std::string& what) {
  return {"lvs",
          what,
          "-o",
          "lv_uuid,lv_name,lv_full_name,lv_path,lv_size,lv_kernel_major,lv_kernel_minor,origin,origin_size,"
          "pool_lv,"
          "lv_tags,lv_attr,vg_name,data_percent,metadata_percent,pool_lv",
          "--units",
          "b",
          "--nosuffix",
          "--reportformat",
          "json"};
}

Commands Create(const std::string& group, const std::string& lv) {
  return {Group(group),
          {"lvcreate", "-n", lv, "-L", fmt::format("{}b", kSmall), "-W", "y", "-y", group},
          Volumes(group + "/" + lv)};
}
Commands Remove(const std::string& group, const std::string& lv) {
  return {Group(group), {"lvremove", "-f", group + "/" + lv}};
}
Commands List(const std::string& group) {
  return {Group(group), Volumes(group)};
}
Commands Capacity(const std::string& group) {
  return {Group(group)};
}

}  // namespace lvmd

// csilvm asks for one thing at a time, and refreshes its metrics after each request.
namespace csilvm {

std::vector<std::string> Report(const char* verb, const std::string& fields, const std::string& what) {
  std::vector<std::string> argv = {verb, "--reportformat=json", "--units=b", "--nosuffix",
                                   "--options=" + fields};
  if (!what.empty()) {
    argv.push_back(what);
  }
  return argv;
}

void AppendFree(Commands& to, const std::string& group) {
  to.push_back(Report("pvs", "pv_name,vg_name", ""));
  to.push_back(Report("vgs", "vg_free,vg_free_count,vg_extent_size", group));
}

void AppendMetrics(Commands& to, const std::string& group) {
  to.push_back(Report("lvs", "lv_name,vg_name", group));
  to.push_back(Report("vgs", "vg_size", group));
  AppendFree(to, group);
}

std::vector<std::string> LookUp(const std::string& group) {
  return Report("lvs", "lv_name,lv_size,vg_name", group);
}

Commands Create(const std::string& group, const std::string& lv) {
  Commands run = {Report("lvs", "lv_name,lv_size,vg_name,lv_tags", group), LookUp(group),
                  Report("vgs", "vg_extent_size", group)};
  AppendFree(run, group);
  run.push_back({"lvcreate", "--add-tag=VN." + lv, fmt::format("--size={}b", kSmall), "--name=" + lv, group,
                 "--type=linear"});
  run.push_back(Report("lvs", "lv_tags", group + "/" + lv));
  AppendMetrics(run, group);
  return run;
}
Commands Remove(const std::string& group, const std::string& lv) {
  Commands run = {
      LookUp(group), Report("lvs", "lv_path", group + "/" + lv), {"lvremove", "-f", group + "/" + lv}};
  AppendMetrics(run, group);
  return run;
}
Commands List(const std::string& group) {
  Commands run = {Report("lvs", "lv_name,vg_name", group)};
  for (size_t i = 0; i < kVolumes; ++i) {
    run.push_back(LookUp(group));
    run.push_back(Report("lvs", "lv_tags", group));
  }
  AppendMetrics(run, group);
  return run;
}
Commands Capacity(const std::string& group) {
  Commands run;
  AppendFree(run, group);
  AppendMetrics(run, group);
  return run;
}

}  // namespace csilvm

constexpr Driver kDrivers[] = {
    {"lvmd", lvmd::Create, lvmd::Remove, lvmd::List, lvmd::Capacity},
    {"csilvm", csilvm::Create, csilvm::Remove, csilvm::List, csilvm::Capacity},
};
constexpr size_t kDriverCount = std::size(kDrivers);

Status RunAllTimed(Samples& samples, const Commands& commands) {
  Settle();
  return Timed(samples, [&]() -> Status {
    for (const std::vector<std::string>& argv : commands) {
      QUARRY_TRY(Run(argv));
    }
    return Ok();
  });
}

// One kind of request: ours, and each driver's.
struct Row {
  const char* name;
  const char* what;
  double most;
  Samples ours;
  std::array<Samples, kDriverCount> peers;
};

void ReportRow(const Row& row) {
  for (size_t i = 0; i < kDriverCount; ++i) {
    Finding found;
    found.name = fmt::format("P11.{}.{}", row.name, kDrivers[i].name);
    found.what = fmt::format("{} : the commands of {}", row.what, kDrivers[i].name);
    found.ours = row.ours;
    found.peer = row.peers.at(i);
    found.more = {{"volumes", kVolumes}};
    found.goal = fmt::format("ratio <= {}", row.most);
    found.met = found.Ratio() <= row.most;
    Report(found);
  }
}

// Each volume that is made is removed again, so the group keeps its size. Ours is raw, over extents that
// quarryd knows to be zero.
Status WriteOnce(Site& site, size_t number, Row& create, Row& remove) {
  QUARRY_TRY(site.Zero(2 * kSmall));
  Settle();
  const auto id = Timed(create.ours,
                        [&] { return site.Create(fmt::format("p11-{}", number), "linear", kSmall, "zero"); });
  if (!id.has_value()) {
    return id.error();
  }
  Settle();
  QUARRY_TRY(Timed(remove.ours, [&] { return site.Delete(*id); }));
  QUARRY_TRY(site.WaitErased());
  for (size_t i = 0; i < kDriverCount; ++i) {
    QUARRY_TRY(RunAllTimed(create.peers.at(i), kDrivers[i].create(site.group(), "peer")));
    QUARRY_TRY(RunAllTimed(remove.peers.at(i), kDrivers[i].remove(site.group(), "peer")));
  }
  return Ok();
}

Status ReadOnce(Site& site, Row& list, Row& capacity) {
  const auto listed = Timed(list.ours, [&] { return site.client().List(); });
  QUARRY_TRY(Must("ListVolumes", listed));
  if (listed.value.size() != kVolumes) {
    return Error(Code::kInternal, fmt::format("{} volumes were listed", listed.value.size()));
  }
  const auto room =
      Timed(capacity.ours, [&] { return site.client().Capacity(vm::TypeParameters("linear")); });
  QUARRY_TRY(Must("GetCapacity", room));
  for (size_t i = 0; i < kDriverCount; ++i) {
    QUARRY_TRY(RunAllTimed(list.peers.at(i), kDrivers[i].list(site.group())));
    QUARRY_TRY(RunAllTimed(capacity.peers.at(i), kDrivers[i].capacity(site.group())));
  }
  return Ok();
}

}  // namespace

Status AllBesideOtherDrivers(Bench& bench) {
  QUARRY_ASSIGN(Site* const site, bench.Main());
  Progress(fmt::format("P11 other drivers: making {} volumes", kVolumes));
  QUARRY_TRY(site->Fill("linear", kVolumes));
  Row create = {.name = "create", .what = "CreateVolume", .most = kMostOfWrites, .ours = {}, .peers = {}};
  Row remove = {.name = "delete", .what = "DeleteVolume", .most = kMostOfWrites, .ours = {}, .peers = {}};
  Row list = {.name = "list", .what = "ListVolumes", .most = kMostOfReads, .ours = {}, .peers = {}};
  Row capacity = {.name = "capacity", .what = "GetCapacity", .most = kMostOfReads, .ours = {}, .peers = {}};
  Progress("P11 other drivers");
  for (size_t i = 0; i < bench.samples(); ++i) {
    QUARRY_TRY(ReadOnce(*site, list, capacity));
    QUARRY_TRY(WriteOnce(*site, i, create, remove));
  }
  for (const Row* row : {&create, &remove, &list, &capacity}) {
    ReportRow(*row);
  }
  return Ok();
}

}  // namespace quarry::bench
