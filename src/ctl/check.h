// `quarryctl check`: the state of a node as a monitoring plugin reports it. The exit statuses and the text
// are those of the Monitoring Plugins' guidelines, which Nagios, Icinga, Sensu and others understand.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <quarry/admin/v1/admin.pb.h>

#include "base/result.h"
#include "base/units.h"

namespace quarry::ctl {

// The values are the exit statuses. kUnknown: the state could not be asked for.
enum class CheckStatus { kOk = 0, kWarning = 1, kCritical = 2, kUnknown = 3 };
std::string_view CheckStatusName(CheckStatus status);  // "OK", "WARNING", "CRITICAL", "UNKNOWN"

// The free space below which a pool is reported. A size of 0 is never reported.
struct FreeLimit {
  bool is_percent = false;
  double percent = 0;  // of the pool's size
  Bytes size;          // unless is_percent

  // In bytes, for a pool of this size. Pure.
  Bytes In(Bytes pool_size) const;
};
// "10%" or "50GiB". kInvalidArgument: anything else. Pure.
Result<FreeLimit> ParseFreeLimit(std::string_view text);

// The limits of every pool, and of pools that have their own.
class FreeLimits {
 public:
  // `words`: "10%", or "POOL=10%" for one pool. `usual` is for the pools that no word is about. Pure.
  static Result<FreeLimits> Parse(const std::vector<std::string>& words, std::string_view usual);
  FreeLimit Of(const std::string& pool) const;
  // A pool that has limits of its own and is none of the node's; empty if there is none.
  std::string Unknown(const quarry::admin::v1::GetStatusResponse& status) const;

 private:
  FreeLimit usual_;
  std::map<std::string, FreeLimit> own_;  // by pool
};

struct CheckLimits {
  FreeLimits warning, critical;
};

struct Problem {
  CheckStatus status = CheckStatus::kWarning;
  std::string kind;      // "pool", "disk", "store", "volume", "space", "metadata", "quarryd"
  std::string pool, id;  // `id`: UUID of the physical volume, or id of the volume or store; may be empty
  std::string text;      // what is wrong, for people
  std::string remedy;
};

// What the plugin reports.
struct CheckReport {
  CheckStatus status = CheckStatus::kOk;
  std::vector<Problem> problems;  // the worst first
  std::string summary;            // of a node without problems
  std::string figures;            // performance data; empty: none
};

// Judges the state of the node. Pure except for the names of disks, as in StatusPage.
CheckReport Check(const quarry::admin::v1::GetStatusResponse& status, const CheckLimits& limits);
// Reports that the state could not be asked for: kCritical if no quarryd answers, otherwise kUnknown.
// `permitted`: whether this process may use the socket. Pure.
CheckReport CheckFailed(const Error& error, bool permitted);

// One line with the worst problem and the figures, then one line for each problem. Pure.
std::string CheckText(const CheckReport& report);
std::string CheckJson(const CheckReport& report);

}  // namespace quarry::ctl
