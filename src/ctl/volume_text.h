// Volumes as quarryctl prints them. Pure.
#pragma once

#include <string>

#include "ctl/volume_client.h"

namespace quarry::ctl {

// A table with a headline; a line that says so if there is no volume. `problems` follow it.
std::string VolumeTable(const VolumeList& list);
// An array of objects, one for each volume.
std::string VolumeListJson(const VolumeList& list);
// All that is known of one volume, and the snapshots of it in `list`.
std::string VolumePage(const VolumeRow& row, const VolumeList& list);
std::string VolumeJson(const VolumeRow& row);

// "10 GiB raid1 ext4", "5 GiB linear raw".
std::string Summary(const VolumeRow& row);

}  // namespace quarry::ctl
