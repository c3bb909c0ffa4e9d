// Buckets and accounts without volumes and without a gateway. They behave as bucket_api.h says; their state
// is that of the instance.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bucket/bucket_api.h"
#include "tests/fakes/faults.h"

namespace quarry::fakes {

// Thread-safe.
class FakeBuckets final : public bucket::BucketApi {
 public:
  // --- The world's side.

  // What a client puts. A bucket that does not exist is left out.
  void SetObjects(const std::string& name, uint64_t objects) {
    const std::lock_guard lock(mutex_);
    if (State* state = ByName(name); state != nullptr) {
      state->objects = objects;
    }
  }
  // Why the bucket does not serve; empty: it serves.
  void SetProblem(const std::string& name, std::string problem) {
    const std::lock_guard lock(mutex_);
    if (State* state = ByName(name); state != nullptr) {
      state->problem = std::move(problem);
    }
  }
  // Called by each method with its name before it does anything; may block until the call ends.
  void SetOnCall(std::function<void(const std::string& method, const Call& call)> on_call) {
    const std::lock_guard lock(mutex_);
    on_call_ = std::move(on_call);
  }

  // --- BucketApi. Faults by method name, before anything is done.
  bucket::Endpoint endpoint() const override { return {"http://127.0.0.1:7070", "us-east-1"}; }

  Result<bucket::CreateResult> Create(const bucket::CreateRequest& request, const Call& call) override {
    QUARRY_TRY(Enter("Create", call));
    const std::lock_guard lock(mutex_);
    const auto size = request.parameters.find("size");
    if (size == request.parameters.end()) {
      return Error(Code::kInvalidArgument, "parameter 'size' is required");
    }
    if (State* state = ByName(request.name); state != nullptr) {
      return state->parameters == request.parameters
                 ? Result<bucket::CreateResult>(bucket::CreateResult{Describe(*state), false})
                 : Error(Code::kAlreadyExists,
                         fmt::format("name: bucket '{}' has other parameters", request.name));
    }
    const auto type = request.parameters.find("type");
    State state{.bucket = {.id = fmt::format("fake.q{:026}", ++made_),
                           .name = request.name,
                           .size = Bytes{1 << 30},
                           .pool = "fake",
                           .type = type == request.parameters.end() ? "linear" : type->second},
                .parameters = request.parameters};
    const auto at = buckets_.emplace(state.bucket.id, std::move(state)).first;
    return bucket::CreateResult{Describe(at->second), true};
  }

  Result<bucket::Bucket> Find(const std::string& id, const Call& call) override {
    QUARRY_TRY(Enter("Find", call));
    const std::lock_guard lock(mutex_);
    const auto found = buckets_.find(id);
    return found == buckets_.end() ? NotFound(id) : Result<bucket::Bucket>(Full(found->second));
  }

  Result<std::vector<bucket::Bucket>> List(const Call& call) override {
    QUARRY_TRY(Enter("List", call));
    const std::lock_guard lock(mutex_);
    std::vector<bucket::Bucket> out;
    for (const auto& [id, state] : buckets_) {
      out.push_back(Full(state));
    }
    return out;
  }

  Status Delete(const std::string& id, const Call& call) override {
    QUARRY_TRY(Enter("Delete", call));
    const std::lock_guard lock(mutex_);
    const auto found = buckets_.find(id);
    if (found == buckets_.end()) {
      return Ok();
    }
    const auto policy = found->second.parameters.find("ondelete");
    const bool erase = policy != found->second.parameters.end() && policy->second == "erase";
    if (!erase && found->second.objects > 0) {
      return Error(Code::kPrecondition, fmt::format("bucket '{}' has {} objects", found->second.bucket.name,
                                                    found->second.objects));
    }
    buckets_.erase(found);
    std::erase_if(accounts_, [&](auto& account) {
      account.second.buckets.erase(id);
      return account.second.buckets.empty();
    });
    return Ok();
  }

