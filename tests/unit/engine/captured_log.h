// A log whose lines a test can read.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/unique_fd.h"

namespace quarry::engine {

class CapturedLog {
 public:
  const Logger& log() const { return log_; }
  // The lines that were written since the last call, at most 8 KiB.
  std::vector<std::string> Lines() {
    std::array<char, 8192> text{};
    const ssize_t length = pread(fd_.get(), text.data(), text.size(), read_);
    std::vector<std::string> lines;
    std::string line;
    for (ssize_t i = 0; i < length; ++i) {
      if (text[static_cast<size_t>(i)] != '\n') {
        line += text[static_cast<size_t>(i)];
        continue;
      }
      lines.push_back(std::exchange(line, ""));
    }
    read_ += std::max<ssize_t>(length, 0);
    return lines;
  }

 private:
  UniqueFd fd_{memfd_create("log", MFD_CLOEXEC)};
  off_t read_ = 0;
  Logger log_{LogLevel::kInfo, LogFormat::kText, fd_.get()};
};

}  // namespace quarry::engine
