#include "gateway/environment_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/unique_fd.h"

namespace quarry::gateway {
namespace {

constexpr off_t kLargest{65536};
constexpr std::array<std::string_view, 3> kRequired = {"ROOT_ACCESS_KEY", "ROOT_SECRET_KEY", "VGW_PORT"};
constexpr int64_t kSecond = 1'000'000'000;

FileMark MarkOf(const struct stat& found) {
  return {.device = found.st_dev,
          .inode = found.st_ino,
          .size = found.st_size,
          .changed_ns = (found.st_ctim.tv_sec * kSecond) + found.st_ctim.tv_nsec};
}

bool IsKey(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && std::ranges::all_of(text, letter);
}

bool Has(const Environment& variables, std::string_view key) {
  return std::ranges::any_of(variables, [&](const auto& one) { return one.first == key; });
}

Status CheckFolder(const AbsolutePath& folder) {
  struct stat found{};
  if (::stat(folder.c_str(), &found) != 0) {
    return ErrnoError("stat " + folder.str());
  }
  const bool trusted = found.st_uid == 0 || found.st_uid == ::geteuid();
  if (!trusted || (found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Error(
        Code::kPrecondition,
        fmt::format("users other than root may change the folder {}: make root its owner, with mode 0755",
                    folder.str()));
  }
  return Ok();
}

Status CheckFile(const struct stat& found) {
  if (!S_ISREG(found.st_mode)) {
    return Error(Code::kPrecondition, "it is not a regular file");
  }
  if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Error(Code::kPrecondition, fmt::format("it has secrets and its mode is {:04o}: it must be 0600",
                                                  found.st_mode & 07777U));
  }
  if (found.st_uid == 0) {
    return Error(Code::kPrecondition,
                 "root owns it, and the gateway never runs as root: its owner must be the gateway's user");
  }
  if (found.st_size > kLargest) {
    return Error(Code::kPrecondition, fmt::format("it is larger than {} bytes", kLargest));
  }
  return Ok();
}

Result<std::string> ReadAll(int fd) {
  std::string text;
  std::array<char, 4096> piece{};
  while (true) {
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return ErrnoError("read");
    }
    if (got == 0) {
      return text;
    }
    text.append(piece.data(), static_cast<size_t>(got));
  }
}

Result<EnvironmentFile> Read(const AbsolutePath& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) {
    return ErrnoError("open");
  }
  QUARRY_TRY(CheckFolder(path.Parent()));
  struct stat found{};
  if (::fstat(fd.get(), &found) != 0) {
    return ErrnoError("stat");
  }
  QUARRY_TRY(CheckFile(found));
  QUARRY_ASSIGN(const std::string text, ReadAll(fd.get()));
  QUARRY_ASSIGN(auto variables, ParseEnvironment(text));
  return EnvironmentFile{.owner = found.st_uid, .group = found.st_gid, .variables = std::move(variables)};
}

}  // namespace

Result<FileMark> MarkOf(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) {
    return ErrnoError("stat " + path);
  }
  return MarkOf(found);
}

Result<Environment> ParseEnvironment(std::string_view text) {
  Environment variables;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.starts_with('#')) {
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos || !IsKey(line.substr(0, equals)) ||
        line.find('\0') != std::string_view::npos) {
      return Error(Code::kInvalidArgument, fmt::format("line {} is not KEY=VALUE", number));
    }
    const std::string key(line.substr(0, equals));
    if (Has(variables, key)) {
      return Error(Code::kInvalidArgument, fmt::format("line {} sets {} a second time", number, key));
    }
    variables.emplace_back(key, line.substr(equals + 1));
  }
  for (const std::string_view key : kRequired) {
    if (ValueOf(variables, key).empty()) {
      return Error(Code::kInvalidArgument, fmt::format("{} is missing", key));
    }
  }
  return variables;
}

Result<EnvironmentFile> ReadEnvironmentFile(const AbsolutePath& path) {
  return Read(path).Context(path.str());
}

std::string ValueOf(const Environment& variables, std::string_view key) {
  const auto found = std::ranges::find_if(variables, [&](const auto& one) { return one.first == key; });
  return found == variables.end() ? "" : found->second;
}

}  // namespace quarry::gateway
