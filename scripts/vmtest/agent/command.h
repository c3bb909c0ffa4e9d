// One command of the host, running in the guest.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vmtest {

struct CommandSpec {
  bool pty = false;
  std::string directory;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;

  // False if the payload of a kStart frame is malformed.
  static bool Parse(std::string_view payload, CommandSpec *spec);
};

// Owns the pipes (or pty) of a running command. Not thread-safe; the agent has
// one thread.
class Command {
public:
  // A command that cannot be run still starts: its child writes the reason to standard error and exits with
  // 126 or 127, as in a shell.
  explicit Command(const CommandSpec &spec);
  ~Command();
  Command(const Command &) = delete;
  Command &operator=(const Command &) = delete;

  // -1 if there is nothing to poll for now.
  int input() const { return pending_.empty() ? -1 : input_; }
  int output() const { return credit_ > 0 ? output_ : -1; }
  int error() const { return credit_ > 0 ? error_ : -1; }

  void AddInput(std::string_view bytes);
  void EndInput();
  // Writes as much as the command takes. Returns the bytes that are done with, written or dropped.
  size_t HandOverInput();
  // Reads at most one frame's worth from output() or error(). False if there is nothing now.
  bool Read(bool from_error, std::string *bytes);
  void AddCredit(uint32_t bytes) { credit_ += bytes; }
  void Signal(int number) const;
  void Resize(uint16_t rows, uint16_t columns) const;

  pid_t pid() const { return pid_; }
  void SetExit(int wait_status);
  // Exited: the process has ended. Finished: everything that it wrote has been read, too. Output of processes
  // that it left behind is not waited for: a daemon would hold the command for ever.
  bool Exited() const { return exited_; }
  bool Finished() const { return exited_ && drained_; }
  uint32_t exit_status() const { return exit_status_; }

private:
  void StartOnPipes(const CommandSpec &spec);
  void StartOnPty(const CommandSpec &spec);
  void CloseInput();

  pid_t pid_ = -1;
  bool pty_ = false;
  int input_ = -1;
  int output_ = -1;
  int error_ = -1;
  std::string pending_;
  bool input_ended_ = false;
  int64_t credit_;
  bool exited_ = false;
  bool drained_ = false;
  uint32_t exit_status_ = 0;
};

} // namespace vmtest
