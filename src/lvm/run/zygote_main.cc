// quarry-lvm, the LVM zygote. It holds liblvm2cmd initialized (configuration parsed, command table built),
// and runs each command in a forked child, which then exits. So no effect of a command leaks into the next
// one, each can be killed, and several may run at once.
//
// liblvm2cmd keeps process-wide state, changes umask, locale and malloc, locks all memory while devices are
// suspended, and cuts what it logs through a callback at 4095 bytes. So only this process loads the library,
// no callback is set, and output goes to descriptors 1 and 2 of the child, complete as LVM writes it.
//
// Single-threaded. Only quarryd starts it (zygote.h, which also lists the commands that it accepts).
#include <fcntl.h>
#include <lvm2cmd.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "lvm/run/zygote_wire.h"

namespace {

using quarry::lvm::zygote::Event;
using quarry::lvm::zygote::kControlFd;
using quarry::lvm::zygote::kFirstLock;
using quarry::lvm::zygote::Kind;
using quarry::lvm::zygote::kMaxRequest;
using quarry::lvm::zygote::kMostFds;
using quarry::lvm::zygote::Message;

struct Request {
  std::string line;
  Kind kind = Kind::kChanges;
  int reply = -1;
  int out = -1;
  int err = -1;
  std::vector<int> locks;  // at most kMostLocks
};

struct Running {
  pid_t pid = -1;
  int reply = -1;  // -1 once the reader is gone
  Kind kind = Kind::kChanges;
};

// An error means that the reader is gone, so it is ignored.
void Send(int fd, Event event, int value) {
  const Message message{event, value};
  (void)!send(fd, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
}

enum class Received { kRequest, kNothing, kEnd };

Received Receive(Request& request) {
  std::array<char, 1 + kMaxRequest> text{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFds * sizeof(int))> control{};
  iovec part{text.data(), text.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t n = recvmsg(kControlFd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (n <= 0) {
    const bool again = n < 0 && (errno == EAGAIN || errno == EINTR);
    return again ? Received::kNothing : Received::kEnd;
  }
  const cmsghdr* fds = CMSG_FIRSTHDR(&header);
  const size_t count = fds == nullptr ? 0 : (fds->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  if (count < kFirstLock || count > kMostFds) {
    return Received::kNothing;
  }
  std::array<int, kMostFds> received{};
  std::memcpy(received.data(), CMSG_DATA(fds), count * sizeof(int));
  request = {std::string(text.data() + 1, static_cast<size_t>(n - 1)),
             static_cast<Kind>(text[0]),
             received[0],
             received[1],
             received[2],
             {received.begin() + kFirstLock, received.begin() + count}};
  return Received::kRequest;
}

class Zygote {
 public:
  Zygote(void* lvm, int signals) : lvm_(lvm), signals_(signals) {}

  // Runs until quarryd is gone and the last command has ended.
  void Serve() {
    while (serving_ || !running_.empty()) {
      std::vector<pollfd> fds = {{signals_, POLLIN, 0}, {serving_ ? kControlFd : -1, POLLIN, 0}};
      for (const Running& child : running_) {
        fds.push_back({child.reply, POLLIN, 0});
      }
      if (poll(fds.data(), fds.size(), -1) < 0) {
        continue;
      }
      for (size_t i = 2; i < fds.size(); ++i) {
        if (fds[i].revents != 0) {
          PassSignal(running_[i - 2]);
        }
      }
      if (fds[0].revents != 0) {
        Reap();
      }
      if (fds[1].revents != 0) {
        Take();
      }
    }
  }

 private:
  void Take() {
    Request request;
    switch (Receive(request)) {
      case Received::kEnd:
        serving_ = false;
        EndWatchers();
        return;
      case Received::kNothing:
        return;
      case Received::kRequest:
        break;
    }
    Send(request.reply, Event::kTaken, 0);
    const pid_t zygote = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
      Run(request, zygote);
    }
    if (pid < 0) {
      Send(request.reply, Event::kNotStarted, errno);
      close(request.reply);
    } else {
      setpgid(pid, pid);  // the child does the same: the first one wins
      running_.push_back({pid, request.reply, request.kind});
    }
    close(request.out);
    close(request.err);
    for (const int lock : request.locks) {
      close(lock);  // no LOCK_UN: the command has the lock
    }
  }

  // Ends commands that only watch: they would hold the group's lock as long as there is something to watch.
  // If one is just making a change, it completes the change first, because LVM blocks signals meanwhile.
  void EndWatchers() {
    for (const Running& child : running_) {
      if (child.kind == Kind::kWatches) {
        kill(-child.pid, SIGTERM);
      }
    }
  }

  // Runs in the child.
  [[noreturn]] void Run(const Request& request, pid_t zygote) {
    setpgid(0, 0);
    Send(request.reply, Event::kStarted, getpid());
    close(kControlFd);
    close(signals_);
    for (const Running& other : running_) {
      if (other.reply >= 0) {
        close(other.reply);
      }
    }
    dup2(request.out, STDOUT_FILENO);
    dup2(request.err, STDERR_FILENO);
    close(request.out);
    close(request.err);
    if (!request.locks.empty()) {
      dup2(request.locks[0], STDIN_FILENO);
      close(request.locks[0]);
    }
    if (request.kind == Kind::kWatches) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != zygote) {
        raise(SIGTERM);
      }
    }
    sigset_t blocked;
    sigemptyset(&blocked);
    for (const int signal : quarry::kEndingSignals) {
      std::signal(signal, SIG_DFL);
      if (request.kind == Kind::kUnbroken) {
        sigaddset(&blocked, signal);
      }
    }
    std::signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &blocked, nullptr);
    // LVM writes reports line by line. Without a buffer, a thousand volumes take ten thousand writes.
    static std::array<char, 1 << 16> buffer;
    setvbuf(stdout, buffer.data(), _IOFBF, buffer.size());

    const int code = lvm2_run(lvm_, request.line.c_str());
    // As in the lvm program: 1 is success, other values are exit statuses.
    const bool written = fflush(nullptr) == 0;
    int status = code == LVM2_COMMAND_SUCCEEDED ? 0 : code;
    status = written || status != 0 ? status : LVM2_PROCESSING_FAILED;
    Send(request.reply, Event::kDone, status);
    _exit(status);
  }

  void PassSignal(Running& child) {
    Message message;
    const ssize_t n = recv(child.reply, &message, sizeof(message), MSG_DONTWAIT);
    if (n == sizeof(message) && message.event == Event::kSignal) {
      kill(-child.pid, message.value);
    } else if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
      close(child.reply);
      child.reply = -1;
    }
  }

