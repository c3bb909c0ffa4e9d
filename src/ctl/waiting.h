// Looking on while quarryd does what takes its time, with bars on standard error. Whoever interrupts that
// stops the looking on, not the work; a quarryd that is restarted meanwhile is waited for.
#pragma once

#include <string>
#include <vector>

#include "ctl/admin.h"

namespace quarry::ctl {

// Until the disk has left its group.
Status WaitForEvacuation(AdminClient& client, const AdminClient::Evacuation& evacuation);

// What was asked for, for standard output, without waiting for it.
std::string ScrubsBegun(const AdminClient::Scrubbing& scrubbing, bool json);

// Until the legs of all these volumes have been compared: what came of it, for standard output. `exit_status`
// becomes 1 if any differ, or were not compared.
Result<std::string> WaitForScrubs(AdminClient& client, const AdminClient::Scrubbing& scrubbing, bool json,
                                  int& exit_status);

}  // namespace quarry::ctl
