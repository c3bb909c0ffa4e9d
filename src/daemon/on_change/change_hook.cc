#include "daemon/on_change/change_hook.h"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "daemon/on_change/command_file.h"

namespace quarry::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
constexpr seconds kLookPatience{15};
constexpr milliseconds kBreath{500};  // changes come in bursts
constexpr size_t kOutputLimit = 64 << 10;

std::string Printable(std::string text) {
  for (char& c : text) {
    c = static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c;
  }
  return text;
}

std::string SummaryOf(const Change& change, const std::string& node) {
  const std::string& name = change.now.name.empty() ? change.thing.id : change.now.name;
  const std::string what = change.thing.kind == "pool"
                               ? fmt::format("pool {}", name)
                               : fmt::format("{} {} of pool {}", change.thing.kind, name, change.thing.pool);
  return fmt::format("{} on {} is {}{}{}{}", what, node, change.repeated ? "still " : "", change.now.state,
                     change.now.detail.empty() ? "" : ": ", change.now.detail);
}

ToldConditions Recall(const std::string& file, const Logger& log) {
  std::ifstream in(file);
  if (!in) {
    return {};  // the first start, or the first since the node was booted
  }
  std::stringstream text;
  text << in.rdbuf();
  auto told = ReadTold(text.str());
  if (!told.has_value()) {
    log.Warning("what was told to the command of --on-change is not known any more",
                {{"file", file}, {"error", told.error().message()}});
    return {};
  }
  return std::move(*told);
}

}  // namespace

