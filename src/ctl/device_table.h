// The disks of a node, as quarryd tells of them. Pure.
#pragma once

#include <string>

#include <quarry/admin/v1/admin.pb.h>

namespace quarry::ctl {

// Two lines for each disk: what it is, and why it is or is not a pool's.
std::string DrawDevices(const quarry::admin::v1::ListDevicesResponse& devices);
// One document with all that is known.
std::string DevicesJson(const quarry::admin::v1::ListDevicesResponse& devices);

}  // namespace quarry::ctl
