#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "daemon/check.h"
#include "daemon/daemon.h"
#include "daemon/settings/options.h"

namespace quarry::daemon {
namespace {

// Tells the service manager that a restart would not help.
constexpr int kBadConfiguration = 2;

// glibc gives each thread its own arena, up to eight per processor. Memory that a report of a large group
// took from an arena stays there. gRPC has many threads but little work at a time, so two arenas serve it as
// well. With 1,000 volumes they save 3 MiB of 24.
constexpr int kArenas = 2;
// Blocks of this size and more (a metadata text, a report) return to the kernel when they are freed. Setting
// the threshold also stops glibc from raising it to the size of the first such block.
constexpr int kLargeBlock = 128 << 10;

Environment ReadEnvironment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const size_t equals = text.find('=');
    environment[text.substr(0, equals)] = equals == std::string::npos ? "" : text.substr(equals + 1);
  }
  return environment;
}

std::string OneLine(std::string text) {
  std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, ' ');
  return text;
}

}  // namespace

int Main(int argc, char** argv, const std::string& version, engine::StepWatcher* steps) {
  mallopt(M_ARENA_MAX, kArenas);
  mallopt(M_MMAP_THRESHOLD, kLargeBlock);
  const std::vector<std::string> args(argv + 1, argv + argc);
  const auto environment = ReadEnvironment();
  if (WantsCheck(args)) {
    return Check(args, environment, version);
  }
  const auto loaded = Load(args, environment, version);
  if (!loaded.has_value()) {
    std::fprintf(stderr, "quarryd: %s\n", OneLine(loaded.error().message()).c_str());
    return kBadConfiguration;
  }
  if (!loaded->print.empty()) {
    std::fputs(loaded->print.c_str(), stdout);
    return 0;
  }
  return Run(
      *loaded, version, Notifier::From(environment, getpid()),
      [&] { return Load(args, environment, version); }, steps);
}

}  // namespace quarry::daemon
