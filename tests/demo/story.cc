#include "tests/demo/story.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/units.h"
#include "tests/demo/profiles.h"
#include "tests/vm/kit/pattern.h"
#include "tests/vm/kit/shell.h"

namespace quarry::demo {
namespace {

namespace fs = std::filesystem;
using vm::kMi;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kFileBytes = 48 << 20;
constexpr auto kEraseLimit = std::chrono::minutes(3);

std::string Human(int64_t bytes) {
  return HumanBytes(Bytes{static_cast<uint64_t>(bytes)});
}

// Turns a gRPC outcome into a Status, so that both kinds of step look the same.
template <typename Response>
Status Check(const vm::Reply<Response>& reply) {
  if (reply.ok()) {
    return Ok();
  }
  return Error(Code::kInternal,
               fmt::format("gRPC code {}: {}", static_cast<int>(reply.code()), reply.text()));
}

Status Done(const vm::Outcome& outcome) {
  return outcome.ok() ? Ok() : Status(Error(Code::kInternal, vm::Trim(outcome.err + outcome.out)));
}

std::string ShortName(const std::string& device) {
  return fs::path(device).filename();
}

// A condition without its parts in brackets and after a semicolon.
std::string Gist(std::string message) {
  message.resize(std::min(message.find(';'), message.size()));
  for (size_t open = message.find(" ("); open != std::string::npos; open = message.find(" (")) {
    message.erase(open, std::min(message.find(')', open), message.size()) - open + 1);
  }
  return message;
}

}  // namespace

std::string Story::Pod::Data(const std::string& target) const {
  return spec.capability.has_block() ? target : target + "/data";
}

Story::Story(Setting setting, Narrator& narrator) : setting_(std::move(setting)), tell_(narrator) {
  options_.socket = setting_.folder + "/csi.sock";
  options_.log = setting_.folder + "/quarryd.log";
  options_.pools = {setting_.group + "=" + setting_.group};
  options_.arguments = {"--admin-endpoint", "unix://" + setting_.folder + "/admin.sock"};
  using Parameters = std::map<std::string, std::string>;
  pods_ = {
      {"database",
       "raid1, ext4",
       {"pvc-database", vm::TypeParameters("raid1"), vm::MountCapability("ext4"), 192 * kMi},
       1,
       {}},
      {"archive",
       "raid5, xfs",
       {"pvc-archive", vm::TypeParameters("raid5", Parameters{{"stripes", "3"}}), vm::MountCapability("xfs"),
        384 * kMi},
       2,
       {}},
      {"queue",
       "striped, raw device",
       {"pvc-queue", vm::TypeParameters("striped"), vm::BlockCapability(), 96 * kMi},
       3,
       {}},
  };
}

Story::~Story() {
  for (const Pod& pod : pods_) {
    vm::Tool({"umount", Target(pod)});
    vm::Tool({"umount", Staging(pod)});
  }
  if (kept_) {
    (void)quarryd_->Release();
    group_->Keep();
  }
}

Status Story::Tell() {
  QUARRY_TRY(MakeGroup());
  QUARRY_TRY(StartQuarryd());
  QUARRY_TRY(ShowCapacity());
  QUARRY_TRY(MakeVolumes());
  QUARRY_TRY(KillQuarryd());
  if (setting_.vmctl) {
    QUARRY_TRY(PullADisk());
  }
  QUARRY_TRY(RawVolume());
  QUARRY_TRY(GiveEverythingBack());
  return Finish();
}

Status Story::MakeGroup() {
  tell_.Chapter("Four blank disks become a volume group");
  tell_.Say(
      "The group is made with LVM's own tools, as an administrator would. quarryd never takes a disk by "
      "itself: "
      "it serves the groups that it is told to, beside unmanaged volumes in them.");
  group_ = std::make_unique<vm::VolumeGroup>(setting_.group, setting_.devices);
  tell_.Command(
      fmt::format("vgcreate --metadatasize 64m {} {}", setting_.group, fmt::join(setting_.devices, " ")));
  return tell_.Step("volume group " + setting_.group, [this]() -> Result<std::string> {
    QUARRY_TRY(group_->Make());
    QUARRY_ASSIGN(free_extents_, group_->FreeExtents());
    return fmt::format("{} disks, {} extents free", setting_.devices.size(), free_extents_);
  });
}

Status Story::Start() {
  QUARRY_ASSIGN(quarryd_, vm::QuarrydProcess::Start(options_));
  return quarryd_->WaitReady();
}

Status Story::StartQuarryd() {
  tell_.Chapter("quarryd starts");
  tell_.Say(
      "One process per node, one unix socket, no database: everything it knows about a volume is in LVM's "
      "own "
      "metadata, "
      "as tags.");
  tell_.Command(fmt::format("quarryd --endpoint unix://{} --pool {}", options_.socket, options_.pools[0]));
  client_ = std::make_unique<vm::CsiClient>(options_.socket);
  const Status ready = tell_.Step("Probe says ready", [this]() -> Result<std::string> {
    QUARRY_TRY(Start());
    return fmt::format("pid {}", quarryd_->pid());
  });
  QUARRY_TRY(ready);
  return tell_.Step("GetPluginInfo", [this]() -> Result<std::string> {
    const auto info = client_->PluginInfo();
    QUARRY_TRY(Check(info));
    const auto node = client_->NodeInfo();
    QUARRY_TRY(Check(node));
    return fmt::format("{} {}, node {}", info.value.name(), info.value.vendor_version(),
                       node.value.node_id());
  });
}

Result<std::vector<int64_t>> Story::Capacities() {
  std::vector<int64_t> found;
  for (const Profile& profile : Profiles()) {
    const auto reply = client_->Capacity(profile.parameters);
    QUARRY_TRY(Check(reply));
    found.push_back(reply.value.available_capacity());
  }
  return found;
}

Status Story::ShowCapacity() {
  tell_.Chapter("What could be made of these disks?");
  tell_.Say(
      "GetCapacity for each profile. Each number is the largest volume that CreateVolume would really "
      "make "
      "now: it comes from the code that places the extents, not from dividing the free space.");
  const Status asked = tell_.Step("GetCapacity, once for each profile", [this]() -> Result<std::string> {
    QUARRY_ASSIGN(capacities_, Capacities());
    return std::string();
  });
  QUARRY_TRY(asked);
  std::vector<std::vector<std::string>> rows = {{"profile", ">disks", "survives", ">largest volume", ""}};
  for (size_t i = 0; i < Profiles().size(); ++i) {
    const Profile& profile = Profiles()[i];
    const bool possible = capacities_[i] > 0;
    rows.push_back(
        {profile.name, std::to_string(profile.disks), profile.survives,
         possible ? Human(capacities_[i]) : "-",
         possible ? "" : fmt::format("needs {} disks, here are {}", profile.disks, setting_.devices.size())});
    if (possible != (profile.disks <= setting_.devices.size())) {
      return Error(Code::kInternal, fmt::format("the capacity of {} is {}", profile.name, capacities_[i]));
    }
  }
  tell_.Table(rows);
  return Ok();
}

Result<std::vector<std::set<std::string>>> Story::LegDevices(const Pod& pod) const {
  return group_->LegDevices(vm::LvNameIn(pod.volume.volume_id()));
}

Result<std::string> Story::Legs(const Pod& pod) const {
  QUARRY_ASSIGN(const auto legs, LegDevices(pod));
  if (!vm::Disjoint(legs)) {
    return Error(Code::kCorrupt, "two legs of one volume share a disk");
  }
  std::vector<std::string> names;
  for (const auto& leg : legs) {
    names.push_back(ShortName(*leg.begin()));
  }
  return fmt::format("{}", fmt::join(names, " "));
}

Status Story::Create(Pod& pod) {
  return tell_.Step(fmt::format("CreateVolume '{}'", pod.spec.name), [this, &pod]() -> Result<std::string> {
    const auto made = client_->Create(pod.spec);
    QUARRY_TRY(Check(made));
    pod.volume = made.value.volume();
    QUARRY_ASSIGN(const std::string legs, Legs(pod));
    return fmt::format("{}, {} on {}", pod.plan, Human(pod.volume.capacity_bytes()), legs);
  });
}

Status Story::StageAndPublish(Pod& pod) {
  std::error_code ignored;
  fs::create_directories(Staging(pod), ignored);
  fs::create_directories(fs::path(Target(pod)).parent_path(), ignored);
  const bool block = pod.spec.capability.has_block();
  const Status staged = tell_.Step("NodeStageVolume", [this, &pod, block]() -> Result<std::string> {
    QUARRY_TRY(Check(client_->Stage(pod.volume, Staging(pod), pod.spec.capability)));
    return block ? std::string("nothing to mount for a raw device")
                 : pod.spec.capability.mount().fs_type() + " made and mounted";
  });
  QUARRY_TRY(staged);
  return tell_.Step("NodePublishVolume", [this, &pod]() -> Result<std::string> {
    QUARRY_TRY(Check(client_->Publish(pod.volume, Staging(pod), Target(pod), pod.spec.capability)));
    pod.published = true;
    return "at " + Target(pod);
  });
}

Status Story::Write(const Pod& pod) {
  return tell_.Step(fmt::format("pod '{}' writes {}", pod.name, Human(kFileBytes)),
                    [this, &pod]() -> Result<std::string> {
                      QUARRY_TRY(vm::WritePattern(pod.Data(Target(pod)), pod.seed, kFileBytes));
                      return "checksum " + vm::PatternDigest(pod.seed, kFileBytes);
                    });
}

Status Story::Verify(const Pod& pod, const std::string& who) {
  return tell_.Step(fmt::format("{} reads it back", who), [this, &pod]() -> Result<std::string> {
    QUARRY_TRY(vm::CheckPattern(pod.Data(Target(pod)), pod.seed, kFileBytes));
    return "checksum " + vm::PatternDigest(pod.seed, kFileBytes);
  });
}

Status Story::MakeVolumes() {
  tell_.Chapter("Two pods get a volume each");
  tell_.Say(
      "A mirror for a database, parity for an archive. Every leg is placed on exact extents of a disk of its "
      "own. "
      "quarryd reads back what LVM made and compares it before it answers.");
  for (Pod* pod : {&pods_[0], &pods_[1]}) {
    QUARRY_TRY(Create(*pod));
    QUARRY_TRY(StageAndPublish(*pod));
    QUARRY_TRY(Write(*pod));
  }
  return tell_.Step("the same CreateVolume again", [this]() -> Result<std::string> {
    const auto again = client_->Create(pods_[0].spec);
    QUARRY_TRY(Check(again));
    if (again.value.volume().volume_id() != pods_[0].volume.volume_id()) {
      return Error(Code::kInternal, "another volume was made");
    }
    return std::string("the same volume: a retry never makes a second one");
  });
}

Status Story::KillQuarryd() {
  tell_.Chapter("quarryd is killed");
  tell_.Say(
      "SIGKILL, at any moment. The pods do not notice. The next process knows everything from the "
      "tags.");
  tell_.Command(fmt::format("kill -9 {}", quarryd_->pid()));
  quarryd_->Kill();
  for (const Pod* pod : {&pods_[0], &pods_[1]}) {
    QUARRY_TRY(Verify(*pod, fmt::format("pod '{}', without quarryd,", pod->name)));
  }
  const Status back = tell_.Step("a new quarryd is ready", [this]() -> Result<std::string> {
    QUARRY_TRY(Start());
    return fmt::format("pid {}", quarryd_->pid());
  });
  QUARRY_TRY(back);
  return tell_.Step("ListVolumes", [this]() -> Result<std::string> {
    const auto listed = client_->List();
    QUARRY_TRY(Check(listed));
    std::map<std::string, int64_t> sizes;
    for (const auto& volume : listed.value) {
      sizes[volume.volume_id()] = volume.capacity_bytes();
    }
    if (sizes.size() != 2 || sizes[pods_[0].volume.volume_id()] != pods_[0].volume.capacity_bytes() ||
        sizes[pods_[1].volume.volume_id()] != pods_[1].volume.capacity_bytes()) {
      return Error(Code::kInternal, fmt::format("not the two volumes of before: {} listed", sizes.size()));
    }
    return std::string("both volumes, same ids, same sizes");
  });
}

Status Story::PullADisk() {
  tell_.Chapter("A disk is pulled out");
  QUARRY_ASSIGN(const auto legs, LegDevices(pods_[0]));
  const auto device = std::ranges::find(setting_.devices, *legs.front().begin());
  if (device == setting_.devices.end()) {
    return Error(Code::kInternal, *legs.front().begin() + " is none of the disks that were given");
  }
  const std::string number = std::to_string(device - setting_.devices.begin() + 1);
  tell_.Say(fmt::format(
      "Disk {} leaves the running machine without warning. Both volumes have a leg on it, and both work "
      "without it. When the disk returns, its legs are rebuilt from the others.",
      number));
  tell_.Command("vmctl pull " + number);
  const Status pulled = tell_.Step(ShortName(*device) + " is missing", [&number]() -> Result<std::string> {
    QUARRY_TRY(Done(vm::Tool({"vmctl", "pull", number})));
    return std::string();
  });
  QUARRY_TRY(pulled);
  for (Pod* pod : {&pods_[0], &pods_[1]}) {
    QUARRY_TRY(WaitForCondition(*pod, true));
    QUARRY_TRY(Verify(*pod, fmt::format("pod '{}', with one disk missing,", pod->name)));
    pod->seed += pods_.size();
    QUARRY_TRY(Write(*pod));
  }
  tell_.Command("vmctl return " + number);
  const Status returned = tell_.Step("the disk is back", [&number]() -> Result<std::string> {
    const vm::Outcome outcome = vm::Tool({"vmctl", "return", number});
    QUARRY_TRY(Done(outcome));
    vm::Tool({"udevadm", "settle"});
    return "now as " + vm::Trim(outcome.out);
  });
  QUARRY_TRY(returned);
  for (const Pod* pod : {&pods_[0], &pods_[1]}) {
    QUARRY_TRY(WaitForCondition(*pod, false));
    QUARRY_TRY(Verify(*pod, fmt::format("pod '{}'", pod->name)));
  }
  return Ok();
}

Status Story::WaitForCondition(const Pod& pod, bool abnormal) {
  return tell_.Step(
      fmt::format("ControllerGetVolume '{}'", pod.spec.name),
      [this, &pod, abnormal]() -> Result<std::string> {
        vm::v1::ControllerGetVolumeRequest request;
        request.set_volume_id(pod.volume.volume_id());
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
        for (;;) {
          const auto got =
              client_->Invoke(client_->controller(), &vm::v1::Controller::Stub::ControllerGetVolume, request);
          QUARRY_TRY(Check(got));
          const vm::v1::VolumeCondition& condition = got.value.status().volume_condition();
          if (condition.abnormal() == abnormal) {
            return abnormal ? "abnormal: " + Gist(condition.message()) : std::string("healthy again");
          }
          if (std::chrono::steady_clock::now() > deadline) {
            return Error(Code::kTimeout, "its condition is still: " + condition.message());
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
      });
}

Status Story::RawVolume() {
  Pod& pod = pods_[2];
  tell_.Chapter("A raw device for a pod that brings its own format");
  tell_.Say(
      "BLOCK access: no file system, the device itself appears in the pod. quarryd keeps it open while it is "
      "published, so that nothing can take it away or put another volume in its place.");
  QUARRY_TRY(Create(pod));
  QUARRY_TRY(StageAndPublish(pod));
  QUARRY_TRY(Write(pod));
  QUARRY_TRY(Verify(pod, fmt::format("pod '{}'", pod.name)));
  return tell_.Step("DeleteVolume while it is in use", [this, &pod]() -> Result<std::string> {
    const auto refused = client_->Delete(pod.volume.volume_id());
    if (refused.code() != grpc::StatusCode::FAILED_PRECONDITION) {
      return Error(Code::kInternal, "it was not refused: " + refused.text());
    }
    return std::string("refused: FAILED_PRECONDITION");
  });
}

Status Story::TakeAway(Pod& pod) {
  return tell_.Step(fmt::format("'{}' is unpublished, unstaged, deleted", pod.spec.name),
                    [this, &pod]() -> Result<std::string> {
                      const std::string& id = pod.volume.volume_id();
                      QUARRY_TRY(Check(client_->Unpublish(id, Target(pod))));
                      QUARRY_TRY(Check(client_->Unstage(id, Staging(pod))));
                      QUARRY_TRY(Check(client_->Delete(id)));
                      pod.published = false;
                      return std::string();
                    });
}

Status Story::GiveEverythingBack() {
  tell_.Chapter("Everything is given back");
  tell_.Say(
      "A deleted volume is gone at once. Its bytes are zeroed in the background, "
      "before other volumes "
      "get its extents; only then is the space free again.");
  for (Pod& pod : pods_) {
    QUARRY_TRY(TakeAway(pod));
  }
  const Status cleared = tell_.Step("the bytes are zeroed", [this]() -> Result<std::string> {
    const auto deadline = Clock::now() + kEraseLimit;
    int64_t free = 0;
    for (; Clock::now() < deadline; std::this_thread::sleep_for(std::chrono::milliseconds(200))) {
      QUARRY_ASSIGN(free, group_->FreeExtents());
      if (free == free_extents_) {
        return fmt::format("{} of {} extents free", free, free_extents_);
      }
      tell_.Passing(fmt::format("{} of {} extents free", free, free_extents_));
    }
    return Error(Code::kTimeout, fmt::format("{} of {} extents came back", free, free_extents_));
  });
  QUARRY_TRY(cleared);
  return tell_.Step("GetCapacity, as in chapter 3", [this]() -> Result<std::string> {
    QUARRY_ASSIGN(const auto now, Capacities());
    for (size_t i = 0; i < now.size(); ++i) {
      if (now[i] != capacities_[i]) {
        return Error(Code::kInternal, fmt::format("{}: {} bytes, {} in the beginning", Profiles()[i].name,
                                                  now[i], capacities_[i]));
      }
    }
    return fmt::format("the same as at the beginning, for all {} profiles", now.size());
  });
}

Status Story::Finish() {
  if (setting_.keep) {
    kept_ = true;
    return Ok();
  }
  tell_.Chapter("quarryd stops, and the disks are blank again");
  const Status stopped = tell_.Step("SIGTERM", [this]() -> Result<std::string> {
    const int status = quarryd_->Stop();
    if (status != 0) {
      return Error(Code::kInternal, fmt::format("quarryd ended with status {}", status));
    }
    return std::string("quarryd ended with status 0");
  });
  QUARRY_TRY(stopped);
  return tell_.Step("vgremove, pvremove", [this]() -> Result<std::string> {
    group_->Remove();
    return std::string();
  });
}

}  // namespace quarry::demo
