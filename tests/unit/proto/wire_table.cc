#include "tests/unit/proto/wire_table.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

namespace quarry::proto_test {
namespace {

constexpr std::string_view kAlpha = "α";
constexpr std::string_view kDagger = "†";
constexpr std::string_view kOpen = "‹";
constexpr std::string_view kClose = "›";

// One cell of a row, read from left to right. After a mismatch `ok` stays false.
struct Cursor {
  std::string_view rest;
  bool ok = true;

  void Spaces() { rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size())); }
  bool Done() {
    Spaces();
    return rest.empty();
  }
  bool Eat(std::string_view token) {
    if (!rest.starts_with(token)) {
      return false;
    }
    rest.remove_prefix(token.size());
    return true;
  }
  void Expect(std::string_view token) { ok = Eat(token) && ok; }
  std::string Until(std::string_view token) {
    const auto end = rest.find(token);
    ok = ok && end != std::string_view::npos;
    if (!ok) {
      return "";
    }
    std::string text(rest.substr(0, end));
    rest.remove_prefix(end + token.size());
    return text;
  }
  std::string Word(bool (*accept)(char)) {
    std::size_t end = 0;
    while (end < rest.size() && accept(rest[end])) {
      ++end;
    }
    ok = ok && end > 0;
    std::string word(rest.substr(0, end));
    rest.remove_prefix(end);
    return word;
  }
  std::string Number() {
    return Word([](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
  }
  std::string Name() {
    return Word(
        [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; });
  }
};

struct Marks {
  std::string since;
  bool alpha = false;
};

Marks ReadMarks(Cursor& c) {
  Marks marks;
  while (true) {
    c.Spaces();
    if (c.Eat(kOpen)) {
      marks.since = c.Until(kClose);
    } else if (c.Eat(kDagger)) {
      marks.since = "0.3";
    } else if (c.Eat(kAlpha)) {
      marks.alpha = true;
    } else {
      return marks;
    }
  }
}

std::vector<std::string> Cells(std::string_view row) {
  std::vector<std::string> cells;
  row.remove_prefix(2);
  while (!row.empty()) {
    const auto bar = row.find(" |");
    cells.emplace_back(row.substr(0, bar));
    row.remove_prefix(bar == std::string_view::npos ? row.size() : std::min(bar + 3, row.size()));
  }
  return cells;
}

class TableParser {
 public:
  WireTable Parse(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line.starts_with("#")) {
        continue;
      }
      if (line.starts_with("[")) {
        Section(line.substr(1, line.find(']') - 1));
      } else if (!line.starts_with("| ") || !Row(Cells(line))) {
        Error("cannot read: " + line);
      }
    }
    Finish();
    return std::move(table_);
  }

 private:
  void Error(const std::string& what) { table_.errors.push_back(what); }
  std::string Full(const std::string& item) const { return package_ + "." + item; }
  void Fact(const std::string& fact) {
    if (!table_.wire.insert(fact).second) {
      Error("said twice: " + fact);
    }
  }

  void Section(const std::string& title) {
    constexpr std::string_view kPackage = "package ", kWithdrawn = "withdrawn ";
    section_ = title;
    withdrawn_in_.clear();
    if (title.starts_with(kPackage)) {
      package_ = title.substr(kPackage.size());
      Fact("package " + package_);
      Fact("syntax proto3");
    } else if (title.starts_with(kWithdrawn)) {
      withdrawn_in_ = title.substr(kWithdrawn.size());
    }
  }

  bool Row(const std::vector<std::string>& cells) {
    Cursor head{cells.at(0)};
    const std::string name = head.Name();
    const Marks marks = ReadMarks(head);
    if (!head.ok || !head.Done() || cells.size() != (section_ == "empty" ? 1U : 2U)) {
      return false;
    }
    if (section_ == "empty") {
      Declare("message", name, marks, "alpha_message");
      return true;
    }
    Cursor body{cells[1]};
    if (section_ == "services") {
      Declare("service", name, marks, "alpha_service");
      return List(body, ", ", [&] { Rpc(body, name); });
    }
    if (section_ == "enums") {
      Declare("enum", name, marks, "alpha_enum");
      return List(body, ", ", [&] { EnumValue(body, name); });
    }
    if (section_ == "messages") {
      Declare("message", name, marks, "alpha_message");
      return List(body, "; ", [&] { Field(body, name); });
    }
    if (section_ == "extensions") {
      return List(body, "; ", [&] { Extension(body, name); });
    }
    return !withdrawn_in_.empty() && WithdrawnRow(body, name, marks);
  }

  template <typename Item>
  bool List(Cursor& c, std::string_view separator, Item item) {
    for (bool first = true; c.ok && !c.Done(); first = false) {
      if (!first && !c.Eat(separator)) {
        c.Expect("; ");  // "reserved" follows a list of enum values after a semicolon
      }
      item();
    }
    return c.ok;
  }

  // Items that came back from before a withdrawal: a whole new message, or members of an item of this table.
  bool WithdrawnRow(Cursor& body, const std::string& name, const Marks& marks) {
    if (enums_.contains(name)) {
      return List(body, ", ", [&] { Withdrawn(name, EnumValue(body, name)); });
    }
    if (messages_.contains(name)) {
      return List(body, "; ", [&] { Withdrawn(name, Field(body, name)); });
    }
    Declare("message", name, marks, "alpha_message");
    table_.notes.withdrawn[name] = withdrawn_in_;
    return List(body, "; ", [&] { Field(body, name); });
  }

  struct Member {
    std::string name, number;
  };

