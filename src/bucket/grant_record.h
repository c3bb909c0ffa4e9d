// An account's access to one bucket, as a file on that bucket's volume keeps it. The file is the truth; what
// the gateway reads is derived from it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bucket/bucket_api.h"

namespace quarry::bucket {

struct GrantRecord {
  std::string account;
  std::string secret;  // never logged
  Access access = Access::kReadWrite;
  // All buckets of the account with its access to each, by id. So a repeated grant is recognized.
  std::map<std::string, Access> all = {};
  int64_t granted = 0;  // when the secret was made, in milliseconds since 1970; 0: by an earlier version
  bool operator==(const GrantRecord&) const = default;
};

std::string_view AccessWord(Access access);  // "rw", "ro", "wo"

std::string ToText(const GrantRecord& record);
// kCorrupt never contains the text.
Result<GrantRecord> ParseGrant(std::string_view text);

// 48 random hexadecimal digits.
std::string NewSecret();

// The content of users.json, versitygw's file of accounts: secrets by account. (tests/gateway has the
// format.)
std::string UsersText(const std::map<std::string, std::string>& secrets);

// The secrets in such a text. Empty for a text that is none.
std::map<std::string, std::string> SecretsIn(std::string_view users);

// The value of `user.policy` of a bucket's data/: what each account may do, and nobody else. No account may
// use keys below .sgwtmp/, where the gateway keeps unfinished uploads and which it hides in listings.
std::string PolicyText(std::string_view bucket, const std::vector<Account>& accounts);

}  // namespace quarry::bucket
