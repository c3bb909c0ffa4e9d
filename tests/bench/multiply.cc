#include "tests/bench/multiply.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <regex>
#include <string_view>

#include "lvm/names.h"

namespace quarry::bench {
namespace {

using Lines = std::vector<std::string>;

Lines Split(const std::string& text) {
  Lines lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// Opening minus closing braces, outside of comments. Strings in LVM's metadata contain none.
int Depth(const std::string& line) {
  int depth = 0;
  for (const char c : line.substr(0, line.find('#'))) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
  }
  return depth;
}

// The section of logical volumes: the line of its end, and the lines of each volume by name.
struct Section {
  size_t end = 0;  // the line of its closing brace
  std::map<std::string, Lines> volumes;
};

Result<Section> ParseSection(const Lines& lines) {
  const auto opening = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find_first_not_of(" \t") != std::string::npos &&
           line.substr(line.find_first_not_of(" \t")).starts_with("logical_volumes {");
  });
  if (opening == lines.end()) {
    return Error(Code::kCorrupt, "the metadata has no logical volumes");
  }
  Section section;
  std::string name;
  int depth = 1;
  for (auto line = opening + 1; line != lines.end(); ++line) {
    const int before = depth;
    depth += Depth(*line);
    if (depth == 0) {
      section.end = static_cast<size_t>(line - lines.begin());
      return section;
    }
    if (before == 1 && depth == 2) {
      const size_t first = line->find_first_not_of(" \t");
      name = line->substr(first, line->find(' ', first) - first);
    }
    if (before >= 2 || depth >= 2) {
      section.volumes[name].push_back(*line);
    }
  }
  return Error(Code::kCorrupt, "the metadata ends among the logical volumes");
}

// LVM's form of an id: 6-4-4-4-4-4-6.
std::string NewLvmId(std::mt19937_64& random) {
  constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  std::string id;
  for (const int part : {6, 4, 4, 4, 4, 4, 6}) {
    id += id.empty() ? "" : "-";
    for (int i = 0; i < part; ++i) {
      id += kAlphabet[random() % kAlphabet.size()];
    }
  }
  return id;
}

void ReplaceAll(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

const std::regex kExtentCount(R"(^\s*extent_count = (\d+).*)");
const std::regex kStripe(R"re(^(\s*"pv\d+", )(\d+)(.*))re");
const std::regex kId(R"re(^(\s*id = ")[^"]+(".*))re");

// The first extent behind all used extents, by the PV's name in the metadata.
using Next = std::map<std::string, uint64_t>;

// Calls `each` with every stripe's line, its parts and its number of extents.
template <typename Each>
void ForStripes(Lines& lines, Each&& each) {
  uint64_t count = 0;
  std::smatch match;
  for (std::string& line : lines) {
    if (std::regex_match(line, match, kExtentCount)) {
      count = std::stoull(match[1]);
    } else if (std::regex_match(line, match, kStripe)) {
      each(line, match, count);
    }
  }
}

Next NextOf(Section& section) {
  Next next;
  for (auto& [name, lines] : section.volumes) {
    ForStripes(lines, [&](const std::string&, const std::smatch& match, uint64_t count) {
      next[match[1]] = std::max<uint64_t>(next[match[1]], std::stoull(match[2]) + count);
    });
  }
  return next;
}

Lines Copy(const Section& section, const Model& model, size_t number, Next& next, std::mt19937_64& random) {
  Lines copy;
  for (const auto& [name, lines] : section.volumes) {
    if (name == model.lv_name || name.starts_with(model.lv_name + "_")) {
      copy.insert(copy.end(), lines.begin(), lines.end());
    }
  }
  ForStripes(copy, [&](std::string& line, const std::smatch& match, uint64_t count) {
    const std::string pv = match[1];
    line = fmt::format("{}{}{}", pv, next[pv], match[3].str());
    next[pv] += count;
  });
  const std::string lv_name = lvm::NewLvName();
  const std::string co_name = fmt::format("{}-copy-{}", model.co_name, number);
  std::smatch match;
  for (std::string& line : copy) {
    ReplaceAll(line, model.lv_name, lv_name);
    ReplaceAll(line, model.co_name, co_name);
    if (std::regex_match(line, match, kId)) {
      line = match[1].str() + NewLvmId(random) + match[2].str();
    }
  }
  return copy;
}

}  // namespace

Result<std::string> MultiplyVolumes(const std::string& backup, const std::vector<Model>& models,
                                    size_t copies) {
  Lines lines = Split(backup);
  QUARRY_ASSIGN(Section section, ParseSection(lines));
  for (const Model& model : models) {
    if (!section.volumes.contains(model.lv_name)) {
      return Error(Code::kNotFound, fmt::format("the metadata has no volume {}", model.lv_name));
    }
  }
  Next next = NextOf(section);
  std::mt19937_64 random(std::random_device{}());
  Lines more;
  for (size_t i = 0; i < copies; ++i) {
    const Lines copy = Copy(section, models[i % models.size()], i, next, random);
    more.insert(more.end(), copy.begin(), copy.end());
  }
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(section.end), more.begin(), more.end());
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

}  // namespace quarry::bench
