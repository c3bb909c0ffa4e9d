// Rules of COSI for single fields, the same in both versions. Pure. Every message names the field and never
// repeats a value of parameters.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "bucket/bucket_api.h"

namespace quarry::cosi {

// How long a text of this field may be, in bytes. Names of buckets and accounts are DNS subdomains, ids have
// a limit of their own, and everything else the general one.
size_t LongestText(std::string_view field);

// The name of a driver, as both sidecars want it: at most 63 characters, labels of a-z, 0-9 and '-' that
// begin with a letter and end with a letter or digit.
Status CheckDriverName(std::string_view name);

// A name that COSI gave: required, a DNS subdomain. What S3 allows beyond that decides the bucket's room.
Status CheckName(std::string_view field, std::string_view value);

// "rw", "ro", "wo". kInvalidArgument names `field`.
Result<bucket::Access> ParseAccess(std::string_view field, std::string_view text);

}  // namespace quarry::cosi
