#include "gateway/privileges.h"

#include <fmt/format.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace quarry::gateway {
namespace {

Status CheckWithoutCapabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
  // The C library has no wrapper for it.
  if (::syscall(SYS_capget, &header, data.data()) != 0) {
    return ErrnoError("capget");
  }
  for (const auto& word : data) {
    if (word.effective != 0 || word.permitted != 0) {
      return Error(Code::kInternal, "this process still has capabilities after it gave up root");
    }
  }
  return Ok();
}

Status Leave(uid_t user, gid_t group) {
  if (::setgroups(0, nullptr) != 0) {
    return ErrnoError("setgroups");
  }
  if (::setresgid(group, group, group) != 0) {
    return ErrnoError("setresgid");
  }
  if (::setresuid(user, user, user) != 0) {
    return ErrnoError("setresuid");
  }
  if (::setresuid(-1, 0, -1) == 0) {
    return Error(Code::kInternal, "this process could become root again");
  }
  return CheckWithoutCapabilities();
}

}  // namespace

Status BecomeUser(uid_t user, gid_t group) {
  if (user == 0) {
    return Error(Code::kPrecondition, "the gateway never runs as root");
  }
  if (::geteuid() == 0) {
    QUARRY_TRY(Leave(user, group).Context(fmt::format("becoming user {}", user)));
  } else if (::geteuid() != user || ::getuid() != user) {
    return Error(
        Code::kPrecondition,
        fmt::format(
            "this program runs as user {}, and the gateway's user is {}: start it as that user, or as root",
            ::geteuid(), user));
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return ErrnoError("prctl PR_SET_NO_NEW_PRIVS");
  }
  return Ok();
}

}  // namespace quarry::gateway
