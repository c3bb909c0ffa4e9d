// who, orphans, trace.
#include <pwd.h>

#include <array>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ctl/cli/tables.h"
#include "ctl/find_volume.h"
#include "ctl/holders_page.h"
#include "ctl/known_ids.h"
#include "ctl/orphans.h"

namespace quarry::ctl {
namespace {

// A node with thousands of containers has a million open files.
constexpr std::chrono::milliseconds kProcessSearch{30000};

std::string UserNameOf(uint32_t uid) {
  std::array<char, 4096> space{};
  passwd entry{};
  passwd* found = nullptr;
  return getpwuid_r(uid, &entry, space.data(), space.size(), &found) == 0 && found != nullptr ? found->pw_name
                                                                                              : "";
}

Result<std::string> ShowHolders(const Bench& bench, const std::string& wanted, const Call& call) {
  QUARRY_ASSIGN(engine::Record record, FindVolume(bench, wanted, call));
  QUARRY_ASSIGN(auto device, bench.dm.Find(record.DmUuid()));
  VolumeHolders held{.volume = std::move(record), .device = std::move(device), .holders = {}};
  if (held.device.has_value()) {
    QUARRY_ASSIGN(held.holders, mount::HoldersOf({held.device->major, held.device->minor}, "/proc", "/sys",
                                                 kProcessSearch));
  }
  return bench.json ? HoldersJson(held, &UserNameOf) : DrawHolders(held, &UserNameOf);
}

Run SetUpWho(CLI::App& sub, const Common& common) {
  const auto wanted = std::make_shared<std::string>();
  sub.add_option("VOLUME", *wanted, "id or name of a volume or snapshot")->required();
  sub.footer("Example: quarryctl who pvc-0a1b2c3d-1111-2222-3333-444455556666");
  return ReadGroups(
      common, [wanted](const Bench& bench, const Call& call) { return ShowHolders(bench, *wanted, call); });
}

struct OrphanWish {
  std::string file, node;
  bool snapshots = false, allow_empty = false;
  uint32_t least_age = 60;
};
constexpr int kNotCompared = 2;

Result<std::string> ReadInput(const std::string& file) {
  if (file == "-") {
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
  }
  std::ifstream in(file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  return in.good() || in.eof()
             ? Result<std::string>(std::move(text))
             : Error(Code::kInvalidArgument, fmt::format("--against: '{}' cannot be read", file));
}

Result<KnownIds> ReadKnown(const OrphanWish& wish, const std::string& driver) {
  QUARRY_ASSIGN(const std::string text, ReadInput(wish.file));
  const std::string origin = fmt::format("--against {}", wish.file);
  QUARRY_ASSIGN(KnownIds known, ParseKnownIds(text, driver).Context(origin));
  if (known.empty() && !wish.allow_empty) {
    return Error(
        Code::kInvalidArgument,
        fmt::format("{}: it names no volume of {}, so every volume here would be an orphan. Did the command "
                    "that made it fail? --allow-empty compares with it all the same",
                    origin, driver));
  }
  return known;
}

Result<std::string> ShowOrphans(const Bench& bench, const Common& common, const OrphanWish& wish,
                                int& exit_status, const Call& call) {
  QUARRY_ASSIGN(const daemon::Options options, LoadOptions(common));
  OrphanQuestion question;
  QUARRY_ASSIGN(question.known, ReadKnown(wish, options.driver_name));
  for (const engine::PoolConfig& pool : bench.pools) {
    QUARRY_ASSIGN(engine::Catalog catalog, ReadPool(bench, pool, call));
    question.catalogs.push_back(std::move(catalog));
  }
  question.snapshots = wish.snapshots;
  question.node = wish.node;
  if (question.node.empty()) {
    const auto own = LoadOptions(common, /*own_node=*/true);
    question.node = own.has_value() ? own->node : "";
  }
  question.now = std::chrono::system_clock::now();
  question.least_age = std::chrono::minutes(wish.least_age);
  const Orphans found = FindOrphans(question);
  exit_status = found.orphans.empty() && found.missing.empty() ? 0 : 1;
  return bench.json ? OrphansJson(found) : DrawOrphans(found);
}

Run SetUpOrphans(CLI::App& sub, const Common& common) {
  const auto wish = std::make_shared<OrphanWish>();
  sub.add_option(
         "--against", wish->file,
         "what the orchestrator knows, - for standard input: one volume id on each line, or the output of "
         "`kubectl get pv -o json`, of `kubectl get pv,volumesnapshotcontent -o json`, or of `nomad volume "
         "status -type csi -json`")
      ->required();
  sub.add_option("--node-id", wish->node, "this node's id [that of the configuration, or the host name]");
  sub.add_option(
      "--least-age", wish->least_age,
      "minutes after its creation in which a volume is listed without a command to delete it [60]");
  sub.add_flag("--snapshots", wish->snapshots,
               "compare snapshots even if FILE has no VolumeSnapshotContent [only if it has one]");
  sub.add_flag("--allow-empty", wish->allow_empty, "accept a FILE that names no volume");
  sub.footer(
      "Exit status: 0 if there is none, 1 if there are some, 2 if it could not be found out. Nothing is "
      "removed.\n"
      "Example: kubectl get pv -o json | quarryctl orphans --against -");
  return [wish, &common](int& exit_status) {
    exit_status = kNotCompared;
    return ReadGroups(common, [&](const Bench& bench, const Call& call) {
      return ShowOrphans(bench, common, *wish, exit_status, call);
    })(exit_status);
  };
}

Run SetUpTrace(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string id;
    uint32_t slow = 0;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("ID", wish->id,
                 "a trace id, its beginning, or the id of a volume: show these calls with all their steps");
  sub.add_option("--slow", wish->slow, "only calls that took at least this many milliseconds");
  sub.footer("Example: quarryctl trace --slow 2000");
  return AskQuarryd(sub, common, [wish](AdminClient& client, int&) {
    return client.ShowCalls(wish->id, std::chrono::milliseconds(wish->slow), CallWithin(kPatience));
  });
}

}  // namespace

std::vector<Command> InquiryCommands() {
  return {
      {"who",
       "what keeps a volume in use: mounts in every mount namespace, processes with their containers, "
       "devices on "
       "top, loop devices and swap",
       &SetUpWho},
      {"orphans",
       "volumes of this node that the orchestrator does not know, and volumes that it knows and this node "
       "lacks",
       &SetUpOrphans},
      {"trace",
       "the running and the last calls of quarryd: what they did, how long each step took, what they waited "
       "for",
       &SetUpTrace},
  };
}

}  // namespace quarry::ctl
