// A COSI driver as its callers see it, in terms that both versions of the interface share. What a version
// cannot say is left out of its requests, and empty in its answers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

namespace quarry::cosi_check {

using Map = std::map<std::string, std::string>;

// Numbers of v1alpha2's enumerations. Any other number can be sent too.
inline constexpr int kUnknown = 0, kS3 = 1, kAzure = 2;
inline constexpr int kKey = 1, kServiceAccount = 2;
inline constexpr int kReadWrite = 1, kReadOnly = 2;

struct Info {
  std::string name;
  std::vector<int> protocols;  // v1alpha2
};

// How S3 clients reach a bucket. `others`: protocols that are claimed beside S3.
struct Reach {
  bool s3 = false;
  std::string bucket, endpoint, region;
  std::string style = {};  // v1alpha2: "path" or "virtual"; empty: unknown
  bool knows_how = false;  // v1alpha1: signature version 4; v1alpha2: an addressing style
  std::vector<std::string> others;
};

struct CreateWish {
  std::string name;
  Map parameters;
  std::vector<int> protocols = {};  // v1alpha2
};

struct Created {
  std::string id;
  Reach reach;
};

struct ExistingWish {
  std::string id;
  std::vector<int> protocols = {kS3};
  Map parameters = {};
};

struct GrantWish {
  struct Bucket {
    std::string id;
    int mode = kReadWrite;
  };
  std::string name;
  std::vector<Bucket> buckets;  // v1alpha1 sends the first one
  Map parameters = {};
  int authentication = kKey;
  int protocol = kS3;  // v1alpha2
};

struct Granted {
  std::string account;
  std::string access_key, secret_key;
  std::map<std::string, Reach> buckets;
  std::vector<std::string> kinds;  // protocols of the credentials: "s3"
};

struct RevokeWish {
  std::string account;
  std::vector<std::string> buckets;
};

class Driver {
 public:
  virtual ~Driver() = default;
  virtual std::string version() const = 0;
  virtual grpc::Status GetInfo(Info& out) = 0;
  virtual grpc::Status Create(const CreateWish& wish, Created& out) = 0;
  virtual grpc::Status Delete(const std::string& id) = 0;
  virtual grpc::Status Grant(const GrantWish& wish, Granted& out) = 0;
  virtual grpc::Status Revoke(const RevokeWish& wish) = 0;
  // Only in v1alpha2.
  virtual grpc::Status GetExisting(const ExistingWish& wish, Created& out) = 0;
};

std::unique_ptr<Driver> MakeV1alpha1(const std::shared_ptr<grpc::Channel>& channel);
std::unique_ptr<Driver> MakeV1alpha2(const std::shared_ptr<grpc::Channel>& channel);

}  // namespace quarry::cosi_check
