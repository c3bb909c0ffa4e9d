#include "ctl/json_text.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <nlohmann/json.hpp>

namespace quarry::ctl {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

nlohmann::json ValueOf(const Message& message, const Reflection& reflection, const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.GetInt64(message, &field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.GetUInt64(message, &field);
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetString(message, &field);
    default:
      return AsJson(reflection.GetMessage(message, &field));
  }
}

// The elements are strings or messages.
nlohmann::json ListOf(const Message& message, const Reflection& reflection, const FieldDescriptor& field) {
  nlohmann::json list = nlohmann::json::array();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    list.push_back(field.cpp_type() == FieldDescriptor::CPPTYPE_STRING
                       ? nlohmann::json(reflection.GetRepeatedString(message, &field, i))
                       : AsJson(reflection.GetRepeatedMessage(message, &field, i)));
  }
  return list;
}

}  // namespace

nlohmann::json AsJson(const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  nlohmann::json out = nlohmann::json::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (field.is_repeated()) {
      out[field.name()] = ListOf(message, reflection, field);
    } else if (!field.has_presence() || reflection.HasField(message, &field)) {
      out[field.name()] = ValueOf(message, reflection, field);
    }
  }
  return out;
}

std::string JsonText(const nlohmann::json& document) {
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string JsonLine(const nlohmann::json& document) {
  return JsonText(document) + "\n";
}

}  // namespace quarry::ctl
