#include "udev/nvme_health.h"

#include <endian.h>
#include <fcntl.h>
#include <libnvme.h>  // IWYU pragma: keep: the folder of headers that it includes has no stable names
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "base/little_endian.h"
#include "base/unique_fd.h"

namespace quarry::udev {
namespace {

namespace fs = std::filesystem;

static_assert(sizeof(nvme_smart_log) == sizeof(SmartPage));
static_assert(sizeof(nvme_id_ns) == sizeof(NamespacePage));

constexpr int kZeroCelsius = 273;  // the page has kelvins
constexpr int kTooLarge = 32;      // as a power of two: blocks of 2^32 bytes and more are not plausible

// A counter of 16 bytes.
uint64_t Counter(const uint8_t (&bytes)[16]) {
  const bool fits = std::all_of(bytes + 8, bytes + 16, [](uint8_t byte) { return byte == 0; });
  return fits ? little_endian::Load(std::as_bytes(std::span(bytes)), 0, 8)
              : std::numeric_limits<uint64_t>::max();
}

// For the namespace's current format; 0: the value is not plausible.
uint64_t BlockSize(const nvme_id_ns& ns) {
  uint8_t format = 0;
  nvme_id_ns_flbas_to_lbaf_inuse(ns.flbas, &format);
  const uint8_t shift = format < std::size(ns.lbaf) ? ns.lbaf[format].ds : 0;
  return shift == 0 || shift >= kTooLarge ? 0 : uint64_t{1} << shift;
}

// Whether the block device with this number is an NVMe namespace or a partition of one. Opens nothing.
bool IsNvme(const std::string& numbers, dev_t device) {
  std::error_code error;
  const fs::path place =
      fs::read_symlink(fmt::format("{}/{}:{}", numbers, gnu_dev_major(device), gnu_dev_minor(device)), error);
  return !error && place.filename().string().starts_with("nvme");
}

// `status` is what libnvme returned: -1, and then `saved_errno` has the cause; or the NVMe status with which
// the disk refused.
Error Refusal(const std::string& node, const char* what, int status, int saved_errno) {
  const std::string asked = fmt::format("asking {} for {}", node, what);
  return status < 0 ? ErrnoError(asked, saved_errno).As(Code::kIo)
                    : Error(Code::kIo, fmt::format("{}: {}", asked, nvme_status_to_string(status, false)));
}

}  // namespace

DiskHealth DecodeHealth(const SmartPage& smart, const NamespacePage& name_space) {
  const auto log = std::bit_cast<nvme_smart_log>(smart);
  const auto ns = std::bit_cast<nvme_id_ns>(name_space);
  DiskHealth out;
  out.critical_warning = log.critical_warning;
  out.available_spare = log.avail_spare;
  out.spare_threshold = log.spare_thresh;
  out.percentage_used = log.percent_used;
  out.temperature = (log.temperature[0] | log.temperature[1] << 8) - kZeroCelsius;
  out.media_errors = Counter(log.media_errors);
  out.unsafe_shutdowns = Counter(log.unsafe_shutdowns);
  out.deallocated_is_zero = (ns.dlfeat & NVME_NS_DLFEAT_RB) == NVME_NS_DLFEAT_RB_ALL_0S;
  const uint64_t block = BlockSize(ns);
  if ((ns.nsfeat & NVME_NS_FEAT_IO_OPT) != 0 && block != 0) {  // the fields are valid
    out.write_granularity = Bytes{(uint64_t{le16toh(ns.npwg)} + 1) * block};
    out.discard_granularity = Bytes{(uint64_t{le16toh(ns.npdg)} + 1) * block};
  }
  return out;
}

Result<std::optional<DiskHealth>> NvmeHealth::Read(const std::string& node) {
  struct stat status{};
  if (stat(node.c_str(), &status) != 0) {
    return ErrnoError(fmt::format("looking at {}", node));
  }
  if (!S_ISBLK(status.st_mode) || !IsNvme(numbers_, status.st_rdev)) {
    return std::optional<DiskHealth>();
  }
  const UniqueFd fd(open(node.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    const int failure = errno;
    return ErrnoError(fmt::format("opening {}", node), failure)
        .As(failure == ENOENT || failure == ENXIO || failure == ENODEV ? Code::kNotFound : Code::kIo);
  }
  nvme_smart_log log{};
  if (const int code = nvme_get_log_smart(fd.get(), NVME_NSID_ALL, false, &log); code != 0) {
    return Refusal(node, "its health", code, errno);
  }
  __u32 id = 0;
  if (const int code = nvme_get_nsid(fd.get(), &id); code != 0) {
    return Refusal(node, "its namespace's number", code, errno);
  }
  nvme_id_ns ns{};
  if (const int code = nvme_identify_ns(fd.get(), id, &ns); code != 0) {
    return Refusal(node, "its namespace identification", code, errno);
  }
  return std::optional(DecodeHealth(std::bit_cast<SmartPage>(log), std::bit_cast<NamespacePage>(ns)));
}

}  // namespace quarry::udev
