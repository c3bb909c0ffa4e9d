#include "tests/slrp/scenario.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace quarry::slrp {
namespace {

// The type in an operator's misspelt profile. It must have no capacity, and nothing else may happen.
constexpr char kNonsense[] = "quarry_slrp_no_such_type";

std::vector<std::string> Ids(const Books& books) {
  std::vector<std::string> ids;
  for (const auto& [id, disk] : books.disks) {
    ids.push_back(id);
  }
  return ids;
}

// The profiles with enough space, in the given order.
std::vector<std::string> Usable(const Provider& provider, const std::vector<Profile>& profiles,
                                uint64_t size) {
  std::vector<std::string> names;
  for (const Profile& profile : profiles) {
    if (provider.Pool(profile.name) >= size) {
      names.push_back(profile.name);
    }
  }
  return names;
}

void MakeDisks(Provider& provider, const std::vector<std::string>& profiles, int count,
               const Scenario& scenario) {
  std::atomic<int> next = 0;
  std::vector<std::jthread> frameworks;
  for (int i = 0; i < scenario.at_once; ++i) {
    frameworks.emplace_back([&] {
      for (int n = next++; n < count; n = next++) {
        (void)provider.CreateDisk(profiles[static_cast<size_t>(n) % profiles.size()], scenario.size);
      }
    });
  }
}

void AdoptDisks(Provider& provider, const Scenario& scenario) {
  for (const auto& [id, profile] : scenario.adopt) {
    const std::vector<Listed> there = provider.PreExisting();
    const auto found =
        std::find_if(there.begin(), there.end(), [&id = id](const Listed& v) { return v.id == id; });
    if (found == there.end()) {
      provider.report().Fail("missing", id + ", a pre-existing disk");
    } else if (provider.AdoptDisk(*found, profile) && provider.PublishDisk(id)) {
      provider.DestroyDisk(id);
    }
  }
}

}  // namespace

void BeforeReboot(Provider& provider, Books& books, const Scenario& scenario) {
  if (!provider.Start(/*after_reboot=*/false)) {
    return;
  }
  const std::vector<Profile> profiles = provider.profiles();
  std::vector<Profile> more = profiles;
  more.push_back(
      {.name = kNonsense, .plugin_type = {}, .capability = {}, .parameters = {{"type", kNonsense}}});
  if (!provider.ChangeProfiles(more)) {
    return;
  }
  if (provider.Pool(kNonsense) != 0) {
    provider.report().Fail("capacity", "a profile of an unknown type has a pool");
  }
  const std::vector<std::string> usable =
      scenario.make_from.empty() ? Usable(provider, profiles, scenario.size) : scenario.make_from;
  if (usable.empty()) {
    provider.report().Fail("operation", "no profile has space for a disk");
    return;
  }
  AdoptDisks(provider, scenario);
  const int first = scenario.disks / 2;
  MakeDisks(provider, usable, first, scenario);
  provider.Reconcile();
  if (scenario.kill) {
    provider.Disturb(true);
    {
      std::jthread making([&] { MakeDisks(provider, usable, scenario.at_once, scenario); });
      scenario.kill();
    }
    const bool back = provider.Restarted();
    provider.Disturb(false);
    if (!back) {
      return;
    }
  }
  MakeDisks(provider, usable, scenario.disks - first, scenario);
  provider.CreateOddDisk(usable.front(), scenario.size + 1049);
  provider.ChangeProfiles(profiles);
  if (const auto ids = Ids(books); !ids.empty()) {
    provider.RepeatCreate(ids.front());
    provider.UnpublishNever(ids.front());
    int left = scenario.published;
    for (const std::string& id : ids) {
      if (left-- > 0) {
        provider.PublishDisk(id);
      }
    }
    // Destroys a published disk, in the middle of a task.
    provider.DestroyDisk(ids.front());
  }
  provider.Reconcile();
}

void AfterReboot(Provider& provider, Books& books, const Scenario& scenario) {
  if (!provider.Start(/*after_reboot=*/true)) {
    return;
  }
  int left = scenario.destroyed;
  for (const std::string& id : Ids(books)) {
    if (books.disks.at(id).published) {
      provider.UnpublishDisk(id);
      provider.PublishDisk(id);
      provider.UnpublishDisk(id);
    }
    if (scenario.leave_nothing || left-- > 0) {
      provider.DestroyDisk(id);
    }
  }
  provider.Reconcile();
}

}  // namespace quarry::slrp
