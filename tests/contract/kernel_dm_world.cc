#include "tests/contract/kernel_dm_world.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace quarry::contract {

KernelDmWorld::~KernelDmWorld() {
  for (const auto& [uuid, name] : made_ | std::views::reverse) {
    try {
      RunTool({"dmsetup", "remove", "--noudevsync", "--force", "--retry", name});
    } catch (const std::runtime_error&) {  // the guest is discarded anyway
    }
  }
}

void KernelDmWorld::AddTable(const std::string& uuid, const std::string& name, const std::string& table) {
  RunTool({"dmsetup", "create", "--noudevsync", "--uuid", uuid, "--table", table, name});
  made_.emplace_back(uuid, name);
}

void KernelDmWorld::Add(const std::string& uuid, const std::string& name, Bytes size) {
  AddTable(uuid, name, fmt::format("0 {} zero", size.value / 512));
}

void KernelDmWorld::AddOnDisk(const std::string& uuid, const std::string& name, Bytes offset, Bytes length) {
  AddTable(uuid, name, fmt::format("0 {} linear {} {}", length.value / 512, Disk(), offset.value / 512));
}

void KernelDmWorld::AddThinPool(const std::string& uuid, const std::string& name, bool has_volumes) {
  const std::string metadata = pool_disks_.emplace_back(Bytes{8 * kMiB.value}).node();
  const std::string data = pool_disks_.emplace_back(Bytes{16 * kMiB.value}).node();
  AddTable(uuid + "-tpool", has_volumes ? name + "-tpool" : name,
           fmt::format("0 32768 thin-pool {} {} 128 0", metadata, data));
}

void KernelDmWorld::AddThin(const std::string& uuid, const std::string& name, const std::string& pool,
                            dm::ThinId id, Bytes size) {
  AddTable(
      uuid, name,
      fmt::format("0 {} thin {} {}", size.value / 512, Number(dm_.ThinPool(pool).value().value().uuid), id));
}

std::string KernelDmWorld::Number(const std::string& uuid) {
  const dm::Device device = dm_.Find(uuid).value().value();
  return fmt::format("{}:{}", device.major, device.minor);
}

std::string KernelDmWorld::Disk() {
  if (!disk_.has_value()) {
    disk_.emplace(Bytes{64 * kMiB.value});
  }
  return disk_->node();
}

bool KernelDmWorld::Remove(const std::string& uuid) {
  const auto made = std::ranges::find(made_, uuid, &std::pair<std::string, std::string>::first);
  try {
    RunTool({"dmsetup", "remove", "--noudevsync", made->second});
  } catch (const std::runtime_error&) {
    return false;
  }
  made_.erase(made);
  return true;
}

namespace {

// What pvcreate wrote before the first extent. It is copied to further devices of the same size, because
// pvcreate is slow in a guest.
struct MadePv {
  std::string uuid;
  Bytes first_extent;
  std::vector<char> start;
};

UniqueFd OpenDisk(const std::string& node) {
  UniqueFd fd(open(node.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) {
    throw std::system_error(errno, std::generic_category(), node);
  }
  return fd;
}

MadePv MakePv(const std::string& node, const std::vector<std::string>& options) {
  std::vector<std::string> create = {"lvm", "pvcreate", "--yes", "--devices", node};
  create.insert(create.end(), options.begin(), options.end());
  create.push_back(node);
  RunTool(create);
  MadePv pv;
  std::istringstream report(RunTool({"lvm", "pvs", "--devices", node, "--noheadings", "--nosuffix", "--units",
                                     "b", "-o", "pv_uuid,pe_start", node}));
  if (!(report >> pv.uuid >> pv.first_extent.value)) {
    throw std::runtime_error("pvs did not report the new PV");
  }
  pv.start.resize(pv.first_extent.value);
  if (pread(OpenDisk(node).get(), pv.start.data(), pv.start.size(), 0) !=
      static_cast<ssize_t>(pv.start.size())) {
    throw std::runtime_error("reading back the new PV");
  }
  return pv;
}

void PutPv(const MadePv& pv, const std::string& node) {
  const UniqueFd disk = OpenDisk(node);
  if (pwrite(disk.get(), pv.start.data(), pv.start.size(), 0) != static_cast<ssize_t>(pv.start.size()) ||
      fsync(disk.get()) != 0) {
    throw std::runtime_error("writing a PV");
  }
}

}  // namespace

KernelEraseWorld::KernelEraseWorld(LoopDevice disk) : loop_(std::move(disk)), node_(loop_->node()) {
  Become();
}

KernelEraseWorld::KernelEraseWorld(std::string disk) : node_(std::move(disk)) {
  Become();
}

KernelEraseWorld::KernelEraseWorld(LoopDevice disk, const std::vector<std::string>& pvcreate_options)
    : loop_(std::move(disk)), node_(loop_->node()) {
  const MadePv pv = MakePv(node_, pvcreate_options);
  uuid_ = pv.uuid;
  first_extent_ = pv.first_extent;
}

void KernelEraseWorld::Become() {
  static std::map<uint64_t, MadePv> made;  // by size
  uint64_t size = 0;
  if (ioctl(OpenDisk(node_).get(), BLKGETSIZE64, &size) != 0) {
    throw std::system_error(errno, std::generic_category(), node_);
  }
  const auto [known, fresh] = made.try_emplace(size);
  if (fresh) {
    known->second = MakePv(node_, {"-ff"});
  } else {
    PutPv(known->second, node_);
  }
  uuid_ = known->second.uuid;
  first_extent_ = known->second.first_extent;
}

}  // namespace quarry::contract
