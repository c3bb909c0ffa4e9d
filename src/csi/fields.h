// Rules of CSI for single fields (csi-spec section 5), the same in every version. Pure. Every message names
// the field.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/path.h"
#include "base/result.h"
#include "base/units.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace quarry::csi {

// In bytes. Paths are exempt: they may be as long as the system allows.
inline constexpr size_t kMaxText = 128;
inline constexpr size_t kMaxNodeId = 256;
inline constexpr size_t kMaxMap = 4096;         // keys and values together
inline constexpr size_t kMaxMountFlags = 4096;  // all flags of one capability together

// "field: what", kInvalidArgument.
Error Invalid(std::string_view field, std::string_view what);
// "field: what", kUnsupported: well-formed, but this plugin does not offer it.
Error Unsupported(std::string_view field, std::string_view what);

// Not empty: proto3 cannot tell an empty string from none.
Status CheckRequired(std::string_view field, std::string_view value);

// A name given by a CO: not empty, valid UTF-8, none of U+0000-0008, 000B, 000C, 000E-001F, 007F-009F.
Status CheckName(std::string_view field, std::string_view value);

// AbsolutePath::Parse, required, and not the root directory.
Result<AbsolutePath> ParsePath(std::string_view field, std::string_view value);

// How long a text of this field may be, in bytes, in one interface.
using TextLimit = size_t (*)(std::string_view field);
// That of CSI.
size_t LongestText(std::string_view field);

// Checks the size limits above on every string and map of `request`, including nested messages. It runs first
// on each request. An error names the field and its length, never its content.
Status CheckLimits(const google::protobuf::Message& request, TextLimit longest = &LongestText);

// CSI counts in int64: larger values become the largest int64.
int64_t ToInt64(uint64_t value);
int64_t ToInt64(Bytes bytes);

}  // namespace quarry::csi
