// Disks that report the health that a test gave them, or do not answer.
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
  // --- The world's side. A disk without given health is of an unsupported kind.
  void Say(const std::string& node, const udev::DiskHealth& health);
  void SayNothing(const std::string& node);  // as a disk of an unsupported kind
  // Reads of this disk wait until it resumes.
  void Hang(const std::string& node);
  void GoOn(const std::string& node);
  // How often this disk was read, answered or not.
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
