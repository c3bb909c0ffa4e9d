// What all three services say about this plugin.
#pragma once

#include <cstdint>
#include <string>

#include "csi/topology.h"

namespace quarry::csi::v1 {

// Immutable once the services run. GetPluginCapabilities must not depend on anything but the version, so
// nothing here leads to a different answer there.
struct Plugin {
  std::string driver_name;
  std::string version;
  NodeTopology here;
  // Offer capabilities and fields that CSI marks alpha. Off by default: released callers and csi-sanity
  // refuse values they do not know.
  bool alpha = false;
  uint32_t max_volumes = 0;  // 0: the CO decides
  // NodeExpandVolume grows the logical volume too, so ControllerExpandVolume is not offered.
  bool expand_on_node = false;
};

}  // namespace quarry::csi::v1
