// The calls of quarryd with their steps, as a table, as a page of one call each, and as JSON. Pure.
#pragma once

#include <chrono>
#include <string>

#include <quarry/admin/v1/admin.pb.h>

namespace quarry::ctl {

// Which calls are shown. A call must meet every condition that is set.
struct CallFilter {
  std::string id;                     // a trace id or its beginning, or a volume's id; empty: any
  std::chrono::milliseconds slow{0};  // calls that took at least this long
};

// The calls that meet the filter, in the same order.
admin::v1::ListCallsResponse Filtered(const admin::v1::ListCallsResponse& calls, const CallFilter& filter);

// One line for each call, with its longest step.
std::string DrawCalls(const admin::v1::ListCallsResponse& calls);
// Each call with all its steps. A step that lies within another one is indented.
std::string DrawSteps(const admin::v1::ListCallsResponse& calls);

}  // namespace quarry::ctl