Command TellingOf(const Change& change, const ChangeHookConfig& config,
                  std::chrono::system_clock::time_point now) {
  const std::vector<std::pair<const char*, std::string>> facts = {
      {"node", config.node},
      {"time", fmt::format("{:%FT%TZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(now)))},
      {"kind", change.thing.kind},
      {"pool", change.thing.pool},
      {"id", change.thing.id},
      {"name", change.now.name},
      {"state", change.now.state},
      {"before", change.before},
      {"severity", std::string(engine::SeverityName(change.now.severity))},
      {"detail", change.now.detail},
      {"summary", SummaryOf(change, config.node)}};
  nlohmann::json object = {{"version", 1}, {"repeated", change.repeated}, {"skipped", change.skipped}};
  Command command;
  command.argv = {config.command.str()};
  command.env = {{"PATH", kPath},
                 {"QUARRY_EVENT_REPEATED", change.repeated ? "true" : "false"},
                 {"QUARRY_EVENT_SKIPPED", std::to_string(change.skipped)}};
  for (const auto& [name, value] : facts) {
    object[name] = value;
    std::string variable = fmt::format("QUARRY_EVENT_{}", name);
    for (char& c : variable) {
      c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
    command.env.emplace_back(std::move(variable), Printable(value));
  }
  command.input = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  command.output_limit = kOutputLimit;
  return command;
}

ChangeHook::ChangeHook(ChangeHookConfig config, Look look, Subprocess& subprocess, const Clock& clock,
                       const Logger& log)
    : config_(std::move(config)),
      look_(std::move(look)),
      subprocess_(subprocess),
      clock_(clock),
      log_(log),
      book_(Recall(config_.file, log)),
      looker_([this](const std::stop_token& stop) { LookAgainAndAgain(stop); }),
      teller_([this](const std::stop_token& stop) { TellAgainAndAgain(stop); }) {}

void ChangeHook::Wake() {
  const MutexLock lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

void ChangeHook::RequestStop() {
  looker_.request_stop();
  teller_.request_stop();
}

void ChangeHook::LookAgainAndAgain(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const auto pools = look_(Call{.stop = stop}.Within(kLookPatience));
    if (stop.stop_requested()) {
      return;
    }
    if (pools.has_value()) {
      size_t returned = 0;
      {
        const MutexLock lock(mutex_);
        returned = book_.Look(*pools, clock_.Now());
        changed_.notify_all();
      }
      Report(returned);
    } else {
      log_.Debug("conditions could not be looked at", {{"error", pools.error().message()}});
    }
    (void)Sleep(stop, kBreath);
    MutexLock lock(mutex_);
    (void)WaitUntil(changed_, lock, Call{.stop = stop}.Within(config_.look_interval),
                    [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return woken_; });
    woken_ = false;
  }
}

void ChangeHook::TellAgainAndAgain(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    // Before a change is taken from the book: what cannot be told now is told once it can be.
    if (!MayRun()) {
      (void)Sleep(stop, config_.look_interval);
      continue;
    }
    std::optional<Change> change;
    {
      MutexLock lock(mutex_);
      (void)WaitUntil(changed_, lock, Call{.stop = stop},
                      [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return book_.waiting() > 0; });
      if (stop.stop_requested()) {
        return;
      }
    }
    if (!MayRun()) {
      continue;  // that changed while nothing was to be told
    }
    {
      const MutexLock lock(mutex_);
      change = book_.Begin();
    }
    if (!change.has_value()) {
      continue;  // it went back meanwhile
    }
    Tell(*change, stop);
    if (stop.stop_requested()) {
      return;  // the next process tells it, because the file does not have it
    }
    ToldConditions told;
    size_t returned = 0;
    {
      const MutexLock lock(mutex_);
      returned = book_.Told(*change);
      told = book_.told();
    }
    Report(returned);
    Keep(told);
  }
}

bool ChangeHook::MayRun() {
  const Status fit = CheckCommandFile(config_.command);
  const std::string words = fit.has_value() ? "" : fit.error().message();
  if (words != refused_) {
    if (words.empty()) {
      log_.Info("the command of --on-change can be run again");
    } else {
      log_.Warning("the command of --on-change is not run, and changes wait for it", {{"error", words}});
    }
    refused_ = words;
  }
  return words.empty();
}

void ChangeHook::Report(size_t returned) const {
  if (returned > 0) {
    log_.Warning("conditions changed and changed back before the command of --on-change could tell it",
                 {{"changes", static_cast<int64_t>(returned)}});
  }
}

void ChangeHook::Tell(const Change& change, const std::stop_token& stop) {
  const Command command = TellingOf(change, config_, clock_.WallNow());
  const auto ran = subprocess_.Run(command, Call{.stop = stop}.Within(config_.time_limit));
  const std::string id = change.thing.id;
  if (ran.has_value() && ran->ok()) {
    log_.Info("the command of --on-change was run", {{"kind", change.thing.kind},
                                                     {"id", id},
                                                     {"state", change.now.state},
                                                     {"skipped", static_cast<int64_t>(change.skipped)}});
    return;
  }
  if (stop.stop_requested()) {
    return;
  }
  const std::string error = !ran.has_value() ? ran.error().message()
                            : ran->signal != 0
                                ? fmt::format("signal {} ended it", ran->signal)
                                : fmt::format("exit status {}: {}", ran->exit_status, ToolWords(ran->err));
  log_.Warning("the command of --on-change failed, and this change is not told again",
               {{"kind", change.thing.kind}, {"id", id}, {"state", change.now.state}, {"error", error}});
}

// The file is small and may be lost at a reboot, so it is replaced and not synced.
void ChangeHook::Keep(const ToldConditions& told) {
  const std::string draft = config_.file + ".new";
  std::ofstream out(draft, std::ios::trunc);
  out << WriteTold(told);
  out.close();
  const bool kept = out.good() && std::rename(draft.c_str(), config_.file.c_str()) == 0;
  if (!kept && std::exchange(kept_, kept)) {
    log_.Warning(
        "what was told to the command of --on-change could not be written down: after a restart it "
        "is told again",
        {{"file", config_.file}});
  }
  kept_ = kept;
}

}  // namespace quarry::daemon
