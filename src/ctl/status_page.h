// The state of the node on one page, for people.
#pragma once

#include <string>

#include <quarry/admin/v1/admin.pb.h>

namespace quarry::ctl {

// "[#####     ]" for 50 %.
std::string ProgressBar(uint32_t percent, size_t width = 20);

// A page for a terminal. Each problem comes with its remedy. Pure except for the names of disks: LVM reports
// links, and the page shows the devices that the links point to now.
std::string StatusPage(const quarry::admin::v1::GetStatusResponse& status);

}  // namespace quarry::ctl
