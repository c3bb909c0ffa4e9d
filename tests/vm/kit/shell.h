// Runs the system's own tools in a test: the reports of LVM, mount and others beside those of quarryd.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace quarry::vm {

struct Outcome {
  int status = -1;  // exit status; -1 if it did not start, ended by a signal or took too long
  std::string out;
  std::string err;
  bool ok() const { return status == 0; }
};

// Runs a program found on PATH with the caller's environment. Never throws; a failure to run is in `err`.
Outcome Tool(const std::vector<std::string>& argv, std::chrono::seconds limit = std::chrono::seconds(120));
// The same through /bin/sh, for redirections and pipes. Only for constant text: a path in it is not quoted.
Outcome Sh(const std::string& script, std::chrono::seconds limit = std::chrono::seconds(120));

// Without blanks and newlines at both ends.
std::string Trim(const std::string& text);
// The lines of a text, each trimmed, without empty ones.
std::vector<std::string> Lines(const std::string& text);
// Words between blanks.
std::vector<std::string> Words(const std::string& text);

}  // namespace quarry::vm
