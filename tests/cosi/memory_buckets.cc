#include "tests/cosi/memory_buckets.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace quarry::cosi_check {
namespace {

constexpr std::array<std::string_view, 7> kKeys = {"size",     "type",       "pool",     "erase",
                                                   "ondelete", "durability", "uploadttl"};

Status CheckKeys(const bucket::Parameters& parameters) {
  for (const auto& [key, value] : parameters) {
    if (std::ranges::find(kKeys, key) == kKeys.end()) {
      return Error(Code::kInvalidArgument, fmt::format("parameters: there is no parameter '{}'", key));
    }
  }
  return Ok();
}

Result<Bytes> SizeOf(const bucket::Parameters& parameters) {
  QUARRY_TRY(CheckKeys(parameters));
  if (!parameters.contains("size")) {
    return Error(Code::kInvalidArgument, "parameters: size is required");
  }
  return ParseSize(parameters.at("size")).Context("parameters: size");
}

Error NoSuchBucket(const std::string& id) {
  return {Code::kNotFound, fmt::format("there is no bucket '{}'", id)};
}

}  // namespace

void MemoryBuckets::SetOnCall(std::function<Status(const std::string&, const Call&)> on_call) {
  const MutexLock lock(mutex_);
  on_call_ = std::move(on_call);
}

void MemoryBuckets::PutObjects(const std::string& id, uint64_t objects) {
  const MutexLock lock(mutex_);
  kept_.at(id).objects = objects;
}

void MemoryBuckets::LoseDisk(const std::string& id) {
  const MutexLock lock(mutex_);
  kept_.at(id).lost = true;
}

Status MemoryBuckets::Begin(const std::string& method, const Call& call) const {
  return on_call_ ? on_call_(method, call) : Ok();
}

bucket::Bucket MemoryBuckets::Shown(const Kept& kept) {
  bucket::Bucket out = kept.bucket;
  for (const auto& [id, access] : kept.accounts) {
    out.accounts.push_back({.id = id, .access = access});
  }
  out.content = {.used = kMiB, .available = kGiB, .objects = kept.objects};
  return out;
}

std::map<std::string, bucket::Access> MemoryBuckets::AccessOf(const std::string& account) const {
  std::map<std::string, bucket::Access> out;
  for (const auto& [id, kept] : kept_) {
    if (const auto found = kept.accounts.find(account); found != kept.accounts.end()) {
      out[id] = found->second;
    }
  }
  return out;
}

Result<bucket::CreateResult> MemoryBuckets::Create(const bucket::CreateRequest& request, const Call& call) {
  const MutexLock lock(mutex_);
  QUARRY_TRY(Begin("Create", call));
  if (request.name.size() < 3 || request.name.size() > 63) {
    return Error(Code::kInvalidArgument, "name: an S3 bucket's name has 3 to 63 characters");
  }
  QUARRY_ASSIGN(const Bytes size, SizeOf(request.parameters));
  for (const auto& [id, kept] : kept_) {
    if (kept.bucket.name != request.name) {
      continue;
    }
    if (kept.parameters != request.parameters) {
      return Error(Code::kAlreadyExists, fmt::format("bucket '{}' has other parameters", request.name));
    }
    return bucket::CreateResult{.bucket = kept.bucket, .created = false};
  }
  const std::string id = fmt::format("p.{}", ++made_);
  const auto type = request.parameters.find("type");
  const bucket::Bucket made{.id = id,
                            .name = request.name,
                            .size = size,
                            .pool = "p",
                            .type = type == request.parameters.end() ? "linear" : type->second,
                            .serving = true,
                            .problem = ""};
  kept_[id] = {.bucket = made, .parameters = request.parameters, .accounts = {}};
  return bucket::CreateResult{.bucket = made, .created = true};
}

Result<bucket::Bucket> MemoryBuckets::Find(const std::string& id, const Call& call) {
  const MutexLock lock(mutex_);
  QUARRY_TRY(Begin("Find", call));
  const auto found = kept_.find(id);
  return found == kept_.end() ? Result<bucket::Bucket>(NoSuchBucket(id)) : Shown(found->second);
}

