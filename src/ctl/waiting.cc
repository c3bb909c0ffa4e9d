#include "ctl/waiting.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "ctl/json_text.h"
#include "ctl/replies.h"

namespace quarry::ctl {
namespace {

constexpr std::chrono::milliseconds kPatience{120000};
constexpr std::chrono::seconds kInterval{1};

// Shows a bar that grows in place on a terminal; elsewhere it prints a line for every ten percent.
class Bar {
 public:
  explicit Bar(std::string what) : what_(std::move(what)) {}

  void Show(uint32_t percent, bool done) {
    if (isatty(STDERR_FILENO) == 1) {
      std::cerr << fmt::format("\r{}{} {} %{}", what_, ProgressBar(percent), percent, done ? "\n" : "")
                << std::flush;
    } else if (percent >= told_ + 10 || done) {
      std::cerr << fmt::format("{}{} %\n", what_, percent);
      told_ = percent;
    }
  }

 private:
  const std::string what_;
  uint32_t told_ = 0;
};

// Mismatched bytes of one volume; nullopt: the scrub did not complete.
using Outcomes = std::map<std::string, std::optional<int64_t>>;

std::string Report(const AdminClient::Scrubbing& scrubbing, const Outcomes& outcomes, bool json) {
  nlohmann::json rows = nlohmann::json::array();
  std::string text;
  for (const AdminClient::Scrubbing::Volume& volume : scrubbing.volumes) {
    nlohmann::json row = {{"volume_id", volume.id}, {"name", volume.name}, {"compared", false}};
    const auto outcome = outcomes.find(volume.id);
    if (!volume.refusal.empty()) {
      row["reason"] = volume.refusal;
      text += fmt::format("{} ({}): not compared: {}\n", volume.name, volume.id, volume.refusal);
    } else if (outcome == outcomes.end() || !outcome->second.has_value()) {
      row["reason"] = "it was broken off";
      text += fmt::format(
          "{} ({}): not compared: the scrub was aborted; unless quarryd was restarted, its log says why\n",
          volume.name, volume.id);
    } else {
      row["compared"] = true;
      row["mismatched_bytes"] = *outcome->second;
      text += *outcome->second == 0 ? fmt::format("{} ({}): its legs agree\n", volume.name, volume.id)
                                    : fmt::format("{} ({}): {} of its legs differ\n", volume.name, volume.id,
                                                  HumanBytes(Bytes{static_cast<uint64_t>(*outcome->second)}));
    }
    rows.push_back(std::move(row));
  }
  return json           ? JsonLine(rows)
         : text.empty() ? "there is no RAID volume whose legs could be compared\n"
                        : text;
}

}  // namespace

Status WaitForEvacuation(AdminClient& client, const AdminClient::Evacuation& evacuation) {
  Bar bar("");
  while (true) {
    const auto left = client.LeftOn(evacuation.pv_uuid, CallWithin(kPatience));
    if (!left.has_value() && left.error().code() != Code::kUnavailable) {
      return left.error();
    }
    if (left.has_value()) {
      const int64_t all = std::max<int64_t>(evacuation.to_move, 1);
      const auto percent = static_cast<uint32_t>(100 * std::clamp<int64_t>(all - *left, 0, all) / all);
      bar.Show(percent, *left == 0);
      if (*left == 0) {
        return Ok();
      }
    }
    std::this_thread::sleep_for(kInterval);
  }
}

std::string ScrubsBegun(const AdminClient::Scrubbing& scrubbing, bool json) {
  nlohmann::json rows = nlohmann::json::array();
  std::string text;
  for (const AdminClient::Scrubbing::Volume& volume : scrubbing.volumes) {
    const bool refused = !volume.refusal.empty();
    rows.push_back({{"volume_id", volume.id}, {"name", volume.name}, {"begun", !refused}});
    if (refused) {
      rows.back()["reason"] = volume.refusal;
    }
    text += fmt::format("{} ({}): {}{}\n", volume.name, volume.id,
                        refused ? "not compared: " : "its legs will be compared", volume.refusal);
  }
  return json ? JsonLine(rows) : text;
}

Result<std::string> WaitForScrubs(AdminClient& client, const AdminClient::Scrubbing& scrubbing, bool json,
                                  int& exit_status) {
  Outcomes outcomes;
  for (const AdminClient::Scrubbing::Volume& volume : scrubbing.volumes) {
    Bar bar(volume.name + " ");
    // quarryd records the result before it clears the pending mark, but one status may hold the old result
    // and the cleared mark. A second look distinguishes a completed scrub from an aborted one.
    int looks_after = 0;
    while (volume.refusal.empty()) {
      const auto state = client.ScrubOf(volume.id, CallWithin(kPatience));
      if (!state.has_value() && state.error().code() != Code::kUnavailable) {
        return state.error();
      }
      if (state.has_value() && !state->pending) {
        if (state->ended_at >= scrubbing.asked_at) {
          bar.Show(100, true);
          outcomes[volume.id] = state->mismatched;
          break;
        }
        if (++looks_after == 2) {
          break;
        }
      } else if (state.has_value() && state->percent.has_value()) {
        bar.Show(*state->percent, false);
      }
      std::this_thread::sleep_for(kInterval);
    }
    const auto outcome = outcomes.find(volume.id);
    if (outcome == outcomes.end() || outcome->second != 0) {
      exit_status = 1;
    }
  }
  return Report(scrubbing, outcomes, json);
}

}  // namespace quarry::ctl
