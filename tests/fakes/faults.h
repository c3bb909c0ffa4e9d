// Injected faults for fakes: the n-th call of a method fails.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quarry::fakes {

// Thread-safe. Methods are named as in the interface: "Mount", "Open".
class Faults {
 public:
  // The n-th call of `method` from now on (1: the next one) fails with `error`, once.
  void FailNth(const std::string& method, int n, Error error) {
    const std::lock_guard lock(mutex_);
    planned_.push_back({method, calls_[method] + n, std::move(error), false});
  }
  // Every call of `method` fails until Clear().
  void FailAlways(const std::string& method, Error error) {
    const std::lock_guard lock(mutex_);
    planned_.push_back({method, 0, std::move(error), true});
  }
  void Clear() {
    const std::lock_guard lock(mutex_);
    planned_.clear();
  }
  // How often `method` was called so far, failures included.
  int Calls(const std::string& method) const {
    const std::lock_guard lock(mutex_);
    const auto it = calls_.find(method);
    return it == calls_.end() ? 0 : it->second;
  }

  // For the fakes: counts the call, and returns its fault if one is due.
  Status Check(const std::string& method) {
    const std::lock_guard lock(mutex_);
    const int call = ++calls_[method];
    for (auto it = planned_.begin(); it != planned_.end(); ++it) {
      if (it->method == method && (it->always || it->call == call)) {
        Error error = it->error;
        if (!it->always) {
          planned_.erase(it);
        }
        return error;
      }
    }
    return Ok();
  }

 private:
  struct Planned {
    std::string method;
    int call;
    Error error;
    bool always;
  };
  mutable std::mutex mutex_;
  std::map<std::string, int> calls_;
  std::vector<Planned> planned_;
};

}  // namespace quarry::fakes
