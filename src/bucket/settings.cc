#include "bucket/settings.h"

#include <algorithm>
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "bucket/names.h"

namespace quarry::bucket {
namespace {

using std::chrono::seconds;

constexpr std::string_view kWhatSizeIs = "a bucket is a volume of this size, such as 10GiB";
constexpr uint64_t kMostSeconds = seconds(std::chrono::years(100)).count();

std::string_view Word(OnDelete value) {
  return value == OnDelete::kErase ? "erase" : "refuse";
}

std::string_view Word(Durability value) {
  return value == Durability::kRelaxed ? "relaxed" : "sync";
}

Error Bad(std::string_view key, std::string_view value, std::string_view allowed) {
  return {Code::kInvalidArgument, fmt::format("parameter '{}': '{}' is not {}", key, value, allowed)};
}

// "7d", "12h", "30m", "90s" or a number of seconds.
Result<seconds> ParseTime(std::string_view key, std::string_view text) {
  const auto bad = [&] { return Bad(key, text, "a time such as 7d, 12h, 30m or 90s, or 0 for never"); };
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const std::map<std::string_view, uint64_t> units = {
      {"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
  if (error != std::errc() || !units.contains(unit) || number > kMostSeconds / units.at(unit)) {
    return bad();
  }
  return seconds(number * units.at(unit));
}

bool IsSameSize(Bytes recorded, Bytes present, Bytes asked) {
  return recorded == Bytes{} ? asked <= present : asked == recorded || asked == present;
}

// Takes one setting from text. False: the key is none of a bucket's.
Result<bool> Take(std::string_view key, std::string_view value, Settings& into) {
  if (key == "ondelete") {
    if (value != "erase" && value != "refuse") {
      return Bad(key, value, "refuse or erase");
    }
    into.on_delete = value == "erase" ? OnDelete::kErase : OnDelete::kRefuse;
  } else if (key == "durability") {
    if (value != "sync" && value != "relaxed") {
      return Bad(key, value, "sync or relaxed");
    }
    into.durability = value == "sync" ? Durability::kSync : Durability::kRelaxed;
  } else if (key == "uploadttl") {
    QUARRY_ASSIGN(into.upload_ttl, ParseTime(key, value));
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::string Settings::Canonical() const {
  const std::string recorded = size == Bytes{} ? "" : fmt::format("\nsize={}", size.value);
  return fmt::format("durability={}\nname={}\nondelete={}{}\nuploadttl={}", Word(durability), name,
                     Word(on_delete), recorded, upload_ttl.count());
}

Result<Settings> Settings::FromCanonical(std::string_view text) {
  Settings out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t equals = std::min(line.find('='), line.size());
    const std::string_view value = line.substr(std::min(equals + 1, line.size()));
    if (line.substr(0, equals) == "name") {
      out.name = value;
      continue;
    }
    if (line.substr(0, equals) == "size") {
      auto size = ParseSize(value);
      if (!size.has_value()) {
        return std::move(size.error()).As(Code::kCorrupt).Context("tag quarry.s3: size");
      }
      out.size = *size;
      continue;
    }
    auto taken = Take(line.substr(0, equals), value, out);
    if (!taken.has_value()) {
      return std::move(taken.error()).As(Code::kCorrupt).Context("tag quarry.s3");
    }
  }
  if (Status name = CheckBucketName(out.name); !name.has_value()) {
    return std::move(name.error()).As(Code::kCorrupt).Context("tag quarry.s3");
  }
  return out;
}

std::optional<std::string> Difference(const Settings& existing, Bytes present, const Settings& requested) {
  const auto differs = [](std::string_view key, const auto& asked, const auto& was) {
    return fmt::format("parameter '{}' is {}, was {}", key, asked, was);
  };
  if (!IsSameSize(existing.size, present, requested.size)) {
    return differs("size", fmt::format("{} bytes", requested.size.value),
                   existing.size == Bytes{} || existing.size == present
                       ? fmt::format("{} bytes", present.value)
                       : fmt::format("{} bytes when the bucket was made, and is {} bytes since it grew",
                                     existing.size.value, present.value));
  }
  if (existing.on_delete != requested.on_delete) {
    return differs("ondelete", Word(requested.on_delete), Word(existing.on_delete));
  }
  if (existing.durability != requested.durability) {
    return differs("durability", Word(requested.durability), Word(existing.durability));
  }
  if (existing.upload_ttl != requested.upload_ttl) {
    return differs("uploadttl", fmt::format("{} s", requested.upload_ttl.count()),
                   fmt::format("{} s", existing.upload_ttl.count()));
  }
  return std::nullopt;
}

Result<Wish> ParseRequest(const CreateRequest& request) {
  QUARRY_TRY(CheckBucketName(request.name));
  if (!request.parameters.contains("size")) {
    return Error(Code::kInvalidArgument, fmt::format("parameter 'size' is required: {}", kWhatSizeIs));
  }
  return ParseOver(request.parameters, {.name = request.name});
}

Result<Wish> ParseOver(const Parameters& parameters, const Settings& existing) {
  Wish wish{.settings = existing, .volume = {}};
  for (const auto& [key, value] : parameters) {
    if (key == "size") {
      QUARRY_ASSIGN(wish.settings.size, ParseSize(value).Context("parameter 'size'"));
      if (wish.settings.size == Bytes{}) {
        return Error(Code::kInvalidArgument, fmt::format("parameter 'size' must not be 0: {}", kWhatSizeIs));
      }
      continue;
    }
    QUARRY_ASSIGN(const bool taken, Take(key, value, wish.settings));
    if (!taken) {
      wish.volume[key] = value;
    }
  }
  return wish;
}

}  // namespace quarry::bucket
