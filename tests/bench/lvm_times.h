// The durations of quarryd's LVM commands, from its own metrics: the profile of a call that consists mostly
// of LVM.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace quarry::bench {

// Total seconds by verb since quarryd started.
using LvmTimes = std::map<std::string, double>;

// Reads the metrics of the quarryd that serves this socket.
Result<LvmTimes> ReadLvmTimes(const std::string& metrics_socket);
// Parses the text of the metrics. Pure.
LvmTimes ParseLvmTimes(const std::string& text);

// For a finding: the milliseconds of each verb between the two, divided by `calls`, as "lvcreate_ms". Verbs
// with 0 are left out.
std::vector<std::pair<std::string, double>> PerCall(const LvmTimes& before, const LvmTimes& after,
                                                    size_t calls);

}  // namespace quarry::bench
