// The descriptor test is only worth something if it notices mistakes. Here every number, name, type and
// option of every version is spoilt in turn, in a copy of the descriptor, and the facts must differ each
// time.
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/wrappers.pb.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "tests/unit/proto/csi_files.h"
#include "tests/unit/proto/descriptor_facts.h"

namespace quarry::proto_test {
namespace {

namespace pb = google::protobuf;

class QuietErrors : public pb::DescriptorPool::ErrorCollector {
  void AddError(const std::string&, const std::string&, const pb::Message*, ErrorLocation,
                const std::string&) override {}
};

class MutationTest : public testing::TestWithParam<CsiFile> {
 protected:
  MutationTest() {
    for (int i = 0; i < GetParam().file->dependency_count(); ++i) {
      pb::FileDescriptorProto dependency;
      GetParam().file->dependency(i)->CopyTo(&dependency);
      dependencies_.BuildFile(dependency);
    }
    GetParam().file->CopyTo(&proto_);
    original_ = WireFacts(*GetParam().file);
  }

  // The facts of the working copy, or nothing if protobuf itself refuses it (then it cannot become a binary).
  std::optional<Facts> Rebuild() const {
    pb::DescriptorPool pool(&dependencies_);
    QuietErrors quiet;
    const auto* file = pool.BuildFileCollectingErrors(proto_, &quiet);
    return file == nullptr ? std::nullopt : std::optional(WireFacts(*file));
  }

  // Spoils `part` of the working copy, expects to see it, puts it back.
  template <typename Part>
  void Notices(const std::string& what, Part* part, const std::function<void(Part&)>& spoil) {
    const Part before = *part;
    spoil(*part);
    const auto facts = Rebuild();
    EXPECT_TRUE(!facts || *facts != original_) << what;
    accepted_ += facts ? 1 : 0;
    *part = before;
  }

  template <typename Part>
  void NoticesOptions(const std::string& what, Part* part) {
    if (part->options().ByteSizeLong() > 0) {
      Notices<Part>("option of " + what, part, [](Part& p) { p.clear_options(); });
    } else {
      Notices<Part>("new option of " + what, part,
                    [](Part& p) { p.mutable_options()->set_deprecated(true); });
    }
  }

  void SpoilField(pb::FieldDescriptorProto* f) {
    using Field = pb::FieldDescriptorProto;
    Notices<Field>("number of " + f->name(), f, [](Field& x) { x.set_number(x.number() + 1000); });
    Notices<Field>("name of " + f->name(), f, [](Field& x) { x.set_name(x.name() + "_x"); });
    Notices<Field>("type of " + f->name(), f, [](Field& x) {
      const bool bytes = x.type() == Field::TYPE_BYTES;
      x.clear_type_name();
      x.set_type(bytes ? Field::TYPE_STRING : Field::TYPE_BYTES);
    });
    Notices<Field>("label of " + f->name(), f, [](Field& x) {
      const bool many = x.label() == Field::LABEL_REPEATED;
      x.set_label(many ? Field::LABEL_OPTIONAL : Field::LABEL_REPEATED);
      x.clear_oneof_index();
    });
    NoticesOptions("field " + f->name(), f);
  }

  void SpoilEnum(pb::EnumDescriptorProto* e) {
    using Enum = pb::EnumDescriptorProto;
    for (int i = 0; i < e->value_size(); ++i) {
      Notices<Enum>("number of " + e->value(i).name(), e,
                    [i](Enum& x) { x.mutable_value(i)->set_number(x.value(i).number() + 1000); });
      Notices<Enum>("name of " + e->value(i).name(), e,
                    [i](Enum& x) { x.mutable_value(i)->set_name(x.value(i).name() + "_X"); });
      NoticesOptions("value " + e->value(i).name(), e->mutable_value(i));
    }
    Notices<Enum>("new value of " + e->name(), e, [](Enum& x) {
      x.add_value()->set_name("NEW_VALUE");
      x.mutable_value(x.value_size() - 1)->set_number(4242);
    });
  }

  void SpoilMessage(pb::DescriptorProto* m) {
    using Message = pb::DescriptorProto;
    if (m->options().map_entry()) {
      return;
    }
    NoticesOptions("message " + m->name(), m);
    Notices<Message>("new field of " + m->name(), m, [](Message& x) {
      auto* f = x.add_field();
      f->set_name("new_field");
      f->set_number(4242);
      f->set_type(pb::FieldDescriptorProto::TYPE_BOOL);
      f->set_label(pb::FieldDescriptorProto::LABEL_OPTIONAL);
    });
    Notices<Message>("reserved number of " + m->name(), m, [](Message& x) {
      x.add_reserved_range()->set_start(4242);
      x.mutable_reserved_range(0)->set_end(4243);
    });
    for (auto& f : *m->mutable_field()) {
      SpoilField(&f);
    }
    for (auto& e : *m->mutable_enum_type()) {
      SpoilEnum(&e);
    }
    for (auto& n : *m->mutable_nested_type()) {
      SpoilMessage(&n);
    }
  }

  void SpoilService(pb::ServiceDescriptorProto* s) {
    using Method = pb::MethodDescriptorProto;
    NoticesOptions("service " + s->name(), s);
    for (auto& m : *s->mutable_method()) {
      Notices<Method>("name of " + m.name(), &m, [](Method& x) { x.set_name(x.name() + "X"); });
      Notices<Method>("types of " + m.name(), &m,
                      [](Method& x) { x.mutable_input_type()->swap(*x.mutable_output_type()); });
      Notices<Method>("stream of " + m.name(), &m,
                      [](Method& x) { x.set_server_streaming(!x.server_streaming()); });
      NoticesOptions("rpc " + m.name(), &m);
    }
  }

  pb::DescriptorPool dependencies_;
  pb::FileDescriptorProto proto_;
  Facts original_;
  int accepted_ = 0;  // Mistakes that protobuf let through, so that only the facts could notice them.
};

TEST_P(MutationTest, AnUntouchedCopyIsEqual) {
  EXPECT_EQ(Rebuild(), original_);
}

TEST_P(MutationTest, EveryMistakeIsNoticed) {
  for (auto& s : *proto_.mutable_service()) {
    SpoilService(&s);
  }
  for (auto& m : *proto_.mutable_message_type()) {
    SpoilMessage(&m);
  }
  for (auto& e : *proto_.mutable_enum_type()) {
    SpoilEnum(&e);
  }
  for (auto& x : *proto_.mutable_extension()) {
    using Field = pb::FieldDescriptorProto;
    Notices<Field>("extension " + x.name(), &x, [](Field& f) { f.set_number(f.number() + 1000); });
  }
  EXPECT_GE(accepted_, GetParam().facts);
}

INSTANTIATE_TEST_SUITE_P(Csi, MutationTest, testing::ValuesIn(CsiFiles()),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace quarry::proto_test
