// The faults that a provider found in its plugin.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace quarry::slrp {

struct Rule {
  std::string_view name;
  std::string_view consequence;  // for the agent, if it is broken
};

inline constexpr auto kRules = std::to_array<Rule>({
    {"socket", "the provider is lost: no socket within 60 s of the start"},
    {"version", "the provider is lost: the plugin does not speak the generation's CSI"},
    {"probe", "the provider is lost: Probe failed"},
    {"services", "the provider is lost: no controller service, no name, or a start-up call failed"},
    {"list", "the provider is lost or blind: ListVolumes failed"},
    {"whole_list", "disks are lost: ListVolumes gave a page, and next_token is not read"},
    {"duplicate", "the agent's books break: an id was listed twice"},
    {"missing", "a disk is gone: a volume that was made is not listed"},
    {"undead", "a destroyed disk is offered again"},
    {"size", "a disk is seen twice: its listed size is not the requested one"},
    {"context", "a disk is seen twice: its attributes changed"},
    {"capacity", "the provider is lost or blind: GetCapacity failed, or promised what a profile cannot have"},
    {"slow", "every operation is dropped: a reconciliation takes longer than its interval"},
    {"operation", "a disk operation failed"},
    {"repeat", "a disk operation failed, or a disk was made twice: a repeat got another answer"},
    {"validate", "a pre-existing disk cannot be used: its capability was not confirmed and echoed"},
    {"publish", "a task fails: its disk was not published, or is not at its path"},
    {"recover", "the provider is lost: after a reboot a disk was not published again"},
    {"unpublish",
     "a disk cannot be destroyed: NodeUnpublish failed, perhaps of a path that was never published"},
    {"target", "the agent aborts or the operation fails: the wrong side created or removed the target path"},
});

struct Violation {
  std::string rule;
  std::string detail;
};

// Thread-safe.
class Report {
 public:
  void Fail(std::string_view rule, std::string detail) {
    const std::lock_guard lock(mutex_);
    violations_.push_back({std::string(rule), std::move(detail)});
  }
  // "created", "destroyed", "published", "retried", "dropped", "cut short", …
  void Count(const std::string& what, int by = 1) {
    const std::lock_guard lock(mutex_);
    counts_[what] += by;
  }
  std::vector<Violation> violations() const {
    const std::lock_guard lock(mutex_);
    return violations_;
  }
  std::map<std::string, int> counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  // One line per violation, and one line of counts.
  std::string Text() const {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const Violation& violation : violations_) {
      text += "VIOLATION " + violation.rule + ": " + violation.detail + "\n";
    }
    for (const auto& [what, count] : counts_) {
      text += what + " " + std::to_string(count) + "  ";
    }
    return text + "\n";
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Violation> violations_;
  std::map<std::string, int> counts_;
};

}  // namespace quarry::slrp
