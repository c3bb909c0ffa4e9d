// Which logical volume is adopted, and as which volume.
#pragma once

#include <string>

namespace quarry::engine {

// Adoption of an unmanaged logical volume. It keeps its name, its extents and its content.
struct AdoptRequest {
  std::string group, lv_name;
  std::string name;      // the CO's name for it; empty: "<group>/<lv name>"
  bool csilvm = false;   // a csilvm volume: it gets the name that csilvm's CO gave it; `name` is empty
  std::string fs_type;   // the file system that it must hold, or that a blank one gets. Empty: any
  std::string erase;     // as the parameter "erase"; empty: its default
  bool dry_run = false;  // checks everything, changes nothing
};

}  // namespace quarry::engine
