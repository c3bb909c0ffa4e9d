// One command that the host asked for, running in the guest.
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
  // A command that cannot be run still starts: its child says why on standard
  // error and exits with 126 or 127, as with a shell.
  explicit Command(const CommandSpec &spec);
  ~Command();
  Command(const Command &) = delete;
  Command &operator=(const Command &) = delete;

  // -1 where there is nothing (any more) to poll for.
  int input() const { return pending_.empty() ? -1 : input_; }
  int output() const { return credit_ > 0 ? output_ : -1; }
  int error() const { return credit_ > 0 ? error_ : -1; }

  void AddInput(std::string_view bytes);
  void EndInput();
  // Writes what the command takes; returns how many bytes are off the books.
  size_t HandOverInput();
  // Reads at most a frame's worth from output() or error(); false when there is
  // nothing now.
  bool Read(bool from_error, std::string *bytes);
  void AddCredit(uint32_t bytes) { credit_ += bytes; }
  void Signal(int number) const;
  void Resize(uint16_t rows, uint16_t columns) const;

  pid_t pid() const { return pid_; }
  void SetExit(int wait_status);
  // The process has ended and everything that it wrote has been read. Output
  // of processes it left behind is not waited for: a daemon would hold the
  // command for ever.
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
