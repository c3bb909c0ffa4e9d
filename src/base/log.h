// One line per event on standard error, as a JSON object (for machines) or text (for people). Errors are
// returned, and the RPC interceptor logs them. Other code logs what the answer of its call does not say.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

namespace quarry {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kJson, kText };

// A named value beside the message. Names are snake_case; "ts", "level" and "msg" are reserved.
struct LogField {
  std::string_view name;
  std::variant<std::string_view, int64_t, double, bool> value;
};

class LogWriter;

// While it exists, every line that this thread logs has the field "trace" with this id: the lines of one call
// can be found together. Scopes of a thread may be nested; the inner one counts.
class LogTrace {
 public:
  explicit LogTrace(std::string id);
  ~LogTrace();
  LogTrace(const LogTrace&) = delete;
  LogTrace& operator=(const LogTrace&) = delete;

 private:
  std::string id_;
  const std::string* outer_;
};

// Thread-safe. Never log secrets, mount flags or whole requests.
class Logger {
 public:
  // Every line is one write(2), which waits for the reader of the log.
  Logger(LogLevel level, LogFormat format, int fd = 2) : level_(level), format_(format), fd_(fd) {}
  // Lines are queued. A caller waits at most 10 ms for the log, and not at all while the log is behind.
  // `writer` must outlive the logger.
  Logger(LogLevel level, LogFormat format, LogWriter& writer)
      : level_(level), format_(format), writer_(&writer) {}

  void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {}) const;

  // From now on.
  void SetLevel(LogLevel level) { level_ = level; }

  void Debug(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    Log(LogLevel::kDebug, message, fields);
  }
  void Info(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    Log(LogLevel::kInfo, message, fields);
  }
  void Warning(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    Log(LogLevel::kWarning, message, fields);
  }
  void Error(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    Log(LogLevel::kError, message, fields);
  }

 private:
  std::atomic<LogLevel> level_;
  LogFormat format_;
  int fd_ = -1;
  LogWriter* writer_ = nullptr;
};

// The line that a Logger writes, including the line end. Pure except for its timestamp and the LogTrace of
// the thread.
std::string LogLine(LogFormat format, LogLevel level, std::string_view message,
                    std::initializer_list<LogField> fields);

// `text` as a JSON string literal with its quotes. Invalid UTF-8 becomes U+FFFD, so the line always parses.
// Control characters are escaped, including U+0080 to U+009F, because terminals act on them.
std::string JsonString(std::string_view text);

}  // namespace quarry
