// The parts of a report about a node, for whoever has to understand it elsewhere. Each part is collected on
// its own thread and within its own time, so that LVM, a disk or quarryd may hang without the report doing
// so.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/path.h"
#include "base/result.h"

namespace quarry::ctl {

struct ReportPart {
  std::string name;  // path in the archive: "lvm/fullreport.json"
  std::chrono::milliseconds limit;
  // The content. Runs on a thread of its own, which may outlive the report: it refers to nothing that does
  // not live as long as the process. An error becomes a note in the archive.
  std::function<Result<std::string>(const Call& call)> make;
};

struct ReportedPart {
  std::string name;
  std::string text;     // without secrets
  std::string problem;  // why there is no text, or why it is not complete; empty: none
  std::chrono::milliseconds took{0};
};

// From the end of a part's limit until the part is given up. A child process gets this time to end
// (Subprocess).
inline constexpr std::chrono::milliseconds kAfterLimit{9000};

// Collects all parts at the same time, in their order. Returns at the latest `after_limit` after the longest
// limit. A part that has not ended by then is reported as such and left alone.
std::vector<ReportedPart> CollectReport(const std::vector<ReportPart>& parts,
                                        std::chrono::milliseconds after_limit = kAfterLimit);

// The list of the parts, what each took, and which are missing and why: the first file of the archive.
std::string ReportContents(const std::vector<ReportedPart>& parts);

// Writes the parts as files below `folder`, which exists, and the list of contents as CONTENTS. Names of
// parts have no
// "..". Parts without text are left out.
Status WriteReport(const AbsolutePath& folder, const std::vector<ReportedPart>& parts);

}  // namespace quarry::ctl
