#include "daemon/upkeep/trimmer.h"

#include "base/call.h"

namespace quarry::daemon {
namespace {

// The wall clock may be set at any time, so it is read this often.
constexpr std::chrono::minutes kLook{1};

void Round(engine::Engine& engine, const Logger& log, const std::stop_token& stop) {
  const auto done = engine.upkeep().Trim(Call{.stop = stop});
  if (!done.has_value()) {
    if (!stop.stop_requested()) {
      log.Warning("trimming stopped", {{"error", done.error().message()}});
    }
    return;
  }
  for (const std::string& failure : done->failures) {
    log.Warning("a volume could not be trimmed", {{"error", failure}});
  }
  log.Info("trimmed mounted volumes", {{"volumes", static_cast<int64_t>(done->volumes)},
                                       {"bytes", static_cast<int64_t>(done->trimmed.value)}});
}

}  // namespace

std::chrono::system_clock::time_point NextRound(std::chrono::system_clock::time_point now,
                                                std::chrono::hours interval) {
  const auto whole = std::chrono::floor<std::chrono::hours>(now.time_since_epoch());
  return std::chrono::system_clock::time_point((whole / interval + 1) * interval);
}

std::jthread TrimBySchedule(engine::Engine& engine, const Clock& clock, const Logger& log,
                            std::chrono::hours interval) {
  return std::jthread([&engine, &clock, &log, interval](const std::stop_token& stop) {
    auto due = NextRound(clock.WallNow(), interval);
    while (!stop.stop_requested()) {
      const bool slept = Sleep(stop, kLook);
      const auto now = clock.WallNow();
      if (now >= due && slept) {
        Round(engine, log, stop);
      }
      due = now >= due ? NextRound(clock.WallNow(), interval) : std::min(due, NextRound(now, interval));
    }
  });
}

}  // namespace quarry::daemon
