// csi.v1 is a wire superset of csi.v0 but for a few messages: a shim may hand the bytes of one to the parser
// of the other exactly where this test says that it holds.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "csi/v0/csi.pb.h"
#include "csi/v1/csi.pb.h"

namespace quarry::proto_test {
namespace {

namespace pb = google::protobuf;
using testing::ElementsAre;

std::string WithoutPackage(const std::string& full_name, const pb::FileDescriptor& file) {
  return full_name.starts_with(file.package() + ".") ? full_name.substr(file.package().size() + 1)
                                                     : full_name;
}

bool SameValues(const pb::EnumDescriptor& old, const pb::EnumDescriptor& now) {
  for (int i = 0; i < old.value_count(); ++i) {
    if (now.FindValueByNumber(old.value(i)->number()) == nullptr) {
      return false;
    }
  }
  return true;
}

// Names may differ, what is on the wire may not.
bool SameOnTheWire(const pb::FieldDescriptor& old, const pb::FieldDescriptor* now) {
  if (now == nullptr || old.type() != now->type() || old.is_repeated() != now->is_repeated() ||
      old.is_map() != now->is_map()) {
    return false;
  }
  if (old.enum_type() != nullptr) {
    return SameValues(*old.enum_type(), *now->enum_type());
  }
  return old.message_type() == nullptr || old.is_map() ||
         WithoutPackage(old.message_type()->full_name(), *old.file()) ==
             WithoutPackage(now->message_type()->full_name(), *now->file());
}

void Compare(const pb::Descriptor& old, const pb::FileDescriptor& now_file, std::set<std::string>* different,
             std::set<std::string>* gone) {
  if (old.options().map_entry()) {
    return;
  }
  const std::string name = WithoutPackage(old.full_name(), *old.file());
  const auto* now = now_file.pool()->FindMessageTypeByName(now_file.package() + "." + name);
  if (now == nullptr) {
    gone->insert(name);
    return;
  }
  for (int i = 0; i < old.field_count(); ++i) {
    if (!SameOnTheWire(*old.field(i), now->FindFieldByNumber(old.field(i)->number()))) {
      different->insert(name);
    }
  }
  for (int i = 0; i < old.nested_type_count(); ++i) {
    Compare(*old.nested_type(i), now_file, different, gone);
  }
}

TEST(Superset, OnlyTheseMessagesOfV0DifferInV1) {
  const auto& v0 = *::csi::v0::Volume::descriptor()->file();
  const auto& v1 = *::csi::v1::Volume::descriptor()->file();
  std::set<std::string> different, gone;
  for (int i = 0; i < v0.message_type_count(); ++i) {
    Compare(*v0.message_type(i), v1, &different, &gone);
  }
  EXPECT_THAT(different,
              ElementsAre("ControllerGetCapabilitiesResponse", "GetPluginCapabilitiesResponse", "Snapshot",
                          "ValidateVolumeCapabilitiesRequest", "ValidateVolumeCapabilitiesResponse"));
  EXPECT_THAT(gone, ElementsAre("NodeGetIdRequest", "NodeGetIdResponse", "SnapshotStatus"));
}

TEST(Superset, ACreateVolumeOfV0ReadsAsOneOfV1) {
  ::csi::v0::CreateVolumeRequest old;
  old.set_name("n");
  old.mutable_volume_content_source()->mutable_snapshot()->set_id("s");
  (*old.mutable_controller_create_secrets())["k"] = "x";
  (*old.mutable_accessibility_requirements()->add_preferred()->mutable_segments())["zone"] = "a";
  ::csi::v1::CreateVolumeRequest now;
  ASSERT_TRUE(now.ParseFromString(old.SerializeAsString()));
  EXPECT_EQ(now.name(), "n");
  EXPECT_EQ(now.volume_content_source().snapshot().snapshot_id(), "s");
  EXPECT_EQ(now.secrets().at("k"), "x");
  EXPECT_EQ(now.accessibility_requirements().preferred(0).segments().at("zone"), "a");
  EXPECT_EQ(now.GetReflection()->GetUnknownFields(now).field_count(), 0);
}

}  // namespace
}  // namespace quarry::proto_test
