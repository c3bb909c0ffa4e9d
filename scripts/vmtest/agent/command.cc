#include "command.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>

#include "wire.h"

namespace vmtest {
namespace {

void CloseIfOpen(int *fd) {
  if (*fd >= 0) {
    close(*fd);
  }
  *fd = -1;
}

void SetNonBlocking(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

std::vector<char *> Pointers(const std::vector<std::string> &strings) {
  std::vector<char *> pointers;
  for (const std::string &text : strings) {
    pointers.push_back(const_cast<char *>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Runs in the child: becomes the command. Standard streams are in place.
[[noreturn]] void Become(const CommandSpec &spec) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  std::vector<char *> environment = Pointers(spec.environment);
  environ = environment.data();
  if (chdir(spec.directory.c_str()) != 0) {
    dprintf(STDERR_FILENO, "vmtest: cannot enter %s: %s\n",
            spec.directory.c_str(), strerror(errno));
    _exit(126);
  }
  std::vector<char *> arguments = Pointers(spec.arguments);
  execvp(arguments[0], arguments.data());
  const int code = errno == ENOENT ? 127 : 126;
  dprintf(STDERR_FILENO, "vmtest: cannot run %s: %s\n", arguments[0],
          strerror(errno));
  _exit(code);
}

} // namespace

bool CommandSpec::Parse(std::string_view payload, CommandSpec *spec) {
  std::vector<std::string> fields;
  while (!payload.empty()) {
    const size_t end = payload.find('\0');
    if (end == std::string_view::npos) {
      return false;
    }
    fields.emplace_back(payload.substr(0, end));
    payload.remove_prefix(end + 1);
  }
  if (fields.size() < 4) {
    return false;
  }
  spec->pty = fields[0] == "pty";
  spec->directory = fields[1];
  size_t count = 0;
  std::from_chars(fields[2].data(), fields[2].data() + fields[2].size(), count);
  if (count == 0 || count > fields.size() - 3) {
    return false;
  }
  const auto first = fields.begin() + 3;
  const auto middle = first + static_cast<std::ptrdiff_t>(count);
  spec->arguments.assign(first, middle);
  spec->environment.assign(middle, fields.end());
  return true;
}

Command::Command(const CommandSpec &spec) : pty_(spec.pty), credit_(kWindow) {
  if (pty_) {
    StartOnPty(spec);
  } else {
    StartOnPipes(spec);
  }
}

Command::~Command() {
  CloseInput();
  if (!pty_) {
    CloseIfOpen(&error_);
  }
  CloseIfOpen(&output_);
}

void Command::StartOnPipes(const CommandSpec &spec) {
  int in[2], out[2], err[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 ||
      pipe2(err, O_CLOEXEC) != 0) {
    abort();
  }
  pid_ = fork();
  if (pid_ < 0) {
    abort();
  }
  if (pid_ == 0) {
    setsid();
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    Become(spec);
  }
  close(in[0]);
  close(out[1]);
  close(err[1]);
  input_ = in[1];
  output_ = out[0];
  error_ = err[0];
  for (int fd : {input_, output_, error_}) {
    SetNonBlocking(fd);
  }
}

void Command::StartOnPty(const CommandSpec &spec) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
    abort();
  }
  char name[64];
  if (ptsname_r(master, name, sizeof name) != 0) {
    abort();
  }
  // Opened here too, so that the master does not report a hang-up before the child has opened it.
  const int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (slave < 0) {
    abort();
  }
  pid_ = fork();
  if (pid_ < 0) {
    abort();
  }
  if (pid_ == 0) {
    setsid();
    ioctl(slave, TIOCSCTTY, 0);
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      dup2(slave, fd);
    }
    Become(spec);
  }
  close(slave);
  input_ = output_ = master;
  SetNonBlocking(master);
}

void Command::CloseInput() {
  // A pty has one descriptor for both directions; it closes with the output.
  if (pty_) {
    input_ = -1;
  } else {
    CloseIfOpen(&input_);
  }
  pending_.clear();
}

void Command::AddInput(std::string_view bytes) {
  if (input_ >= 0) {
    pending_.append(bytes);
  }
}

void Command::EndInput() {
  input_ended_ = true;
  if (pending_.empty()) {
    CloseInput();
  }
}

size_t Command::HandOverInput() {
  const ssize_t written = write(input_, pending_.data(), pending_.size());
  if (written < 0) {
    if (errno == EAGAIN || errno == EINTR) {
      return 0;
    }
    // The command has closed its input, so the rest is dropped.
    const size_t dropped = pending_.size();
    CloseInput();
    return dropped;
  }
  pending_.erase(0, static_cast<size_t>(written));
  if (pending_.empty() && input_ended_) {
    CloseInput();
  }
  return static_cast<size_t>(written);
}

bool Command::Read(bool from_error, std::string *bytes) {
  int *fd = from_error ? &error_ : &output_;
  if (*fd < 0 || credit_ <= 0) {
    return false;
  }
  const int64_t most = credit_ < kMaxPayload ? credit_ : kMaxPayload;
  bytes->resize(static_cast<size_t>(most));
  const ssize_t got = read(*fd, bytes->data(), bytes->size());
  if (got > 0) {
    bytes->resize(static_cast<size_t>(got));
    credit_ -= got;
    return true;
  }
  bytes->clear();
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    if (exited_ && !from_error) {
      CloseIfOpen(&output_);
    }
    if (exited_ && from_error) {
      CloseIfOpen(&error_);
    }
  } else {
    // End of file, or EIO: no process holds the pty any more.
    if (pty_) {
      input_ = -1;
    }
    CloseIfOpen(fd);
  }
  drained_ = output_ < 0 && error_ < 0;
  return false;
}

void Command::Signal(int number) const {
  if (!exited_) {
    kill(-pid_, number);
  }
}

void Command::Resize(uint16_t rows, uint16_t columns) const {
  const winsize size{rows, columns, 0, 0};
  if (pty_ && output_ >= 0) {
    ioctl(output_, TIOCSWINSZ, &size);
  }
}

void Command::SetExit(int wait_status) {
  exited_ = true;
  exit_status_ = static_cast<uint32_t>(WIFEXITED(wait_status)
                                           ? WEXITSTATUS(wait_status)
                                           : 128 + WTERMSIG(wait_status));
  drained_ = output_ < 0 && error_ < 0;
}

} // namespace vmtest
