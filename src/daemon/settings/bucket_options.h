// The settings of buckets.
#pragma once

#include <optional>
#include <string>

#include "base/path.h"
#include "base/result.h"

namespace quarry::daemon {

struct BucketOptions {
  std::string listen;  // of the gateway, "127.0.0.1:7070"; empty: no buckets
  std::string url;     // what clients are told; set by every successful Load if `listen` is
  std::string region = "us-east-1";
  std::optional<AbsolutePath> certificate, key;  // of TLS: both or none
  std::string user = "quarry-s3";                // the gateway's
  std::optional<AbsolutePath> cosi_endpoint;     // nullopt: no COSI
  std::string cosi_driver_name;                  // set by every successful Load if `cosi_endpoint` is

  bool on() const { return !listen.empty(); }
};

Result<std::string> ParseS3Listen(std::string_view text);
Result<std::string> ParseS3Url(std::string_view text);
Result<std::string> ParseS3Word(std::string_view text);  // of a region or a user
// The name of a COSI driver: at most 63 characters, labels of a-z, 0-9 and "-" that begin with a letter.
Result<std::string> ParseCosiDriverName(std::string_view text);

// Fills in what depends on other settings. kInvalidArgument names the setting.
Status CompleteBuckets(BucketOptions& options, const std::string& node);

}  // namespace quarry::daemon
