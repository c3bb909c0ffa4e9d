#include "ctl/json_text.h"

#include <nlohmann/json.hpp>

namespace quarry::ctl {

std::string JsonText(const nlohmann::json& document) {
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string JsonLine(const nlohmann::json& document) {
  return JsonText(document) + "\n";
}

}  // namespace quarry::ctl
