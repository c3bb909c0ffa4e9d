// What LVM says about one volume group, as values: the report command and the reader of its answer. Pure.
//
// One `lvm fullreport` of one group answers everything in one go, under one shared lock, so that its five
// sections (group, PVs, LVs, PV segments, LV segments) belong to one moment. Fields are asked for by name,
// sizes in plain bytes; no position, no attribute letters, no units: the same command and the same reading
// serve lvm2 2.03.16 and 2.03.31.
//
// Asking for lv_active, lv_health_status, sync_percent and raid_sync_action costs LVM a device-mapper ioctl
// or two for each active LV; everything else is from metadata alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lvm/snapshot.h"

namespace quarry::lvm {

// Arguments of the report on `group`, from the verb on.
std::vector<std::string> ReportArguments(const std::string& group);

// Reads the answer. Tolerates what LVM may print around and between the lines of the JSON document (log
// lines, NUL bytes) and fields that were not asked for. kCorrupt, naming it, for whatever is missing or makes
// no sense.
Result<VolumeGroup> ParseReport(std::string_view text);

}  // namespace quarry::lvm
