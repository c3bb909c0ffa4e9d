// quarry-cosi-call SOCKET VERSION CALL…: one call of COSI, for tests in which something else plays the
// client:
//   create NAME [KEY=VALUE…]     existing ID [KEY=VALUE…]     delete ID
//   grant ACCOUNT ID[=ro]…       revoke ACCOUNT ID…
// Prints what the sidecar makes of the answer, a line for each: the ids that it records, and the keys of the
// Secret that pods get. They are those of v1alpha2's sidecar. A call that is refused ends with status 1; the
// code and the message are on standard error.
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "tests/cosi/driver.h"

namespace quarry::cosi_check {
namespace {

using Words = std::vector<std::string>;

Map ParametersIn(const Words& words, size_t first) {
  Map out;
  for (size_t i = first; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    out[words[i].substr(0, equals)] = equals == std::string::npos ? "" : words[i].substr(equals + 1);
  }
  return out;
}

void Print(const std::string& key, const std::string& value) {
  std::cout << fmt::format("{}={}\n", key, value);
}

// A Secret names one bucket. An access to several buckets is one Secret for each, with the same keys.
void PrintSecret(const Granted& granted, const std::string& bucket, const Reach& reach) {
  Print("BUCKET", bucket);
  Print("COSI_PROTOCOL", reach.s3 ? "S3" : "");
  Print("COSI_S3_BUCKET_ID", reach.bucket);
  Print("COSI_S3_ENDPOINT", reach.endpoint);
  Print("COSI_S3_REGION", reach.region);
  Print("COSI_S3_ADDRESSING_STYLE", reach.style);
  Print("COSI_S3_ACCESS_KEY_ID", granted.access_key);
  Print("COSI_S3_ACCESS_SECRET_KEY", granted.secret_key);
}

grpc::Status Run(Driver& driver, const Words& words) {
  const std::string& call = words[0];
  if (call == "create" || call == "existing") {
    Created out;
    const auto status = call == "create"
                            ? driver.Create({.name = words[1], .parameters = ParametersIn(words, 2)}, out)
                            : driver.GetExisting({.id = words[1], .parameters = ParametersIn(words, 2)}, out);
    if (status.ok()) {
      Print("BUCKET", out.id);
    }
    return status;
  }
  if (call == "delete") {
    return driver.Delete(words[1]);
  }
  if (call == "grant") {
    GrantWish wish{.name = words[1], .buckets = {}};
    for (const auto& [id, access] : ParametersIn(words, 2)) {
      wish.buckets.push_back({.id = id, .mode = access == "ro" ? kReadOnly : kReadWrite});
    }
    Granted out;
    const auto status = driver.Grant(wish, out);
    if (status.ok()) {
      Print("ACCOUNT", out.account);
      for (const auto& [bucket, reach] : out.buckets) {
        PrintSecret(out, bucket, reach);
      }
    }
    return status;
  }
  if (call == "revoke") {
    return driver.Revoke({.account = words[1], .buckets = {words.begin() + 2, words.end()}});
  }
  return {grpc::StatusCode::UNIMPLEMENTED, "no such call: " + call};
}

}  // namespace
}  // namespace quarry::cosi_check

int main(int argc, char** argv) {
  using namespace quarry::cosi_check;
  constexpr int kLeast = 5;
  const std::string version = argc < kLeast ? "" : argv[2];
  if (version != "v1alpha1" && version != "v1alpha2") {
    std::cerr
        << "usage: quarry-cosi-call SOCKET v1alpha1|v1alpha2 create|existing|delete|grant|revoke NAME…\n";
    return 2;
  }
  const auto channel =
      grpc::CreateChannel(std::string("unix:") + argv[1], grpc::InsecureChannelCredentials());
  const auto driver = version == "v1alpha1" ? MakeV1alpha1(channel) : MakeV1alpha2(channel);
  const grpc::Status status = Run(*driver, {argv + 3, argv + argc});
  if (!status.ok()) {
    std::cerr << fmt::format("{} {}\n", static_cast<int>(status.error_code()), status.error_message());
    return 1;
  }
  return 0;
}
