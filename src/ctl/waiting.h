// Waits for long work of quarryd, with progress bars on standard error. An interrupt ends the waiting, not
// the work. If quarryd restarts in the meantime, waits for it.
#pragma once

#include <string>

#include "ctl/admin.h"

namespace quarry::ctl {

// Waits until the disk has left its group.
Status WaitForEvacuation(AdminClient& client, const AdminClient::Evacuation& evacuation);

// The requested scrubs, for standard output, without waiting for them.
std::string ScrubsBegun(const AdminClient::Scrubbing& scrubbing, bool json);

// Waits until all these volumes have been scrubbed; returns the results for standard output. `exit_status`
// becomes 1 if any legs differ or a scrub did not complete.
Result<std::string> WaitForScrubs(AdminClient& client, const AdminClient::Scrubbing& scrubbing, bool json,
                                  int& exit_status);

}  // namespace quarry::ctl
