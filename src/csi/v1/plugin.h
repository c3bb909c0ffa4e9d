// Facts about this plugin that all three services report.
#pragma once

#include <cstdint>
#include <string>

#include "csi/topology.h"

namespace quarry::csi::v1 {

// Constant once the services run. GetPluginCapabilities must depend on the version only, so no field here may
// change its response. What only thin stores can do is the exception: it is offered on nodes that have some.
struct Plugin {
  std::string driver_name;
  std::string version;
  NodeTopology here;
  // Offer capabilities and fields that CSI marks as alpha. Off by default: released callers and csi-sanity
  // refuse unknown values.
  bool alpha = false;
  uint32_t max_volumes = 0;  // 0: the CO decides
  // NodeExpandVolume grows the logical volume too, so ControllerExpandVolume is not offered.
  bool expand_on_node = false;
};

}  // namespace quarry::csi::v1
