#include "ctl/known_ids.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lvm/names.h"

namespace quarry::ctl {
namespace {

using nlohmann::json;

constexpr size_t kMostQuoted = 60;

Error Unreadable(const std::string& why) {
  return {Code::kInvalidArgument, why};
}

// The string at these keys; empty if there is none.
std::string TextAt(const json& value, std::initializer_list<const char*> keys) {
  const json* at = &value;
  for (const char* key : keys) {
    const auto next = at->is_object() ? at->find(key) : at->end();
    if (!at->is_object() || next == at->end()) {
      return "";
    }
    at = &*next;
  }
  return at->is_string() ? at->get<std::string>() : "";
}

bool IsQuarrys(const std::string& id) {
  return lvm::ParseVolumeId(id).has_value();
}

void AddVolume(const std::string& id, const std::string& node, KnownIds& known) {
  if (IsQuarrys(id)) {
    known.volumes[id] = node;
  } else {
    ++known.of_others;
  }
}

// The node that a PersistentVolume is bound to by the driver's topology key; empty if it names none.
std::string NodeOf(const json& volume, std::string_view driver) {
  const json::json_pointer terms("/spec/nodeAffinity/required/nodeSelectorTerms");
  if (!volume.contains(terms) || !volume[terms].is_array()) {
    return "";
  }
  for (const json& term : volume[terms]) {
    const auto expressions = term.find("matchExpressions");
    if (expressions == term.end()) {
      continue;
    }
    for (const json& expression : *expressions) {
      const auto values = expression.find("values");
      if (TextAt(expression, {"key"}) == fmt::format("{}/node", driver) && values != expression.end() &&
          values->is_array() && values->size() == 1 && values->front().is_string()) {
        return values->front().get<std::string>();
      }
    }
  }
  return "";
}

// An object of Kubernetes.
Status AddObject(const json& object, std::string_view driver, KnownIds& known) {
  const std::string kind = TextAt(object, {"kind"});
  if (kind == "PersistentVolume") {
    // An id of Quarry's is one of a volume here, whatever name the driver had when it was made.
    const std::string handle = TextAt(object, {"spec", "csi", "volumeHandle"});
    if (TextAt(object, {"spec", "csi", "driver"}) == driver || IsQuarrys(handle)) {
      AddVolume(handle, NodeOf(object, driver), known);
    } else {
      ++known.of_others;
    }
    return Ok();
  }
  if (kind == "VolumeSnapshotContent") {
    known.lists_snapshots = true;
    const std::string made = TextAt(object, {"status", "snapshotHandle"});
    const std::string id = made.empty() ? TextAt(object, {"spec", "source", "snapshotHandle"}) : made;
    if (IsQuarrys(id)) {
      known.snapshots.insert(id);
    } else {
      ++known.of_others;
    }
    return Ok();
  }
  return Unreadable(fmt::format(
      "it has an object of the kind '{}': only PersistentVolume and VolumeSnapshotContent are understood",
      kind));
}

Status AddKubernetes(const json& document, std::string_view driver, KnownIds& known) {
  const auto items = document.find("items");
  if (items == document.end()) {
    return AddObject(document, driver, known);
  }
  if (!TextAt(document, {"metadata", "continue"}).empty()) {
    return Unreadable(
        "it is one page of a longer list: ask for the whole list (kubectl does without --limit)");
  }
  for (const json& item : *items) {
    QUARRY_TRY(AddObject(item, driver, known));
  }
  return Ok();
}

// An element of an array: an id, or a volume as Nomad prints it.
Status AddElement(const json& element, KnownIds& known) {
  const std::string external = TextAt(element, {"ExternalID"});
  if (element.is_string()) {
    AddVolume(element.get<std::string>(), "", known);
  } else if (!external.empty()) {
    AddVolume(external, "", known);
  } else {
    return Unreadable("it has an entry that is neither an id nor a CSI volume with an ExternalID");
  }
  return Ok();
}

Result<KnownIds> ParseJson(std::string_view text, std::string_view driver) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) {
    return Unreadable("it is not valid JSON, or it is cut off");
  }
  KnownIds known;
  if (document.is_array()) {
    for (const json& element : document) {
      QUARRY_TRY(AddElement(element, known));
    }
  } else if (document.contains("kind")) {
    QUARRY_TRY(AddKubernetes(document, driver, known));
  } else {
    QUARRY_TRY(AddElement(document, known));
  }
  return known;
}

Result<KnownIds> ParseLines(std::string_view text) {
  KnownIds known;
  for (size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (std::ranges::any_of(line, [](unsigned char c) { return c <= 0x20 || c >= 0x7F; })) {
      std::string quoted(line.substr(0, kMostQuoted));
      std::ranges::replace_if(quoted, [](unsigned char c) { return c < 0x20 || c >= 0x7F; }, '?');
      return Unreadable(fmt::format("line {} is not a volume id: '{}'", number, quoted));
    }
    if (!line.empty()) {
      AddVolume(std::string(line), "", known);
    }
  }
  return known;
}

}  // namespace

Result<KnownIds> ParseKnownIds(std::string_view text, std::string_view driver) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    return KnownIds{};
  }
  return text[first] == '{' || text[first] == '[' ? ParseJson(text, driver) : ParseLines(text);
}

}  // namespace quarry::ctl
