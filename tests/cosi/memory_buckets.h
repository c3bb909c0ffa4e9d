// Buckets in memory: the promises of bucket::BucketApi without volumes and a gateway.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "bucket/bucket_api.h"

namespace quarry::cosi_check {

// Thread-safe. State per instance.
class MemoryBuckets final : public bucket::BucketApi {
 public:
  // Called before each call with its name ("Create"); an error that it returns is the call's.
  void SetOnCall(std::function<Status(const std::string& method, const Call& call)> on_call);
  void PutObjects(const std::string& id, uint64_t objects);
  void LoseDisk(const std::string& id);

  bucket::Endpoint endpoint() const override { return {"http://127.0.0.1:7070", "us-east-1"}; }
  Result<bucket::CreateResult> Create(const bucket::CreateRequest& request, const Call& call) override;
  Result<bucket::Bucket> Find(const std::string& id, const Call& call) override;
  Status Compare(const std::string& id, const bucket::Parameters& parameters, const Call& call) override;
  Result<std::vector<bucket::Bucket>> List(const Call& call) override;
  Status Delete(const std::string& id, const Call& call) override { return DeleteIf(id, false, call); }
  Status DeleteLost(const std::string& id, const Call& call) override { return DeleteIf(id, true, call); }
  Result<bucket::GrantResult> Grant(const bucket::GrantRequest& request, const Call& call) override;
  Status Revoke(const std::string& account_id, const std::vector<std::string>& bucket_ids,
                const Call& call) override;
  Result<Bytes> Grow(const std::string& id, Bytes size, const Call& call) override;

 private:
  struct Kept {
    bucket::Bucket bucket;
    bucket::Parameters parameters;
    std::map<std::string, bucket::Access> accounts;
    uint64_t objects = 0;
    bool lost = false;  // its disk is missing
  };

  Status DeleteIf(const std::string& id, bool lost, const Call& call);
  Status Begin(const std::string& method, const Call& call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The buckets of an account, with its access.
  std::map<std::string, bucket::Access> AccessOf(const std::string& account) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bucket::Bucket Shown(const Kept& kept);

  mutable Mutex mutex_;
  std::map<std::string, Kept> kept_ ABSL_GUARDED_BY(mutex_);            // by id
  std::map<std::string, std::string> secrets_ ABSL_GUARDED_BY(mutex_);  // by account
  std::function<Status(const std::string&, const Call&)> on_call_ ABSL_GUARDED_BY(mutex_);
  int made_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace quarry::cosi_check
