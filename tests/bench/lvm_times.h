// What quarryd's LVM commands took, by its own metrics: the profile of a call that is mostly LVM.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace quarry::bench {

// Seconds in all, by verb, since quarryd started.
using LvmTimes = std::map<std::string, double>;

// Asks the quarryd that serves its metrics on this socket.
Result<LvmTimes> ReadLvmTimes(const std::string& metrics_socket);
// Of the text that it answers with. Pure.
LvmTimes ParseLvmTimes(const std::string& text);

// For a finding: milliseconds of each verb between the two, divided by `calls`, as "lvcreate_ms"; what is 0
// is left out.
std::vector<std::pair<std::string, double>> PerCall(const LvmTimes& before, const LvmTimes& after,
                                                    size_t calls);

}  // namespace quarry::bench
