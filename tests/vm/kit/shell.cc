#include "tests/vm/kit/shell.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "base/subprocess.h"

namespace quarry::vm {
namespace {

std::string FindOnPath(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    return program;
  }
  const char* path = ::getenv("PATH");
  std::stringstream folders(path != nullptr ? path
                                            : "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = folder + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return "/nonexistent/" + program;
}

std::vector<std::pair<std::string, std::string>> Environment() {
  std::vector<std::pair<std::string, std::string>> env;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos && !text.starts_with("LC_ALL=")) {
      env.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  env.emplace_back("LC_ALL", "C");
  return env;
}

}  // namespace

Outcome Tool(const std::vector<std::string>& argv, std::chrono::seconds limit) {
  Command command;
  command.argv = argv;
  command.argv[0] = FindOnPath(argv[0]);
  command.env = Environment();
  SpawnSubprocess subprocess;
  auto finished = subprocess.Run(command, CallWithin(limit));
  if (!finished.has_value()) {
    return {-1, "", finished.error().message()};
  }
  return {finished->exit_status, finished->out, finished->err};
}

Outcome Sh(const std::string& script, std::chrono::seconds limit) {
  return Tool({"/bin/sh", "-c", script}, limit);
}

std::string Trim(const std::string& text) {
  constexpr char kBlanks[] = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    line = Trim(line);
    if (!line.empty()) {
      lines.push_back(line);
    }
  }
  return lines;
}

std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words;
  std::stringstream stream(text);
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return words;
}

}  // namespace quarry::vm
