// How the demo speaks: chapters, sentences, steps with their times, tables. Plain text, with colours if
// asked.
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
  // Numbered from 1.
  void Chapter(const std::string& title);
  // A paragraph, wrapped.
  void Say(const std::string& text) const;
  // A command as somebody would type it.
  void Command(const std::string& text) const;
  // Does it, then says that it is done, what came of it and how long it took; or passes the error on.
  Status Step(const std::string& what, const std::function<Result<std::string>()>& act) const;
  // First row: headings. Columns whose name begins with '>' are aligned right.
  void Table(const std::vector<std::vector<std::string>>& rows) const;
  // A line that will be overwritten by the next; nothing where there is no terminal.
  void Passing(const std::string& text) const;
  void Failure(const std::string& text) const;
  void End(const std::string& text) const;

 private:
  std::string Paint(const char* code, const std::string& text) const;

  bool colours_;
  int chapter_ = 0;
};

// Characters that a UTF-8 text takes on a terminal, if each takes one column.
size_t Width(const std::string& text);

}  // namespace quarry::demo
