#include "daemon/upkeep/starter.h"

#include <algorithm>

namespace quarry::daemon {
namespace {

// Finishing the work that an earlier process left on many volumes takes time.
constexpr std::chrono::minutes kLongestStart{10};

}  // namespace

Starter::Starter(std::function<Status(const Call&)> start, const Logger& log, Backoff backoff,
                 std::string pool, StarterWords words)
    : start_(std::move(start)),
      log_(log),
      backoff_(backoff),
      pool_(std::move(pool)),
      words_(std::move(words)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void Starter::Run(const std::stop_token& stop) {
  std::string reported;
  std::chrono::milliseconds pause = backoff_.first;
  while (!stop.stop_requested()) {
    const auto begin = std::chrono::steady_clock::now();
    const Status started = start_(Call{begin + kLongestStart, stop});
    tried_ = true;
    if (started.has_value()) {
      done_ = true;
      const auto took = std::chrono::steady_clock::now() - begin;
      if (!words_.done.empty()) {
        log_.Info(words_.done,
                  {{"pool", pool_}, {"ms", std::chrono::duration<double, std::milli>(took).count()}});
      }
      return;
    }
    if (stop.stop_requested()) {
      return;
    }
    if (const Error& error = started.error(); error.message() != reported) {
      reported = error.message();
      log_.Warning(words_.failed,
                   {{"pool", pool_}, {"code", CodeName(error.code())}, {"detail", reported}});
    }
    (void)Sleep(stop, pause);
    pause = std::min(pause * 2, backoff_.most);
  }
}

}  // namespace quarry::daemon
