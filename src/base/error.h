// What went wrong, in the terms of storage. Mapped to gRPC codes in src/csi only, by one switch per CSI
// version.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

namespace quarry {

// Closed set. "Not found" (kNotFound: we looked, it is not there) and "could not look" (kUnavailable, kIo,
// kTimeout, kInternal) are never the same.
enum class Code {
  kInvalidArgument,  // the request can never be right as it stands; the message names the field
  kNotFound,         // we looked, and it is not there
  kAlreadyExists,    // the same name exists with other properties; the message names the difference
  kBusy,             // another operation on the same object is in flight
  kPrecondition,  // the object is in use, or the system lacks something; the message names holder or remedy
  kNoSpace,       // not now: no room left, though the request could be served by an emptier pool
  kOutOfRange,    // never: no state of this pool could serve it
  kUnsupported,   // this build, kernel or configuration does not offer it
  kUnavailable,   // could not look or could not act now; trying again is sensible
  kTimeout,       // the deadline passed; the outcome may be unknown
  kCancelled,     // the caller or a shutdown asked to stop
  kCorrupt,       // what was read makes no sense: metadata, reports, signatures
  kIo,            // the kernel or a device reported an error
  kStaleToken,    // a pagination token that is not ours
  kInternal,      // a defect of ours, or a tool that broke its contract
};

// Stable lower-case name, for logs and metrics ("no_space").
std::string_view CodeName(Code code);

// A failure with its story. Context is added on the way up, outermost first: "creating volume 'a': lvcreate:
// …".
class Error {
 public:
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // errno behind the failure, 0 if none.
  int sys_errno() const { return sys_errno_; }

  Error&& WithErrno(int value) && {
    sys_errno_ = value;
    return std::move(*this);
  }
  // Prepends "context: ".
  Error&& Context(std::string_view context) &&;
  // Same story, other code: for a layer that knows better what a failure means to its caller.
  Error&& As(Code code) && {
    code_ = code;
    return std::move(*this);
  }

 private:
  Code code_;
  std::string message_;
  int sys_errno_ = 0;
};

// Error from errno: "what: Permission denied". Maps the errnos whose meaning does not depend on the call
// (ENOENT → kNotFound, EBUSY → kPrecondition, ENOSPC → kNoSpace, EINTR/EAGAIN → kUnavailable, …), else kIo.
Error ErrnoError(std::string_view what, int saved_errno = errno);

}  // namespace quarry
