#include "daemon/monitoring/statsd.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/call.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "base/unix_socket.h"
#include "daemon/settings/values.h"

namespace quarry::daemon {
namespace {

constexpr std::string_view kUdp = "udp://";
constexpr std::string_view kUnix = "unixgram://";
constexpr uint64_t kMostPort = 65535;
// Fits into one frame of an Ethernet.
constexpr size_t kMostBytes = 1432;

Error WrongAddress(std::string_view text) {
  return Wrong("udp://HOST:PORT or unixgram:///<directory>/<name>.sock", text);
}

// One sample of a page: `quarry_x{a="b",c="d"} 7`.
struct Sample {
  std::string name;
  std::string tags;  // "a:b,c:d"
  double value = 0;
};

// Tags are separated by what may occur in a value.
void AddToTag(char c, std::string& tags) {
  const bool taken = c == '|' || c == ',' || c == ':' || c == '#' || c == '@' || c == '\n';
  tags += taken ? '_' : c;
}

// `rest` begins after '{'. Removes the labels and '}' from it. False: the text is not as expected.
bool ReadLabels(std::string_view& rest, std::string& tags) {
  while (!rest.empty() && rest.front() != '}') {
    const size_t equals = rest.find("=\"");
    if (equals == std::string_view::npos) {
      return false;
    }
    tags += fmt::format("{}{}:", tags.empty() ? "" : ",", rest.substr(0, equals));
    rest.remove_prefix(equals + 2);
    while (!rest.empty() && rest.front() != '"') {
      const bool escaped = rest.front() == '\\' && rest.size() > 1;
      const char c = escaped ? rest[1] : rest.front();
      AddToTag(escaped && c == 'n' ? '\n' : c, tags);
      rest.remove_prefix(escaped ? 2 : 1);
    }
    rest.remove_prefix(std::min<size_t>(rest.size(), 1));
    rest.remove_prefix(rest.starts_with(',') ? 1 : 0);
  }
  rest.remove_prefix(std::min<size_t>(rest.size(), 1));
  return true;
}

std::optional<Sample> ReadSample(std::string_view line) {
  const size_t end = line.find_first_of("{ ");
  if (line.starts_with('#') || end == std::string_view::npos) {
    return std::nullopt;
  }
  Sample sample{.name = std::string(line.substr(0, end)), .tags = ""};
  std::string_view rest = line.substr(end);
  if (rest.front() == '{') {
    rest.remove_prefix(1);
    if (!ReadLabels(rest, sample.tags)) {
      return std::nullopt;
    }
  }
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const auto [last, error] = std::from_chars(rest.data(), rest.data() + rest.size(), sample.value);
  return error == std::errc() && std::isfinite(sample.value) ? std::optional(std::move(sample))
                                                             : std::nullopt;
}

std::string LineOf(const Sample& sample, double value, char type) {
  return fmt::format("{}:{}|{}{}{}", sample.name, value, type, sample.tags.empty() ? "" : "|#", sample.tags);
}

// What a detached look-up and its waiter share.
struct PendingLookUp {
  Mutex mutex;
  std::condition_variable_any changed;
  std::optional<Result<HostAddress>> found ABSL_GUARDED_BY(mutex);
};

// A look-up cannot be cancelled. One that is stopped is left to itself.
Result<HostAddress> LookUpUntilStopped(const StatsdAddress& address, const LookUp& look_up,
                                       const std::stop_token& stop) {
  const auto pending = std::make_shared<PendingLookUp>();
  try {
    std::thread([pending, look_up, host = address.host, port = address.port] {
      auto found = look_up(host, port);
      const MutexLock lock(pending->mutex);
      pending->found = std::move(found);
      pending->changed.notify_all();
    }).detach();
  } catch (const std::system_error& error) {  // too many processes
    return Error(Code::kUnavailable, fmt::format("looking up {}: {}", address.host, error.what()));
  }
  PendingLookUp& shared = *pending;
  MutexLock lock(shared.mutex);
  (void)WaitUntil(shared.changed, lock, Call{.stop = stop},
                  [&shared]()
                      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) { return shared.found.has_value(); });
  return shared.found.value_or(Error(Code::kCancelled, fmt::format("looking up {}: stopped", address.host)));
}

Result<UniqueFd> ConnectUdp(const HostAddress& to) {
  UniqueFd fd(socket(to.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.size) != 0) {
    return ErrnoError("connecting");
  }
  return fd;
}

Result<UniqueFd> ConnectUnix(const AbsolutePath& path) {
  QUARRY_ASSIGN(const sockaddr_un to, UnixAddress(path));
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) {
    return ErrnoError("connecting");
  }
  return fd;
}

