// The life of buckets: volumes with XFS that one S3 gateway of this node serves. Every call is idempotent and
// keeps its deadline; the next start finishes or undoes what a call left unfinished. The truth is in LVM tags
// and in files on each bucket's own volume. The terms are those of COSI (Container Object Storage Interface).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"

namespace quarry::bucket {

enum class Access { kReadWrite, kReadOnly, kWriteOnly };

// Where clients find the gateway.
struct Endpoint {
  std::string url;     // "https://edge1:7070"
  std::string region;  // "us-east-1"
};

struct Account {
  std::string id;  // also its access key id
  Access access = Access::kReadWrite;
};

// What is in a bucket, as of a moment ago.
struct Content {
  Bytes used, available;  // of its file system
  uint64_t objects = 0;
};

struct Bucket {
  std::string id;    // of its volume
  std::string name;  // as S3 clients see it
  Bytes size;        // of its volume
  std::string pool;
  std::string type;                     // the volume type: "raid1"
  bool serving = false;                 // clients reach it
  std::string problem;                  // why it does not serve, or what ails it; may be empty
  std::vector<Account> accounts = {};   // by id; only List() and Find() fill it
  std::optional<Content> content = {};  // only List() and Find() fill it, if the bucket can be read
};

using Parameters = std::map<std::string, std::string>;

struct CreateRequest {
  std::string name;
  // Those of a volume (type, pool, mirrors, erase …), and: size (required), ondelete=refuse|erase,
  // durability=sync|relaxed, uploadttl.
  Parameters parameters;
};

struct CreateResult {
  Bucket bucket;
  bool created = false;  // false: it already existed
};

struct AccessedBucket {
  std::string id;
  Access access = Access::kReadWrite;
};

struct GrantRequest {
  std::string account;                  // the name that the caller chose
  std::vector<AccessedBucket> buckets;  // at least one; no bucket twice
};

struct GrantResult {
  std::string account_id;
  std::string access_key_id;
  std::string secret_key;  // never logged
  std::vector<Bucket> buckets;
};

// All methods may be called from any thread.
class BucketApi {
 public:
  virtual ~BucketApi() = default;

  virtual Endpoint endpoint() const = 0;

  // Returns once the gateway serves the bucket. Making it takes longer than some callers wait: kUnavailable
  // then says how far it is, and a repeated call joins in. kInvalidArgument names the field or parameter.
  // kAlreadyExists: a bucket of this name has other parameters, or something that is not ours has the name.
  // The size of a repeated request is that of the first one, or the present one of a bucket that has grown.
  // kNoSpace: the pool has no room for it.
  virtual Result<CreateResult> Create(const CreateRequest& request, const Call& call) = 0;

  // kNotFound: there is no such bucket. kUnavailable: its pool cannot be read, so nobody knows.
  virtual Result<Bucket> Find(const std::string& id, const Call& call) = 0;
  // OK if the bucket has these parameters, which are those of Create. It may have any value for a parameter
  // that is not named. kInvalidArgument names a parameter that does not exist, or that the bucket has with
  // another value. Other errors as Find.
  virtual Status Compare(const std::string& id, const Parameters& parameters, const Call& call) = 0;
  virtual Result<std::vector<Bucket>> List(const Call& call) = 0;

  // OK as well if there is no such bucket. kPrecondition, for a bucket with ondelete=refuse: it has objects,
  // and how many. OK means that no client reaches it any more; its bytes are erased as those of a volume.
  virtual Status Delete(const std::string& id, const Call& call) = 0;
  // Deletes a bucket that its disks do not give: too many are missing, or LVM refuses to take them back, or
  // reading gives errors. It is not looked into for objects, whatever ondelete says. OK as well if there is
  // no such bucket. kPrecondition: it can be read. kUnavailable: a disk is being taken back, or does not
  // answer. The parts on a missing disk are erased if the disk returns in time.
  virtual Status DeleteLost(const std::string& id, const Call& call) = 0;

  // The same request gives the same answer, with the same secret. kAlreadyExists: the account exists with
  // other buckets or other access. kNotFound: no such bucket.
  virtual Result<GrantResult> Grant(const GrantRequest& request, const Call& call) = 0;

  // The account loses these buckets, in force at the gateway's next request; an account without buckets ends.
  // OK as well for an account or a bucket that does not exist.
  virtual Status Revoke(const std::string& account_id, const std::vector<std::string>& bucket_ids,
                        const Call& call) = 0;

  // Grows the volume and its file system while the bucket serves. `size` is the new size; one that is not
  // larger changes nothing. Returns the size.
  virtual Result<Bytes> Grow(const std::string& id, Bytes size, const Call& call) = 0;
};

}  // namespace quarry::bucket
