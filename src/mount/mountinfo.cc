// The mount table as the kernel prints it (proc(5), "mountinfo"):
//   36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
// After the per-mount options come optional fields, none or many. A field "-" ends them.
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "mount/mount_api.h"

namespace quarry::mount {
namespace {

// Removes the text up to the next blank from `rest`. The kernel writes exactly one blank between fields. A
// field may be empty (a mount without a source name).
std::string_view TakeField(std::string_view& rest) {
  const size_t blank = rest.find(' ');
  const std::string_view field = rest.substr(0, blank);
  rest.remove_prefix(blank == std::string_view::npos ? rest.size() : blank + 1);
  return field;
}

template <typename T>
bool TakeNumber(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

bool IsOctal(char c) {
  return c >= '0' && c <= '7';
}

// Blanks, tabs, newlines, backslashes and '#' are written as \ooo. A backslash that does not begin such an
// escape is kept: some file systems print their options unescaped.
std::string Decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (text.size() >= 4 && text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && IsOctal(text[2]) &&
        IsOctal(text[3])) {
      out += static_cast<char>((text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0'));
      text.remove_prefix(4);
    } else {
      out += text[0];
      text.remove_prefix(1);
    }
  }
  return out;
}

// The length of the first option. A comma within a pair of quotes belongs to an SELinux context.
size_t OptionLength(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && text[end] != ',') {
    const size_t closing = text[end] == '"' ? text.find('"', end + 1) : std::string_view::npos;
    end = closing == std::string_view::npos ? end + 1 : closing + 1;
  }
  return end;
}

std::vector<std::string> SplitOptions(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t length = OptionLength(text);
    out.push_back(Decode(text.substr(0, length)));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return out;
}

bool ParseDevice(std::string_view text, DeviceNumber& out) {
  const size_t colon = text.find(':');
  return colon != std::string_view::npos && TakeNumber(text.substr(0, colon), out.major) &&
         TakeNumber(text.substr(colon + 1), out.minor);
}

// Of the optional fields only "shared:N" is used. False if N is not a number, or if the line ends before the
// lone "-".
bool TakeOptionalFields(std::string_view& rest, MountEntry& entry) {
  constexpr std::string_view kShared = "shared:";
  while (!rest.empty()) {
    const std::string_view field = TakeField(rest);
    if (field == "-") {
      return true;
    }
    if (field.starts_with(kShared) && !TakeNumber(field.substr(kShared.size()), entry.peer_group)) {
      return false;
    }
  }
  return false;
}

bool ParseLine(std::string_view line, MountEntry& entry) {
  if (!TakeNumber(TakeField(line), entry.id) || !TakeNumber(TakeField(line), entry.parent_id) ||
      !ParseDevice(TakeField(line), entry.device)) {
    return false;
  }
  entry.root = Decode(TakeField(line));
  entry.target = Decode(TakeField(line));
  entry.options = SplitOptions(TakeField(line));
  if (entry.root.empty() || entry.target.empty() || entry.target[0] != '/' ||
      !TakeOptionalFields(line, entry)) {
    return false;
  }
  entry.fs_type = Decode(TakeField(line));
  entry.source = Decode(TakeField(line));
  entry.super_options = SplitOptions(line);
  if (entry.device.major != 0) {
    entry.backing = entry.device;
  }
  return !entry.fs_type.empty();
}

bool Contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Does the walk of a path lookup. It starts at the root mount. At each prefix of the path it enters the mount
// there, if its parent is the current mount, and then the mounts stacked on it.
class Walk {
 public:
  explicit Walk(const std::vector<MountEntry>& entries) : entries_(entries) {}

  // Enters the mounts at `prefix`, however many are stacked. Returns the topmost; nullptr: there is none. A
  // table whose parents form a circle does not come from the kernel, but it must not cause an endless loop.
  const MountEntry* Enter(std::string_view prefix) {
    const MountEntry* top = nullptr;
    const MountEntry* next = Child(prefix);
    for (size_t steps = 0; steps < entries_.size() && next != nullptr; ++steps) {
      current_ = top = next;
      next = Child(prefix);
    }
    return top;
  }

 private:
  // The mount at `prefix` whose parent is the current mount. Before the first step: a mount whose parent is
  // not in the table. That is the root or, if the root directory is not a mount point, any mount below it.
  const MountEntry* Child(std::string_view prefix) const {
    for (const MountEntry& entry : entries_) {
      if (entry.target == prefix && (current_ == nullptr ? IsTop(entry) : IsAbove(entry))) {
        return &entry;
      }
    }
    return nullptr;
  }
  bool IsAbove(const MountEntry& entry) const {
    return entry.parent_id == current_->id && &entry != current_;
  }
  bool IsTop(const MountEntry& entry) const {
    return entry.parent_id == entry.id ||
           std::none_of(entries_.begin(), entries_.end(),
                        [&](const MountEntry& other) { return other.id == entry.parent_id; });
  }

  const std::vector<MountEntry>& entries_;
  const MountEntry* current_ = nullptr;
};

}  // namespace

bool MountEntry::read_only() const {
  return Contains(options, "ro") || Contains(super_options, "ro");
}

Result<MountTable> MountTable::Parse(std::string_view mountinfo) {
  std::vector<MountEntry> entries;
  for (size_t number = 1; !mountinfo.empty(); ++number) {
    const std::string_view line = mountinfo.substr(0, mountinfo.find('\n'));
    mountinfo.remove_prefix(std::min(line.size() + 1, mountinfo.size()));
    MountEntry entry;
    if (!ParseLine(line, entry)) {
      return Error(Code::kCorrupt, fmt::format("mountinfo line {} is malformed: '{}'", number, line));
    }
    entries.push_back(std::move(entry));
  }
  return MountTable(std::move(entries));
}

const MountEntry* MountTable::At(const AbsolutePath& target) const {
  const std::string& path = target.str();
  Walk walk(entries_);
  const MountEntry* top = walk.Enter("/");
  for (size_t slash = 0; path != "/" && slash != std::string::npos;) {
    slash = path.find('/', slash + 1);
    top = walk.Enter(std::string_view(path).substr(0, slash));
  }
  return top;
}

const MountEntry* MountTable::ById(uint64_t id) const {
  const auto entry = std::ranges::find(entries_, id, &MountEntry::id);
  return entry == entries_.end() ? nullptr : &*entry;
}

std::vector<const MountEntry*> MountTable::Of(DeviceNumber device) const {
  std::vector<const MountEntry*> out;
  for (const MountEntry& entry : entries_) {
    if (entry.device == device || entry.backing == device) {
      out.push_back(&entry);
    }
  }
  return out;
}

}  // namespace quarry::mount
