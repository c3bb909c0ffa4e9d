#include "bucket/names.h"

#include <arpa/inet.h>

#include <algorithm>

#include <fmt/format.h>

namespace quarry::bucket {
namespace {

constexpr std::string_view kPrefix = "s3:";
constexpr size_t kLeastName = 3;
constexpr size_t kMostName = 63;
constexpr size_t kMostAccount = 128;

bool IsLower(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool IsAddress(std::string_view name) {
  in_addr address{};
  return inet_pton(AF_INET, std::string(name).c_str(), &address) == 1;
}

}  // namespace

Status CheckBucketName(std::string_view name) {
  const auto refuse = [&](std::string_view why) {
    return Error(Code::kInvalidArgument, fmt::format("name: '{}' is no name of a bucket: {}", name, why));
  };
  if (name.size() < kLeastName || name.size() > kMostName) {
    return refuse("S3 wants 3 to 63 characters");
  }
  if (!std::ranges::all_of(name, [](char c) { return IsLower(c) || c == '.' || c == '-'; })) {
    return refuse("S3 allows a-z, 0-9, '.' and '-' only");
  }
  if (!IsLower(name.front()) || !IsLower(name.back())) {
    return refuse("it must begin and end with a letter or digit");
  }
  if (name.find("..") != std::string_view::npos) {
    return refuse("it must not contain '..'");
  }
  if (IsAddress(name)) {
    return refuse("it must not be an IPv4 address");
  }
  // Amazon reserves these; clients treat such buckets in special ways.
  if (name.starts_with("xn--") || name.starts_with("sthree-") || name.ends_with("-s3alias") ||
      name.ends_with("--ol-s3")) {
    return refuse(
        "S3 reserves names that begin with 'xn--' or 'sthree-', or end with '-s3alias' or '--ol-s3'");
  }
  return Ok();
}

Status CheckAccountName(std::string_view name) {
  const auto refuse = [&](std::string_view why) {
    return Error(Code::kInvalidArgument, fmt::format("name: '{}' is no name of an account: {}", name, why));
  };
  if (name.empty() || name.size() > kMostAccount) {
    return refuse("1 to 128 characters are allowed");
  }
  const auto is_alnum = [](char c) { return IsLower(c) || (c >= 'A' && c <= 'Z'); };
  if (!is_alnum(name.front()) ||
      !std::ranges::all_of(name, [&](char c) { return is_alnum(c) || c == '.' || c == '-' || c == '_'; })) {
    return refuse(
        "it is an access key id: A-Z, a-z, 0-9, '.', '-' and '_', beginning with a letter or digit");
  }
  return name == kOwner ? refuse("it is the owner of all buckets") : Status();
}

std::string VolumeNameOf(std::string_view bucket) {
  return fmt::format("{}{}", kPrefix, bucket);
}

std::string BucketNameIn(std::string_view volume_name) {
  return std::string(volume_name.starts_with(kPrefix) ? volume_name.substr(kPrefix.size()) : volume_name);
}

std::string LvNameIn(std::string_view volume_id) {
  return std::string(volume_id.substr(volume_id.rfind('.') + 1));
}

}  // namespace quarry::bucket
