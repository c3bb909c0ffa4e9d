// JSON as quarryctl writes it: one line, whatever bytes the names in it contain.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace quarry::ctl {

std::string JsonText(const nlohmann::json& document);
// Ends with a newline.
std::string JsonLine(const nlohmann::json& document);

}  // namespace quarry::ctl
