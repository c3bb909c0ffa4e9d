#include "tests/unit/proto/descriptor_facts.h"

#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <regex>
#include <vector>

namespace quarry::proto_test {
namespace {

namespace pb = google::protobuf;

std::string TypeName(const pb::FieldDescriptor& f) {
  if (f.is_map()) {
    return "map<" + TypeName(*f.message_type()->field(0)) + ", " + TypeName(*f.message_type()->field(1)) +
           ">";
  }
  if (f.message_type() != nullptr) {
    return f.message_type()->full_name();
  }
  return f.enum_type() != nullptr ? f.enum_type()->full_name() : f.type_name();
}

class WireReader {
 public:
  Facts Read(const pb::FileDescriptor& file) {
    Add("package " + file.package());
    Add(std::string("syntax ") + (file.syntax() == pb::FileDescriptor::SYNTAX_PROTO3 ? "proto3" : "other"));
    Options(file.name(), file.options());
    for (int i = 0; i < file.service_count(); ++i) {
      Service(*file.service(i));
    }
    for (int i = 0; i < file.message_type_count(); ++i) {
      Message(*file.message_type(i));
    }
    for (int i = 0; i < file.enum_type_count(); ++i) {
      Enum(*file.enum_type(i));
    }
    for (int i = 0; i < file.extension_count(); ++i) {
      Extension(*file.extension(i));
    }
    return std::move(facts_);
  }

 private:
  void Add(const std::string& fact) { facts_.insert(fact); }

  // Every option that is set, ours or protobuf's own.
  void Options(const std::string& item, const pb::Message& options) {
    std::vector<const pb::FieldDescriptor*> set;
    options.GetReflection()->ListFields(options, &set);
    for (const auto* option : set) {
      const bool yes = option->type() == pb::FieldDescriptor::TYPE_BOOL && !option->is_repeated() &&
                       options.GetReflection()->GetBool(options, option);
      Add("option " + item + " " + option->full_name() + (yes ? " true" : " other"));
    }
    if (!options.GetReflection()->GetUnknownFields(options).empty()) {
      Add("option " + item + " unknown");
    }
  }

  void Service(const pb::ServiceDescriptor& s) {
    Add("service " + s.full_name());
    Options(s.full_name(), s.options());
    for (int i = 0; i < s.method_count(); ++i) {
      const auto& m = *s.method(i);
      Add("rpc " + m.full_name() + " (" + (m.client_streaming() ? "stream " : "") +
          m.input_type()->full_name() + ") returns (" + (m.server_streaming() ? "stream " : "") +
          m.output_type()->full_name() + ")");
      Options(m.full_name(), m.options());
    }
  }

  // `past_end`: by how much a range's `end` lies beyond its last number (messages 1, enums 0).
  template <typename Descriptor>
  void Reserved(const Descriptor& d, int past_end) {
    for (int i = 0; i < d.reserved_range_count(); ++i) {
      const auto& range = *d.reserved_range(i);
      for (int number = range.start; number <= range.end - past_end; ++number) {
        Add("reserved " + d.full_name() + " " + std::to_string(number));
      }
    }
    for (int i = 0; i < d.reserved_name_count(); ++i) {
      Add("reserved " + d.full_name() + " " + d.reserved_name(i));
    }
  }

  void Message(const pb::Descriptor& d) {
    if (d.options().map_entry()) {
      return;
    }
    Add("message " + d.full_name());
    Options(d.full_name(), d.options());
    Reserved(d, 1);
    for (int i = 0; i < d.field_count(); ++i) {
      Field(*d.field(i));
    }
    for (int i = 0; i < d.nested_type_count(); ++i) {
      Message(*d.nested_type(i));
    }
    for (int i = 0; i < d.enum_type_count(); ++i) {
      Enum(*d.enum_type(i));
    }
    for (int i = 0; i < d.extension_count(); ++i) {
      Extension(*d.extension(i));
    }
  }