  Result<bucket::GrantResult> Grant(const bucket::GrantRequest& request, const Call& call) override {
    QUARRY_TRY(Enter("Grant", call));
    const std::lock_guard lock(mutex_);
    std::map<std::string, bucket::Access> wanted;
    bucket::GrantResult result{.account_id = request.account, .access_key_id = request.account};
    for (const auto& one : request.buckets) {
      const auto found = buckets_.find(one.id);
      if (found == buckets_.end()) {
        return NotFound(one.id);
      }
      wanted[one.id] = one.access;
      result.buckets.push_back(Describe(found->second));
    }
    const auto [account, fresh] = accounts_.try_emplace(request.account);
    if (fresh) {
      account->second = {fmt::format("secret-of-{}-{:024}", request.account, ++made_), wanted};
    } else if (account->second.buckets != wanted) {
      return Error(Code::kAlreadyExists,
                   fmt::format("account '{}' has other buckets or other access", request.account));
    }
    result.secret_key = account->second.secret;
    return result;
  }

  Status Revoke(const std::string& account_id, const std::vector<std::string>& bucket_ids,
                const Call& call) override {
    QUARRY_TRY(Enter("Revoke", call));
    const std::lock_guard lock(mutex_);
    const auto account = accounts_.find(account_id);
    if (account == accounts_.end()) {
      return Ok();
    }
    for (const std::string& id : bucket_ids) {
      account->second.buckets.erase(id);
    }
    if (account->second.buckets.empty()) {
      accounts_.erase(account);
    }
    return Ok();
  }

  Result<Bytes> Grow(const std::string& id, Bytes size, const Call& call) override {
    QUARRY_TRY(Enter("Grow", call));
    const std::lock_guard lock(mutex_);
    const auto found = buckets_.find(id);
    if (found == buckets_.end()) {
      return NotFound(id);
    }
    Bytes& now = found->second.bucket.size;
    return now = std::max(now, size);
  }

  Faults faults;

 private:
  struct State {
    bucket::Bucket bucket;
    bucket::Parameters parameters;
    uint64_t objects = 0;
    std::string problem = {};
  };
  struct Owner {
    std::string secret;
    std::map<std::string, bucket::Access> buckets;  // by id
  };

  Status Enter(const std::string& method, const Call& call) {
    std::function<void(const std::string&, const Call&)> on_call;
    {
      const std::lock_guard lock(mutex_);
      on_call = on_call_;
    }
    if (on_call) {
      on_call(method, call);
    }
    QUARRY_TRY(call.Check(method));
    return faults.Check(method);
  }
  static Error NotFound(const std::string& id) {
    return {Code::kNotFound, fmt::format("bucket_id: no bucket '{}' on this node", id)};
  }
  State* ByName(const std::string& name) {
    const auto found =
        std::ranges::find_if(buckets_, [&](const auto& one) { return one.second.bucket.name == name; });
    return found == buckets_.end() ? nullptr : &found->second;
  }
  static bucket::Bucket Describe(const State& state) {
    bucket::Bucket out = state.bucket;
    out.serving = state.problem.empty();
    out.problem = state.problem;
    return out;
  }
  bucket::Bucket Full(const State& state) const {
    bucket::Bucket out = Describe(state);
    for (const auto& [name, owner] : accounts_) {
      if (const auto access = owner.buckets.find(out.id); access != owner.buckets.end()) {
        out.accounts.push_back({name, access->second});
      }
    }
    if (out.serving) {
      out.content = bucket::Content{Bytes{state.objects << 20}, out.size, state.objects};
    }
    return out;
  }

  std::mutex mutex_;
  uint64_t made_ = 0;
  std::map<std::string, State> buckets_;   // by id
  std::map<std::string, Owner> accounts_;  // by name
  std::function<void(const std::string&, const Call&)> on_call_;
};

}  // namespace quarry::fakes