  void Reap() {
    signalfd_siginfo info{};
    while (read(signals_, &info, sizeof(info)) == sizeof(info)) {
    }
    int status = 0;
    for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
      const auto child = std::find_if(running_.begin(), running_.end(),
                                      [pid](const Running& running) { return running.pid == pid; });
      if (child == running_.end()) {
        continue;
      }
      if (child->reply >= 0) {
        Send(child->reply, Event::kEnded, status);
        close(child->reply);
      }
      running_.erase(child);
    }
  }

  void* lvm_;
  int signals_;
  bool serving_ = true;
  std::vector<Running> running_;
};

// Signals meant for quarryd's group or unit do not end the zygote: quarryd ends it. TERM is blocked as well,
// so that a TERM for a command that was just forked waits until the command is ready for it.
int TakeSignals() {
  for (const int signal : quarry::kEndingSignals) {
    std::signal(signal, SIG_IGN);
  }
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigset_t blocked = child;
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  return signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace

int main() {
  int type = 0;
  socklen_t size = sizeof(type);
  if (getsockopt(kControlFd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET) {
    std::fputs("quarry-lvm runs LVM's commands for quarryd, which starts it; it cannot be used by itself.\n",
               stderr);
    return 2;
  }
  fcntl(kControlFd, F_SETFD, FD_CLOEXEC);
  void* lvm = lvm2_init();
  if (lvm == nullptr) {
    std::fputs("liblvm2cmd cannot be initialized\n", stderr);
    return 1;
  }
  const int signals = TakeSignals();
  if (signals < 0) {
    std::perror("signalfd");
    return 1;
  }
  Send(kControlFd, Event::kReady, 0);
  Zygote(lvm, signals).Serve();
  lvm2_exit(lvm);
  return 0;
}
