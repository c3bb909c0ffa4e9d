// Replies of quarryd as quarryctl prints them.
#pragma once

#include <string>

#include <quarry/admin/v1/admin.pb.h>

namespace quarry::ctl {

// Two lines for each disk: its description, and why it is or is not in a pool. Pure.
std::string DrawDevices(const quarry::admin::v1::ListDevicesResponse& devices);
// One document with all that is known about the disks. Pure.
std::string DevicesJson(const quarry::admin::v1::ListDevicesResponse& devices);

// "[#####     ]" for 50 %.
std::string ProgressBar(uint32_t percent, size_t width = 20);

// The device that a path of LVM's leads to now, because LVM reports links; "-" for an empty path.
std::string DeviceName(const std::string& device);

// A page for a terminal. Each problem comes with its remedy. Pure except for the names of disks: LVM reports
// links, and the page shows the devices that the links point to now.
std::string StatusPage(const quarry::admin::v1::GetStatusResponse& status);

}  // namespace quarry::ctl
