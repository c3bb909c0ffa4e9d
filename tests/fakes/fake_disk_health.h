// Disks that say of themselves what they are told to say, or say nothing.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "tests/fakes/faults.h"
#include "udev/disk_health.h"

namespace quarry::fakes {

// Thread-safe.
class FakeDiskHealth final : public udev::DiskHealthApi {
 public:
  // --- The world's side. A disk of which nothing was said is of no kind that is asked.
  void Say(const std::string& node, const udev::DiskHealth& health);
  // Whoever asks this disk waits until it goes on.
  void Hang(const std::string& node);
  void GoOn(const std::string& node);
  // How often this disk was asked, answered or not.
  int Asked(const std::string& node) const;

  // --- DiskHealthApi. Faults by "Read", or "Read <node>".
  Result<std::optional<udev::DiskHealth>> Read(const std::string& node) override;

  Faults faults;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, udev::DiskHealth> says_;
  std::map<std::string, int> asked_;
  std::set<std::string> hanging_;
};

}  // namespace quarry::fakes
