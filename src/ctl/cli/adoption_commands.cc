// adopt, release.
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ctl/cli/tables.h"

namespace quarry::ctl {
namespace {

Result<std::string> AdoptOne(AdminClient& client, AdoptWish wish) {
  const size_t slash = wish.group.find('/');
  if (slash == std::string::npos) {
    return Error(Code::kInvalidArgument,
                 fmt::format("'{}': must be VOLUME-GROUP/LOGICAL-VOLUME, as in vg0/data", wish.group));
  }
  wish.lv_name = wish.group.substr(slash + 1);
  wish.group.resize(slash);
  return client.Adopt(wish, CallWithin(kPatience));
}

Run SetUpAdopt(CLI::App& sub, const Common& common) {
  struct Wish : AdoptWish {
    bool csilvm = false;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("VG/LV", wish->group, "the logical volume; with --csilvm the volume group")->required();
  sub.add_option("--name", wish->name, "name of the volume for the orchestrator [VG/LV]");
  sub.add_option(
      "--fs", wish->fs_type,
      "file system to create if the logical volume is blank; otherwise the file system that it must hold");
  sub.add_option("--erase", wish->erase,
                 "what happens to the bytes when the volume is deleted: zero, discard or none [zero]");
  sub.add_flag("--csilvm", wish->csilvm, "adopt all csilvm volumes of the group, under their present names")
      ->excludes("--name");
  AddDryRun(sub, wish->dry_run);
  return AskQuarryd(sub, common, [wish](AdminClient& client, int& exit_status) -> Result<std::string> {
    if (!wish->csilvm) {
      return AdoptOne(client, *wish);
    }
    QUARRY_ASSIGN(AdminClient::Bulk bulk, client.AdoptCsilvm(*wish, kPatience));
    exit_status = bulk.refused == 0 ? 0 : 1;
    return std::move(bulk.text);
  });
}

Run SetUpRelease(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string id;
    bool dry_run = false;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("ID", wish->id, "id of the volume")->required();
  AddDryRun(sub, wish->dry_run);
  return AskQuarryd(sub, common, [wish](AdminClient& client, int&) {
    return client.Release(wish->id, wish->dry_run, CallWithin(kPatience));
  });
}

}  // namespace

std::vector<Command> AdoptionCommands() {
  return {
      {"adopt", "turn an existing logical volume into a volume of its pool, without changing its data",
       &SetUpAdopt},
      {"release", "make Quarry forget a volume; its logical volume keeps its name and data", &SetUpRelease},
  };
}

}  // namespace quarry::ctl
