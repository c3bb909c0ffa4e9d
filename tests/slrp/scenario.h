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
  int published = 5;  // of them, for tasks; still so when the machine goes down
  int destroyed = 5;  // afterwards; the rest stays unless `leave_nothing`
  bool leave_nothing = true;
  uint64_t size = 8 << 20;
  std::vector<std::string> make_from;  // profiles, in turn; empty: all that have room
  int at_once = 2;                     // disk operations
  // Disks that were there before, and the profile each is to be used with: adopted, published, destroyed.
  std::vector<std::pair<std::string, std::string>> adopt;  // id, profile
  // Ends the plugin without notice, while disks are being made, and starts it again. Empty: it is not
  // disturbed.
  std::function<void()> kill;
};

// Start, disks made with the plugin killed under them, reconciliations in between, odd sizes, repeats,
// profiles that come and go, publications.
void BeforeReboot(Provider& provider, Books& books, const Scenario& scenario);
// Recovery, disks of others adopted, everything unpublished and destroyed as the scenario says.
void AfterReboot(Provider& provider, Books& books, const Scenario& scenario);

}  // namespace quarry::slrp
