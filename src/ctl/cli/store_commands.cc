// store list, store show.
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "ctl/cli/tables.h"

namespace quarry::ctl {
namespace {

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
    const size_t slash = wish->name.find('/');
    const std::string pool = slash == std::string::npos ? "" : wish->name.substr(0, slash);
    const std::string name = slash == std::string::npos ? wish->name : wish->name.substr(slash + 1);
    return client.ShowStore(pool, name, wish->exclusive, CallWithin(kPatience));
  });
}

}  // namespace

std::vector<Command> StoreCommands() {
  return {
      {"list", "every thin store: its mode, what is promised, free and used", &SetUpList},
      {"show", "one thin store, and what each volume in it has", &SetUpShow},
  };
}

}  // namespace quarry::ctl
