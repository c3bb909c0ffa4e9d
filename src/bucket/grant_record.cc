#include "bucket/grant_record.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bucket/names.h"

namespace quarry::bucket {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;
constexpr size_t kSecretBytes = 24;

std::optional<Access> ParseAccess(const json& word) {
  for (const Access access : {Access::kReadWrite, Access::kReadOnly, Access::kWriteOnly}) {
    if (word == AccessWord(access)) {
      return access;
    }
  }
  return std::nullopt;
}

std::vector<std::string> Actions(Access access) {
  const std::vector<std::string> read = {"s3:GetObject", "s3:ListBucket", "s3:GetBucketLocation"};
  const std::vector<std::string> put = {"s3:PutObject", "s3:AbortMultipartUpload",
                                        "s3:ListMultipartUploadParts"};
  switch (access) {
    case Access::kReadOnly:
      return read;
    case Access::kWriteOnly:
      return put;
    case Access::kReadWrite:
      break;
  }
  std::vector<std::string> all = read;
  all.insert(all.end(), put.begin(), put.end());
  all.insert(all.end(), {"s3:DeleteObject", "s3:ListBucketMultipartUploads"});
  return all;
}

}  // namespace

std::string_view AccessWord(Access access) {
  switch (access) {
    case Access::kReadWrite:
      return "rw";
    case Access::kReadOnly:
      return "ro";
    case Access::kWriteOnly:
      return "wo";
  }
  return "";
}

std::string ToText(const GrantRecord& record) {
  json all = json::object();
  for (const auto& [id, access] : record.all) {
    all[id] = AccessWord(access);
  }
  return json{{"version", kVersion},     {"account", record.account},
              {"secret", record.secret}, {"access", AccessWord(record.access)},
              {"buckets", all},          {"granted", record.granted}}
             .dump() +
         "\n";
}

Result<GrantRecord> ParseGrant(std::string_view text) {
  const json read = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto field = [&read](const char* key) {
    return read.is_object() && read.contains(key) ? read[key] : json();
  };
  const auto corrupt = [](std::string_view what) {
    return Error(Code::kCorrupt, fmt::format("the record of an account: {}", what));
  };
  if (field("version") != kVersion) {
    return corrupt("its version is not known to this build");
  }
  const std::optional<Access> access = ParseAccess(field("access"));
  if (!field("account").is_string() || !field("secret").is_string() || !field("buckets").is_object() ||
      !access.has_value()) {
    return corrupt("a field is missing or wrong");
  }
  GrantRecord out{.account = field("account").get<std::string>(),
                  .secret = field("secret").get<std::string>(),
                  .access = *access,
                  .granted = field("granted").is_number_integer() ? field("granted").get<int64_t>() : 0};
  const json all = field("buckets");
  for (const auto& [id, word] : all.items()) {
    const std::optional<Access> one = ParseAccess(word);
    if (!one.has_value()) {
      return corrupt("a bucket's access is wrong");
    }
    out.all[id] = *one;
  }
  if (out.secret.empty() || !CheckAccountName(out.account).has_value()) {
    return corrupt("it has no secret, or no name");
  }
  return out;
}

std::string NewSecret() {
  std::array<unsigned char, kSecretBytes> random{};
  while (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    if (errno != EINTR) {
      std::abort();  // a guessable secret would be worse than no daemon
    }
  }
  std::string out;
  for (const unsigned char byte : random) {
    out += fmt::format("{:02x}", byte);
  }
  return out;
}

std::string UsersText(const std::map<std::string, std::string>& secrets) {
  json users = json::object();
  for (const auto& [name, secret] : secrets) {
    users[name] = {{"access", name}, {"secret", secret}, {"role", "user"},
                   {"userID", 0},    {"groupID", 0},     {"projectID", 0}};
  }
  return json{{"accessAccounts", users}}.dump();
}

std::map<std::string, std::string> SecretsIn(std::string_view users) {
  std::map<std::string, std::string> out;
  const json read = json::parse(users, nullptr, /*allow_exceptions=*/false);
  if (!read.is_object() || !read.contains("accessAccounts")) {
    return out;
  }
  for (const auto& [name, user] : read["accessAccounts"].items()) {
    if (user.is_object() && user.contains("secret") && user["secret"].is_string()) {
      out[name] = user["secret"].get<std::string>();
    }
  }
  return out;
}

std::string PolicyText(std::string_view bucket, const std::vector<Account>& accounts) {
  const std::string here = fmt::format("arn:aws:s3:::{}", bucket);
  json statements = json::array();
  statements.push_back(
      {{"Effect", "Deny"}, {"Principal", "*"}, {"Action", "s3:*"}, {"Resource", here + "/.sgwtmp/*"}});
  for (const Access access : {Access::kReadWrite, Access::kReadOnly, Access::kWriteOnly}) {
    json names = json::array();
    for (const Account& account : accounts) {
      if (account.access == access) {
        names.push_back(account.id);
      }
    }
    if (!names.empty()) {
      statements.push_back({{"Effect", "Allow"},
                            {"Principal", {{"AWS", names}}},
                            {"Action", Actions(access)},
                            {"Resource", {here, here + "/*"}}});
    }
  }
  return json{{"Version", "2012-10-17"}, {"Statement", statements}}.dump();
}

}  // namespace quarry::bucket
