#include "daemon/process/process_name.h"

#include <fstream>

#include <fmt/format.h>

namespace quarry::daemon {

std::string ProcessName(int pid) {
  if (pid <= 0) {
    return "another process";
  }
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  return std::getline(file, name) ? fmt::format("pid {} ({})", pid, name) : fmt::format("pid {}", pid);
}

}  // namespace quarry::daemon
