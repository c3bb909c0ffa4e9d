#include "engine/pool/zeroed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/boot_id.h"
#include "base/unique_fd.h"

namespace quarry::engine {
namespace {

// The lines: this, the boot and the fingerprint, one line for each range (PV, first extent, count), and the
// last line. A file without the last line was not written whole.
constexpr std::string_view kFirstLine = "quarry zeroed extents, format 1";
constexpr std::string_view kLastLine = "end";
constexpr size_t kMostBytes = 64 << 20;

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    out.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return out;
}

bool ParseNumber(std::string_view text, uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

Result<std::vector<lvm::PhysicalRange>> Parse(const std::vector<std::string_view>& lines,
                                              std::string_view mark) {
  const auto refuse = [](const char* why) { return Error(Code::kPrecondition, why); };
  if (lines.size() < 3 || lines.front() != kFirstLine || lines.back() != kLastLine) {
    return refuse("the file was not written whole, or by another build");
  }
  if (lines[1] != mark) {
    return refuse(
        "since the file was written the group changed, a disk was detached, or the node was booted");
  }
  std::vector<lvm::PhysicalRange> out;
  for (size_t i = 2; i + 1 < lines.size(); ++i) {
    const std::vector<std::string_view> words = Split(lines[i], ' ');
    uint64_t first = 0;
    uint64_t count = 0;
    if (words.size() != 3 || !ParseNumber(words[1], first) || !ParseNumber(words[2], count)) {
      return refuse("the file cannot be read");
    }
    out.push_back({std::string(words[0]), {Extents{first}, Extents{count}}});
  }
  return out;
}

// Empty: nothing is kept.
std::string FileOf(const Node& node, const Pool& pool) {
  const std::string& dir = node.config.memory_dir;
  return dir.empty() ? "" : fmt::format("{}/{}/zeroed", dir, pool.config.group);
}

// The state for which a file is true.
Result<std::string> MarkOf(const lvm::Snapshot& group, lvm::LvmApi& lvm, const Call& call) {
  const std::string boot = BootId();
  if (boot.empty()) {
    return Error(Code::kUnsupported, "the kernel does not tell the id of this boot");
  }
  QUARRY_ASSIGN(const std::string fingerprint, lvm.Fingerprint(group, call));
  return boot + " " + fingerprint;
}

Status Write(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  const UniqueFd fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) {
    return ErrnoError("opening " + fresh);
  }
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t n = write(fd.get(), rest.data(), rest.size());
    if (n < 0 && errno != EINTR) {
      return ErrnoError("writing " + fresh);
    }
    rest.remove_prefix(n < 0 ? 0 : static_cast<size_t>(n));
  }
  return rename(fresh.c_str(), path.c_str()) == 0 ? Ok() : Status(ErrnoError("renaming " + fresh));
}

// nullopt: there is no file.
Result<std::optional<std::string>> ReadAndRemove(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    return errno == ENOENT ? Result<std::optional<std::string>>(std::nullopt) : ErrnoError("opening " + path);
  }
  if (unlink(path.c_str()) != 0) {
    return ErrnoError("removing " + path);
  }
  struct stat status{};
  if (fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
      static_cast<size_t>(status.st_size) > kMostBytes) {
    return Error(Code::kPrecondition, path + " is not a file that quarryd wrote");
  }
  std::string text(static_cast<size_t>(status.st_size), '\0');
  for (size_t got = 0; got < text.size();) {
    const ssize_t n = read(fd.get(), text.data() + got, text.size() - got);
    if (n <= 0) {
      return ErrnoError("reading " + path);
    }
    got += static_cast<size_t>(n);
  }
  return text;
}

}  // namespace

Status SaveZeroed(const Node& node, Pool& pool, const Call& call) {
  const std::string path = FileOf(node, pool);
  if (path.empty()) {
    return Ok();
  }
  QUARRY_ASSIGN(const lvm::Snapshot now, node.world.lvm.Read(pool.config.group, call));
  pool.clean.Look(*now);
  const std::vector<lvm::PhysicalRange> known = pool.clean.Known();
  if (known.empty()) {
    return Ok();
  }
  QUARRY_ASSIGN(const std::string mark, MarkOf(now, node.world.lvm, call));
  std::string text = fmt::format("{}\n{}\n", kFirstLine, mark);
  for (const lvm::PhysicalRange& range : known) {
    text += fmt::format("{} {} {}\n", range.pv_uuid, range.range.first.value, range.range.count.value);
  }
  return Write(path, fmt::format("{}{}\n", text, kLastLine));
}

Status LoadZeroed(const Node& node, Pool& pool, const Call& call) {
  const std::string path = FileOf(node, pool);
  if (path.empty()) {
    return Ok();
  }
  QUARRY_ASSIGN(const std::optional<std::string> text, ReadAndRemove(path));
  if (!text.has_value()) {
    return Ok();
  }
  QUARRY_ASSIGN(const lvm::Snapshot now, node.world.lvm.Read(pool.config.group, call));
  QUARRY_ASSIGN(const std::string mark, MarkOf(now, node.world.lvm, call));
  QUARRY_ASSIGN(const auto known, Parse(Split(*text, '\n'), mark));
  pool.clean.Look(*now);
  pool.clean.Add(known);
  pool.clean.Look(*now);  // nothing that is not free
  return Ok();
}

}  // namespace quarry::engine
