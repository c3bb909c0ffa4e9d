// What keeps a volume in use, as a page and as JSON. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "dm/dm_api.h"
#include "engine/model/catalog.h"
#include "mount/device_holders.h"

namespace quarry::ctl {

struct VolumeHolders {
  engine::Record volume;
  std::optional<dm::Device> device;  // nullopt: the volume is not active, so nothing can hold it
  mount::DeviceHolders holders;
};

// The name of a user id; empty: it has none.
using UserName = std::function<std::string(uint32_t uid)>;

std::string DrawHolders(const VolumeHolders& held, const UserName& user_name);
std::string HoldersJson(const VolumeHolders& held, const UserName& user_name);

}  // namespace quarry::ctl
