// gateway.env: the environment of the S3 gateway, written by quarryd. Its owner is the user that the gateway
// runs as.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/path.h"
#include "base/result.h"
#include "base/subprocess.h"

namespace quarry::gateway {

// Tells apart two states of a file without reading it: after each change it differs.
struct FileMark {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  int64_t changed_ns = 0;

  bool operator==(const FileMark&) const = default;
};

// kNotFound: there is no such file. Follows symbolic links.
Result<FileMark> MarkOf(const std::string& path);

struct EnvironmentFile {
  uid_t owner = 0;
  gid_t group = 0;
  Environment variables;
};

// Lines KEY=VALUE. The key is of A-Z, 0-9 and "_"; the value is the rest of the line as it is. Empty lines,
// and lines that begin with "#", are skipped. kInvalidArgument: a line is something else, a key is there
// twice, or one of ROOT_ACCESS_KEY, ROOT_SECRET_KEY and VGW_PORT is missing. Errors name line and key, never
// a value. Pure.
Result<Environment> ParseEnvironment(std::string_view text);

// kNotFound: there is no such file. kPrecondition: another user than its owner may read or change it, or
// could put another file in its place, or it is no regular file, or root owns it: the gateway never runs as
// root.
Result<EnvironmentFile> ReadEnvironmentFile(const AbsolutePath& path);

// The value of `key`, empty if it is missing.
std::string ValueOf(const Environment& variables, std::string_view key);

}  // namespace quarry::gateway
