// The life of a provider, in two halves with a reboot between them.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/slrp/provider.h"

namespace quarry::slrp {

struct Scenario {
  int disks = 20;     // made from pools, over all profiles in turn
  int published = 5;  // of them, for tasks; still published at the reboot
  int destroyed = 5;  // after the reboot; the rest stays unless `leave_nothing`
  bool leave_nothing = true;
  uint64_t size = 8 << 20;
  std::vector<std::string> make_from;  // profiles, in turn; empty: all with enough space
  int at_once = 2;                     // disk operations
  // Pre-existing disks, each with a profile: adopted, published, destroyed.
  std::vector<std::pair<std::string, std::string>> adopt;  // id, profile
  // Kills the plugin while disks are being made, and starts it again. Empty: the plugin is not killed.
  std::function<void()> kill;
};

// Start, pre-existing disks adopted and destroyed, disks made while the plugin is killed, reconciliations in
// between, odd sizes, repeats, profiles that appear and disappear, publications.
void BeforeReboot(Provider& provider, Books& books, const Scenario& scenario);
// Recovery of published disks. Then disks are unpublished and destroyed as the scenario says.
void AfterReboot(Provider& provider, Books& books, const Scenario& scenario);

}  // namespace quarry::slrp
