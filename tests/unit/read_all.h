// What a test has had written to a file.
#pragma once

#include <unistd.h>

#include <array>
#include <string>

namespace quarry {

// The whole content, from the beginning; the file's position stays.
inline std::string ReadAll(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0;
       (got = pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(text.size()))) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

}  // namespace quarry
