// Runs fsck in preen mode: it repairs what is safe to repair, and leaves everything else to an administrator.
#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>

#include "mount/kernel_mount.h"

namespace quarry::mount {
namespace {

// The phrases are texts of the tools and of libc.
bool SaysOneOf(const std::string& words, std::initializer_list<std::string_view> phrases) {
  return std::any_of(phrases.begin(), phrases.end(),
                     [&](std::string_view phrase) { return words.find(phrase) != std::string::npos; });
}

Error CheckFailure(const std::string& tool, CheckVerdict verdict, const Finished& finished, Bytes memory) {
  const std::string words = ToolWords(finished.out + "\n" + finished.err);
  const std::string end = finished.signal != 0 ? fmt::format("signal {}", finished.signal)
                                               : fmt::format("exit status {}", finished.exit_status);
  const std::string story = fmt::format("{} ended with {}: {}", tool, end, words);
  // "Resource temporarily unavailable" appears when there is no memory for the stack of a thread.
  if (SaysOneOf(words, {"emory allocation failed", "Resource temporarily unavailable",
                        "annot allocate memory", "out of memory"})) {
    return {Code::kPrecondition,
            fmt::format("{} of memory does not suffice; check by hand. {}", HumanBytes(memory), story)};
  }
  if (SaysOneOf(words, {"Input/output error"})) {
    return {Code::kIo, story};
  }
  if (SaysOneOf(words, {" is in use.", " is mounted."})) {  // claimed by another process since our claim
    return {Code::kPrecondition, story};
  }
  if (finished.signal == 0 && verdict == CheckVerdict::kDamaged) {
    return {Code::kCorrupt, story};
  }
  return {Code::kUnavailable, story};
}

}  // namespace

Result<CheckReport> KernelMount::Check(std::string_view fs_type, const std::string& device,
                                       const Call& call) {
  const std::string what = fmt::format("checking {} on {}", fs_type, device);
  QUARRY_TRY(call.Check(what));
  QUARRY_ASSIGN(const Filesystem* fs, FindFilesystem(fs_type));
  auto words = fs->CheckCommand(device);
  if (!words.has_value()) {
    return CheckReport{};
  }
  // The tool claims the device itself, but reports a device in use with many different texts. Our own claim
  // proves that the device is free, and is released at once.
  QUARRY_TRY(Claim(device, true).Context(what));
  const std::string tool = words->front();
  QUARRY_ASSIGN(words->front(), FindTool(tool, fs->package()));
  // prlimit(1) sets the limit and then becomes the tool, so the limit applies to the tool from its start.
  words->insert(words->begin(), {"prlimit", fmt::format("--as={}", config_.check_memory.value), "--"});
  QUARRY_ASSIGN(words->front(), FindTool("prlimit", "util-linux"));
  QUARRY_ASSIGN(const Finished finished, RunFound(std::move(*words), call).Context(what));
  const CheckVerdict verdict =
      finished.signal != 0 ? CheckVerdict::kFailed : fs->JudgeCheck(finished.exit_status);
  if (verdict == CheckVerdict::kClean) {
    return CheckReport{.checked = true};
  }
  if (verdict == CheckVerdict::kRepaired) {
    return CheckReport{.checked = true, .repaired = true, .words = ToolWords(finished.out)};
  }
  return CheckFailure(tool, verdict, finished, config_.check_memory).Context(what);
}

}  // namespace quarry::mount
