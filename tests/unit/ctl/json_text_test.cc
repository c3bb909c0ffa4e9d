// The messages of quarryd's admin service as JSON.
#include "ctl/json_text.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>
#include <quarry/admin/v1/admin.pb.h>
#include <nlohmann/json.hpp>

namespace quarry::ctl {
namespace {

using google::protobuf::FieldDescriptor;

bool HasACase(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return true;
    case FieldDescriptor::CPPTYPE_BOOL:
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return !field.is_repeated();
    default:
      return false;
  }
}

// Returns the number of fields.
int Check(const google::protobuf::Descriptor& message) {
  int fields = message.field_count();
  for (int i = 0; i < message.field_count(); ++i) {
    EXPECT_TRUE(HasACase(*message.field(i))) << message.field(i)->full_name();
  }
  for (int i = 0; i < message.nested_type_count(); ++i) {
    fields += Check(*message.nested_type(i));
  }
  return fields;
}

// AsJson has no case for floating numbers, enums, and lists of numbers. A field of such a type needs one
// first.
TEST(JsonText, HasACaseForEveryFieldOfTheAdminMessages) {
  const auto& file = *admin::v1::GetStatusResponse::descriptor()->file();
  int fields = 0;
  for (int i = 0; i < file.message_type_count(); ++i) {
    fields += Check(*file.message_type(i));
  }
  EXPECT_GT(fields, 50);
}

}  // namespace
}  // namespace quarry::ctl
