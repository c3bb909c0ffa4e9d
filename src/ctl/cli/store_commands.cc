// store list, store show, store repair.
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include "ctl/cli/tables.h"

namespace quarry::ctl {
namespace {

// thin_check and thin_repair read all mappings, which takes minutes for a large store on slow disks.
constexpr std::chrono::minutes kRepairPatience{60};

// "POOL/NAME" or "NAME": the pool, which may be empty, and the name.
std::pair<std::string, std::string> Split(const std::string& text) {
  const size_t slash = text.find('/');
  return slash == std::string::npos ? std::pair(std::string(), text)
                                    : std::pair(text.substr(0, slash), text.substr(slash + 1));
}

Run SetUpList(CLI::App& sub, const Common& common) {
  sub.footer(
      "PROMISED are the sizes of all volumes in the store, FREE is the largest volume that could be made in "
      "it now. DATA is the part of the store that volumes have written, METADATA the part of its metadata "
      "that is used.");
  return AskQuarryd(sub, common,
                    [](AdminClient& client, int&) { return client.ListStores(CallWithin(kPatience)); });
}

Run SetUpShow(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string name;
    bool exclusive = false;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("NAME", wish->name, "name or id of the store; POOL/NAME if several pools have it")
      ->required();
  sub.add_flag("--exclusive", wish->exclusive,
               "also show what the deletion of each volume gives back. That reads all mappings of the store, "
               "for at most 10 s, in which its pool can change no volume");
  sub.footer(
      "Example: quarryctl store show fast --exclusive\nMAPPED is what a volume has written and not trimmed, "
      "in whole chunks, with what it shares with snapshots. EXCLUSIVE is what no other volume has.");
  return AskQuarryd(sub, common, [wish](AdminClient& client, int&) {
    const auto [pool, name] = Split(wish->name);
    return client.ShowStore(pool, name, wish->exclusive, CallWithin(kPatience));
  });
}

Run SetUpRepair(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string name;
    bool dry_run = false;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("NAME", wish->name, "name or id of the store; POOL/NAME if several pools have it")
      ->required();
  AddDryRun(sub, wish->dry_run);
  sub.footer(
      "Example: quarryctl store repair fast --dry-run\nFor a store that cannot be started, or that the "
      "kernel has made "
      "read-only. No volume in it may be in use. Damaged metadata are repaired into new ones, and kept; no "
      "volume may "
      "lose a byte by that.");
  return AskQuarryd(sub, common, [wish](AdminClient& client, int&) {
    const auto [pool, name] = Split(wish->name);
    return client.RepairStore(pool, name, wish->dry_run, CallWithin(kRepairPatience));
  });
}

}  // namespace

std::vector<Command> StoreCommands() {
  return {
      {"list", "every thin store: its mode, what is promised, free and used", &SetUpList},
      {"show", "one thin store, and what each volume in it has", &SetUpShow},
      {"repair", "repair a thin store that cannot be started or written to", &SetUpRepair},
  };
}

}  // namespace quarry::ctl
