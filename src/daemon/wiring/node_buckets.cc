#include "daemon/wiring/node_buckets.h"

#include <pwd.h>

#include <array>

#include <fmt/format.h>

#include "bucket/disk_touch.h"
#include "bucket/files.h"
#include "bucket/gateway_probe.h"

namespace quarry::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kProbePatience{2000};
constexpr milliseconds kSoon{1000};  // while a bucket or the gateway does not serve
constexpr milliseconds kInterval{5000};
constexpr std::chrono::minutes kRoundLimit{10};
constexpr const char* kSpare = "/var/lib/quarry/s3-root";

Result<bucket::Owner> UserOf(const std::string& name) {
  std::array<char, 16384> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  const int error = getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (error != 0) {
    return ErrnoError(fmt::format("--s3-user: looking for user '{}'", name), error);
  }
  if (found == nullptr) {
    return Error(
        Code::kPrecondition,
        fmt::format("--s3-user: there is no user '{}': make one (useradd --system {}), or name another", name,
                    name));
  }
  if (found->pw_uid == 0) {
    return Error(Code::kPrecondition, "--s3-user: the gateway must not run as root");
  }
  return bucket::Owner{found->pw_uid, found->pw_gid};
}

}  // namespace

Result<std::unique_ptr<bucket::Buckets>> MakeBuckets(const Options& options, engine::Engine& engine,
                                                     const Logger& log, engine::StepWatcher* steps) {
  const BucketOptions& own = options.buckets;
  QUARRY_ASSIGN(const bucket::Owner gateway, UserOf(own.user));
  QUARRY_ASSIGN(AbsolutePath folder, AbsolutePath::Parse(options.state_dir + "/s3"));
  return bucket::Buckets::Make(
      {.folder = std::move(folder),
       .spare = *AbsolutePath::Parse(kSpare),
       .gateway = gateway,
       .settings = {.listen = own.listen,
                    .region = own.region,
                    .certificate = own.certificate.has_value() ? own.certificate->str() : "",
                    .key = own.key.has_value() ? own.key->str() : ""},
       .url = own.url,
       .probe =
           [listen = own.listen, tls = own.certificate.has_value()] {
             return bucket::ProbeGateway(listen, tls, kProbePatience);
           },
       .is_mount_point = &bucket::IsMountPoint,
       .prove_mount = &bucket::ProveMount,
       .touch_disk = &bucket::TouchDisk,
       .steps = steps},
      engine, log);
}

std::jthread KeepBuckets(bucket::Buckets& buckets) {
  return std::jthread([&buckets](const std::stop_token& stop) {
    bool all = false;
    do {
      all = buckets.Round(Call{std::chrono::steady_clock::now() + kRoundLimit, stop});
    } while (Sleep(stop, all ? kInterval : kSoon));
  });
}

std::jthread CountRequests(bucket::Buckets& buckets) {
  return std::jthread([&buckets](const std::stop_token& stop) { buckets.TakeReports(stop); });
}

}  // namespace quarry::daemon
