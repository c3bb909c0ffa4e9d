#include "base/boot_id.h"

#include <fstream>

namespace quarry {

std::string BootId() {
  std::string id;
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::getline(in, id);
  return id;
}

}  // namespace quarry
