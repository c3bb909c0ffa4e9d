// The demo's output: chapters, sentences, steps with their times, tables. Plain text, with colours if
// requested.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace quarry::demo {

class Narrator {
 public:
  explicit Narrator(bool colours) : colours_(colours) {}

  void Title(const std::string& text, const std::string& below) const;
  // Chapters are numbered from 1.
  void Chapter(const std::string& title);
  // A paragraph, wrapped.
  void Say(const std::string& text) const;
  // Prints a command as a user would type it.
  void Command(const std::string& text) const;
  // Runs `act`. Prints `what`, the text that it returns and its duration, or passes its error on.
  Status Step(const std::string& what, const std::function<Result<std::string>()>& act) const;
  // The first row has the headings. Columns whose heading begins with '>' are aligned right.
  void Table(const std::vector<std::vector<std::string>>& rows) const;
  // Prints a line that the next one overwrites. Prints nothing without colours.
  void Passing(const std::string& text) const;
  void Failure(const std::string& text) const;
  void End(const std::string& text) const;

 private:
  std::string Paint(const char* code, const std::string& text) const;

  bool colours_;
  int chapter_ = 0;
};

// The columns of a UTF-8 text on a terminal, if each character takes one.
size_t Width(const std::string& text);

}  // namespace quarry::demo
