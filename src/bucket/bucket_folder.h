// The mounted volume of a bucket: data/, which the gateway serves, and grants/, which only quarryd reads.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/path.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "bucket/bucket_api.h"
#include "bucket/files.h"
#include "bucket/grant_record.h"

namespace quarry::bucket {

// Holds the volume open, so that it cannot be unmounted for the lifetime of this object.
class BucketFolder {
 public:
  // Whether an open folder is the mount of the bucket's volume. Nothing is read or changed in another one.
  using Proof = std::function<Status(int folder)>;

  // `gateway`: the user of the gateway. Makes data/ and grants/ if they are missing, and gives them their
  // owners and modes. kPrecondition: something there is not Quarry's. Errors of `proof`.
  static Result<BucketFolder> Open(const AbsolutePath& path, Owner gateway, const Proof& proof);

  // The records of the accounts. A file that is no record is an error: it may be an account's only secret.
  Result<std::vector<GrantRecord>> Grants() const;
  // Survives a power cut once it returns. So does the removal; OK if there is no record.
  Status Keep(const GrantRecord& record) const;
  Status Forget(const std::string& account) const;

  // Sets who may do what, in force at the gateway's next request.
  Status SetPolicy(const std::string& text) const;

  Result<ObjectCount> Count(uint64_t most, const Call& call) const;
  Result<SweptUploads> Sweep(std::chrono::seconds upload_ttl, const Call& call) const;
  // Without the number of objects.
  Result<Content> Usage() const;

 private:
  BucketFolder(UniqueFd data, UniqueFd grants) : data_(std::move(data)), grants_(std::move(grants)) {}

  UniqueFd data_, grants_;
};

}  // namespace quarry::bucket
