// The guest's side of the harness: process 1 of the guest after the init script. Runs the commands of the
// host, and passes the requests of vmctl to the host.
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "vmctl.h"
#include "wire.h"

namespace vmtest {
namespace {

[[noreturn]] void Fail(const char *what) {
  fprintf(stderr, "vmtest agent: %s: %s\n", what, strerror(errno));
  // Process 1 ends: the kernel panics, QEMU ends, the harness shows this line.
  exit(1);
}

template <typename T> T FromBytes(std::string_view bytes) {
  T value{};
  memcpy(&value, bytes.data(),
         bytes.size() < sizeof value ? bytes.size() : sizeof value);
  return value;
}

class Agent {
public:
  Agent();
  [[noreturn]] void Run();

private:
  struct Watch {
    enum class Kind {
      kPort,
      kSignals,
      kListener,
      kRequester,
      kInput,
      kOutput,
      kError
    } kind;
    uint32_t channel;
  };

  void Send(Frame type, uint32_t channel, std::string_view payload);
  template <typename T>
  void SendNumber(Frame type, uint32_t channel, T number) {
    Send(type, channel,
         {reinterpret_cast<const char *>(&number), sizeof number});
  }
  void Wait();
  void Act(const Watch &watch, short events);
  void ReadPort();
  void WritePort();
  void Take(const FrameHeader &header, std::string_view payload);
  void Start(uint32_t channel, std::string_view payload);
  void TakeRequest(int socket, uint32_t id);
  void Reply(uint32_t id, std::string_view payload);
  void Reap();
  void Pump(uint32_t channel, bool from_error);
  void SweepFinished();
  [[noreturn]] void PowerOff();

  int port_ = -1;
  int signals_ = -1;
  int listener_ = -1;
  std::string incoming_;
  std::string outgoing_;
  std::map<uint32_t, std::unique_ptr<Command>> commands_;
  std::map<uint32_t, int> requesters_;
  uint32_t next_request_ = 1;
};

std::string FindPort() {
  namespace fs = std::filesystem;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    std::error_code ignored;
    for (const auto &port :
         fs::directory_iterator("/sys/class/virtio-ports", ignored)) {
      std::string name;
      std::getline(std::ifstream(port.path() / "name"), name);
      if (name == kPortName) {
        return "/dev/" + port.path().filename().string();
      }
    }
    usleep(10'000);
  }
  errno = ENODEV;
  Fail("the host's port");
}

int ListenForRequests() {
  const int listener =
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, kRequestSocket, sizeof address.sun_path - 1);
  if (listener < 0 ||
      bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof address) !=
          0 ||
      listen(listener, 16) != 0) {
    Fail(kRequestSocket);
  }
  return listener;
}

// Without it nothing in the guest could connect to 127.0.0.1.
void RaiseLoopback() {
  const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  strncpy(request.ifr_name, "lo", sizeof request.ifr_name - 1);
  if (any < 0 || ioctl(any, SIOCGIFFLAGS, &request) != 0) {
    Fail("lo");
  }
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  if (ioctl(any, SIOCSIFFLAGS, &request) != 0) {
    Fail("lo");
  }
  close(any);
}

Agent::Agent() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  sigprocmask(SIG_BLOCK, &children, nullptr);
  signals_ = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) {
    Fail("signalfd");
  }
  RaiseLoopback();
  listener_ = ListenForRequests();
  port_ = open(FindPort().c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (port_ < 0) {
    Fail("the host's port");
  }
  Send(Frame::kReady, 0, {});
}

void Agent::Run() {
  while (true) {
    Wait();
    SweepFinished();
  }
}

void Agent::Send(Frame type, uint32_t channel, std::string_view payload) {
  const FrameHeader header{
      static_cast<uint32_t>(payload.size()), channel, type, {}};
  outgoing_.append(reinterpret_cast<const char *>(&header), sizeof header);
  outgoing_.append(payload);
}

void Agent::Wait() {
  std::vector<pollfd> polled;
  std::vector<Watch> watches;
  auto add = [&](int fd, short events, Watch::Kind kind, uint32_t channel) {
    if (fd < 0) {
      return;
    }
    polled.push_back({fd, events, 0});
    watches.push_back({kind, channel});
  };
  const short port_events = outgoing_.empty() ? POLLIN : POLLIN | POLLOUT;
  add(port_, port_events, Watch::Kind::kPort, 0);
  add(signals_, POLLIN, Watch::Kind::kSignals, 0);
  add(listener_, POLLIN, Watch::Kind::kListener, 0);
  for (const auto &[channel, command] : commands_) {
    add(command->input(), POLLOUT, Watch::Kind::kInput, channel);
    add(command->output(), POLLIN, Watch::Kind::kOutput, channel);
    add(command->error(), POLLIN, Watch::Kind::kError, channel);
  }
  for (const auto &[id, socket] : requesters_) {
    add(socket, POLLIN, Watch::Kind::kRequester, id);
  }
  if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) {
    Fail("poll");
  }
  for (size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents != 0) {
      Act(watches[i], polled[i].revents);
    }
  }
}

void Agent::Act(const Watch &watch, short events) {
  switch (watch.kind) {
  case Watch::Kind::kPort:
    // The harness has died: no more requests will come.
    if ((events & POLLHUP) != 0) {
      PowerOff();
    }
    if ((events & POLLIN) != 0) {
      ReadPort();
    }
    if ((events & POLLOUT) != 0) {
      WritePort();
    }
    break;
  case Watch::Kind::kSignals:
    Reap();
    break;
  case Watch::Kind::kListener: {
    const int socket =
        accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket >= 0) {
      requesters_[next_request_++] = socket;
    }
    break;
  }
  case Watch::Kind::kRequester:
    if (requesters_.contains(watch.channel)) {
      TakeRequest(requesters_[watch.channel], watch.channel);
    }
    break;
  case Watch::Kind::kInput:
    if (auto found = commands_.find(watch.channel); found != commands_.end()) {
      const size_t bytes = found->second->HandOverInput();
      if (bytes > 0) {
        SendNumber(Frame::kInputCredit, watch.channel,
                   static_cast<uint32_t>(bytes));
      }
    }
    break;
  case Watch::Kind::kOutput:
    Pump(watch.channel, false);
    break;
  case Watch::Kind::kError:
    Pump(watch.channel, true);
    break;
  }
}

