#include "engine/disks/zeros.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "base/units.h"

namespace quarry::engine {

Result<bool> BeginsWithZeros(int fd, const std::string& what) {
  std::vector<char> buffer(kMiB.value);
  size_t got = 0;
  while (got < buffer.size()) {
    const ssize_t n = pread(fd, buffer.data() + got, buffer.size() - got, static_cast<off_t>(got));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      const int error = errno;
      return Error(Code::kIo, fmt::format("reading {}: {}", what, std::generic_category().message(error)))
          .WithErrno(error);
    }
    if (n == 0) {
      break;
    }
    got += static_cast<size_t>(n);
  }
  return std::all_of(buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(got),
                     [](char c) { return c == 0; });
}

}  // namespace quarry::engine
