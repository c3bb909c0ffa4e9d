// The rules of COSI as checks on a driver: what its specification and its callers, the sidecars, rely on.
#pragma once

#include <string>
#include <vector>

#include "tests/cosi/driver.h"

namespace quarry::cosi_check {

struct Settings {
  Map parameters;        // of a bucket that can be made
  Map other_parameters;  // of another one: a bucket cannot have both
  // The same as `parameters`, but of a smaller bucket. Empty: nothing is checked about it.
  Map smaller_parameters;
  std::string prefix;  // of the names that are used; no bucket's name begins with it
};

struct Finding {
  std::string rule;     // "create.repeats"
  std::string problem;  // empty: the driver keeps it
};

// Checks every rule of the driver's version, one after the other. What the checks make is deleted again, as
// far as the driver lets them. An error that a later call may not meet (UNAVAILABLE, ABORTED) is waited out
// for two minutes.
std::vector<Finding> CheckRules(Driver& driver, const Settings& settings);

}  // namespace quarry::cosi_check
