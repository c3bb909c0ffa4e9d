#include "tests/demo/narrator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "tests/vm/kit/shell.h"

namespace quarry::demo {
namespace {

constexpr size_t kColumns = 104;
constexpr char kBold[] = "1";
constexpr char kDim[] = "2";
constexpr char kGreen[] = "32";
constexpr char kRed[] = "31";

void Print(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

std::string Blanks(size_t count) {
  return std::string(count, ' ');
}

}  // namespace

size_t Width(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string Narrator::Paint(const char* code, const std::string& text) const {
  return colours_ ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

void Narrator::Title(const std::string& text, const std::string& below) const {
  Print("");
  Print(Paint(kBold, text));
  Print(Paint(kDim, below));
}

void Narrator::Chapter(const std::string& title) {
  Print("");
  Print(Paint(kBold, fmt::format("{}  {}", ++chapter_, title)));
}

void Narrator::Say(const std::string& text) const {
  std::string line;
  for (const std::string& word : vm::Words(text)) {
    if (!line.empty() && Width(line) + 1 + Width(word) > kColumns - 3) {
      Print("   " + line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  Print("   " + line);
}

void Narrator::Command(const std::string& text) const {
  Print(Paint(kDim, "   $ " + text));
}

Status Narrator::Step(const std::string& what, const std::function<Result<std::string>()>& act) const {
  const auto started = std::chrono::steady_clock::now();
  auto outcome = act();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  if (!outcome.has_value()) {
    return std::move(outcome.error()).Context(what);
  }
  constexpr size_t kTimes = kColumns - 10;
  std::string text = what + (outcome->empty() ? "" : "  " + Paint(kDim, *outcome));
  const size_t width = Width(what) + (outcome->empty() ? 0 : 2 + Width(*outcome));
  text += Blanks(width + 5 < kTimes ? kTimes - width - 5 : 2);
  Print(fmt::format("   {} {}{}", Paint(kGreen, "✓"), text,
                    Paint(kDim, fmt::format("{:6.2f} s", took.count()))));
  return Ok();
}

void Narrator::Table(const std::vector<std::vector<std::string>>& rows) const {
  std::vector<size_t> widths(rows.at(0).size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], Width(row[i]) - (row[i].starts_with('>') ? 1 : 0));
    }
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < widths.size(); ++i) {
      const bool right = rows[0][i].starts_with('>');
      const std::string cell = r == 0 && right ? rows[r][i].substr(1) : rows[r][i];
      const std::string pad = Blanks(widths[i] - Width(cell));
      line += "   " + (right ? pad + cell : cell + pad);
    }
    Print(r == 0 ? Paint(kDim, line) : line);
  }
}

void Narrator::Passing(const std::string& text) const {
  if (colours_) {
    fmt::print("\r\033[K   {}\r", Paint(kDim, text));
    std::fflush(stdout);
  }
}

void Narrator::Failure(const std::string& text) const {
  Print("");
  Print(Paint(kRed, "FAILED: " + text));
}

void Narrator::End(const std::string& text) const {
  Print("");
  Print(Paint(kBold, text));
}

}  // namespace quarry::demo