Status MemoryBuckets::Compare(const std::string& id, const bucket::Parameters& parameters, const Call& call) {
  const MutexLock lock(mutex_);
  QUARRY_TRY(Begin("Compare", call));
  const auto found = kept_.find(id);
  if (found == kept_.end()) {
    return NoSuchBucket(id);
  }
  QUARRY_TRY(CheckKeys(parameters));
  for (const auto& [key, value] : parameters) {
    const auto has = found->second.parameters.find(key);
    if (has == found->second.parameters.end() || has->second != value) {
      return Error(Code::kInvalidArgument, fmt::format("parameters: '{}' differs", key));
    }
  }
  return Ok();
}

Result<std::vector<bucket::Bucket>> MemoryBuckets::List(const Call& call) {
  const MutexLock lock(mutex_);
  QUARRY_TRY(Begin("List", call));
  std::vector<bucket::Bucket> out;
  for (const auto& [id, kept] : kept_) {
    out.push_back(Shown(kept));
  }
  return out;
}

Status MemoryBuckets::DeleteIf(const std::string& id, bool lost, const Call& call) {
  const MutexLock lock(mutex_);
  QUARRY_TRY(Begin("Delete", call));
  const auto found = kept_.find(id);
  if (found == kept_.end()) {
    return Ok();
  }
  if (lost && !found->second.lost) {
    return Error(Code::kPrecondition, fmt::format("bucket '{}' lacks no disk", found->second.bucket.name));
  }
  const auto ondelete = found->second.parameters.find("ondelete");
  if (!lost && (found->second.objects > 0 || found->second.lost) &&
      (ondelete == found->second.parameters.end() || ondelete->second != "erase")) {
    return Error(Code::kPrecondition,
                 fmt::format("bucket '{}' has {} objects", found->second.bucket.name, found->second.objects));
  }
  kept_.erase(found);
  return Ok();
}

Result<bucket::GrantResult> MemoryBuckets::Grant(const bucket::GrantRequest& request, const Call& call) {
  const MutexLock lock(mutex_);
  QUARRY_TRY(Begin("Grant", call));
  std::map<std::string, bucket::Access> wanted;
  for (const auto& one : request.buckets) {
    if (!kept_.contains(one.id)) {
      return NoSuchBucket(one.id);
    }
    wanted[one.id] = one.access;
  }
  const auto has = AccessOf(request.account);
  if (!has.empty() && has != wanted) {
    return Error(Code::kAlreadyExists, fmt::format("account '{}' has another access", request.account));
  }
  if (has.empty()) {
    secrets_[request.account] = fmt::format("secret-{}-of-{}", ++made_, request.account);
  }
  bucket::GrantResult out{.account_id = request.account,
                          .access_key_id = request.account,
                          .secret_key = secrets_[request.account],
                          .buckets = {}};
  for (const auto& [id, access] : wanted) {
    kept_[id].accounts[request.account] = access;
    out.buckets.push_back(kept_[id].bucket);
  }
  return out;
}

Status MemoryBuckets::Revoke(const std::string& account_id, const std::vector<std::string>& bucket_ids,
                             const Call& call) {
  const MutexLock lock(mutex_);
  QUARRY_TRY(Begin("Revoke", call));
  for (const std::string& id : bucket_ids) {
    if (const auto found = kept_.find(id); found != kept_.end()) {
      found->second.accounts.erase(account_id);
    }
  }
  return Ok();
}

Result<Bytes> MemoryBuckets::Grow(const std::string& id, Bytes size, const Call& call) {
  const MutexLock lock(mutex_);
  QUARRY_TRY(Begin("Grow", call));
  const auto found = kept_.find(id);
  if (found == kept_.end()) {
    return NoSuchBucket(id);
  }
  found->second.bucket.size = std::max(size, found->second.bucket.size);
  return found->second.bucket.size;
}

}  // namespace quarry::cosi_check
