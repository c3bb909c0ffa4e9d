// Who may use a bucket. A file on the bucket's volume is the commit of a grant, and its removal that of a
// revocation; users.json and the policy are derived from these files.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "bucket/buckets.h"
#include "bucket/names.h"

namespace quarry::bucket {
namespace {

// The policy names every account, and an attribute has at most 64 KiB.
constexpr size_t kMostAccounts = 400;

std::string AccountLock(const std::string& account) {
  return fmt::format("account {}", account);
}
std::string BucketLock(const std::string& name) {
  return fmt::format("bucket {}", name);
}

int64_t MillisecondsSince1970() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::optional<Buckets::Known> Buckets::Find(const std::string& id) const {
  const MutexLock lock(mutex_);
  const auto found = known_.find(id);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

Status Buckets::WriteUsers() {
  const MutexLock writer(users_mutex_);
  std::map<std::string, std::string> secrets;
  {
    const MutexLock lock(mutex_);
    secrets = inherited_;
    for (const auto& [account, record] : InForceLocked()) {
      if (IsDisputedLocked(account, record->secret)) {
        secrets.erase(account);
      } else {
        secrets[account] = record->secret;
      }
    }
  }
  return Step("write users.json", [&] { return folder_.WriteUsers(UsersText(secrets)); });
}

// Whether clients may reach a bucket whose policy names the account for another secret than this one. The
// account has no secret until that policy is set again.
bool Buckets::IsDisputedLocked(const std::string& account, const std::string& secret) const {
  const auto inherited = inherited_.find(account);
  if (inherited != inherited_.end() && inherited->second != secret) {
    return true;
  }
  return std::ranges::any_of(known_, [&](const auto& one) {
    const auto record = one.second.grants.find(account);
    return one.second.linked && one.second.stale && record != one.second.grants.end() &&
           record->second.secret != secret;
  });
}

// Two secrets of one account come from two servers, or from a time when one of the buckets was away.
std::map<std::string, const GrantRecord*> Buckets::InForceLocked() const {
  std::map<std::string, const GrantRecord*> newest;
  for (const auto& [id, known] : known_) {  // by id, so that all starts choose the same one of two equals
    for (const auto& [account, record] : known.grants) {
      const auto [at, is_first] = newest.emplace(account, &record);
      if (!is_first && record.granted > at->second->granted) {
        at->second = &record;
      }
    }
  }
  return newest;
}

void Buckets::SettleConflictsLocked() {
  const auto in_force = InForceLocked();
  for (auto& [id, known] : known_) {
    std::string conflict;
    for (const auto& [account, record] : known.grants) {
      if (record.secret != in_force.at(account)->secret) {
        conflict = fmt::format(
            "account '{}' has a newer secret in another bucket, and no access here: revoke its access to one "
            "of them",
            account);
      }
    }
    if (conflict != known.conflict) {
      known.conflict = std::move(conflict);
      known.stale = true;
    }
  }
}

// An account has access only to the buckets whose records have the secret that is in force: the other secret
// may be another person's.
std::string Buckets::PolicyOf(const std::string& id, const std::string& name) const {
  std::vector<Account> accounts;
  const MutexLock lock(mutex_);
  const auto in_force = InForceLocked();
  if (const auto found = known_.find(id); found != known_.end()) {
    for (const auto& [account, record] : found->second.grants) {
      if (record.secret == in_force.at(account)->secret) {
        accounts.push_back({account, record.access});
      }
    }
  }
  return PolicyText(name, accounts);
}

// The buckets of the request, which must serve.
Result<std::vector<Buckets::Known>> Buckets::Serving(const GrantRequest& request, const Call& call) {
  std::vector<Known> out;
  for (const AccessedBucket& one : request.buckets) {
    QUARRY_TRY(Volume(one.id, call));
    const std::optional<Known> known = Find(one.id);
    if (!known.has_value() || !known->linked) {
      return Error(Code::kUnavailable,
                   fmt::format("bucket {} does not serve yet: {}", one.id,
                               known.has_value() ? known->problem : "it is being mounted"));
    }
    out.push_back(*known);
  }
  return out;
}

// A record names all buckets of its account. It may still name one that was revoked while this bucket could
// not be written: then that one was read, and has no record of the account. A grant that was cut off looks
// the same, so both answers are right: the buckets that the record names, and those that have a record.
bool Buckets::IsGrantOfLocked(const GrantRecord& record, const std::map<std::string, Access>& wanted) const {
  if (record.all == wanted) {
    return true;
  }
  std::map<std::string, Access> present = record.all;
  std::erase_if(present, [&](const auto& one) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto bucket = known_.find(one.first);
    return bucket != known_.end() && bucket->second.was_read &&
           !bucket->second.grants.contains(record.account);
  });
  return present == wanted;
}

// The record of the account if there is one, which must be for the same request; else a new one.
Result<GrantRecord> Buckets::RecordFor(const GrantRequest& request) const {
  std::map<std::string, Access> wanted;
  for (const AccessedBucket& one : request.buckets) {
    if (!wanted.emplace(one.id, one.access).second) {
      return Error(Code::kInvalidArgument, fmt::format("buckets: {} is there twice", one.id));
    }
  }
  const MutexLock lock(mutex_);
  std::optional<GrantRecord> present;
  for (const auto& [id, known] : known_) {
    const auto found = known.grants.find(request.account);
    if (found == known.grants.end()) {
      continue;
    }
    if (!IsGrantOfLocked(found->second, wanted)) {
      return Error(Code::kAlreadyExists,
                   fmt::format("account '{}' exists with other buckets or other access", request.account));
    }
    present = *InForceLocked().at(request.account);
    present->all = wanted;  // a record that still names a revoked bucket is mended
  }
  if (!present.has_value() && inherited_.contains(request.account)) {
    return Error(Code::kUnavailable,
                 fmt::format("account '{}' has access to a bucket that was not read yet since the start: try "
                             "again",
                             request.account));
  }
  return present.has_value() ? std::move(*present)
                             : GrantRecord{.account = request.account,
                                           .secret = NewSecret(),
                                           .all = wanted,
                                           .granted = MillisecondsSince1970()};
}

Status Buckets::AddTo(const Known& known, const GrantRecord& record, const Call& call) {
  const std::string& name = known.settings.name;
  QUARRY_ASSIGN(const auto guard, locks_.Lock(BucketLock(name), call));
  const std::optional<Known> now = Find(known.volume.id);
  if (!now.has_value() || !now->linked) {
    return Error(Code::kUnavailable, fmt::format("bucket '{}' does not serve any more: try again", name));
  }
  QUARRY_ASSIGN(const BucketFolder opened, OpenBucket(now->volume, now->settings, call));
  const auto same = now->grants.find(record.account);
  if (same == now->grants.end() || same->second != record) {
    if (now->grants.size() >= kMostAccounts) {
      return Error(Code::kNoSpace, fmt::format("bucket '{}' has {} accounts, which is the most: revoke some",
                                               name, now->grants.size()));
    }
    QUARRY_TRY(Step(fmt::format("keep grant of {} in {}", record.account, name),
                    [&] { return opened.Keep(record); }));
    const MutexLock lock(mutex_);
    known_[known.volume.id].grants[record.account] = record;
    SettleConflictsLocked();
  }
  // Before the policy, which must not name an account that the gateway does not know.
  QUARRY_TRY(WriteUsers());
  return Step("set policy of " + name, [&] { return opened.SetPolicy(PolicyOf(known.volume.id, name)); });
}

Result<GrantResult> Buckets::Grant(const GrantRequest& request, const Call& call) {
  QUARRY_TRY(CheckAccountName(request.account));
  if (request.buckets.empty()) {
    return Error(Code::kInvalidArgument, "buckets: at least one is required");
  }
  QUARRY_ASSIGN(const auto guard, locks_.Lock(AccountLock(request.account), call));
  QUARRY_ASSIGN(const auto buckets, Serving(request, call));
  QUARRY_ASSIGN(GrantRecord record, RecordFor(request));
  GrantResult result{.account_id = request.account,
                     .access_key_id = request.account,
                     .secret_key = record.secret,
                     .buckets = {}};
  for (const Known& known : buckets) {
    record.access = record.all.at(known.volume.id);
    QUARRY_TRY(AddTo(known, record, call).Context(fmt::format("granting '{}'", known.settings.name)));
    const MutexLock lock(mutex_);
    result.buckets.push_back(DescribeLocked(known));
  }
  return result;
}

Status Buckets::RemoveFrom(const Known& known, const std::string& account, const Call& call) {
  const std::string& name = known.settings.name;
  const std::string& id = known.volume.id;
  QUARRY_ASSIGN(const auto guard, locks_.Lock(BucketLock(name), call));
  QUARRY_ASSIGN(const BucketFolder opened, OpenBucket(known.volume, known.settings, call));
  QUARRY_TRY(
      Step(fmt::format("forget grant of {} in {}", account, name), [&] { return opened.Forget(account); }));
  {
    const MutexLock lock(mutex_);
    known_[id].grants.erase(account);
    inherited_.erase(account);
    SettleConflictsLocked();
  }
  const Status policy = Step("set policy of " + name, [&] { return opened.SetPolicy(PolicyOf(id, name)); });
  QUARRY_TRY(WriteUsers());
  return policy;
}

// Of a bucket that no client reaches: its policy is derived from the record when it comes up. A record that
// cannot be written stays as it is, which IsGrantOfLocked allows for.
void Buckets::KeepQuietly(const Known& known, const GrantRecord& record, const Call& call) {
  const std::string& id = known.volume.id;
  const auto guard = locks_.Lock(BucketLock(known.settings.name), call);
  const std::optional<Known> now = Find(id);
  if (!guard.has_value() || !now.has_value() || now->silent || !now->grants.contains(record.account) ||
      !config_.is_mount_point(folder_.MountPoint(LvNameIn(id)))) {
    return;
  }
  const auto opened = OpenMounted(id, now->device);
  if (opened.has_value() && opened->Keep(record).has_value()) {
    const MutexLock lock(mutex_);
    known_[id].grants[record.account] = record;
  }
}

// The records that are left name all buckets of the account, so they change too.
Status Buckets::RewriteOthers(const std::string& account, const std::set<std::string>& revoked,
                              const Call& call) {
  std::map<std::string, GrantRecord> left;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, known] : known_) {
      if (const auto found = known.grants.find(account);
          found != known.grants.end() && !revoked.contains(id)) {
        left[id] = found->second;
      }
    }
  }
  for (auto& [id, record] : left) {
    if (std::erase_if(record.all, [&](const auto& one) { return revoked.contains(one.first); }) > 0) {
      const std::optional<Known> known = Find(id);
      if (known.has_value() && known->linked) {
        QUARRY_TRY(AddTo(*known, record, call));
      } else if (known.has_value()) {
        KeepQuietly(*known, record, call);
      }
    }
  }
  return Ok();
}

