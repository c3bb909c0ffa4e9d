#include "ctl/trace_page.h"

#include <algorithm>
#include <ctime>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace quarry::ctl {
namespace {

namespace pb = ::quarry::admin::v1;
using Call = pb::ListCallsResponse::Call;
using Step = pb::ListCallsResponse::Step;

constexpr size_t kLeastPrefix = 4;  // of a trace id
constexpr int64_t kMillion = 1'000'000;

std::string Clean(std::string text) {
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, '?');
  return text;
}

double Milliseconds(int64_t microseconds) {
  return static_cast<double>(microseconds) / 1000;
}

std::string Time(int64_t microseconds) {
  return fmt::format("{:%F %T}.{:03}Z", fmt::gmtime(static_cast<time_t>(microseconds / kMillion)),
                     microseconds % kMillion / 1000);
}

int64_t EndOf(const Step& step) {
  return step.from_us() + step.took_us();
}

// A step in the order of the beginnings, and how many steps it lies in.
struct Placed {
  const Step* step;
  size_t depth;
};

std::vector<Placed> InOrder(const Call& call) {
  std::vector<const Step*> steps;
  for (const Step& step : call.steps()) {
    steps.push_back(&step);
  }
  // Of two steps that begin together, the longer one is outside. Of two equal ones, the later end.
  std::ranges::reverse(steps);
  std::ranges::stable_sort(steps, [](const Step* a, const Step* b) {
    return a->from_us() != b->from_us() ? a->from_us() < b->from_us() : a->took_us() > b->took_us();
  });
  std::vector<Placed> placed;
  std::vector<const Step*> around;
  for (const Step* step : steps) {
    while (!around.empty() && EndOf(*around.back()) < EndOf(*step)) {
      around.pop_back();
    }
    placed.push_back({step, around.size()});
    around.push_back(step);
  }
  return placed;
}

// The longest step that no other step lies in; nullptr if there are no steps.
const Step* LongestOf(const Call& call) {
  const std::vector<Placed> placed = InOrder(call);
  const Step* longest = nullptr;
  for (size_t i = 0; i < placed.size(); ++i) {
    const bool inner = i + 1 == placed.size() || placed[i + 1].depth <= placed[i].depth;
    if (inner && (longest == nullptr || placed[i].step->took_us() > longest->took_us())) {
      longest = placed[i].step;
    }
  }
  return longest;
}

std::string Outcome(const Call& call) {
  return call.code().empty() ? "running" : call.code();
}

}  // namespace

pb::ListCallsResponse Filtered(const pb::ListCallsResponse& calls, const CallFilter& filter) {
  pb::ListCallsResponse out;
  for (const Call& call : calls.calls()) {
    const bool named = filter.id.empty() || call.volume_id() == filter.id ||
                       (filter.id.size() >= kLeastPrefix && call.trace_id().starts_with(filter.id));
    if (named && call.took_us() >= filter.slow.count() * 1000) {
      *out.add_calls() = call;
    }
  }
  return out;
}

std::string DrawCalls(const pb::ListCallsResponse& calls) {
  if (calls.calls().empty()) {
    return "no such call is remembered\n";
  }
  std::string text;
  for (const Call& call : calls.calls()) {
    text += fmt::format("{}  {:>10.1f} ms  {:<12} {:<5} {} {}\n", Time(call.began_at_us()),
                        Milliseconds(call.took_us()), Outcome(call), call.version(), call.method(),
                        Clean(call.volume_id()));
    const Step* longest = LongestOf(call);
    text += fmt::format("    trace {}{}\n", call.trace_id(),
                        longest == nullptr
                            ? ""
                            : fmt::format(", longest step {:.1f} ms: {}", Milliseconds(longest->took_us()),
                                          Clean(longest->text())));
  }
  return text;
}

std::string DrawSteps(const pb::ListCallsResponse& calls) {
  if (calls.calls().empty()) {
    return "no such call is remembered\n";
  }
  std::string text;
  for (const Call& call : calls.calls()) {
    text += fmt::format("{} ({}) {}: {} after {:.1f} ms, began {}, trace {}\n", call.method(), call.version(),
                        Clean(call.volume_id()), Outcome(call), Milliseconds(call.took_us()),
                        Time(call.began_at_us()), call.trace_id());
    text += call.steps().empty() ? "  no steps\n" : fmt::format("  {:>10}  {:>10}\n", "at ms", "for ms");
    for (const Placed& placed : InOrder(call)) {
      text +=
          fmt::format("  {:>10.1f}  {:>10.1f}  {:{}}{}\n", Milliseconds(placed.step->from_us()),
                      Milliseconds(placed.step->took_us()), "", 2 * placed.depth, Clean(placed.step->text()));
    }
    if (call.forgotten_steps() > 0) {
      text += fmt::format("  and {} more steps, which were not recorded\n", call.forgotten_steps());
    }
  }
  return text;
}

}  // namespace quarry::ctl
