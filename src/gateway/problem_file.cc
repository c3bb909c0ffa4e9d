#include "gateway/problem_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "base/unique_fd.h"

namespace quarry::gateway {

void TellProblem(const AbsolutePath& folder, const std::string& problem) {
  const std::string path = folder.str() + "/private/problem";
  if (problem.empty()) {
    ::unlink(path.c_str());
    return;
  }
  const std::string fresh = path + ".new";
  const UniqueFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (fd.valid() &&
      ::write(fd.get(), problem.data(), problem.size()) == static_cast<ssize_t>(problem.size())) {
    (void)::rename(fresh.c_str(), path.c_str());
  }
}

}  // namespace quarry::gateway
