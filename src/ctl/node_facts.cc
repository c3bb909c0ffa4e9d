#include "ctl/node_facts.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "base/unix_socket.h"
#include "mount/process_scan.h"

namespace quarry::ctl {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kQuick{5000};  // no device is asked
constexpr milliseconds kUsual{30000};
constexpr milliseconds kOfLvm{45000};  // a disk may be slow
constexpr size_t kMostOutput = 64 << 20;
constexpr const char* kSince = "-7 days";

// The tool in one of the system's folders; empty: it is not installed.
std::string FindTool(const std::string& name) {
  for (const char* folder : {"/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/"}) {
    if (access((folder + name).c_str(), X_OK) == 0) {
      return folder + name;
    }
  }
  return "";
}

class Facts {
 public:
  explicit Facts(std::shared_ptr<Subprocess> children) : children_(std::move(children)) {}

  // The output of a command. Its exit status and its complaints are part of the text.
  void Command(const std::string& name, std::vector<std::string> argv, milliseconds limit = kUsual) {
    parts_.push_back({name, limit, [argv = std::move(argv), children = children_](const Call& call) {
                        return Output(argv, *children, call);
                      }});
  }
  void File(const std::string& name, const std::string& path) {
    parts_.push_back({name, kQuick, [path](const Call&) { return mount::ReadWhole(path); }});
  }
  void Made(const std::string& name, milliseconds limit,
            std::function<Result<std::string>(const Call&)> make) {
    parts_.push_back({name, limit, std::move(make)});
  }
  std::vector<ReportPart> Done() && { return std::move(parts_); }

 private:
  static Result<std::string> Output(std::vector<std::string> argv, Subprocess& children, const Call& call) {
    if (!argv[0].starts_with('/')) {
      const std::string path = FindTool(argv[0]);
      if (path.empty()) {
        return Error(Code::kNotFound, fmt::format("{} is not installed", argv[0]));
      }
      argv[0] = path;
    }
    quarry::Command command{.argv = std::move(argv),
                            .env = {{"LC_ALL", "C"},
                                    {"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"},
                                    {"LVM_SUPPRESS_FD_WARNINGS", "1"}},
                            .input = "",
                            .output_limit = kMostOutput};
    QUARRY_ASSIGN(const Finished done, children.Run(command, call));
    if (!done.ok() && done.out.empty()) {
      return Error(Code::kPrecondition,
                   fmt::format("exit status {}: {}", done.exit_status, ToolWords(done.err)));
    }
    std::string text = done.out;
    if (!done.err.empty()) {
      text += "\n--- standard error ---\n" + done.err;
    }
    if (!done.ok()) {
      text += fmt::format("\n--- exit status {} ---\n", done.exit_status);
    }
    return text;
  }

