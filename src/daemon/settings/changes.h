// What differs between two readings of the settings (Loaded::given). Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace quarry::daemon {

using GivenSettings = std::map<std::string, std::string>;

// The settings that only one of them has, or that have another text in the other, in alphabetical order.
std::vector<std::string> DifferingSettings(const GivenSettings& before, const GivenSettings& after);

// Makes `setting` in `to` what it is in `from`, where it may be absent.
void TakeOver(const std::string& setting, const GivenSettings& from, GivenSettings& to);

}  // namespace quarry::daemon
