// The node at a glance, for people.
#pragma once

#include <string>

#include <quarry/admin/v1/admin.pb.h>

namespace quarry::ctl {

// "[#####     ]" for 50 %.
std::string ProgressBar(uint32_t percent, size_t width = 20);

// A page for a terminal. What ails comes with what to do about it. Pure but for the names of disks: LVM is
// shown links, and the page tells where they point now.
std::string StatusPage(const quarry::admin::v1::GetStatusResponse& status);

}  // namespace quarry::ctl
