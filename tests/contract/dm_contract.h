// The promises of DmApi and EraseApi, and worlds to test them in. The tests of dm_contract_test.cc are linked
// with the fakes or with the kernel.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/units.h"
#include "dm/dm_api.h"
#include "dm/erase_api.h"

namespace quarry::contract {

class DmWorld {
 public:
  virtual ~DmWorld() = default;
  virtual dm::DmApi& api() = 0;
  virtual void Add(const std::string& uuid, const std::string& name, Bytes size) = 0;
  // Adds a device that maps this range of Disk(), linearly.
  virtual void AddOnDisk(const std::string& uuid, const std::string& name, Bytes offset, Bytes length) = 0;
  // A block device of 64 MiB.
  virtual std::string Disk() = 0;
  // A new thin pool of 256 chunks of 64 KiB that nobody has used. The UUID of its device is `uuid` and
  // "-tpool". With `has_volumes` its name has the suffix, too, as LVM names it once there was a thin volume.
  virtual void AddThinPool(const std::string& uuid, const std::string& name, bool has_volumes) = 0;
  // Makes device `id` of the pool active.
  virtual void AddThin(const std::string& uuid, const std::string& name, const std::string& pool,
                       dm::ThinId id, Bytes size) = 0;
  // False while the device is open.
  virtual bool Remove(const std::string& uuid) = 0;
};
std::unique_ptr<DmWorld> MakeDmWorld();

// Removes a device that udevd may still be probing.
inline Status RemoveInTheEnd(dm::DmApi& api, const std::string& uuid) {
  Status removed = api.Remove(uuid);
  for (int i = 0; i < 300 && !removed.has_value(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    removed = api.Remove(uuid);
  }
  return removed;
}

// A disk that is a physical volume without content.
class EraseWorld {
 public:
  virtual ~EraseWorld() = default;
  virtual dm::EraseApi& api() = 0;
  virtual std::string device() const = 0;
  virtual std::string pv_uuid() const = 0;
  virtual Bytes first_extent() const = 0;
};
std::unique_ptr<EraseWorld> MakeEraseWorld(Bytes size);

}  // namespace quarry::contract
