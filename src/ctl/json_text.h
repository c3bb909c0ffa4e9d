// JSON as quarryctl writes it: one line, whatever bytes the names in it contain.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace quarry::ctl {

// The message as an object with the names and values of its fields. An optional field or a nested message
// that is not set is left out. Fields may be numbers, booleans, strings and messages of these.
nlohmann::json AsJson(const google::protobuf::Message& message);

std::string JsonText(const nlohmann::json& document);
// Ends with a newline.
std::string JsonLine(const nlohmann::json& document);

}  // namespace quarry::ctl
