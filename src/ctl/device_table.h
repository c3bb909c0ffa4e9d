// The disks of a node, as quarryd reports them. Pure.
#pragma once

#include <string>

#include <quarry/admin/v1/admin.pb.h>

namespace quarry::ctl {

// Two lines for each disk: its description, and why it is or is not in a pool.
std::string DrawDevices(const quarry::admin::v1::ListDevicesResponse& devices);
// One document with all that is known about the disks.
std::string DevicesJson(const quarry::admin::v1::ListDevicesResponse& devices);

}  // namespace quarry::ctl
