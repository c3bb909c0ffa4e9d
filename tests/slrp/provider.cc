#include "tests/slrp/provider.h"

#include <sys/stat.h>

#include <future>

#include <fmt/format.h>

namespace quarry::slrp {
namespace {

using grpc::StatusCode;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

}  // namespace

Provider::Operation::Operation(Provider& provider) : provider_(provider) {
  std::unique_lock lock(provider_.mutex_);
  while (provider_.reconciling_) {
    provider_.report_.Count("dropped");
    provider_.changed_.wait(lock,
                            [this] { return !provider_.reconciling_; });  // then the framework tries again
  }
  ++provider_.operations_;
}

Provider::Operation::~Operation() {
  const std::lock_guard lock(provider_.mutex_);
  --provider_.operations_;
  provider_.changed_.notify_all();
}

Provider::Provider(ProviderOptions options, Books& books, Report& report)
    : options_(std::move(options)), books_(books), report_(report), profiles_(options_.profiles) {}

Provider::~Provider() = default;

milliseconds Provider::Scaled(milliseconds time) const {
  return milliseconds(static_cast<int64_t>(static_cast<double>(time.count()) * options_.time_scale));
}

std::shared_ptr<Plugin> Provider::plugin() const {
  const std::lock_guard lock(mutex_);
  return plugin_;
}

bool Provider::Fatal(std::string_view rule, const std::string& what, const grpc::Status& status) {
  report_.Fail(rule, fmt::format("{}: {}", what, Words(status)));
  return false;
}

bool Provider::FailUnlessDisturbed(std::string_view rule, const std::string& what,
                                   const grpc::Status& status) {
  if (disturbed_ && (IsRetried(status) || status.error_code() == StatusCode::CANCELLED)) {
    report_.Count("cut short");
    return false;
  }
  return Fatal(rule, what, status);
}

bool Provider::Start(bool after_reboot) {
  return Restarted() && (!after_reboot || Recover()) && RunPending() && Reconcile();
}

bool Provider::Restarted() {
  return WaitForSocket() && Negotiate() && AskServices();
}

bool Provider::WaitForSocket() {
  const auto deadline = steady_clock::now() + Scaled(kSocketLimit);
  struct stat status{};
  while (stat(options_.socket.c_str(), &status) != 0) {
    if (steady_clock::now() > deadline) {
      report_.Fail("socket", options_.socket + " did not appear");
      return false;
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
  return true;
}

bool Provider::Negotiate() {
  const Generation& generation = options_.generation;
  std::shared_ptr<Plugin> made = Connect(options_.socket, generation.api, Scaled(generation.limit));
  if (generation.api == Api::kV0_1) {
    const auto versions = made->SupportedVersions();
    if (!versions.ok() || !versions.value.contains("0.1.0")) {
      return Fatal("version", "GetSupportedVersions must list 0.1.0", versions.status);
    }
  }
  grpc::Status probed = made->Probe();
  if (probed.error_code() == StatusCode::UNIMPLEMENTED && generation.falls_back) {
    made = Connect(options_.socket, Api::kV0, Scaled(generation.limit));
    probed = made->Probe();
  }
  if (!probed.ok()) {
    return Fatal(probed.error_code() == StatusCode::UNIMPLEMENTED ? "version" : "probe", "Probe", probed);
  }
  const std::lock_guard lock(mutex_);
  plugin_ = std::move(made);
  return true;
}

bool Provider::AskServices() {
  const auto services = plugin()->HasControllerService();
  if (!services.ok() || !services.value) {
    return Fatal("services", "GetPluginCapabilities must offer CONTROLLER_SERVICE", services.status);
  }
  const auto name = plugin()->Name();
  if (!name.ok() || name.value.empty()) {
    return Fatal("services", "GetPluginInfo must give a name", name.status);
  }
  const auto offer = plugin()->Capabilities();
  if (!offer.ok()) {
    return Fatal("services", "ControllerGetCapabilities or NodeGetCapabilities", offer.status);
  }
  if (!offer.value.create_delete || !offer.value.list || !offer.value.capacity) {
    return Fatal("services", "no pools or disks without CREATE_DELETE_VOLUME, LIST_VOLUMES and GET_CAPACITY",
                 offer.status);
  }
  offer_ = offer.value;
  return true;
}

// Publishes all disks at once, without retries: one failure ends the provider.
bool Provider::Recover() {
  std::vector<Disk> disks;
  for (const auto& [id, disk] : books_.disks) {
    if (disk.published) {
      disks.push_back(disk);
    }
  }
  std::vector<std::future<grpc::Status>> answers;
  answers.reserve(disks.size());
  for (const Disk& disk : disks) {
    answers.push_back(std::async(std::launch::async, [this, &disk] { return PublishAt(disk); }));
  }
  bool good = true;
  for (size_t i = 0; i < disks.size(); ++i) {
    const grpc::Status status = answers[i].get();
    if (!status.ok()) {
      good = Fatal("recover", "publishing " + disks[i].volume.id + " again", status);
      continue;
    }
    CheckPublished(disks[i]);
    report_.Count("recovered");
  }
  return good;
}

// The agent died during these operations. It executes them again, under the same names.
bool Provider::RunPending() {
  const auto pending = books_.pending;
  for (const auto& [name, disk] : pending) {
    (void)CreateNamed(name, FindProfile(disk.profile), disk.volume.size);
  }
  return true;
}

bool Provider::Reconcile() {
  std::vector<Profile> profiles;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !reconciling_; });
    reconciling_ = true;
    changed_.wait(lock, [this] { return operations_ == 0; });
    profiles = profiles_;
  }
  const auto begin = steady_clock::now();
  const auto client = plugin();
  auto listed = std::async(std::launch::async, [&] { return client->List(); });
  std::vector<std::future<Reply<uint64_t>>> asked;
  asked.reserve(profiles.size());
  for (const Profile& profile : profiles) {
    asked.push_back(std::async(std::launch::async, [&client, &profile] {
      return client->Capacity(profile.capability, profile.parameters);
    }));
  }
  bool good = true;
  std::map<std::string, uint64_t> pools;
  for (size_t i = 0; i < profiles.size(); ++i) {
    const auto capacity = asked[i].get();
    if (!capacity.ok()) {
      good = FailUnlessDisturbed("capacity", "GetCapacity of profile " + profiles[i].name, capacity.status);
    }
    pools[profiles[i].name] = capacity.value;
  }
  const auto listing = listed.get();
  const auto took = steady_clock::now() - begin;
  const std::lock_guard lock(mutex_);
  reconciling_ = false;
  changed_.notify_all();
  if (!listing.ok()) {
    return FailUnlessDisturbed("list", "ListVolumes", listing.status);
  }
  if (options_.generation.reconciles && took > Scaled(kReconcileInterval)) {
    report_.Fail("slow", fmt::format("{} ms", std::chrono::duration_cast<milliseconds>(took).count()));
  }
  pools_ = std::move(pools);
  CompareBooks(listing.value);
  report_.Count("reconciled");
  return good;
}