  void Field(const pb::FieldDescriptor& f) {
    std::string label = f.has_optional_keyword() ? "optional " : "";
    if (f.is_repeated() && !f.is_map()) {
      label = "repeated ";
    }
    const auto* oneof = f.real_containing_oneof();
    Add("field " + f.full_name() + " = " + std::to_string(f.number()) + " " + label + TypeName(f) +
        (oneof != nullptr ? " in oneof " + oneof->name() : ""));
    Options(f.full_name(), f.options());
  }

  void Enum(const pb::EnumDescriptor& e) {
    Add("enum " + e.full_name());
    Options(e.full_name(), e.options());
    Reserved(e, 0);
    for (int i = 0; i < e.value_count(); ++i) {
      const auto& v = *e.value(i);
      Add("value " + e.full_name() + "." + v.name() + " = " + std::to_string(v.number()));
      Options(e.full_name() + "." + v.name(), v.options());
    }
  }

  void Extension(const pb::FieldDescriptor& x) {
    Add("extension " + x.full_name() + " = " + std::to_string(x.number()) + " " +
        (x.is_repeated() ? "repeated " : "") + TypeName(x) + " of " + x.containing_type()->full_name());
  }

  Facts facts_;
};

class CommentReader {
 public:
  Notes Read(const pb::FileDescriptor& file) {
    prefix_ = file.package().size() + 1;
    for (int i = 0; i < file.service_count(); ++i) {
      const auto& s = *file.service(i);
      Note(s, s.full_name());
      for (int k = 0; k < s.method_count(); ++k) {
        Note(*s.method(k), s.method(k)->full_name());
      }
    }
    for (int i = 0; i < file.message_type_count(); ++i) {
      Message(*file.message_type(i));
    }
    for (int i = 0; i < file.enum_type_count(); ++i) {
      Enum(*file.enum_type(i));
    }
    return std::move(notes_);
  }

 private:
  template <typename Descriptor>
  void Note(const Descriptor& d, const std::string& full_name) {
    static const std::regex kRequired(R"(\bRequired\b)"), kSince(R"(\bSince (\d+\.\d+)\b)"),
        kWithdrawn(R"(\bwithdrawn in (\d+\.\d+)\b)");
    const std::string item = full_name.substr(prefix_);
    notes_.items.insert(item);
    pb::SourceLocation at;
    if (!d.GetSourceLocation(&at)) {
      return;
    }
    std::string text = at.leading_comments + " " + at.trailing_comments;
    std::replace(text.begin(), text.end(), '\n', ' ');
    text = std::regex_replace(text, std::regex(" +"), " ");
    std::smatch found;
    if (std::regex_search(text, kRequired)) {
      notes_.required.insert(item);
    }
    if (std::regex_search(text, found, kSince)) {
      notes_.since[item] = found[1];
    }
    if (std::regex_search(text, found, kWithdrawn)) {
      notes_.withdrawn[item] = found[1];
    }
  }

  void Message(const pb::Descriptor& d) {
    if (d.options().map_entry()) {
      return;
    }
    Note(d, d.full_name());
    for (int i = 0; i < d.field_count(); ++i) {
      Note(*d.field(i), d.field(i)->full_name());
    }
    for (int i = 0; i < d.nested_type_count(); ++i) {
      Message(*d.nested_type(i));
    }
    for (int i = 0; i < d.enum_type_count(); ++i) {
      Enum(*d.enum_type(i));
    }
  }

  void Enum(const pb::EnumDescriptor& e) {
    Note(e, e.full_name());
    for (int i = 0; i < e.value_count(); ++i) {
      Note(*e.value(i), e.full_name() + "." + e.value(i)->name());
    }
  }

  Notes notes_;
  std::size_t prefix_ = 0;
};

}  // namespace

Facts WireFacts(const pb::FileDescriptor& file) {
  return WireReader().Read(file);
}

Notes CommentNotes(const pb::FileDescriptor& file) {
  return CommentReader().Read(file);
}

}  // namespace quarry::proto_test
