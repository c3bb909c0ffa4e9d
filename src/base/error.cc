#include "base/error.h"

#include <cstring>

#include <fmt/format.h>

namespace quarry {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kNotFound:
      return "not_found";
    case Code::kAlreadyExists:
      return "already_exists";
    case Code::kBusy:
      return "busy";
    case Code::kPrecondition:
      return "precondition";
    case Code::kNoSpace:
      return "no_space";
    case Code::kOutOfRange:
      return "out_of_range";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kTimeout:
      return "timeout";
    case Code::kCancelled:
      return "cancelled";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kIo:
      return "io";
    case Code::kStaleToken:
      return "stale_token";
    case Code::kInternal:
      return "internal";
  }
  return "internal";
}

Error&& Error::Context(std::string_view context) && {
  message_ = fmt::format("{}: {}", context, message_);
  return std::move(*this);
}

namespace {

Code CodeOfErrno(int value) {
  switch (value) {
    case ENOENT:
    case ENXIO:
    case ENODEV:
      return Code::kNotFound;
    case EEXIST:
      return Code::kAlreadyExists;
    case EBUSY:
    case ETXTBSY:
    case ENOTEMPTY:
      return Code::kPrecondition;
    case ENOSPC:
    case EDQUOT:
      return Code::kNoSpace;
    case EINVAL:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
      return Code::kInvalidArgument;
    case EAGAIN:
    case EINTR:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return Code::kUnavailable;
    case ETIMEDOUT:
      return Code::kTimeout;
    case EOPNOTSUPP:
    case ENOSYS:
    case ENOTTY:
      return Code::kUnsupported;
    default:
      return Code::kIo;
  }
}

}  // namespace

Error ErrnoError(std::string_view what, int saved_errno) {
  char text[128];
  // GNU strerror_r: thread-safe, returns the text to use.
  const char* words = strerror_r(saved_errno, text, sizeof text);
  return Error(CodeOfErrno(saved_errno), fmt::format("{}: {}", what, words)).WithErrno(saved_errno);
}

}  // namespace quarry
