// Names of buckets and accounts: which are allowed, and where they are kept.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace quarry::bucket {

// The owner in every bucket's `user.acl`. No account may have this name: an owner may replace the policy.
inline constexpr std::string_view kOwner = "quarry";

// kInvalidArgument: S3 does not allow this name of a bucket, or it would hide what the gateway keeps.
Status CheckBucketName(std::string_view name);

// kInvalidArgument: an account cannot have this name. It is an access key id, and the name of a file.
Status CheckAccountName(std::string_view name);

// The CO's name of the volume of a bucket: "s3:logs".
std::string VolumeNameOf(std::string_view bucket);
// The bucket's name in it.
std::string BucketNameIn(std::string_view volume_name);
// The last part of a volume id, which is unique on this node: "q…".
std::string LvNameIn(std::string_view volume_id);

}  // namespace quarry::bucket
