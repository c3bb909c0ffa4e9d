// Runs mkfs, only on a device that was proven blank.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "mount/blkid_probe.h"
#include "mount/kernel_mount.h"

namespace quarry::mount {
namespace {

// The whole environment of a tool: it sets messages in English and a fixed PATH.
const Environment kToolEnvironment = {{"LC_ALL", "C"}, {"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}};
constexpr size_t kToolOutput = 64 * 1024;

std::string Describe(const Content& content) {
  return content.kind == Content::Kind::kBlank       ? "nothing"
         : content.kind == Content::Kind::kAmbiguous ? "several signatures"
                                                     : content.type;
}

Error MkfsFailure(const MakeFilesystem& spec, const Finished& finished) {
  const std::string words = ToolWords(finished.err.empty() ? finished.out : finished.err);
  if (finished.signal != 0) {
    return {Code::kUnavailable,
            fmt::format("mkfs.{} was killed by signal {}: {}", spec.fs_type, finished.signal, words)};
  }
  const bool io = words.find("Input/output error") != std::string::npos;
  const Code code = io ? Code::kIo : spec.extra_options.empty() ? Code::kInternal : Code::kInvalidArgument;
  return {code, fmt::format("mkfs.{} failed ({}): {}", spec.fs_type, finished.exit_status, words)};
}

}  // namespace

Result<UniqueFd> KernelMount::Claim(const std::string& device, bool writable) {
  UniqueFd fd(open(device.c_str(), (writable ? O_RDWR : O_RDONLY) | O_EXCL | O_CLOEXEC));
  if (!fd.valid()) {
    return errno == EBUSY ? Error(Code::kPrecondition, fmt::format("{} is in use", device)).WithErrno(EBUSY)
                          : ErrnoError(fmt::format("opening {}", device));
  }
  struct stat st{};
  if (fstat(fd.get(), &st) != 0 || !S_ISBLK(st.st_mode)) {
    return Error(Code::kInvalidArgument, fmt::format("{} is not a block device", device));
  }
  return fd;
}

Result<std::string> KernelMount::FindTool(const std::string& name, std::string_view package) const {
  for (const std::string& directory : config_.tool_directories) {
    std::string path = fmt::format("{}/{}", directory, name);
    if (access(path.c_str(), X_OK) == 0) {
      return path;
    }
  }
  return Error(Code::kPrecondition,
               fmt::format("{} is not installed: it comes with the package {}", name, package));
}

Result<Finished> KernelMount::RunTool(std::vector<std::string> words, const Filesystem& fs,
                                      const Call& call) {
  QUARRY_ASSIGN(words[0], FindTool(words[0], fs.package()));
  return RunFound(std::move(words), call);
}

Result<Finished> KernelMount::RunFound(std::vector<std::string> words, const Call& call) {
  Command command;
  command.argv = std::move(words);
  command.env = kToolEnvironment;
  command.output_limit = kToolOutput;
  return subprocess_.Run(command, call);
}

Result<Bytes> KernelMount::PrepareDevice(const MakeFilesystem& spec, const Filesystem& fs) {
  QUARRY_ASSIGN(const UniqueFd device, Claim(spec.device, spec.overwrite));
  QUARRY_ASSIGN(const Bytes size, DeviceSize(device.get()));
  if (size < fs.minimum_size()) {
    return Error(Code::kOutOfRange, fmt::format("{} has {} bytes, {} needs at least {}", spec.device,
                                                size.value, fs.type(), fs.minimum_size().value));
  }
  QUARRY_ASSIGN(Content content, ProbeContent(device.get()));
  if (content.kind != Content::Kind::kBlank && spec.overwrite) {
    QUARRY_TRY(WipeSignatures(device.get()));
    QUARRY_ASSIGN(content, ProbeContent(device.get()));
  }
  if (content.kind != Content::Kind::kBlank) {
    return Error(Code::kPrecondition, fmt::format("{} is not blank: it holds {}; nothing was formatted",
                                                  spec.device, Describe(content)));
  }
  return size;
}

Status KernelMount::Make(const MakeFilesystem& spec, const Call& call) {
  const std::string what = fmt::format("making {} on {}", spec.fs_type, spec.device);
  QUARRY_TRY(call.Check(what));
  QUARRY_ASSIGN(const Filesystem* fs, FindFilesystem(spec.fs_type));
  QUARRY_TRY(CheckMkfsOptions(spec.fs_type, spec.extra_options));
  QUARRY_ASSIGN(const Bytes size, PrepareDevice(spec, *fs).Context(what));
  QUARRY_ASSIGN(std::vector<std::string> words, fs->MakeCommand(spec, size));
  // mkfs claims the device itself. Between our claim and the claim of mkfs, nothing in Quarry uses the
  // device.
  QUARRY_ASSIGN(const Finished finished, RunTool(std::move(words), *fs, call).Context(what));
  if (!finished.ok()) {
    return MkfsFailure(spec, finished).Context(what);
  }
  const UniqueFd device(open(spec.device.c_str(), O_RDONLY | O_CLOEXEC));
  if (!device.valid()) {
    return ErrnoError(fmt::format("{}: looking at the result", what));
  }
  QUARRY_ASSIGN(const Content made, ProbeContent(device.get()));
  if (made.kind != Content::Kind::kFilesystem || made.type != spec.fs_type) {
    return Error(Code::kInternal,
                 fmt::format("{}: mkfs reports success, but there is {}", what, Describe(made)));
  }
  return Ok();
}

}  // namespace quarry::mount
