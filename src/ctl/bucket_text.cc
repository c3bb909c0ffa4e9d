#include "ctl/bucket_text.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "ctl/json_text.h"

namespace quarry::ctl {
namespace {

namespace pb = ::quarry::admin::v1;
using Cells = std::array<std::string, 7>;

std::string Size(int64_t bytes) {
  return HumanBytes(Bytes{static_cast<uint64_t>(bytes)});
}

std::string Accounts(const pb::Bucket& bucket) {
  std::vector<std::string> out;
  for (const auto& account : bucket.accounts()) {
    out.push_back(fmt::format("{} ({})", account.account_id(), account.access()));
  }
  return fmt::format("{}", fmt::join(out, ", "));
}

Cells Line(const pb::Bucket& bucket) {
  const bool known = bucket.has_content();
  return {bucket.name(),
          Size(bucket.size_bytes()),
          bucket.type(),
          known ? Size(bucket.content().used_bytes()) : "",
          known ? fmt::format("{}", bucket.content().objects()) : "",
          bucket.serving() ? "serving" : "absent",
          Accounts(bucket)};
}

std::string Draw(const std::vector<Cells>& lines) {
  std::array<size_t, std::tuple_size_v<Cells>> widths{};
  for (const Cells& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      widths[i] = std::max(widths[i], line[i].size());
    }
  }
  std::string text;
  for (const Cells& line : lines) {
    std::string drawn;
    for (size_t i = 0; i < line.size(); ++i) {
      drawn += fmt::format("{:<{}}  ", line[i], widths[i]);
    }
    text += drawn.substr(0, drawn.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

std::string BucketTable(const pb::ListBucketsResponse& list) {
  if (list.buckets().empty()) {
    return "there are no buckets\n";
  }
  std::vector<Cells> lines = {{"NAME", "SIZE", "TYPE", "USED", "OBJECTS", "STATE", "ACCOUNTS"}};
  std::string problems;
  for (const pb::Bucket& bucket : list.buckets()) {
    lines.push_back(Line(bucket));
    problems +=
        bucket.problem().empty() ? "" : fmt::format("bucket '{}': {}\n", bucket.name(), bucket.problem());
  }
  std::sort(lines.begin() + 1, lines.end());
  return Draw(lines) + problems;
}

std::string BucketListJson(const pb::ListBucketsResponse& list) {
  return JsonLine(AsJson(list));
}

std::string GrantText(const pb::GrantBucketResponse& granted) {
  std::vector<std::string> names;
  for (const pb::Bucket& bucket : granted.buckets()) {
    names.push_back(bucket.name());
  }
  return fmt::format(
      "bucket{} {} at {}\n"
      "AWS_ENDPOINT_URL={}\n"
      "AWS_DEFAULT_REGION={}\n"
      "AWS_ACCESS_KEY_ID={}\n"
      "AWS_SECRET_ACCESS_KEY={}\n",
      names.size() == 1 ? "" : "s", fmt::join(names, ", "), granted.url(), granted.url(), granted.region(),
      granted.access_key_id(), granted.secret_access_key());
}

std::string GrantJson(const pb::GrantBucketResponse& granted) {
  return JsonLine(AsJson(granted));
}

std::string BucketJson(const pb::Bucket& bucket) {
  return JsonLine(AsJson(bucket));
}

std::string BucketSummary(const pb::Bucket& bucket) {
  return fmt::format("{} ({} {}{})", bucket.name(), Size(bucket.size_bytes()), bucket.type(),
                     bucket.has_content() ? fmt::format(", {} object{}", bucket.content().objects(),
                                                        bucket.content().objects() == 1 ? "" : "s")
                                          : "");
}

}  // namespace quarry::ctl
