#include "daemon/upkeep/store_tender.h"

#include <chrono>
#include <future>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/call.h"

namespace quarry::daemon {
namespace {

using std::chrono::milliseconds;

// A store whose disks take 2 GB a second gets 10 GB in this time.
constexpr milliseconds kLook{5000};
constexpr std::chrono::hours kTrimAgain{1};

void Trim(engine::Engine& engine, const Logger& log, const std::vector<std::string>& stores,
          const std::stop_token& stop) {
  for (const std::string& store : stores) {
    const auto done = engine.upkeep().Trim(Call{.stop = stop}, store);
    if (!done.has_value()) {
      if (!stop.stop_requested()) {
        log.Warning("trimming a thin store stopped", {{"store", store}, {"error", done.error().message()}});
      }
      continue;
    }
    for (const std::string& failure : done->failures) {
      log.Warning("a volume could not be trimmed", {{"error", failure}});
    }
    log.Info("trimmed the volumes of a thin store that fills up",
             {{"store", store},
              {"volumes", static_cast<int64_t>(done->volumes)},
              {"bytes", static_cast<int64_t>(done->trimmed.value)}});
  }
}

}  // namespace

std::jthread TendStores(engine::Engine& engine, const std::string& pool, const Clock& clock,
                        const Logger& log) {
  return std::jthread([&engine, pool, &clock, &log](const std::stop_token& stop) {
    std::map<std::string, SteadyTime> trimmed;
    std::future<void> trimming;  // its destructor waits
    do {
      std::vector<std::string> due;
      const SteadyTime now = clock.Now();
      for (std::string& store : engine.upkeep().TendStores(pool, Call{.stop = stop})) {
        const auto last = trimmed.find(store);
        if (last == trimmed.end() || now - last->second >= kTrimAgain) {
          due.push_back(std::move(store));
        }
      }
      const bool idle = !trimming.valid() || trimming.wait_for(milliseconds(0)) == std::future_status::ready;
      if (idle && !due.empty()) {
        for (const std::string& store : due) {
          trimmed[store] = now;
        }
        trimming = std::async(std::launch::async, [&engine, &log, stop, stores = std::move(due)] {
          Trim(engine, log, stores, stop);
        });
      }
    } while (Sleep(stop, kLook));
  });
}

}  // namespace quarry::daemon
