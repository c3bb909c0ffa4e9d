#include "thin/repair_tools.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "thin/block_source.h"
#include "thin/metadata_reader.h"

namespace quarry::thin {
namespace {

const Environment kEnvironment = {{"LC_ALL", "C"}, {"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}};
constexpr size_t kMostOutput = 64 * 1024;
constexpr std::string_view kCheck = "thin_check";
constexpr std::string_view kRepair = "thin_repair";

Result<MetadataReader> Read(const std::string& metadata, const Call& call) {
  QUARRY_ASSIGN(std::shared_ptr<BlockSource> source, OpenMetadataDevice(metadata));
  return MetadataReader::Open(std::move(source), Root::kLive, call);
}

// Reads all mappings of the device. kCorrupt also if there are not as many as the pool counted.
Status CountMappings(MetadataReader& reader, const Device& device, const Call& call) {
  uint64_t blocks = 0;
  QUARRY_TRY(reader.Walk(
      device.id, 0,
      [&blocks](const MappingRun& run) {
        blocks += run.length;
        return true;
      },
      call));
  return blocks == device.mapped_blocks
             ? Ok()
             : Status(Error(Code::kCorrupt, fmt::format("has {} mapped chunks, and the pool counted {}",
                                                        blocks, device.mapped_blocks)));
}

// Whether both devices have the same mappings, with the same times.
Result<bool> HaveSameMappings(MetadataReader& one, MetadataReader& other, DeviceId id, const Call& call) {
  QUARRY_ASSIGN(const auto one_tree, one.FindTree(id, call));
  QUARRY_ASSIGN(const auto other_tree, other.FindTree(id, call));
  TreeCursor left = one.Mappings(one_tree);
  TreeCursor right = other.Mappings(other_tree);
  while (true) {
    QUARRY_ASSIGN(const bool more, left.ToEntry(call));
    QUARRY_ASSIGN(const bool other_more, right.ToEntry(call));
    if (!more || !other_more) {
      return more == other_more;
    }
    QUARRY_TRY(one.DataBlock(left));
    QUARRY_TRY(other.DataBlock(right));
    if (left.key() != right.key() || left.value() != right.value()) {
      return false;
    }
    left.Skip();
    right.Skip();
  }
}

Status Flush(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) {
    const int error = errno;
    return Error(Code::kIo, fmt::format("{}: what thin_repair has written cannot be flushed", path))
        .WithErrno(error);
  }
  return Ok();
}

}  // namespace

Status RepairTools::Ready() {
  for (const std::string_view name : {kCheck, kRepair}) {
    QUARRY_TRY(Find(name));
  }
  return Ok();
}

Result<StoredPool> RepairTools::Look(const std::string& metadata, const Call& call) {
  QUARRY_ASSIGN(MetadataReader reader, Read(metadata, call));
  StoredPool out{.transaction_id = reader.superblock().transaction_id, .devices = {}};
  QUARRY_ASSIGN(const std::vector<thin::Device> devices, reader.Devices(call));
  for (const thin::Device& device : devices) {
    QUARRY_TRY(CountMappings(reader, device, call).Context(fmt::format("thin device {}", device.id)));
    out.devices[device.id] = {.transaction_id = device.transaction_id,
                              .mapped = {device.mapped_blocks * reader.superblock().data_block_size.value}};
  }
  return out;
}

Result<std::map<uint32_t, std::string>> RepairTools::Compare(const std::string& former,
                                                             const std::string& repaired, const Call& call) {
  QUARRY_ASSIGN(MetadataReader was, Read(former, call));
  QUARRY_ASSIGN(MetadataReader now, Read(repaired, call));
  const Superblock& old = was.superblock();
  if (old.data_block_size != now.superblock().data_block_size ||
      old.data_blocks != now.superblock().data_blocks || old.time != now.superblock().time) {
    return Error(Code::kCorrupt, "the chunk size, the size or the time of the pool is another one");
  }
  QUARRY_ASSIGN(const std::vector<Device> devices, was.Devices(call));
  QUARRY_ASSIGN(const std::vector<Device> have, now.Devices(call));
  std::map<uint32_t, std::string> out;
  for (const Device& device : devices) {
    const auto same = std::ranges::find(have, device.id, &Device::id);
    if (same == have.end()) {
      out.emplace(device.id, "is lost");
      continue;
    }
    QUARRY_ASSIGN(const bool equal, HaveSameMappings(was, now, device.id, call));
    if (!equal) {
      out.emplace(device.id, "has other mappings");
    } else if (*same != device) {
      out.emplace(device.id, "has other details");
    }
  }
  for (const Device& device : have) {
    if (std::ranges::find(devices, device.id, &Device::id) == devices.end()) {
      out.emplace(device.id, "was not there before");
    }
  }
  return out;
}

Status RepairTools::Check(const std::string& metadata, const Call& call) {
  return Run(kCheck, {metadata}, call);
}

Status RepairTools::Repair(const std::string& from, const std::string& to,
                           std::optional<uint64_t> transaction_id, const Call& call) {
  std::vector<std::string> words = {"-i", from, "-o", to};
  if (transaction_id.has_value()) {
    words.insert(words.end(), {"--transaction-id", fmt::format("{}", *transaction_id)});
  }
  QUARRY_TRY(Run(kRepair, std::move(words), call));
  return Flush(to);
}

Result<std::string> RepairTools::Find(std::string_view name) const {
  for (const std::string& directory : directories_) {
    std::string path = fmt::format("{}/{}", directory, name);
    if (access(path.c_str(), X_OK) == 0) {
      return path;
    }
  }
  return Error(Code::kPrecondition,
               fmt::format("{} is not installed: it comes with the package thin-provisioning-tools", name));
}

Status RepairTools::Run(std::string_view name, std::vector<std::string> words, const Call& call) {
  QUARRY_ASSIGN(std::string path, Find(name));
  Command command;
  command.argv = std::move(words);
  command.argv.insert(command.argv.begin(), std::move(path));
  command.env = kEnvironment;
  command.output_limit = kMostOutput;
  command.ends_with_us = true;  // what it has written is of no use then
  QUARRY_ASSIGN(const Finished finished, children_.Run(command, call));
  if (finished.ok()) {
    return Ok();
  }
  const std::string said = ToolWords(finished.err.empty() ? finished.out : finished.err);
  if (finished.signal != 0) {
    return Error(Code::kUnavailable,
                 fmt::format("{} was killed by signal {}: {}", name, finished.signal, said));
  }
  return Error(Code::kCorrupt, fmt::format("{}: exit status {}: {}", name, finished.exit_status, said));
}

}  // namespace quarry::thin
