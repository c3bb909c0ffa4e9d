#include "tests/vm/kit/quarryd_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/unique_fd.h"
#include "tests/vm/kit/csi_client.h"

namespace quarry::vm {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
constexpr auto kPoll = std::chrono::milliseconds(10);

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Arguments(const QuarrydOptions& options) {
  std::vector<std::string> arguments = {options.program, "--endpoint", "unix://" + options.socket};
  for (const std::string& pool : options.pools) {
    arguments.insert(arguments.end(), {"--pool", pool});
  }
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  return arguments;
}

std::vector<std::string> Environment(const QuarrydOptions& options) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    variables.emplace_back(*entry);
  }
  for (const auto& [name, value] : options.variables) {
    std::erase_if(variables, [&name](const std::string& text) { return text.starts_with(name + "="); });
    variables.push_back(name + "=" + value);
  }
  return variables;
}

// True if a process accepts connections on this socket.
bool IsServed(const std::string& socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof(address.sun_path)) {
    return false;
  }
  socket_path.copy(address.sun_path, socket_path.size());
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

}  // namespace

Result<std::unique_ptr<QuarrydProcess>> QuarrydProcess::Start(const QuarrydOptions& options) {
  std::error_code error;
  fs::create_directories(fs::path(options.socket).parent_path(), error);
  fs::create_directories(fs::path(options.log).parent_path(), error);
  UniqueFd log(::open(options.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log.valid()) {
    return ErrnoError(options.log);
  }
  const auto log_start = static_cast<size_t>(::lseek(log.get(), 0, SEEK_END));

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, log.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, log.get(), 2);
  std::vector<std::string> arguments = Arguments(options);
  std::vector<std::string> variables = Environment(options);
  pid_t pid = 0;
  const int failed = ::posix_spawnp(&pid, options.program.c_str(), &actions, nullptr,
                                    Pointers(arguments).data(), Pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return ErrnoError(options.program, failed);
  }
  return std::unique_ptr<QuarrydProcess>(new QuarrydProcess(options, pid, log_start));
}

QuarrydProcess::~QuarrydProcess() {
  if (!released_) {
    Kill();
  }
}

pid_t QuarrydProcess::Release() {
  released_ = true;
  return pid_;
}

Status QuarrydProcess::WaitReady(std::chrono::seconds limit, std::chrono::milliseconds pause) {
  CsiClient client(options_.socket, std::chrono::seconds(10));
  const auto deadline = Clock::now() + limit;
  std::string last = "never answered";
  bool served = false;
  while (Clock::now() < deadline) {
    if (!Running()) {
      return Error(Code::kUnavailable,
                   "quarryd ended with status " + std::to_string(*exit_status_) + ": " + Log());
    }
    // After a refused attempt gRPC does not try again for five seconds.
    served = served || IsServed(options_.socket);
    if (!served) {
      std::this_thread::sleep_for(kPoll);
      continue;
    }
    auto reply = client.Probe();
    if (reply.ok() && (!reply.value.has_ready() || reply.value.ready().value())) {
      return Ok();
    }
    last = reply.ok() ? "is not ready" : reply.text();
    std::this_thread::sleep_for(pause);
  }
  return Error(Code::kUnavailable, "quarryd " + last + "; its log: " + Log());
}

void QuarrydProcess::Signal(int number) const {
  if (!exit_status_.has_value()) {
    ::kill(pid_, number);
  }
}

void QuarrydProcess::Kill() {
  Signal(SIGKILL);
  while (Running()) {
    std::this_thread::sleep_for(kPoll);
  }
}

int QuarrydProcess::Stop(std::chrono::seconds limit) {
  Signal(SIGTERM);
  const std::optional<int> status = WaitExit(limit);
  if (!status.has_value()) {
    Kill();
    return -1;
  }
  return *status;
}

std::optional<int> QuarrydProcess::WaitExit(std::chrono::seconds limit) {
  const auto deadline = Clock::now() + limit;
  while (Running() && Clock::now() < deadline) {
    std::this_thread::sleep_for(kPoll);
  }
  return exit_status_;
}

bool QuarrydProcess::Running() {
  if (exit_status_.has_value()) {
    return false;
  }
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) {
    return true;
  }
  exit_status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return false;
}

std::string QuarrydProcess::Log() const {
  std::ifstream file(options_.log, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(log_start_));
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace quarry::vm