Status Buckets::RevokeOne(const std::string& account, const std::string& id, const Call& call) {
  const auto volume = Volume(id, call);
  if (!volume.has_value() && volume.error().code() == Code::kNotFound) {
    // An id of another node, or of a pool that is not configured, is not proven to be gone.
    return engine_.bucket_volumes().ProveGone(id, call);
  }
  QUARRY_TRY(volume.has_value() ? Ok() : Status(volume.error()));
  const std::optional<Known> known = Find(id);
  if (!known.has_value() || !config_.is_mount_point(folder_.MountPoint(LvNameIn(id)))) {
    // Its record is out of reach, and would be in force again with the bucket.
    return Error(Code::kUnavailable,
                 fmt::format("bucket {} cannot be read now, so access to it cannot be revoked: {}", id,
                             known.has_value() ? known->problem : "it is being mounted"));
  }
  if (known->silent) {  // this call would hang, and the account's other buckets would wait for it
    return Error(
        Code::kUnavailable,
        fmt::format("bucket {} does not answer, so access to it cannot be revoked: {}", id, known->problem));
  }
  Status removed = RemoveFrom(*known, account, call);
  if (!removed.has_value() && !known->linked) {
    removed = std::move(removed.error()).As(Code::kUnavailable);
  }
  return std::move(removed).Context(fmt::format("revoking '{}'", known->settings.name));
}

Status Buckets::Revoke(const std::string& account_id, const std::vector<std::string>& bucket_ids,
                       const Call& call) {
  if (!CheckAccountName(account_id).has_value()) {
    return Ok();  // no account was ever called so
  }
  QUARRY_ASSIGN(const auto guard, locks_.Lock(AccountLock(account_id), call));
  // A bucket that is out of reach keeps no other from being revoked.
  Status first;
  std::set<std::string> revoked;
  for (const std::string& id : bucket_ids) {
    if (Status one = RevokeOne(account_id, id, call); one.has_value()) {
      revoked.insert(id);
    } else if (first.has_value()) {
      first = std::move(one);
    }
  }
  QUARRY_TRY(RewriteOthers(account_id, revoked, call));
  return first;
}

}  // namespace quarry::bucket
