#include "engine/plan/in_use.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

namespace quarry::engine {

Status CheckUnused(const World& world, const std::string& dm_uuid, const std::string& what,
                   const Call& call) {
  // How long a device may be open, without a mount or another device on it, before it counts as in use.
  constexpr std::chrono::milliseconds kBriefOpens{5000};
  constexpr std::chrono::milliseconds kLookAgain{100};
  const auto patience = std::min(call.deadline, std::chrono::steady_clock::now() + kBriefOpens);
  while (true) {
    QUARRY_ASSIGN(const auto device, world.dm.Find(dm_uuid));
    if (!device.has_value() || device->open_count == 0) {
      return Ok();
    }
    const mount::DeviceNumber number{device->major, device->minor};
    auto who = world.mount.Users(number);
    const bool brief = who.has_value() && who->empty();
    if (brief && std::chrono::steady_clock::now() < patience && !call.stop.stop_requested()) {
      std::this_thread::sleep_for(kLookAgain);
      continue;
    }
    if (brief) {
      who = world.mount.Openers(number);
    }
    const std::string words = !who.has_value() ? fmt::format("users unknown ({})", who.error().message())
                              : who->empty()   ? "held open by an unknown process"
                                               : fmt::format("{}", fmt::join(*who, ", "));
    return Error(Code::kPrecondition, fmt::format("{} is in use: {}", what, words));
  }
}

}  // namespace quarry::engine
