// Requests that are repeated while quarryd is busy, restarts, or still works on an earlier one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/call.h"
#include "base/result.h"
#include "ctl/ask.h"

namespace quarry::ctl {

inline constexpr std::chrono::seconds kPause{1};
// How long quarryd may work on one request before it says how far it is.
inline constexpr std::chrono::seconds kTurn{60};

inline bool EndsByItself(const Error& error) {
  return error.code() == Code::kUnavailable || error.code() == Code::kBusy || error.code() == Code::kTimeout;
}

// Repeats `ask` until it succeeds, fails for good, or `call` ends. `tell` gets the reason of each wait when
// it changes.
auto Patiently(const std::function<void(const std::string&)>& tell, std::chrono::seconds turn,
               const Call& call, const auto& ask) {
  std::string told;
  while (true) {
    auto answer = ask(call.Within(turn));
    if (answer.has_value() || !EndsByItself(answer.error()) || call.Remaining() <= kPause) {
      return answer;
    }
    if (answer.error().message() != told) {
      told = answer.error().message();
      tell(told);
    }
    std::this_thread::sleep_for(kPause);
  }
}

// One request, repeated like this.
template <typename Service, typename Request, typename Response>
Result<Response> Repeat(const std::shared_ptr<grpc::Channel>& channel,
                        const std::function<void(const std::string&)>& tell,
                        grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&,
                                                              Response*),
                        const Request& request, const Call& call, std::chrono::seconds turn = kTurn) {
  return Patiently(tell, turn, call,
                   [&](const Call& one) { return Ask<Service>(channel, method, request, one); });
}

}  // namespace quarry::ctl
