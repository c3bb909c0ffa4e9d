#include "dm/dm_control.h"

#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "dm/dm_task.h"

namespace quarry::dm {
namespace {

constexpr const char* kControl = "/dev/mapper/control";
// A pool, a thin device or an array has one short line. The kernel leaves out lines that do not fit.
constexpr size_t kRoomForLine = 16384;

// One request and its answer: the kernel's header, and behind it data both ways.
class Request {
 public:
  Request(const std::string& uuid, uint32_t flags, size_t room) : bytes_(sizeof(dm_ioctl) + room) {
    dm_ioctl& header = this->header();
    // The interface version that introduced suspends without a lock. The kernel accepts every older version
    // of its major number.
    header.version[0] = 4;
    header.version[1] = 6;
    header.data_size = static_cast<uint32_t>(bytes_.size());
    header.data_start = sizeof(dm_ioctl);
    header.flags = flags;
    fits_ = !uuid.empty() && uuid.size() < sizeof header.uuid;
    if (fits_) {
      std::memcpy(header.uuid, uuid.c_str(), uuid.size() + 1);
    }
  }

  dm_ioctl& header() { return *reinterpret_cast<dm_ioctl*>(bytes_.data()); }
  char* data() { return bytes_.data() + sizeof(dm_ioctl); }
  // The answer's data, as far as the kernel wrote it.
  std::string_view Answer() {
    const dm_ioctl& answer = header();
    const size_t begin = answer.data_start;
    const size_t end = std::min<size_t>(answer.data_size, bytes_.size());
    return begin < end ? std::string_view(bytes_.data() + begin, end - begin) : std::string_view();
  }
  // 0 or errno.
  int Send(int control, unsigned long command) {
    if (!fits_) {
      return ENXIO;  // no device has such a UUID
    }
    return ioctl(control, command, bytes_.data()) == 0 ? 0 : errno;
  }

 private:
  std::vector<char> bytes_;  // from operator new, so aligned for the header
  bool fits_ = false;
};

// A text within a field of fixed size.
template <size_t N>
std::string TextIn(const char (&field)[N]) {
  return {field, strnlen(field, N)};
}

}  // namespace

Result<DmControl> DmControl::Open() {
  UniqueFd control(open(kControl, O_RDWR | O_CLOEXEC));
  if (!control.valid() && errno == ENOENT) {
    QUARRY_TRY(LibdmSession::Begin());  // makes the node
    control.Reset(open(kControl, O_RDWR | O_CLOEXEC));
  }
  if (!control.valid()) {
    return ErrnoError(fmt::format("opening {}", kControl)).As(Code::kUnavailable);
  }
  return DmControl(std::move(control));
}

Result<std::optional<DmControl::Line>> DmControl::Status(const std::string& uuid) const {
  Request request(uuid, DM_NOFLUSH_FLAG, kRoomForLine);
  if (const int failure = request.Send(control_.get(), DM_TABLE_STATUS); failure != 0) {
    return failure == ENXIO ? Result<std::optional<Line>>(std::nullopt)
                            : ErrnoError(fmt::format("asking for the state of device {}", uuid), failure)
                                  .As(Code::kUnavailable);
  }
  const dm_ioctl& answer = request.header();
  Line line{TextIn(answer.name), TextIn(answer.uuid), {}, {}};
  const std::string_view data = request.Answer();
  if (answer.target_count == 0 || data.size() <= sizeof(dm_target_spec)) {
    return std::optional(std::move(line));
  }
  dm_target_spec spec;
  std::memcpy(&spec, data.data(), sizeof spec);
  line.type = TextIn(spec.target_type);
  const std::string_view words = data.substr(sizeof spec);
  line.parameters = words.substr(0, words.find('\0'));
  return std::optional(std::move(line));
}

int DmControl::Message(const std::string& uuid, const std::string& text) const {
  Request request(uuid, 0, sizeof(dm_target_msg) + text.size() + 1);
  // The sector, 0, is in place already.
  std::memcpy(request.data() + offsetof(dm_target_msg, message), text.c_str(), text.size() + 1);
  return request.Send(control_.get(), DM_TARGET_MSG);
}

int DmControl::Suspend(const std::string& uuid, FileSystemLock lock) const {
  const uint32_t skip = lock == FileSystemLock::kSkip ? DM_SKIP_LOCKFS_FLAG : 0;
  return Request(uuid, DM_SUSPEND_FLAG | skip, 0).Send(control_.get(), DM_DEV_SUSPEND);
}

int DmControl::Resume(const std::string& uuid) const {
  return Request(uuid, 0, 0).Send(control_.get(), DM_DEV_SUSPEND);
}

int DmControl::DropWaitingTable(const std::string& uuid) const {
  return Request(uuid, 0, 0).Send(control_.get(), DM_TABLE_CLEAR);
}

int DmControl::SetSizeOfArray(const std::string& uuid) const {
  Request current(uuid, DM_NOFLUSH_FLAG | DM_STATUS_TABLE_FLAG, kRoomForLine);
  if (const int failure = current.Send(control_.get(), DM_TABLE_STATUS); failure != 0) {
    return failure;
  }
  const dm_ioctl& answer = current.header();
  const std::string_view data = current.Answer();
  dm_target_spec target;
  constexpr uint32_t kNotNow = DM_BUFFER_FULL_FLAG | DM_SUSPEND_FLAG;
  if (answer.target_count != 1 || (answer.flags & kNotNow) != 0 || data.size() <= sizeof target) {
    return 0;
  }
  std::memcpy(&target, data.data(), sizeof target);
  uint64_t sectors = 0;
  std::ifstream(fmt::format("/sys/dev/block/{}:{}/size", major(answer.dev), minor(answer.dev))) >> sectors;
  if (TextIn(target.target_type) != "raid" || sectors == 0 || sectors == target.length) {
    return 0;
  }
  std::string parameters(data.substr(sizeof target));
  parameters.resize(std::min(parameters.size(), parameters.find('\0')));
  Request load(uuid, answer.flags & DM_READONLY_FLAG, sizeof target + parameters.size() + 1);
  load.header().target_count = 1;
  target.next = 0;
  std::memcpy(load.data(), &target, sizeof target);
  std::memcpy(load.data() + sizeof target, parameters.c_str(), parameters.size() + 1);
  const int failure = load.Send(control_.get(), DM_TABLE_LOAD);
  return failure != 0 ? failure : Resume(uuid);
}

}  // namespace quarry::dm
