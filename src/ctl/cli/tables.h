// The commands of quarryctl, in the order of the help text. One table for each kind of work.
#pragma once

#include <vector>

#include "ctl/cli/command.h"

namespace quarry::ctl {

// Its exit statuses are those of a monitoring plugin, also after wrong usage.
inline constexpr const char* kCheckCommand = "check";
inline constexpr int kCheckUnknown = 3;

std::vector<Command> PoolCommands();        // capacity, map, plan, devices, status
std::vector<Command> MonitoringCommands();  // check
std::vector<Command> ServiceCommands();     // reload
std::vector<Command> AdoptionCommands();    // adopt, release
std::vector<Command> DiskCommands();        // repair, evacuate, replace, scrub
// create, list and so on: each after the word "volume".
std::vector<Command> VolumeCommands();
// create, list and so on: each after the word "bucket".
std::vector<Command> BucketCommands();
// list and show: each after the word "store".
std::vector<Command> StoreCommands();
std::vector<Command> DeclarationCommands();  // apply
std::vector<Command> InquiryCommands();      // who, orphans, trace
std::vector<Command> ReportCommands();       // report

}  // namespace quarry::ctl