void Provider::CompareBooks(const Listing& listing) {
  if (!listing.next_token.empty()) {
    report_.Fail("whole_list", fmt::format("{} volumes, then next_token", listing.volumes.size()));
  }
  std::set<std::string> seen;
  pre_existing_.clear();
  for (const Listed& volume : listing.volumes) {
    if (!seen.insert(volume.id).second) {
      report_.Fail("duplicate", volume.id);
    }
    if (books_.destroyed.contains(volume.id)) {
      report_.Fail("undead", volume.id);
    }
    const auto known = books_.disks.find(volume.id);
    if (known == books_.disks.end()) {
      pre_existing_.push_back(volume);
      continue;
    }
    const Listed& ours = known->second.volume;
    if (ours.size != volume.size) {
      report_.Fail("size",
                   fmt::format("{}: asked for {}, listed with {}", volume.id, ours.size, volume.size));
    }
    if (ours.context != volume.context) {
      report_.Fail("context", volume.id);
    }
  }
  for (const auto& [id, disk] : books_.disks) {
    if (!seen.contains(id)) {
      report_.Fail("missing", id);
    }
  }
}

bool Provider::ChangeProfiles(std::vector<Profile> profiles) {
  {
    const std::lock_guard lock(mutex_);
    profiles_ = std::move(profiles);
  }
  return Reconcile();
}

uint64_t Provider::Pool(const std::string& profile) const {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(profile);
  return found == pools_.end() ? 0 : found->second;
}

std::vector<Profile> Provider::profiles() const {
  const std::lock_guard lock(mutex_);
  return profiles_;
}

std::vector<Listed> Provider::PreExisting() const {
  const std::lock_guard lock(mutex_);
  return pre_existing_;
}

// A disk keeps its profile for life, even if the profile is withdrawn.
Profile Provider::FindProfile(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  for (const auto* profiles : {&profiles_, &options_.profiles}) {
    for (const Profile& profile : *profiles) {
      if (profile.name == name) {
        return profile;
      }
    }
  }
  return Profile{.name = name, .plugin_type = {}, .capability = {}, .parameters = {}};
}

}  // namespace quarry::slrp
