// The sources of settings together. Pure.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "daemon/settings/options.h"

namespace quarry::daemon {

// Command line, environment, file: the first layer that names a setting wins, and the first that names pools.
using Layers = std::array<Layer, 3>;

// nullptr: no layer names the setting.
const Given* FindGiven(const Layers& layers, const std::string& setting);

// Parses and sets everything that the layers name. Returns all problems, in a fixed order.
std::vector<Error> ApplyLayers(const Layers& layers, Options& options);

// See Loaded::given.
std::map<std::string, std::string> GivenTexts(const Layers& layers);

}  // namespace quarry::daemon
