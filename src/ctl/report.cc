#include "ctl/report.h"

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "base/mutex.h"
#include "ctl/redact.h"

namespace quarry::ctl {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Shared with the threads, which may outlive the report.
struct Collection {
  explicit Collection(size_t count) : parts(count), done(count) {}

  Mutex mutex;
  std::condition_variable_any changed;
  std::vector<ReportedPart> parts ABSL_GUARDED_BY(mutex);
  std::vector<bool> done ABSL_GUARDED_BY(mutex);
};

// A part that fails with an exception must not end the report.
Result<std::string> Make(const ReportPart& part) {
  try {
    return part.make(CallWithin(part.limit));
  } catch (const std::exception& error) {
    return Error(Code::kInternal, error.what());
  }
}

void Collect(const ReportPart& part, size_t place, Collection& collection) {
  const auto start = steady_clock::now();
  const auto text = Make(part);
  ReportedPart made{.name = part.name, .text = "", .problem = "", .took = {}};
  if (text.has_value()) {
    made.text = Redact(*text);
  } else {
    made.problem = Redact(text.error().message());
  }
  made.took = duration_cast<milliseconds>(steady_clock::now() - start);
  MutexLock lock(collection.mutex);
  collection.parts[place] = std::move(made);
  collection.done[place] = true;
  collection.changed.notify_all();
}

}  // namespace

std::vector<ReportedPart> CollectReport(const std::vector<ReportPart>& parts, milliseconds after_limit) {
  const auto collection = std::make_shared<Collection>(parts.size());
  milliseconds longest{0};
  for (const ReportPart& part : parts) {
    longest = std::max(longest, part.limit);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    std::thread([part = parts[i], i, collection] { Collect(part, i, *collection); }).detach();
  }
  Collection& all = *collection;
  MutexLock lock(all.mutex);
  const auto all_done = [&all]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(all.mutex) {
    return std::ranges::all_of(all.done, std::identity());
  };
  WaitUntil(all.changed, lock, CallWithin(longest + after_limit), all_done);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!all.done[i]) {
      all.parts[i] = {.name = parts[i].name,
                      .text = "",
                      .problem = "it did not end, and was left alone",
                      .took = longest + after_limit};
    }
  }
  return all.parts;
}

std::string ReportContents(const std::vector<ReportedPart>& parts) {
  std::string text = "The parts of this report. Words that look like secrets were replaced by <removed>.\n\n";
  for (const ReportedPart& part : parts) {
    const std::string outcome =
        part.problem.empty() ? fmt::format("{} bytes", part.text.size()) : "missing: " + part.problem;
    text += fmt::format("{:<28} {:>6} ms  {}\n", part.name, part.took.count(), outcome);
  }
  return text;
}

Status WriteReport(const AbsolutePath& folder, const std::vector<ReportedPart>& parts) {
  namespace fs = std::filesystem;
  const auto write = [&](const std::string& name, const std::string& text) -> Status {
    const fs::path path = fs::path(folder.str()) / name;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    std::ofstream out(path, std::ios::binary);
    out << text;
    out.close();
    return out ? Ok() : Status(Error(Code::kIo, fmt::format("'{}' cannot be written", path.string())));
  };
  QUARRY_TRY(write("CONTENTS", ReportContents(parts)));
  for (const ReportedPart& part : parts) {
    if (part.problem.empty()) {
      QUARRY_TRY(write(part.name, part.text));
    }
  }
  return Ok();
}

}  // namespace quarry::ctl
