#include "lvm/run/pv_flush.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/call_record.h"
#include "base/scsi_recovery.h"
#include "base/unique_fd.h"

namespace quarry::lvm {
namespace {

// lib/format_text/layout.h, lib/label/label.h: the label is in one of the first four sectors. It holds the id
// "LABELONE", its own sector number (8 bytes), a checksum (4), and at 20 the offset of the PV header, which
// begins with the uuid.
constexpr size_t kBlock = 4096;
constexpr size_t kSector = 512;
constexpr size_t kLabelSectors = 4;
constexpr std::string_view kLabelId = "LABELONE";
constexpr size_t kHeaderOffsetAt = 20;
constexpr size_t kUuidSize = 32;

// The PV uuid in the first block of a device, without hyphens; empty if there is no label.
std::string_view LabelUuid(std::string_view block) {
  for (size_t at = 0; at < kLabelSectors * kSector; at += kSector) {
    const std::string_view sector = block.substr(at, kSector);
    if (!sector.starts_with(kLabelId)) {
      continue;
    }
    // Little-endian on disk, on every machine.
    uint64_t offset = 0;
    for (size_t i = 4; i-- > 0;) {
      offset = (offset << 8) | static_cast<uint8_t>(sector[kHeaderOffsetAt + i]);
    }
    return offset <= kSector - kUuidSize ? sector.substr(offset, kUuidSize) : std::string_view();
  }
  return {};
}

// `uuid`: empty accepts any PV.
Status CheckLabel(int fd, const std::string& uuid) {
  alignas(kBlock) std::array<char, kBlock> block{};
  const ssize_t n = pread(fd, block.data(), block.size(), 0);
  if (n < 0) {
    return ErrnoError("reading the label");
  }
  std::string wanted = uuid;
  std::erase(wanted, '-');
  const std::string_view there =
      static_cast<size_t>(n) == kBlock ? LabelUuid({block.data(), block.size()}) : std::string_view();
  if (there.empty() || (!wanted.empty() && there != wanted)) {
    return Error(Code::kUnavailable, wanted.empty() ? "the disk there is not a PV"
                                                    : fmt::format("the disk there is not PV {}", uuid));
  }
  return Ok();
}

// Opened for reading: closing a disk that was opened for writing makes udev probe it again. fsync flushes in
// either mode.
Status FlushOne(const std::string& device, const std::string& uuid) {
  if (Status answers = CheckNotInScsiRecovery(device); !answers.has_value()) {
    return std::move(answers.error()).As(Code::kUnavailable);
  }
  const UniqueFd fd(open(device.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoError("opening it");
  }
  QUARRY_TRY(CheckLabel(fd.get(), uuid));
  if (fsync(fd.get()) != 0) {
    return ErrnoError("fsync");
  }
  return Ok();
}

}  // namespace

Status FlushPvs(const std::vector<FlushTarget>& targets, const Call& call) {
  const TimedStep step(call, [&] { return fmt::format("flush {} disks", targets.size()); });
  bool durable = false;
  std::optional<Error> failure;  // the first
  for (const FlushTarget& target : targets) {
    QUARRY_TRY(call.Check("flushing the group's disks"));
    Status status = FlushOne(target.device, target.uuid).Context(fmt::format("flushing {}", target.device));
    if (status.has_value()) {
      durable = durable || target.holds_metadata;
    } else if (!failure.has_value()) {
      failure = std::move(status.error());
    }
  }
  return durable ? Ok() : Status(failure.value_or(Error(Code::kUnavailable, "no PV with metadata is known")));
}

Status FlushNewPv(const std::string& device, const Call& call) {
  QUARRY_TRY(call.Check("flushing a new disk"));
  return FlushOne(device, "").Context(fmt::format("flushing {}", device));
}

}  // namespace quarry::lvm
