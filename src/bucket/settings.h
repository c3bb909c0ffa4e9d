// What a bucket is like beyond its volume, parsed once from the parameters of its class. Its canonical text
// is the value of the tag quarry.s3.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "bucket/bucket_api.h"

namespace quarry::bucket {

enum class OnDelete { kRefuse, kErase };    // what a deletion does if there are objects
enum class Durability { kSync, kRelaxed };  // kSync: what the gateway acknowledged survives a power cut

struct Settings {
  std::string name;
  // As it was asked for when the bucket was made; growth does not change it. 0: an earlier build made the
  // bucket and did not record it.
  Bytes size = {};
  OnDelete on_delete = OnDelete::kRefuse;
  Durability durability = Durability::kSync;
  // Unfinished multipart uploads that nobody has touched for so long are removed. 0: never.
  std::chrono::seconds upload_ttl = std::chrono::days(7);

  // "key=value" lines, keys sorted.
  std::string Canonical() const;
  // Ignores keys that a later build may have written. kCorrupt names the key.
  static Result<Settings> FromCanonical(std::string_view text);
  bool operator==(const Settings&) const = default;
};

// "parameter 'ondelete' is refuse, was erase": the first difference between a recorded bucket and a request.
// `present` is the size of its volume now. A size is the same if it is the recorded one, which a repeated
// request has after growth too, or the present one. If no size was recorded, every size is that the volume
// has room for.
std::optional<std::string> Difference(const Settings& existing, Bytes present, const Settings& requested);

// A request, parsed.
struct Wish {
  Settings settings;
  Parameters volume;  // the parameters that are left for the volume
};
// kInvalidArgument names the field or parameter. The engine checks those of the volume.
Result<Wish> ParseRequest(const CreateRequest& request);
// Parameters of a bucket that exists. Those that are not named are as in `existing`.
Result<Wish> ParseOver(const Parameters& parameters, const Settings& existing);

}  // namespace quarry::bucket
