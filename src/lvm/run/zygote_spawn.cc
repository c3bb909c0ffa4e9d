#include "lvm/run/zygote_spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <array>

#include <fmt/format.h>

#include "lvm/run/zygote_wire.h"

namespace quarry::lvm::zygote {
namespace {

// posix_spawn attributes and file actions with their cleanup: own process group, default signals, descriptors
// 0, 1, 2 and kControlFd.
class SpawnPlan {
 public:
  SpawnPlan(int control, int words) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, words, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, control, kControlFd);
    posix_spawn_file_actions_addclosefrom_np(&actions_, kControlFd + 1);
    sigset_t all;
    sigset_t none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnPlan() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&actions_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  Result<pid_t> Run(const std::string& program, const Environment& env) {
    std::vector<std::string> variables;
    std::vector<char*> pointers;
    for (const auto& [key, value] : env) {
      variables.push_back(fmt::format("{}={}", key, value));
    }
    for (std::string& variable : variables) {
      pointers.push_back(variable.data());
    }
    pointers.push_back(nullptr);
    std::string name = "quarry-lvm";
    std::array<char*, 2> argv = {name.data(), nullptr};
    pid_t pid = -1;
    const int rc = posix_spawn(&pid, program.c_str(), &actions_, &attributes_, argv.data(), pointers.data());
    if (rc != 0) {
      return ErrnoError(fmt::format("starting {}", program), rc);
    }
    return pid;
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

Result<pid_t> Spawn(const std::string& program, const Environment& env, int control, int words) {
  return SpawnPlan(control, words).Run(program, env);
}

}  // namespace quarry::lvm::zygote
