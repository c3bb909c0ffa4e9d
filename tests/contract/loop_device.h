// Block devices without disks: loop devices over unlinked files. For tests that run as root.
#pragma once

#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "base/units.h"

namespace quarry::contract {

// The device is gone once its last descriptor and its last mount are. Throws std::system_error.
class LoopDevice {
 public:
  // Over a new file that can punch holes: the device zeroes and discards quickly.
  explicit LoopDevice(Bytes size);
  // Over this file, which is resized to `size`.
  LoopDevice(UniqueFd file, Bytes size);

  const std::string& node() const { return node_; }
  void Grow(Bytes size);
  // The file below, bypassing the device and its cache.
  int file() const { return file_.get(); }

 private:
  UniqueFd file_;
  UniqueFd loop_;
  std::string node_;
};

// A new file in memory, on a file system that cannot punch holes: a loop device over it does not discard.
UniqueFd FileWithoutHoles();

// Runs a program from the usual directories to its end and returns its standard output. Throws if it fails.
std::string RunTool(const std::vector<std::string>& words, const std::string& input = {});

}  // namespace quarry::contract
