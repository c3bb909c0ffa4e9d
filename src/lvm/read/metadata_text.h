// LVM2's metadata text, read only: the text that a raw location (metadata_header.h) points to. WalkText
// parses the syntax. ParseGroupMembers reads only the group's name, UUID and sequence number, and the UUIDs
// of its PVs. Pure.
//
// The text is a tree of sections and assignments:
//
//   vg0 { id = "iRznzf-…"  seqno = 17  status = ["RESIZEABLE", "READ", "WRITE"]
//         physical_volumes { pv0 { id = "SAUvKF-…"  pe_start = 2048 … } … }
//         logical_volumes { … } }
//   # comments; then a few assignments about the writer of the text
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quarry::lvm {

// One value: a string without its quotes and escapes, or the digits of a number.
struct TextValue {
  bool quoted = false;
  std::string text;
};

// Calls `assign` for each assignment, with the names of the enclosing sections from the outside in, and with
// its values: one, or those of an array. The views are valid only during the call. Stops at the first failure
// of `assign`, and returns it. kCorrupt: not a metadata text; the message names the byte. Safe for any input,
// in linear time and bounded depth.
using TextAssign = std::function<Status(std::span<const std::string> sections, std::string_view key,
                                        std::span<const TextValue> values)>;
Status WalkText(std::string_view text, const TextAssign& assign);

struct GroupMembers {
  std::string name;
  std::string uuid;
  uint64_t seqno = 0;
  std::vector<std::string> pv_uuids;
};
// kCorrupt if the text is not that of a group, or names no PV.
Result<GroupMembers> ParseGroupMembers(std::string_view text);

}  // namespace quarry::lvm