  std::shared_ptr<Subprocess> children_;
  std::vector<ReportPart> parts_;
};

// Comments are left out: anything may stand there.
Result<std::string> Configuration(const std::string& path) {
  QUARRY_ASSIGN(const std::string whole, mount::ReadWhole(path));
  std::string text;
  for (std::string_view rest = whole; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const size_t first = line.find_first_not_of(" \t");
    if (first != std::string_view::npos && line[first] != '#') {
      text.append(line).append("\n");
    }
  }
  return text;
}

Result<UniqueFd> Connect(const daemon::MetricsAddress& address) {
  if (address.socket.has_value()) {
    QUARRY_ASSIGN(const sockaddr_un place, UnixAddress(*address.socket));
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return connect(fd.get(), reinterpret_cast<const sockaddr*>(&place), sizeof(place)) == 0
               ? Result<UniqueFd>(std::move(fd))
               : ErrnoError(address.text);
  }
  sockaddr_in6 six{.sin6_family = AF_INET6, .sin6_port = htons(static_cast<uint16_t>(address.port))};
  sockaddr_in four{.sin_family = AF_INET, .sin_port = six.sin6_port};
  const bool is_four = inet_pton(AF_INET, address.host.c_str(), &four.sin_addr) == 1;
  if (!is_four && inet_pton(AF_INET6, address.host.c_str(), &six.sin6_addr) != 1) {
    return Error(Code::kInvalidArgument, fmt::format("{}: not an address", address.text));
  }
  UniqueFd fd(socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int failed = is_four ? connect(fd.get(), reinterpret_cast<const sockaddr*>(&four), sizeof(four))
                             : connect(fd.get(), reinterpret_cast<const sockaddr*>(&six), sizeof(six));
  return failed == 0 ? Result<UniqueFd>(std::move(fd)) : ErrnoError(address.text);
}

// HTTP/1.0: the server closes the connection after the page.
Result<std::string> Metrics(const daemon::MetricsAddress& address, const Call& call) {
  QUARRY_ASSIGN(const UniqueFd fd, Connect(address));
  constexpr std::string_view kRequest = "GET /metrics HTTP/1.0\r\n\r\n";
  if (send(fd.get(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL) != ssize_t{kRequest.size()}) {
    return ErrnoError(address.text);
  }
  std::string text;
  std::array<char, 65536> chunk{};
  while (text.size() < kMostOutput) {
    pollfd ready{.fd = fd.get(), .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, static_cast<int>(std::min(call.Remaining(), kUsual).count())) <= 0) {
      return Error(Code::kTimeout, fmt::format("{}: no answer", address.text));
    }
    const ssize_t got = recv(fd.get(), chunk.data(), chunk.size(), 0);
    if (got < 0) {
      return ErrnoError(address.text);
    }
    if (got == 0) {
      break;
    }
    text.append(chunk.data(), static_cast<size_t>(got));
  }
  return text;
}

// LVM's own text of each group, as vgcfgbackup writes it into files.
Result<std::string> GroupTexts(const std::string& scratch, Subprocess& children, const Call& call) {
  const std::string lvm = FindTool("lvm");
  if (lvm.empty()) {
    return Error(Code::kNotFound, "lvm is not installed");
  }
  const quarry::Command command{.argv = {lvm, "vgcfgbackup", "--nolocking", "--config",
                                         "backup{backup=0 archive=0}", "-f", scratch + "/%s.vg"},
                                .env = {{"LC_ALL", "C"}, {"LVM_SUPPRESS_FD_WARNINGS", "1"}},
                                .input = ""};
  QUARRY_ASSIGN(const Finished done, children.Run(command, call));
  std::string text;
  for (const std::string& name : mount::ListDirectory(scratch)) {
    text += fmt::format("# {}\n{}\n", name, mount::ReadWhole(scratch + "/" + name).value_or(""));
  }
  if (text.empty()) {
    return Error(Code::kPrecondition,
                 fmt::format("exit status {}: {}", done.exit_status, ToolWords(done.err)));
  }
  return text;
}

void AddQuarrys(const NodeQuestion& question, Facts& facts) {
  const auto own = [&](const std::string& name, std::vector<std::string> words, milliseconds limit) {
    std::vector<std::string> argv = {question.program};
    argv.insert(argv.end(), question.own_flags.begin(), question.own_flags.end());
    argv.insert(argv.end(), words.begin(), words.end());
    facts.Command(name, std::move(argv), limit);
  };
  const auto ask = [&](const std::string& name, std::vector<std::string> words) {
    if (!question.endpoint.empty()) {
      words.insert(words.end(), {"--endpoint", question.endpoint});
    }
    own(name, std::move(words), kUsual);
  };
  ask("quarry/status.txt", {"status"});
  ask("quarry/status.json", {"status", "--json"});
  ask("quarry/devices.txt", {"devices"});
  ask("quarry/devices.json", {"devices", "--json"});
  ask("quarry/trace.txt", {"trace"});
  ask("quarry/trace.json", {"trace", "--json"});
  own("quarry/map.txt", {"map", "--width", "160", "--color", "never"}, kOfLvm);
  own("quarry/capacity.txt", {"capacity"}, kOfLvm);
  facts.Made("quarry/configuration.toml", kQuick,
             [path = question.config](const Call&) { return Configuration(path); });
  facts.Made("quarry/metrics.txt", kUsual,
             [address = question.metrics](const Call& call) -> Result<std::string> {
               return address.has_value() ? Metrics(*address, call)
                                          : Error(Code::kPrecondition, "no metrics address is configured");
             });
  facts.Command("quarry/log.txt", {"journalctl", "--unit", "quarryd", "--no-pager", "--quiet", "--output",
                                   "short-iso-precise", "--since", kSince, "--lines", "50000"});
}

void AddVersions(const NodeQuestion& question, Facts& facts) {
  facts.Made("versions/quarryctl", kQuick,
             [version = question.version](const Call&) -> Result<std::string> { return version + "\n"; });
  facts.Command("versions/quarryd", {"quarryd", "--version"}, kQuick);
  facts.Command("versions/lvm", {"lvm", "version"}, kQuick);
  facts.File("versions/kernel", "/proc/version");
  facts.File("versions/system", "/etc/os-release");
}

void AddLvms(const NodeQuestion& question, const std::shared_ptr<Subprocess>& children, Facts& facts) {
  // Without locks: a command that hangs has them.
  facts.Command("lvm/fullreport.json",
                {"lvm", "fullreport", "--nolocking", "--all", "--reportformat", "json"}, kOfLvm);
  facts.Command("lvm/lvs.txt", {"lvm", "lvs", "--nolocking", "-a", "-o", "+devices,lv_health_status,lv_time"},
                kOfLvm);
  facts.Command("lvm/vgs.txt", {"lvm", "vgs", "--nolocking", "-v"}, kOfLvm);
  facts.Command("lvm/pvs.txt", {"lvm", "pvs", "--nolocking", "-v"}, kOfLvm);
  facts.Made("lvm/groups.txt", kOfLvm, [scratch = question.scratch, children](const Call& call) {
    return GroupTexts(scratch, *children, call);
  });
  // dmsetup shows no keys of dm-crypt without --showkeys.
  facts.Command("device-mapper/table.txt", {"dmsetup", "table"});
  facts.Command("device-mapper/status.txt", {"dmsetup", "status", "--noflush"});
  facts.Command("device-mapper/info.txt", {"dmsetup", "info", "-c"});
  facts.Command("device-mapper/tree.txt", {"dmsetup", "ls", "--tree"});
}

void AddKernels(Facts& facts) {
  facts.Command("kernel/lsblk.json", {"lsblk", "--json", "--bytes", "--output-all"});
  facts.Command("kernel/log.txt", {"dmesg", "--time-format", "iso"});
  facts.Made("kernel/stuck_tasks.txt", kUsual,
             [](const Call&) -> Result<std::string> { return StuckTasks("/proc"); });
  for (const char* file : {"mounts", "self/mountinfo", "swaps", "mdstat", "partitions", "diskstats",
                           "meminfo", "loadavg", "uptime", "cmdline", "modules"}) {
    facts.File(fmt::format("kernel/proc/{}", file), fmt::format("/proc/{}", file));
  }
  facts.File("kernel/proc/pressure_io", "/proc/pressure/io");
}

}  // namespace

std::string StuckTasks(const std::string& proc) {
  std::string text;
  for (const std::string& process : mount::ListDirectory(proc)) {
    if (!std::ranges::all_of(process, [](unsigned char c) { return c >= '0' && c <= '9'; })) {
      continue;
    }
    for (const std::string& task : mount::ListDirectory(fmt::format("{}/{}/task", proc, process))) {
      const std::string place = fmt::format("{}/{}/task/{}", proc, process, task);
      const std::string stat = mount::ReadWord(place + "/stat");
      const size_t name_end = stat.rfind(')');  // the name may have blanks and brackets
      if (name_end == std::string::npos || stat.compare(name_end, 3, ") D") != 0) {
        continue;
      }
      text += fmt::format("pid {} task {} ({}), waits in {}\n{}\n", process, task,
                          mount::ReadWord(place + "/comm"), mount::ReadWord(place + "/wchan"),
                          mount::ReadWhole(place + "/stack").value_or(""));
    }
  }
  return text.empty() ? "no task is in uninterruptible sleep\n" : text;
}

std::vector<ReportPart> NodeFacts(const NodeQuestion& question, const std::shared_ptr<Subprocess>& children) {
  Facts facts(children);
  AddVersions(question, facts);
  AddQuarrys(question, facts);
  AddLvms(question, children, facts);
  AddKernels(facts);
  return std::move(facts).Done();
}

}  // namespace quarry::ctl
