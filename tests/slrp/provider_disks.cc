// The disk operations of a provider: create, adopt, destroy, publish.
#include <sys/stat.h>

#include <filesystem>
#include <future>

#include <fmt/format.h>

#include "tests/slrp/provider.h"

namespace quarry::slrp {
namespace {

using grpc::StatusCode;
using std::chrono::milliseconds;
namespace fs = std::filesystem;

constexpr std::chrono::minutes kLongestBackoff{10};
constexpr int kTries = 20;  // Mesos has no limit, a test needs one
constexpr int kRepeats = 3;

// Ids become directory names.
std::string Encode(const std::string& id) {
  std::string out;
  for (const char c : id) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

bool Exists(const std::string& path) {
  struct stat status{};
  return lstat(path.c_str(), &status) == 0;
}

void MakeDirectories(const std::string& path) {
  std::error_code ignored;  // the callers check that it exists
  fs::create_directories(path, ignored);
}

grpc::Status CannotMake(const std::string& path) {
  return {StatusCode::INTERNAL, "the agent cannot make " + path};
}

}  // namespace

grpc::Status Provider::Retrying(const std::function<grpc::Status()>& call) {
  thread_local std::mt19937 random{std::random_device{}()};
  milliseconds most = options_.backoff;
  grpc::Status status = call();
  for (int i = 1; options_.generation.retries && IsRetried(status) && i < kTries; ++i) {
    report_.Count("retried");
    std::this_thread::sleep_for(
        milliseconds(std::uniform_int_distribution<int64_t>(0, most.count())(random)));
    most = std::min<milliseconds>(most * 2, kLongestBackoff);
    status = call();
  }
  return status;
}

std::optional<std::string> Provider::CreateNamed(const std::string& name, const Profile& profile,
                                                 uint64_t size) {
  {
    const std::lock_guard lock(mutex_);
    books_.pending[name] = Disk{name, profile.name, {"", size, {}}, false};
  }
  Reply<Listed> made;
  made.status = Retrying([&] {
    made = plugin()->Create(name, size, profile.capability, profile.parameters);
    return made.status;
  });
  {
    const std::lock_guard lock(mutex_);
    books_.pending.erase(name);
  }
  if (!made.ok()) {
    FailUnlessDisturbed("operation", fmt::format("CREATE_DISK {} of {} bytes, {}", name, size, profile.name),
                        made.status);
    return std::nullopt;
  }
  if (made.value.id.empty()) {
    report_.Fail("operation", "CreateVolume gave no id for " + name);
    return std::nullopt;
  }
  // The books get the requested size, not the answer's.
  const std::lock_guard lock(mutex_);
  books_.disks[made.value.id] = Disk{name, profile.name, {made.value.id, size, made.value.context}, false};
  report_.Count("created");
  return made.value.id;
}

std::optional<std::string> Provider::CreateDisk(const std::string& profile, uint64_t size) {
  const Operation operation(*this);
  return CreateNamed(fmt::format("{}-{}", options_.prefix, names_++), FindProfile(profile), size);
}

void Provider::CreateOddDisk(const std::string& profile, uint64_t size) {
  const Operation operation(*this);
  const std::string name = fmt::format("{}-{}", options_.prefix, names_++);
  const Profile found = FindProfile(profile);
  const auto made = plugin()->Create(name, size, found.capability, found.parameters);
  if (made.ok()) {
    const std::lock_guard lock(mutex_);
    books_.disks[made.value.id] = Disk{name, profile, {made.value.id, size, made.value.context}, false};
  }
  report_.Count(made.ok() ? "created" : "refused");
}

void Provider::RepeatCreate(const std::string& id) {
  const Operation operation(*this);
  Disk disk;
  {
    const std::lock_guard lock(mutex_);
    disk = books_.disks.at(id);
  }
  const Profile profile = FindProfile(disk.profile);
  // Repeats in progress and after the end: three calls under a new name at once, then three under the old
  // name.
  const std::string fresh = fmt::format("{}-{}", options_.prefix, names_++);
  std::set<std::string> ids;
  for (const std::string& name : {fresh, disk.name}) {
    std::vector<std::future<Reply<Listed>>> answers;
    for (int i = 0; i < kRepeats; ++i) {
      answers.push_back(std::async(std::launch::async, [&] {
        return plugin()->Create(name, disk.volume.size, profile.capability, profile.parameters);
      }));
    }
    ids.clear();
    for (auto& answer : answers) {
      const auto made = answer.get();
      if (made.ok()) {
        ids.insert(made.value.id);
      } else if (!IsRetried(made.status)) {
        report_.Fail("repeat", fmt::format("a repeat of CreateVolume {}: {}", name, Words(made.status)));
      }
      if (made.ok() && name == fresh) {
        const std::lock_guard lock(mutex_);
        books_.disks[made.value.id] = Disk{name, disk.profile, made.value, false};
        books_.disks[made.value.id].volume.size = disk.volume.size;
      }
    }
    if (ids.size() != 1) {
      report_.Fail("repeat", fmt::format("CreateVolume {} three times: {} volumes", name, ids.size()));
    }
  }
  if (!ids.contains(id)) {
    report_.Fail("repeat", fmt::format("CreateVolume {} again is not {}", disk.name, id));
  }
}

bool Provider::AdoptDisk(const Listed& volume, const std::string& profile_name) {
  const Operation operation(*this);
  const Profile profile = FindProfile(profile_name);
  Capability capability = profile.capability;
  if (!options_.generation.validates_with_profile) {
    capability.fs_type.clear();
    capability.mount_flags.clear();
  }
  const auto answer = plugin()->Validate(volume, capability, profile.parameters);
  if (!answer.ok() || !answer.value.confirmed || !answer.value.echoed) {
    report_.Fail("validate", fmt::format("{} as {}: {} {}{}", volume.id, profile_name, Words(answer.status),
                                         answer.value.message, answer.value.echoed ? "" : " (not echoed)"));
    return false;
  }
  const std::lock_guard lock(mutex_);
  books_.disks[volume.id] = Disk{"", profile_name, volume, false};
  report_.Count("adopted");
  return true;
}

bool Provider::DestroyDisk(const std::string& id) {
  bool published = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = books_.disks.find(id);
    published = found != books_.disks.end() && found->second.published;
  }
  if (published && !UnpublishDisk(id)) {
    return false;
  }
  const Operation operation(*this);
  const grpc::Status status = Retrying([&] { return plugin()->Delete(id); });
  if (!status.ok()) {
    return FailUnlessDisturbed("operation", "DESTROY_DISK " + id, status);
  }
  const grpc::Status again = Retrying([&] { return plugin()->Delete(id); });
  if (!again.ok()) {
    FailUnlessDisturbed("repeat", "DeleteVolume of a deleted volume, " + id, again);
  }
  const std::lock_guard lock(mutex_);
  books_.disks.erase(id);
  books_.destroyed.insert(id);
  report_.Count("destroyed");
  return true;
}

std::string Provider::Place(const std::string& id) const {
  return options_.mount_root + "/" + Encode(id);
}

std::string Provider::Target(const std::string& id) const {
  return plugin()->api() == Api::kV0_1 ? Place(id) : Place(id) + "/target";
}

std::string Provider::Staging(const std::string& id) const {
  return Place(id) + "/staging";
}

grpc::Status Provider::PublishAt(const Disk& disk) {
  const auto client = plugin();
  const std::string& id = disk.volume.id;
  // Before v1 the agent creates the target, a directory for any volume. In v1 it creates only the target's
  // parent.
  const std::string made = client->api() == Api::kV1 ? Place(id) : Target(id);
  MakeDirectories(made);
  if (!Exists(made)) {
    return CannotMake(made);
  }
  const Capability capability = FindProfile(disk.profile).capability;
  std::string staging;
  if (offer_.stage) {
    staging = Staging(id);
    MakeDirectories(staging);
    const grpc::Status staged = client->Stage(disk.volume, staging, capability);
    if (!staged.ok()) {
      return staged;
    }
  }
  return client->Publish(disk.volume, staging, Target(id), capability);
}

void Provider::CheckPublished(const Disk& disk) {
  const std::string target = Target(disk.volume.id);
  if (!Exists(target)) {
    report_.Fail("target", target + " does not exist after NodePublishVolume");
    return;
  }
  if (!options_.looks_at_mounts) {
    return;
  }
  struct stat here{}, above{};
  if (stat(target.c_str(), &here) != 0 || stat(options_.mount_root.c_str(), &above) != 0) {
    report_.Fail("publish", target + " cannot be examined");
    return;
  }
  const bool there =
      FindProfile(disk.profile).capability.block ? S_ISBLK(here.st_mode) : here.st_dev != above.st_dev;
  if (!there) {
    report_.Fail("publish", "the volume is not at " + target);
  }
}

bool Provider::PublishDisk(const std::string& id) {
  Disk disk;
  {
    const std::lock_guard lock(mutex_);
    disk = books_.disks.at(id);
  }
  const grpc::Status status = PublishAt(disk);
  if (!status.ok()) {
    return FailUnlessDisturbed("publish", "publishing " + id, status);
  }
  CheckPublished(disk);
  const std::lock_guard lock(mutex_);
  books_.disks.at(id).published = true;
  report_.Count("published");
  return true;
}

bool Provider::UnpublishDisk(const std::string& id) {
  const auto client = plugin();
  const std::string target = Target(id);
  const bool v1 = client->api() == Api::kV1;
  if (!v1 && !Exists(target)) {
    report_.Fail("target", target + " is gone before NodeUnpublishVolume: the agent aborts");
    return false;
  }
  grpc::Status status = client->Unpublish(id, target);
  if (status.ok() && offer_.stage) {
    status = client->Unstage(id, Staging(id));
  }
  if (!status.ok()) {
    return FailUnlessDisturbed("unpublish", "unpublishing " + id, status);
  }
  if (Exists(target) == v1) {
    report_.Fail("target",
                 target + (v1 ? " was not removed by" : " was removed by") + " NodeUnpublishVolume");
  }
  std::error_code ignored;
  fs::remove(target, ignored);
  fs::remove(Staging(id), ignored);
  fs::remove(Place(id), ignored);
  const std::lock_guard lock(mutex_);
  books_.disks.at(id).published = false;
  report_.Count("unpublished");
  return true;
}

void Provider::UnpublishNever(const std::string& id) {
  const std::string target = options_.mount_root + "/never/target";
  const grpc::Status status = plugin()->Unpublish(id, target);
  if (!status.ok()) {
    FailUnlessDisturbed("unpublish", "NodeUnpublishVolume of a path that was never published", status);
  }
}

}  // namespace quarry::slrp