void Agent::ReadPort() {
  char buffer[kMaxPayload];
  const ssize_t got = read(port_, buffer, sizeof buffer);
  if (got < 0 && errno != EAGAIN && errno != EINTR) {
    Fail("reading the host's port");
  }
  if (got <= 0) {
    return;
  }
  incoming_.append(buffer, static_cast<size_t>(got));
  size_t used = 0;
  while (incoming_.size() - used >= sizeof(FrameHeader)) {
    FrameHeader header;
    memcpy(&header, incoming_.data() + used, sizeof header);
    if (incoming_.size() - used - sizeof header < header.length) {
      break;
    }
    Take(header, std::string_view(incoming_).substr(used + sizeof header,
                                                    header.length));
    used += sizeof header + header.length;
  }
  incoming_.erase(0, used);
}

void Agent::WritePort() {
  const ssize_t written = write(port_, outgoing_.data(), outgoing_.size());
  if (written < 0 && errno != EAGAIN && errno != EINTR) {
    Fail("writing the host's port");
  }
  if (written > 0) {
    outgoing_.erase(0, static_cast<size_t>(written));
  }
}

void Agent::Take(const FrameHeader &header, std::string_view payload) {
  if (header.type == Frame::kStart) {
    return Start(header.channel, payload);
  }
  if (header.type == Frame::kReply) {
    return Reply(header.channel, payload);
  }
  if (header.type == Frame::kPowerOff) {
    PowerOff();
  }
  const auto found = commands_.find(header.channel);
  // The command may have ended while this frame was under way.
  if (found == commands_.end()) {
    return;
  }
  Command &command = *found->second;
  if (header.type == Frame::kInput) {
    command.AddInput(payload);
  }
  if (header.type == Frame::kInputEnd) {
    command.EndInput();
  }
  if (header.type == Frame::kSignal) {
    command.Signal(FromBytes<uint8_t>(payload));
  }
  if (header.type == Frame::kCredit) {
    command.AddCredit(FromBytes<uint32_t>(payload));
  }
  if (header.type == Frame::kResize) {
    const auto both = FromBytes<uint32_t>(payload);
    command.Resize(static_cast<uint16_t>(both),
                   static_cast<uint16_t>(both >> 16));
  }
}

void Agent::Start(uint32_t channel, std::string_view payload) {
  CommandSpec spec;
  if (!CommandSpec::Parse(payload, &spec)) {
    errno = EBADMSG;
    Fail("the host's command");
  }
  commands_[channel] = std::make_unique<Command>(spec);
}

void Agent::TakeRequest(int socket, uint32_t id) {
  char buffer[kMaxPayload];
  const ssize_t got = recv(socket, buffer, sizeof buffer, 0);
  if (got > 0) {
    return Send(Frame::kRequest, id, {buffer, static_cast<size_t>(got)});
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  close(socket);
  requesters_.erase(id);
}

void Agent::Reply(uint32_t id, std::string_view payload) {
  const auto found = requesters_.find(id);
  if (found == requesters_.end()) {
    return;
  }
  send(found->second, payload.data(), payload.size(), MSG_NOSIGNAL);
  close(found->second);
  requesters_.erase(found);
}

void Agent::Reap() {
  signalfd_siginfo ignored;
  while (read(signals_, &ignored, sizeof ignored) > 0) {
  }
  // Reaps orphans too: the agent is process 1.
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0;
       pid = waitpid(-1, &status, WNOHANG)) {
    for (auto &[channel, command] : commands_) {
      if (command->pid() == pid) {
        command->SetExit(status);
      }
    }
  }
}

void Agent::Pump(uint32_t channel, bool from_error) {
  const auto found = commands_.find(channel);
  if (found == commands_.end()) {
    return;
  }
  std::string bytes;
  if (found->second->Read(from_error, &bytes)) {
    Send(from_error ? Frame::kError : Frame::kOutput, channel, bytes);
  }
}

void Agent::SweepFinished() {
  for (auto next = commands_.begin(); next != commands_.end();) {
    const auto [channel, command] = std::pair(next->first, next->second.get());
    ++next;
    if (!command->Exited()) {
      continue;
    }
    // The command's last output is in the pipes now. Take all of it, as far as the credit allows.
    for (const bool from_error : {false, true}) {
      std::string bytes;
      while (command->Read(from_error, &bytes)) {
        Send(from_error ? Frame::kError : Frame::kOutput, channel, bytes);
      }
    }
    if (!command->Finished()) {
      continue;
    }
    SendNumber(Frame::kExit, channel, command->exit_status());
    commands_.erase(channel);
  }
}

void Agent::PowerOff() {
  kill(-1, SIGTERM);
  usleep(200'000);
  kill(-1, SIGKILL);
  sync();
  reboot(RB_POWER_OFF);
  Fail("reboot");
}

} // namespace
} // namespace vmtest

int main(int argc, char **argv) {
  const std::string name = std::filesystem::path(argv[0]).filename();
  if (name == "vmctl") {
    return vmtest::RunVmctl(std::vector<std::string>(argv + 1, argv + argc));
  }
  vmtest::Agent().Run();
}
