// What the Wires of the CSI versions older than v1 share. Apart from a few messages v1 is a wire superset of
// its predecessors (proto/README.md). Most messages are therefore converted by parsing their bytes as the
// other type. The few exceptions belong to each version.
#pragma once

#include <string>

#include <fmt/format.h>

#include "base/result.h"
#include "csi/fields.h"

namespace quarry::csi {

// Parses the bytes of `from` as another message with the same fields under the same numbers. Only fields that
// both messages know pass: a field of the later version must not gain a meaning in the older one.
template <typename From, typename To>
void Reread(const From& from, To& to) {
  From known = from;
  known.DiscardUnknownFields();
  // Cannot fail: fields that both know have the same types, and strings were checked to be UTF-8 when `from`
  // was parsed.
  to.ParseFromString(known.SerializeAsString());
  to.DiscardUnknownFields();
}

// Rereads each message of a list.
template <typename From, typename To>
void RereadAll(const From& from, To& to) {
  for (const auto& message : from) {
    Reread(message, *to.Add());
  }
}

// kUnsupported for an access mode that the caller's version does not have, even if a later version gives its
// number a meaning.
template <typename Capability>
Status CheckMode(const std::string& field, const Capability& capability) {
  const auto mode = capability.access_mode().mode();
  return Capability::AccessMode::Mode_IsValid(mode)
             ? Ok()
             : Status(Unsupported(field + ".access_mode",
                                  fmt::format("mode {} is not known", static_cast<int>(mode))));
}

// What the Wires (csi/passage.h) of the older versions do alike.
struct OlderWire {
  template <typename Request>
  static Status Check(const Request& request) {
    if constexpr (requires { request.volume_capabilities(); }) {
      for (int i = 0; i < request.volume_capabilities_size(); ++i) {
        QUARRY_TRY(CheckMode(fmt::format("volume_capabilities[{}]", i), request.volume_capabilities(i)));
      }
    }
    if constexpr (requires { request.volume_capability(); }) {
      QUARRY_TRY(CheckMode("volume_capability", request.volume_capability()));
    }
    return Ok();
  }

  // Converts a response. The list of capabilities is field 1 in v1, but field 2 in some older messages. The
  // older versions confirm capabilities with a boolean.
  template <typename V1Response, typename Response>
  static Status Lower(const V1Response& answer, Response& response) {
    if constexpr (requires { answer.capabilities(); }) {
      RereadAll(answer.capabilities(), *response.mutable_capabilities());
    } else if constexpr (requires { answer.has_confirmed(); }) {
      response.set_supported(answer.has_confirmed());
      response.set_message(answer.message());
    } else {
      Reread(answer, response);
    }
    return Ok();
  }
};

}  // namespace quarry::csi
