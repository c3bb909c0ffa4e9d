// Parses any bytes as the foreign texts that this room reads: mountinfo, mount flags, mkfs options, an ext4
// superblock, an LVM label, status lines of thin pools and devices. No crash, no endless loop, and what is
// accepted fulfils what its users rely on. Entry point for libFuzzer; a unit test feeds it a corpus and
// mutations of it too.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dm/pv_label.h"
#include "dm/thin_lines.h"
#include "mount/filesystems.h"
#include "mount/mount_api.h"

namespace {

using quarry::AbsolutePath;
using quarry::Bytes;

void Require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void Mountinfo(std::string_view text) {
  const auto table = quarry::mount::MountTable::Parse(text);
  if (!table.has_value()) {
    Require(table.error().code() == quarry::Code::kCorrupt);
    return;
  }
  for (const auto& entry : table->entries()) {
    Require(!entry.target.empty() && entry.target.front() == '/' && !entry.fs_type.empty());
    (void)entry.read_only();
    const auto path = AbsolutePath::Parse(entry.target);
    if (!path.has_value()) {
      continue;
    }
    const auto* top = table->At(*path);
    Require(top == nullptr || top->target == path->str());
    Require(!table->Of(entry.device).empty());
  }
}

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() == text.size() ? line.size() : line.size() + 1);
    lines.emplace_back(line);
  }
  return lines;
}

void MountFlags(std::string_view text) {
  const std::vector<std::string> words = Lines(text);
  const auto options = quarry::mount::ParseMountOptions(words);
  if (!options.has_value()) {
    Require(options.error().code() == quarry::Code::kInvalidArgument);
    Require(options.error().message().starts_with("mount_flags["));
    return;
  }
  Require((options->flags & options->cleared) == 0);
  size_t joined = 0;
  for (const quarry::mount::DataOption& option : options->data) {
    const std::string& word = option.text;
    Require(option.index < words.size());
    joined += word.size() + 1;
    Require(!word.empty() && word.find('\0') == std::string::npos && word.find('\n') == std::string::npos);
    // A comma is allowed only within quotes.
    Require(word.find(',') == std::string::npos || (word.back() == '"' && word.find('"') < word.find(',')));
  }
  Require(joined <= 4096);
}

void MkfsOptions(std::string_view text) {
  for (const auto* fs : quarry::mount::Filesystems()) {
    quarry::mount::MakeFilesystem spec;
    spec.fs_type = fs->type();
    spec.device = "/dev/dm-0";
    spec.extra_options = text;
    const auto words = fs->MakeCommand(spec, quarry::kGiB);
    Require(words.has_value() || words.error().code() == quarry::Code::kInvalidArgument);
    if (!words.has_value()) {
      continue;
    }
    Require(words->back() == "/dev/dm-0");
    // Each word is an option, or the value of the option before it. mkfs would take any other word for a
    // device.
    for (size_t i = 1; i + 1 < words->size(); ++i) {
      const std::string& word = (*words)[i];
      Require(!word.empty() && (word.front() == '-' || (*words)[i - 1].front() == '-'));
    }
  }
}

void Superblock(std::string_view text) {
  const auto measured = quarry::mount::MeasureExt4(std::as_bytes(std::span(text)));
  Require(measured.has_value() || measured.error().code() == quarry::Code::kCorrupt);
}

void Label(std::string_view text) {
  const auto label = quarry::dm::ParsePvLabel(std::as_bytes(std::span(text)));
  if (!label.has_value()) {
    Require(label.error().code() == quarry::Code::kCorrupt);
    return;
  }
  Require(label->uuid.size() == 38 && label->data.size() == 1);
  const Bytes start = label->data[0].offset;
  Require(!quarry::dm::CheckWithinExtents(*label, {0}, {512}, label->device_size).has_value());
  (void)quarry::dm::CheckWithinExtents(*label, start, {512}, label->device_size);
}

void ThinLine(std::string_view text) {
  const auto pool = quarry::dm::ParseThinPoolStatus(text);
  if (pool.has_value()) {
    Require(pool->metadata_used <= pool->metadata_total && pool->data_used <= pool->data_total);
  } else {
    Require(pool.error().code() == quarry::Code::kCorrupt);
  }
  const auto thin = quarry::dm::ParseThinStatus(text);
  Require(thin.has_value() || thin.error().code() == quarry::Code::kCorrupt);
  Require(!thin.has_value() || !thin->failed || thin->mapped.value == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'm':
      Mountinfo(text);
      break;
    case 'f':
      MountFlags(text);
      break;
    case 'o':
      MkfsOptions(text);
      break;
    case 's':
      Superblock(text);
      break;
    case 'l':
      Label(text);
      break;
    case 't':
      ThinLine(text);
      break;
    default:
      (void)AbsolutePath::Parse(text);
  }
  return 0;
}
