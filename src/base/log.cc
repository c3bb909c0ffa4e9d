#include "base/log.h"

#include <unistd.h>

#include <array>
#include <chrono>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/log_writer.h"

namespace quarry {
namespace {

thread_local const std::string* g_trace = nullptr;  // of the innermost LogTrace of this thread

// By LogLevel.
constexpr std::array<std::string_view, 4> kLevelNames = {"debug", "info", "warning", "error"};

std::string Timestamp() {
  const auto now = std::chrono::system_clock::now();
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)), millis);
}

// Length of the UTF-8 sequence at the start of `text`; 0 if it is invalid.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                        : lead < 0xF0                 ? 3
                        : lead < 0xF5                 ? 4
                                                      : 0;
  if ((lead >= 0x80 && lead < 0xC2) || length == 0 || length > text.size()) {
    return 0;
  }
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return 0;
    }
  }
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
  const bool beyond = lead == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

void AppendAscii(std::string& out, char c) {
  if (c == '\n') {
    out += "\\n";
  } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
    out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
  } else {
    out += c == '"' || c == '\\' ? "\\" : "";
    out += c;
  }
}

// U+0080 to U+009F. They include U+009B, which terminals read as the start of a control sequence.
bool IsC1(std::string_view sequence) {
  return sequence.size() == 2 && sequence[0] == '\xC2' && static_cast<unsigned char>(sequence[1]) < 0xA0;
}

// The text between the quotes of a JSON string.
std::string Escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) {
      out += "\\ufffd";
      text.remove_prefix(1);
      continue;
    }
    const std::string_view sequence = text.substr(0, length);
    if (length == 1) {
      AppendAscii(out, text[0]);
    } else if (IsC1(sequence)) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(sequence[1])));
    } else {
      out += sequence;
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string ValueText(const LogField& field) {
  struct Visitor {
    std::string operator()(std::string_view v) const { return JsonString(v); }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return fmt::format("{:.6g}", v); }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
  };
  return std::visit(Visitor{}, field.value);
}

}  // namespace

std::string JsonString(std::string_view text) {
  return '"' + Escaped(text) + '"';
}

LogTrace::LogTrace(std::string id) : id_(std::move(id)), outer_(g_trace) {
  g_trace = &id_;
}

LogTrace::~LogTrace() {
  g_trace = outer_;
}

std::string LogLine(LogFormat format, LogLevel level, std::string_view message,
                    std::initializer_list<LogField> fields) {
  const std::string_view name = kLevelNames.at(static_cast<size_t>(level));
  std::string line;
  if (format == LogFormat::kJson) {
    line = fmt::format(R"({{"ts":"{}","level":"{}","msg":{})", Timestamp(), name, JsonString(message));
    for (const LogField& field : fields) {
      line += fmt::format(",{}:{}", JsonString(field.name), ValueText(field));
    }
    if (g_trace != nullptr) {
      line += fmt::format(R"(,"trace":{})", JsonString(*g_trace));
    }
    line += "}\n";
  } else {
    line = fmt::format("{} {:<7} {}", Timestamp(), name, Escaped(message));
    for (const LogField& field : fields) {
      line += fmt::format(" {}={}", field.name, ValueText(field));
    }
    if (g_trace != nullptr) {
      line += fmt::format(" trace={}", JsonString(*g_trace));
    }
    line += '\n';
  }
  return line;
}

void Logger::Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) const {
  if (level < level_) {
    return;
  }
  std::string line = LogLine(format_, level, message, fields);
  if (writer_ != nullptr) {
    writer_->Write(std::move(line));
    return;
  }
  // A failed write must not fail the caller, so the result is ignored. A full log blocks here; LogWriter
  // avoids that.
  [[maybe_unused]] const ssize_t written = write(fd_, line.data(), line.size());
}

}  // namespace quarry
