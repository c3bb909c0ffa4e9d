// repair, evacuate, replace, scrub.
#include <algorithm>
#include <iostream>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ctl/cli/tables.h"
#include "ctl/waiting.h"

namespace quarry::ctl {
namespace {

// Each leg to rebuild takes several LVM commands. The command does not wait for the rebuild itself.
constexpr std::chrono::milliseconds kRepairPatience{1800000};

Run SetUpRepair(CLI::App& sub, const Common& common) {
  const auto ids = std::make_shared<std::vector<std::string>>();
  sub.add_option("ID", *ids,
                 "ids of volumes to start from the legs that are present, although legs that cannot be "
                 "read may be newer; data that only those legs have is lost");
  return AskQuarryd(sub, common, [ids](AdminClient& client, int& exit_status) -> Result<std::string> {
    QUARRY_ASSIGN(AdminClient::Repaired repaired, client.Repair(*ids, CallWithin(kRepairPatience)));
    exit_status = repaired.obstacles == 0 ? 0 : 1;
    return std::move(repaired.text);
  });
}

// For evacuate and replace. `kRebuild`: RAID legs are not read from the disk.
template <bool kRebuild>
Run SetUpEvacuate(CLI::App& sub, const Common& common) {
  struct Wish : AdminClient::EvacuateWish {
    bool no_wait = false;
  };
  const auto wish = std::make_shared<Wish>();
  wish->rebuild = kRebuild;
  sub.add_option("DISK", wish->disk, "UUID of the disk's physical volume, or any path of the disk")
      ->required();
  sub.add_flag("--cancel", wish->cancel,
               "stop the evacuation and keep the disk; data that has already moved stays where it is");
  sub.add_flag("--no-wait", wish->no_wait, "do not wait until the disk is empty");
  AddDryRun(sub, wish->dry_run);
  return AskQuarryd(sub, common, [wish, &common](AdminClient& client, int&) -> Result<std::string> {
    QUARRY_ASSIGN(AdminClient::Evacuation evacuation, client.Evacuate(*wish, CallWithin(kPatience)));
    if (wish->cancel || wish->dry_run || wish->no_wait) {
      return std::move(evacuation.text);
    }
    std::cerr << (common.json ? "" : evacuation.text);
    QUARRY_TRY(WaitForEvacuation(client, evacuation));
    return common.json ? evacuation.text
                       : fmt::format(
                             "disk {} has left its group. It still has the label of a physical volume: "
                             "`pvremove` makes the disk blank\n",
                             evacuation.pv_uuid);
  });
}

Run SetUpScrub(CLI::App& sub, const Common& common) {
  struct Wish {
    std::vector<std::string> ids;
    bool repair = false, no_wait = false;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("ID", wish->ids,
                 "ids of volumes and thin stores [every RAID volume, and every thin store of RAID]");
  sub.add_flag("--repair", wish->repair,
               "correct differences: copies from the first leg, parity from the data");
  sub.add_flag("--no-wait", wish->no_wait, "do not wait until the scrub is done");
  return AskQuarryd(
      sub, common, [wish, &common](AdminClient& client, int& exit_status) -> Result<std::string> {
        QUARRY_ASSIGN(const AdminClient::Scrubbing scrubbing,
                      client.Scrub(wish->ids, wish->repair, CallWithin(kPatience)));
        if (!wish->no_wait) {
          return WaitForScrubs(client, scrubbing, common.json, exit_status);
        }
        const bool refused = std::ranges::any_of(
            scrubbing.volumes,
            [](const AdminClient::Scrubbing::Volume& volume) { return !volume.refusal.empty(); });
        exit_status = refused ? 1 : 0;
        return ScrubsBegun(scrubbing, common.json);
      });
}

}  // namespace

std::vector<Command> DiskCommands() {
  return {
      {"repair",
       "rebuild missing RAID legs, take back returned disks and remove empty missing disks from their groups "
       "now, whatever quarryd's --repair setting is",
       &SetUpRepair},
      {"evacuate",
       "move all data off a disk while its volumes stay in use and as redundant as before, then remove the "
       "disk from its group",
       &SetUpEvacuate<false>},
      {"replace",
       "like evacuate, for a failing disk: RAID legs are rebuilt from the other legs and not read from the "
       "disk",
       &SetUpEvacuate<true>},
      {"scrub", "compare the legs of RAID volumes and thin stores with each other while they are in use",
       &SetUpScrub},
  };
}

}  // namespace quarry::ctl