  void Withdrawn(const std::string& parent, const Member& member) {
    table_.notes.withdrawn[parent + "." + member.name] = withdrawn_in_;
    if (reserved_.erase(parent + " " + member.number) == 0) {
      Error("withdrawn, but its number is not reserved: " + parent + "." + member.name);
    }
  }

  void Declare(const std::string& kind, const std::string& item, const Marks& marks,
               const std::string& alpha) {
    Fact(kind + " " + Full(item));
    Mark(item, marks, alpha);
    if (kind != "service") {
      (kind == "enum" ? enums_ : messages_).insert(item);
    }
  }

  void Mark(const std::string& item, const Marks& marks, const std::string& alpha) {
    table_.notes.items.insert(item);
    if (!marks.since.empty()) {
      table_.notes.since[item] = marks.since;
    }
    if (marks.alpha) {
      Fact("option " + Full(item) + " " + Full(alpha) + " true");
    }
  }

  void Rpc(Cursor& c, const std::string& service) {
    const std::string name = c.Name();
    const std::string item = service + "." + name;
    Mark(item, ReadMarks(c), "alpha_method");
    const bool stream = c.Eat("(server stream)");
    if (c.Eat("(deprecated)")) {
      Fact("option " + Full(item) + " google.protobuf.MethodOptions.deprecated true");
    }
    Use(name + "Request");
    Use(name + "Response");
    Fact("rpc " + Full(item) + " (" + Full(name + "Request") + ") returns (" + (stream ? "stream " : "") +
         Full(name + "Response") + ")");
  }

  Member EnumValue(Cursor& c, const std::string& parent) {
    if (Reserved(c, parent)) {
      return {};
    }
    const std::string number = c.Number();
    c.Expect(" ");
    const std::string name = c.Name();
    Fact("value " + Full(parent) + "." + name + " = " + number);
    Mark(parent + "." + name, ReadMarks(c), "alpha_enum_value");
    return {name, number};
  }

  bool Reserved(Cursor& c, const std::string& parent) {
    if (!c.Eat("reserved ")) {
      return false;
    }
    reserved_.insert(parent + " " + c.Number());
    return true;
  }

  Member Field(Cursor& c, const std::string& parent) {
    if (Reserved(c, parent)) {
      return {};
    }
    const std::string number = c.Number();
    c.Expect(" ");
    const std::string name = c.Name();
    const std::string item = parent + "." + name;
    if (c.Eat("!")) {
      table_.notes.required.insert(item);
    }
    c.Expect(" ");
    std::string nested;
    std::string type = Type(c, parent, &nested);
    if (c.Eat("[]")) {
      type = "repeated " + type;
    }
    const Marks marks = ReadMarks(c);
    Mark(item, marks, "alpha_field");
    if (!nested.empty() && !marks.since.empty()) {
      table_.notes.since[nested] = marks.since;
    }
    if (c.Eat("(oneof ")) {
      type += " in oneof " + c.Until(")");
    }
    Fact("field " + Full(item) + " = " + number + " " + type);
    if (name == "secrets") {
      secrets_.push_back(item);
    }
    return {name, number};
  }

  // `nested` names the message if it is written inline.
  std::string Type(Cursor& c, const std::string& parent, std::string* nested) {
    static const std::map<std::string, std::string> kScalars = {{"s", "string"},
                                                                {"b", "bool"},
                                                                {"i32", "int32"},
                                                                {"i64", "int64"},
                                                                {"u32", "uint32"},
                                                                {"u64", "uint64"},
                                                                {"m", "map<string, string>"}};
    static const std::set<std::string> kWellKnown = {"BoolValue", "Int64Value", "Timestamp"};
    if (c.Eat("mm(")) {
      const std::string value = c.Name();
      c.Expect(")");
      Use(value);
      return "map<string, " + Full(value) + ">";
    }
    const bool relative = c.Eat(".");
    std::string name = c.Name();
    if (relative) {
      name = parent + "." + name;
    } else if (const auto scalar = kScalars.find(name); scalar != kScalars.end()) {
      return scalar->second;
    } else if (kWellKnown.contains(name)) {
      return "google.protobuf." + name;
    }
    if (relative && c.Eat("{")) {
      Declare("message", name, {}, "");
      Field(c, name);
      c.Expect("}");
      *nested = name;
    }
    Use(name);
    return Full(name);
  }

  void Extension(Cursor& c, const std::string& extendee) {
    const std::string number = c.Number();
    c.Expect(" ");
    const std::string name = c.Name();
    c.Expect(" b");
    Fact("extension " + Full(name) + " = " + number + " bool of google.protobuf." + extendee);
    has_secret_option_ = has_secret_option_ || name == "csi_secret";
  }

  void Use(const std::string& type) { used_.insert(type); }

  void Finish() {
    for (const auto& type : used_) {
      if (!messages_.contains(type) && !enums_.contains(type)) {
        Error("used but not declared: " + type);
      }
    }
    for (const auto& member : reserved_) {
      Fact("reserved " + Full(member));
    }
    if (has_secret_option_) {
      for (const auto& item : secrets_) {
        Fact("option " + Full(item) + " " + Full("csi_secret") + " true");
      }
    }
  }

  WireTable table_;
  std::string package_, section_, withdrawn_in_;
  std::set<std::string> messages_, enums_, used_;
  std::set<std::string> reserved_;  // "Item number", not taken by a withdrawn member
  std::vector<std::string> secrets_;
  bool has_secret_option_ = false;
};

}  // namespace

WireTable ParseWireTable(const std::string& text) {
  return TableParser().Parse(text);
}

WireTable ReadWireTable(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    WireTable none;
    none.errors.push_back("cannot open " + path);
    return none;
  }
  return ParseWireTable({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
}

}  // namespace quarry::proto_test
