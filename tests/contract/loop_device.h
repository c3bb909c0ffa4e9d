// Block devices made of nothing: loop devices over unlinked files. For tests that run as root.
#pragma once

#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "base/units.h"

namespace quarry::contract {

// Gone when the last descriptor of it and the last mount of it are. Throws std::system_error.
class LoopDevice {
 public:
  explicit LoopDevice(Bytes size, bool read_only = false);

  const std::string& node() const { return node_; }
  void Grow(Bytes size);
  // Straight to the file below, past the device and its cache.
  int file() const { return file_.get(); }

 private:
  UniqueFd file_;
  UniqueFd loop_;
  std::string node_;
};

// Runs a program of the usual places to its end and gives its standard output; throws if it fails.
std::string RunTool(const std::vector<std::string>& words, const std::string& input = {});

}  // namespace quarry::contract
