#include "mount/blkid_probe.h"

#include <blkid.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace quarry::mount {
namespace {

struct FreeProbe {
  void operator()(blkid_probe probe) const { blkid_free_probe(probe); }
};
using Probe = std::unique_ptr<std::remove_pointer_t<blkid_probe>, FreeProbe>;

// More signatures than this on one device mean an endless loop.
constexpr int kMaxSignatures = 256;

// BADCSUM: a signature with a wrong checksum counts too. It may belong to data that Quarry must not
// overwrite. FORCE_GPT: a partition table counts even if only its backup in the last sectors is left.
Result<Probe> MakeProbe(int fd) {
  Probe probe(blkid_new_probe());
  if (!probe) {
    return Error(Code::kUnavailable, "probing: out of memory");
  }
  errno = 0;
  const bool ready =
      blkid_probe_set_device(probe.get(), fd, 0, 0) == 0 &&
      blkid_probe_enable_superblocks(probe.get(), 1) == 0 &&
      blkid_probe_set_superblocks_flags(
          probe.get(), BLKID_SUBLKS_TYPE | BLKID_SUBLKS_UUID | BLKID_SUBLKS_LABEL | BLKID_SUBLKS_USAGE |
                           BLKID_SUBLKS_VERSION | BLKID_SUBLKS_MAGIC | BLKID_SUBLKS_BADCSUM) == 0 &&
      blkid_probe_enable_partitions(probe.get(), 1) == 0 &&
      blkid_probe_set_partitions_flags(probe.get(), BLKID_PARTS_FORCE_GPT | BLKID_PARTS_MAGIC) == 0;
  if (!ready) {
    return errno != 0 ? ErrnoError("preparing a probe").As(Code::kIo)
                      : Error(Code::kIo, "preparing a probe: libblkid refused the device");
  }
  return probe;
}

std::string Value(blkid_probe probe, const char* name) {
  const char* data = nullptr;
  return blkid_probe_lookup_value(probe, name, &data, nullptr) == 0 && data != nullptr ? data : "";
}

Content Describe(blkid_probe probe) {
  const std::string type = Value(probe, "TYPE");
  const std::string table = Value(probe, "PTTYPE");
  if (!type.empty() && !table.empty()) {
    return {Content::Kind::kAmbiguous, "", ""};
  }
  if (type.empty()) {
    return {Content::Kind::kOther, table.empty() ? "unknown" : table, Value(probe, "PTUUID")};
  }
  const bool file_system = Value(probe, "USAGE") == "filesystem";
  return {file_system ? Content::Kind::kFilesystem : Content::Kind::kOther, type, Value(probe, "UUID")};
}

constexpr int kFound = 0;
constexpr int kNothing = 1;
constexpr int kAmbivalent = -2;

// Distinguishes several signatures from a device that cannot be read. libblkid 2.41 fails the safe probe with
// -1 for both, so this looks for one signature after the other.
Result<Content> TellAmbiguousFromUnreadable(int fd) {
  QUARRY_ASSIGN(const Probe probe, MakeProbe(fd));
  int signatures = 0;
  errno = 0;
  int rc = kFound;
  while (signatures < kMaxSignatures && (rc = blkid_do_probe(probe.get())) == kFound) {
    ++signatures;
  }
  if (signatures > 1 && rc != -1) {
    return Content{Content::Kind::kAmbiguous, "", ""};
  }
  return Error(Code::kIo,
               fmt::format("probing: the device could not be read (libblkid {}, errno {})", rc, errno));
}

}  // namespace

Result<Content> ProbeContent(int fd) {
  QUARRY_ASSIGN(const Probe probe, MakeProbe(fd));
  switch (blkid_do_safeprobe(probe.get())) {
    case kFound:
      return Describe(probe.get());
    case kNothing:
      return Content{};
    case kAmbivalent:
      return Content{Content::Kind::kAmbiguous, "", ""};
    default:
      return TellAmbiguousFromUnreadable(fd);
  }
}

Status WipeSignatures(int fd) {
  QUARRY_ASSIGN(const Probe probe, MakeProbe(fd));
  for (int count = 0; blkid_do_probe(probe.get()) == 0; ++count) {
    // The magic is overwritten. The probe steps back by itself and searches again behind the magic.
    if (count == kMaxSignatures || blkid_do_wipe(probe.get(), /*dryrun=*/0) != 0) {
      return Error(Code::kIo, "wiping a signature failed");
    }
  }
  if (fsync(fd) != 0) {
    return ErrnoError("flushing wiped signatures");
  }
  return Ok();
}

}  // namespace quarry::mount
