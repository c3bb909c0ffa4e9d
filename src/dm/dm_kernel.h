// The kernel's device-mapper, through libdevmapper.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "dm/dm_api.h"

namespace quarry::dm {

// Thread-safe. Calls take turns in the whole process, because libdevmapper keeps its state in static
// variables, so no such call waits for device I/O or for udev. Calls about thin pools, and Suspend and
// Resume, may wait for a disk: they take no turns (dm_control.h). libdevmapper's messages become part of the
// returned errors and never go to standard error. kUnavailable: no device-mapper in this kernel, no
// permission to use it, or no nodes in /dev.
class DmKernel final : public DmApi {
 public:
  Result<std::optional<Device>> Find(const std::string& uuid) override;
  Result<std::vector<Device>> List(const std::string& prefix) override;
  Result<std::optional<RaidStatus>> Raid(const std::string& uuid) override;
  Status Scrub(const std::string& uuid, bool repair) override;
  Result<uint64_t> Instance(const std::string& uuid) override;
  Result<std::optional<Bytes>> Size(const std::string& uuid) override;
  Result<bool> LiesOnLostDisk(const std::string& uuid) override;
  Result<std::vector<Mapping>> MappingsOf(const std::string& path) override;
  Status Remove(const std::string& uuid) override;
  void RemoveStaleNodes(const std::string& group,
                        const std::function<bool(const std::string&)>& ours) override;
  Result<UniqueFd> Open(const std::string& uuid, int flags) override;
  Status SetReadOnly(const std::string& uuid, bool read_only) override;
  Result<std::optional<ThinPoolStatus>> ThinPool(const std::string& uuid) override;
  Result<std::optional<ThinStatus>> Thin(const std::string& uuid) override;
  Status SendToPool(const std::string& uuid, const PoolMessage& message) override;
  Status Suspend(const std::string& uuid, FileSystemLock lock) override;
  Status Resume(const std::string& uuid) override;
  Status DropWaitingTable(const std::string& uuid) override;
  Result<bool> HasTarget(const std::string& target) override;
};

}  // namespace quarry::dm
