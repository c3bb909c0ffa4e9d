#include "tests/bench/site.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/bench/multiply.h"
#include "tests/vm/kit/shell.h"
#include "tests/vm/kit/volume_group.h"

namespace quarry::bench {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kToolLimit{600};
constexpr size_t kModels = 10;

}  // namespace

Result<std::string> FileText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in.is_open()) {
    return Error(Code::kIo, fmt::format("{} cannot be read", path));
  }
  return std::string(std::istreambuf_iterator<char>(in), {});
}

Status Run(const std::vector<std::string>& argv) {
  const vm::Outcome done = vm::Tool(argv, kToolLimit);
  return done.ok() ? Ok()
                   : Status(Error(Code::kInternal, fmt::format("{}: {} {}", fmt::join(argv, " "), done.status,
                                                               vm::Trim(done.err))));
}

Status ActivateAll(const std::string& group) {
  return Run(
      {"vgchange", "-ay", "-K", "--config", "activation { udev_sync=0 udev_rules=0 monitoring=0 }", group});
}

Status RunTimed(Samples& samples, const std::vector<std::string>& argv) {
  return Timed(samples, [&argv] { return Run(argv); });
}

void Settle() {
  vm::Tool({"udevadm", "settle", "--timeout=120"}, kToolLimit);
}

Site::Site(std::string group, std::vector<std::string> disks, std::map<std::string, std::string> stores)
    : group_(std::move(group)), disks_(std::move(disks)), stores_(std::move(stores)) {}

vm::QuarrydOptions Site::Options() const {
  std::string pool = "main=" + group_;
  for (const std::string& disk : disks_) {
    pool += ",device=" + disk;
  }
  for (const auto& [name, definition] : stores_) {
    pool += fmt::format(",store.{}={}", name, definition);
  }
  return {.socket = Folder() + "/csi.sock",
          .pools = {pool},
          .arguments = {"--state-dir", Folder() + "/state", "--metrics-address", "unix://" + Metrics()},
          .log = Folder() + "/quarryd.log"};
}

Result<std::unique_ptr<Site>> Site::Make(const std::string& group, std::vector<std::string> disks,
                                         std::map<std::string, std::string> stores) {
  std::unique_ptr<Site> site(new Site(group, std::move(disks), std::move(stores)));
  fs::create_directories(site->Folder());
  QUARRY_TRY(site->Launch());
  QUARRY_TRY(site->quarryd().WaitReady(seconds(600)));
  QUARRY_TRY(Run({"vgcfgbackup", "-f", site->Folder() + "/empty", group}));
  QUARRY_ASSIGN(site->empty_, FileText(site->Folder() + "/empty"));
  return site;
}

Status Site::Launch() {
  QUARRY_ASSIGN(quarryd_, vm::QuarrydProcess::Start(Options()));
  client_ = std::make_unique<vm::CsiClient>(Options().socket, kToolLimit);
  return Ok();
}

Status Site::Stop() {
  client_.reset();
  const int status = quarryd_->Stop();
  return status == 0 ? Ok() : Status(Error(Code::kInternal, fmt::format("quarryd ended with {}", status)));
}

Result<std::string> Site::Create(const std::string& name, const std::string& type, int64_t size,
                                 const std::string& erase) {
  contents_.clear();
  const auto made = client().Create({.name = name,
                                     .parameters = vm::TypeParameters(type, {{"erase", erase}}),
                                     .capability = vm::BlockCapability(),
                                     .size = size});
  QUARRY_TRY(Must("creating " + name, made));
  return made.value.volume().volume_id();
}

Status Site::Delete(const std::string& id) {
  contents_.clear();
  return Must("deleting " + id, client().Delete(id));
}

std::string Site::DeviceOf(const std::string& id) const {
  return fmt::format("/dev/{}/{}", group_, vm::LvNameIn(id));
}

Status Site::WaitErased() {
  const auto deadline = std::chrono::steady_clock::now() + kToolLimit;
  while (std::chrono::steady_clock::now() < deadline) {
    const vm::Outcome tags = vm::Tool({"lvs", "--noheadings", "-o", "lv_tags", group_}, kToolLimit);
    if (tags.ok() && tags.out.find("quarry.erasing") == std::string::npos) {
      return Ok();
    }
    std::this_thread::sleep_for(milliseconds(100));
  }
  return Error(Code::kTimeout, "deleted volumes are not erased");
}

// quarryd refuses a group that goes back in time, so the restored metadata get the newest sequence number.
Status Site::Restore(const std::string& backup) {
  constexpr std::string_view kNumber = "\tseqno = ";
  const vm::Outcome now = vm::Tool({"vgs", "--noheadings", "-o", "vg_seqno", group_}, kToolLimit);
  const size_t at = backup.find(kNumber);
  if (!now.ok() || at == std::string::npos) {
    return Error(Code::kInternal, fmt::format("no sequence number of group {}: {}", group_, now.err));
  }
  std::string newest = backup;
  const size_t first = at + kNumber.size();
  newest.replace(first, newest.find('\n', first) - first, std::to_string(std::stoull(now.out) + 1));
  const std::string file = Folder() + "/wanted";
  std::ofstream(file, std::ios::binary) << newest;
  return Run({"vgcfgrestore", "-y", "-f", file, group_});
}

// Removing LVs one by one takes a commit for each. Restoring an empty group is one commit for all.
Status Site::Clear() {
  contents_.clear();
  QUARRY_TRY(WaitErased());
  Settle();
  QUARRY_TRY(Run({"vgchange", "-an", group_}));
  return Restore(empty_);
}

Status Site::Zero(int64_t size) {
  QUARRY_ASSIGN(const std::string id, Create("zeroes", "raid1", size, "zero"));
  QUARRY_TRY(Delete(id));
  return WaitErased();
}

Status Site::Fill(const std::string& type, size_t count) {
  const std::string wanted = fmt::format("{} {}", count, type);
  if (contents_ == wanted) {
    return Ok();
  }
  QUARRY_TRY(Clear());
  std::vector<Model> models;
  for (size_t i = 0; i < std::min(kModels, count); ++i) {
    const std::string name = fmt::format("fill-{}-{:02}", type, i);
    QUARRY_ASSIGN(const std::string id, Create(name, type, kFillSize));
    models.push_back({vm::LvNameIn(id), name});
  }
  if (count > models.size()) {
    const std::string file = Folder() + "/models";
    QUARRY_TRY(Run({"vgcfgbackup", "-f", file, group_}));
    QUARRY_ASSIGN(const std::string backup, FileText(file));
    QUARRY_ASSIGN(const std::string filled, MultiplyVolumes(backup, models, count - models.size()));
    QUARRY_TRY(Restore(filled));
    // Copies of a RAID volume have no superblocks in their metadata legs. So they stay inactive, like volumes
    // that were not staged since the boot.
    if (type == "linear") {
      QUARRY_TRY(ActivateAll(group_));
    }
    Settle();
  }
  const auto listed = client().List();
  QUARRY_TRY(Must("listing", listed));
  if (listed.value.size() != count) {
    return Error(Code::kInternal,
                 fmt::format("{} volumes are wanted, quarryd lists {}", count, listed.value.size()));
  }
  contents_ = wanted;
  return Ok();
}

}  // namespace quarry::bench
