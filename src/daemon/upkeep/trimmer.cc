#include "daemon/upkeep/trimmer.h"

#include "base/sleep.h"

namespace quarry::daemon {
namespace {

// The wall clock may be set at any time, so it is read this often.
constexpr std::chrono::minutes kLook{1};

}  // namespace

std::chrono::system_clock::time_point NextRound(std::chrono::system_clock::time_point now,
                                                std::chrono::hours interval) {
  const auto whole = std::chrono::floor<std::chrono::hours>(now.time_since_epoch());
  return std::chrono::system_clock::time_point((whole / interval + 1) * interval);
}

Trimmer::Trimmer(engine::Engine& engine, const Clock& clock, const Logger& log, std::chrono::hours interval)
    : engine_(engine),
      clock_(clock),
      log_(log),
      thread_([this, interval](const std::stop_token& stop) { Run(stop, interval); }) {}

void Trimmer::Run(const std::stop_token& stop, std::chrono::hours interval) {
  auto due = NextRound(clock_.WallNow(), interval);
  while (!stop.stop_requested()) {
    const bool slept = Sleep(stop, kLook);
    const auto now = clock_.WallNow();
    if (now >= due && slept) {
      Round(stop);
    }
    due = now >= due ? NextRound(clock_.WallNow(), interval) : std::min(due, NextRound(now, interval));
  }
}

void Trimmer::Round(const std::stop_token& stop) {
  const auto done = engine_.upkeep().Trim(Call{.stop = stop});
  if (!done.has_value()) {
    if (!stop.stop_requested()) {
      log_.Warning("trimming stopped", {{"error", done.error().message()}});
    }
    return;
  }
  for (const std::string& failure : done->failures) {
    log_.Warning("a volume could not be trimmed", {{"error", failure}});
  }
  log_.Info("trimmed mounted volumes", {{"volumes", static_cast<int64_t>(done->volumes)},
                                        {"bytes", static_cast<int64_t>(done->trimmed.value)}});
}

}  // namespace quarry::daemon
