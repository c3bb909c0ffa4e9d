// LVM's report on one volume group, as values: the report command, and the parser of its output. Pure.
//
// One `lvm fullreport` of one group returns all five sections (group, PVs, LVs, PV segments, LV segments)
// under one shared lock, so they show the same moment. Fields are requested by name and sizes in plain bytes.
// The parser depends on no position, attribute letter or unit, so it serves lvm2 2.03.16 and 2.03.31 alike.
//
// The fields lv_active, lv_health_status, sync_percent and raid_sync_action cost LVM one or two device-mapper
// ioctls for each active LV. Everything else comes from metadata.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lvm/snapshot.h"

namespace quarry::lvm {

// Arguments of the report on `group`, starting with LVM's verb.
std::vector<std::string> ReportArguments(const std::string& group);

// Parses the output. Tolerates other output of LVM around and between the lines of the JSON document (log
// lines, NUL bytes), and fields that were not requested. kCorrupt names the part that is missing or invalid.
Result<VolumeGroup> ParseReport(std::string_view text);

}  // namespace quarry::lvm