Result<UniqueFd> Connect(const StatsdAddress& address, const LookUp& look_up, const std::stop_token& stop) {
  if (address.socket.has_value()) {
    return ConnectUnix(*address.socket);
  }
  QUARRY_ASSIGN(const HostAddress to, LookUpUntilStopped(address, look_up, stop));
  return ConnectUdp(to);
}

// The address is looked up each time, because names move and sockets are made again.
Status Send(const StatsdAddress& address, const std::vector<std::string>& datagrams, const LookUp& look_up,
            const std::stop_token& stop) {
  QUARRY_ASSIGN(const UniqueFd fd, Connect(address, look_up, stop));
  for (const std::string& datagram : datagrams) {
    if (send(fd.get(), datagram.data(), datagram.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
      return ErrnoError("sending");
    }
  }
  return Ok();
}

}  // namespace

Result<StatsdAddress> ParseStatsdAddress(std::string_view text) {
  StatsdAddress address{.text = std::string(text), .socket = {}, .host = "", .port = ""};
  if (text.starts_with(kUnix)) {
    QUARRY_ASSIGN(address.socket, ParseEndpoint(fmt::format("unix://{}", text.substr(kUnix.size()))));
    return address;
  }
  const size_t colon = text.rfind(':');
  if (!text.starts_with(kUdp) || colon < kUdp.size()) {
    return WrongAddress(text);
  }
  std::string_view host = text.substr(kUdp.size(), colon - kUdp.size());
  const bool bracketed = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
  host = bracketed ? host.substr(1, host.size() - 2) : host;
  const auto port = ParseNumber(text.substr(colon + 1));
  if (host.empty() || (!bracketed && host.find(':') != std::string_view::npos) || !port.has_value() ||
      *port == 0 || *port > kMostPort) {
    return WrongAddress(text);
  }
  address.host = host;
  address.port = std::to_string(*port);
  return address;
}

std::vector<std::string> StatsdLines::Next(std::string_view page) {
  std::vector<std::string> lines;
  std::string_view type;  // of the samples that follow
  while (!page.empty()) {
    const std::string_view line = page.substr(0, page.find('\n'));
    page.remove_prefix(std::min(line.size() + 1, page.size()));
    if (line.starts_with("# TYPE ")) {
      type = line.substr(line.rfind(' ') + 1);
    }
    const auto sample = ReadSample(line);
    if (!sample.has_value() || (type == "histogram" && sample->name.ends_with("_bucket"))) {
      continue;
    }
    if (type == "gauge") {
      if (sample->value < 0) {
        lines.push_back(LineOf(*sample, 0, 'g'));  // a sign would mean a change of the present value
      }
      lines.push_back(LineOf(*sample, sample->value, 'g'));
      continue;
    }
    // A counter of a disk began long before this process. A histogram of this process began at 0.
    const auto [before, added] = before_.try_emplace(sample->name + "|" + sample->tags, sample->value);
    const double from = !added ? before->second : type == "histogram" && !first_ ? 0 : sample->value;
    if (sample->value > from) {
      lines.push_back(LineOf(*sample, sample->value - from, 'c'));
    }
    before->second = sample->value;
  }
  first_ = false;
  return lines;
}

std::vector<std::string> PackLines(const std::vector<std::string>& lines, size_t most) {
  std::vector<std::string> out;
  for (const std::string& line : lines) {
    if (out.empty() || out.back().size() + 1 + line.size() > most) {
      out.push_back(line);
    } else {
      out.back() += "\n" + line;
    }
  }
  return out;
}

Result<HostAddress> LookUpHost(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int code = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); code != 0) {
    return Error(Code::kUnavailable, fmt::format("looking up {}: {}", host, gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  HostAddress address{.storage = {}, .size = found->ai_addrlen};
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  return address;
}

std::jthread SendToStatsd(StatsdAddress address, std::function<std::string()> page, const Logger& log,
                          std::chrono::milliseconds interval, LookUp look_up) {
  return std::jthread([address = std::move(address), page = std::move(page), &log, interval,
                       look_up = std::move(look_up)](const std::stop_token& stop) {
    StatsdLines lines;
    bool lost = false;
    while (!stop.stop_requested()) {
      const Status sent = Send(address, PackLines(lines.Next(page()), kMostBytes), look_up, stop);
      if (stop.stop_requested()) {
        return;
      }
      if (!sent.has_value() && !std::exchange(lost, true)) {
        log.Warning("metrics could not be sent to the StatsD server",
                    {{"address", address.text}, {"error", sent.error().message()}});
      } else if (sent.has_value() && std::exchange(lost, false)) {
        log.Info("metrics are sent to the StatsD server again", {{"address", address.text}});
      }
      (void)Sleep(stop, interval);
    }
  });
}

}  // namespace quarry::daemon
