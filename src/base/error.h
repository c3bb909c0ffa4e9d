// Errors in the terms of storage. Only src/csi maps them to gRPC codes: csi/errors.cc has one switch, and
// older versions override single codes of it.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

namespace quarry {

// A closed set. kNotFound means that we looked, and it does not exist. Every other code leaves open whether
// it exists.
enum class Code {
  kInvalidArgument,  // the request can never succeed as it is; the message names the field
  kNotFound,         // we looked, and it does not exist
  kAlreadyExists,    // the same name exists with other properties; the message names the difference
  kBusy,             // another operation on the same object is in flight
  kPrecondition,  // the object is in use, or the system lacks something; the message names holder or remedy
  kNoSpace,       // no space now; an emptier pool, or another node that may be asked, could serve the request
  kOutOfRange,    // no state of this pool could serve the request, or the volume must be grown first
  kUnsupported,   // this build, kernel or configuration does not offer it
  kUnavailable,   // could not look or act now; a retry may help
  kTimeout,       // the deadline passed, or a disk does not answer; the outcome may be unknown
  kCancelled,     // the caller or a shutdown asked to stop
  kCorrupt,       // what was read is invalid: metadata, reports, signatures
  kIo,            // the kernel or a device reported an error
  kStaleToken,    // an unknown pagination token
  kInternal,      // a defect in Quarry, or a tool that broke its contract
};

// Stable lower-case name for logs and metrics ("no_space").
std::string_view CodeName(Code code);

// An error with its context. Context is added on the way up, outermost first: "creating volume 'a': lvcreate:
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
  // Same message, other code: for a function that knows better what the failure means to its caller.
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
// (ENOENT → kNotFound, EBUSY → kPrecondition, ENOSPC → kNoSpace, EINTR/EAGAIN → kUnavailable, …), all others
// to kIo.
Error ErrnoError(std::string_view what, int saved_errno = errno);

}  // namespace quarry
