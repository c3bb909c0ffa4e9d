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
  // A new file, which can punch holes: the device zeroes and discards quickly.
  explicit LoopDevice(Bytes size);
  // Over this file, which gets the size.
  LoopDevice(UniqueFd file, Bytes size);

  const std::string& node() const { return node_; }
  void Grow(Bytes size);
  // Straight to the file below, past the device and its cache.
  int file() const { return file_.get(); }

 private:
  UniqueFd file_;
  UniqueFd loop_;
  std::string node_;
};

// A new file, in memory, of a file system that cannot punch holes: a loop device over it does not discard.
UniqueFd FileWithoutHoles();

// Runs a program of the usual places to its end and gives its standard output; throws if it fails.
std::string RunTool(const std::vector<std::string>& words, const std::string& input = {});

}  // namespace quarry::contract
