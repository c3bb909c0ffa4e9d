// JSON as quarryctl writes it: one line, whatever bytes the names in it have.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace quarry::ctl {

std::string JsonText(const nlohmann::json& document);
// With a newline at the end.
std::string JsonLine(const nlohmann::json& document);

}  // namespace quarry::ctl
