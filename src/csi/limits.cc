// CheckLimits of fields.h. It uses reflection, so a field that is added to the definitions is covered at
// once.
#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "csi/fields.h"

namespace quarry::csi {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Paths are exempt from the limits (fields.h).
bool IsPath(std::string_view name) {
  static constexpr std::array<std::string_view, 4> kPaths = {"staging_target_path", "target_path",
                                                             "volume_path", "volume_publish_path"};
  return std::ranges::find(kPaths, name) != kPaths.end();
}

Status CheckText(size_t limit, const std::string& path, const std::string& value) {
  if (value.size() > limit) {
    return Invalid(path, fmt::format("must be at most {} bytes, is {}", limit, value.size()));
  }
  return Ok();
}

Status CheckTexts(const Message& message, const FieldDescriptor& field, const std::string& path,
                  size_t limit) {
  const Reflection& reflection = *message.GetReflection();
  std::string scratch;
  if (!field.is_repeated()) {
    return CheckText(limit, path, reflection.GetStringReference(message, &field, &scratch));
  }
  size_t total = 0;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const std::string& value = reflection.GetRepeatedStringReference(message, &field, i, &scratch);
    total += value.size();
    if (field.name() != "mount_flags") {
      QUARRY_TRY(CheckText(limit, fmt::format("{}[{}]", path, i), value));
    }
  }
  if (field.name() == "mount_flags" && total > kMaxMountFlags) {
    return Invalid(path, fmt::format("must be at most {} bytes in all, are {}", kMaxMountFlags, total));
  }
  return Ok();
}

// All maps of requests map strings to strings.
Status CheckMap(const Message& message, const FieldDescriptor& field, const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  size_t total = 0;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    const auto& type = *entry.GetDescriptor();
    std::string scratch;
    total += entry.GetReflection()->GetStringReference(entry, type.map_key(), &scratch).size();
    total += entry.GetReflection()->GetStringReference(entry, type.map_value(), &scratch).size();
  }
  if (total > kMaxMap) {
    return Invalid(path,
                   fmt::format("keys and values must be at most {} bytes in all, are {}", kMaxMap, total));
  }
  return Ok();
}

Status CheckMessage(const Message& message, const std::string& prefix, TextLimit longest) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = prefix + field->name();
    if (field->is_map()) {
      QUARRY_TRY(CheckMap(message, *field, path));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      QUARRY_TRY(CheckTexts(message, *field, path, longest(field->name())));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated()) {
        QUARRY_TRY(CheckMessage(reflection.GetMessage(message, field), path + ".", longest));
        continue;
      }
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        QUARRY_TRY(CheckMessage(reflection.GetRepeatedMessage(message, field, i),
                                fmt::format("{}[{}].", path, i), longest));
      }
    }
  }
  return Ok();
}

}  // namespace

size_t LongestText(std::string_view field) {
  return IsPath(field) ? std::numeric_limits<size_t>::max() : field == "node_id" ? kMaxNodeId : kMaxText;
}

Status CheckLimits(const Message& request, TextLimit longest) {
  return CheckMessage(request, "", longest);
}

}  // namespace quarry::csi
