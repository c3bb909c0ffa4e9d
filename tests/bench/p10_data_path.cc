// P10: reads and writes through a published volume beside a bare logical volume of the same type and size,
// made by lvcreate with the distribution's configuration. The same program does the same to both, in turns:
// to raw volumes directly, to mounted ones in a file of an ext4. What device-mapper and the block layer do
// for both is compared word by word too: the tables of all devices, the settings of the queues, the options
// of the mount.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <regex>
#include <thread>

#include "base/unique_fd.h"
#include "tests/bench/bench.h"
#include "tests/bench/report.h"
#include "tests/vm/kit/shell.h"
#include "tests/vm/kit/volume_group.h"

namespace quarry::bench {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLeastPairs = 9;
constexpr double kLeastThroughput = 0.98;
constexpr int64_t kSize = 128 * vm::kMi;
constexpr size_t kArea = 32 * vm::kMi;  // of the volume or file that is read and written
constexpr size_t kPiece = 256 << 10;
constexpr size_t kSmallPiece = 4 << 10;
constexpr size_t kSmallPieces = 256;
constexpr char kFolder[] = "/run/quarry-bench/data";

struct Type {
  const char* name;
  std::map<std::string, std::string> parameters;  // besides the type
  std::vector<std::string> lvcreate;              // the same for lvcreate
};
const Type kTypes[] = {
    {"linear", {}, {}},
    {"striped", {{"stripes", "2"}}, {"-i", "2"}},
    {"raid1", {}, {"--type", "raid1", "-m", "1"}},
    {"raid5", {{"stripes", "2"}}, {"--type", "raid5", "-i", "2"}},
};

vm::VolumeSpec SpecOf(const Type& type, const char* use, const vm::v1::VolumeCapability& capability) {
  std::map<std::string, std::string> more = type.parameters;
  more["erase"] = "none";
  return {.name = fmt::format("p10-{}-{}", use, type.name),
          .parameters = vm::TypeParameters(type.name, more),
          .capability = capability,
          .size = kSize};
}

// What one side of the comparison has.
struct Side {
  std::string lv;    // name of the logical volume
  std::string path;  // to read and write: a device node, or a file
};

struct FreeLater {
  void operator()(void* memory) const { std::free(memory); }
};

// Past the page cache: all of the area in order, then small pieces here and there; each time writes, a flush,
// and reads.
Status Work(const std::string& path, bool small) {
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoError("opening " + path);
  }
  const size_t piece = small ? kSmallPiece : kPiece;
  const size_t count = small ? kSmallPieces : kArea / kPiece;
  const std::unique_ptr<void, FreeLater> buffer(std::aligned_alloc(kSmallPiece, piece));
  std::fill_n(static_cast<char*>(buffer.get()), piece, 'q');
  for (const bool writes : {true, false}) {
    std::minstd_rand places(1);
    for (size_t i = 0; i < count; ++i) {
      const size_t index = small ? places() % (kArea / piece) : i;
      const auto at = static_cast<off_t>(index * piece);
      const ssize_t done =
          writes ? pwrite(fd.get(), buffer.get(), piece, at) : pread(fd.get(), buffer.get(), piece, at);
      if (done != static_cast<ssize_t>(piece)) {
        return ErrnoError(fmt::format("{} {}", writes ? "writing" : "reading", path));
      }
    }
    if (writes && fdatasync(fd.get()) != 0) {
      return ErrnoError("flushing " + path);
    }
  }
  return Ok();
}

Status MakeFile(const std::string& path) {
  std::ofstream(path) << std::string(kArea, 'q');
  return Run({"sync", path});
}

// The tables of the volume's devices, without what must differ: names, device numbers and places on disks.
std::string TablesOf(const std::string& group, const std::string& lv) {
  static const std::regex kDevice(R"(\b\d+:\d+(?: \d+(?![:\d]))?)");
  std::vector<std::string> tables;
  const std::string name = group + "-" + lv;
  for (const std::string& line : vm::Lines(vm::Tool({"dmsetup", "table"}).out)) {
    if (line.starts_with(name)) {
      tables.push_back(std::regex_replace(line.substr(name.size()), kDevice, "DEVICE"));
    }
  }
  std::ranges::sort(tables);
  return fmt::format("{}", fmt::join(tables, "\n"));
}

std::string QueueOf(const std::string& group, const std::string& lv) {
  struct stat node{};
  if (stat(fmt::format("/dev/{}/{}", group, lv).c_str(), &node) != 0) {
    return "";
  }
  const fs::path queue = fmt::format("/sys/dev/block/{}:{}/queue", major(node.st_rdev), minor(node.st_rdev));
  std::vector<std::string> lines;
  for (const fs::directory_entry& entry : fs::directory_iterator(queue)) {
    std::string value;
    if (entry.is_regular_file() && std::getline(std::ifstream(entry.path()), value)) {
      lines.push_back(entry.path().filename().string() + "=" + value);
    }
  }
  std::ranges::sort(lines);
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string MountOptions(const std::string& place) {
  return vm::Trim(vm::Tool({"findmnt", "-n", "-o", "FSTYPE,OPTIONS", place}).out);
}

// Whether they are the same words. Shows both if not.
bool Same(const std::string& what, const std::string& ours, const std::string& peers) {
  if (ours == peers && !ours.empty()) {
    return true;
  }
  Progress(fmt::format("P10 the {} differ\nours:\n{}\npeer's:\n{}", what, ours, peers));
  return false;
}

Status WaitSynced(const std::string& group) {
  for (int i = 0; i < 600; ++i) {
    const std::string left = vm::Trim(vm::Tool({"lvs", "--noheadings", "-o", "lv_name", "-S",
                                                "raid_sync_action!=idle && raid_sync_action!=\"\"", group})
                                          .out);
    if (left.empty()) {
      return Ok();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  return Error(Code::kTimeout, "RAID volumes do not become idle");
}

// The distance between the quartiles, as a part of the median.
double Spread(const Samples& samples) {
  return samples.Median() > 0 ? (samples.Quantile(0.75) - samples.Quantile(0.25)) / samples.Median() : 0;
}

// `same`: the kernel's words about both are the same.
Status MeasurePairs(Bench& bench, const Side& ours, const Side& peer, bool same, const std::string& name) {
  for (const bool small : {false, true}) {
    Finding found;
    found.peer.emplace();
    for (size_t i = 0; i < std::max(kLeastPairs, bench.samples()); ++i) {
      // Whoever is first finds the disks' caches as the other left them.
      for (const bool mine : {i % 2 == 0, i % 2 != 0}) {
        QUARRY_TRY(Timed(mine ? found.ours : *found.peer,
                         [&] { return Work(mine ? ours.path : peer.path, small); }));
      }
    }
    const double throughput = found.peer->Median() / found.ours.Median();
    const double spread = std::max(Spread(found.ours), Spread(*found.peer));
    found.name = fmt::format("P10.{}.{}", name, small ? "small" : "stream");
    found.what = fmt::format("the same I/O on a published volume : on a bare one, {}", name);
    found.more = {{"throughput", throughput}, {"spread", spread}, {"same", same ? 1 : 0}};
    found.goal = fmt::format("throughput >= {}, or within the spread; same settings", kLeastThroughput);
    found.met = same && throughput >= std::min(kLeastThroughput, 1 - spread);
    Report(found);
  }
  return Ok();
}

Status RawOfType(Bench& bench, Site& site, const Type& type) {
  vm::CsiClient& client = site.client();
  const auto made = client.Create(SpecOf(type, "raw", vm::BlockCapability()));
  QUARRY_TRY(Must("CreateVolume", made));
  const vm::v1::Volume& volume = made.value.volume();
  const std::string staging = std::string(kFolder) + "/staging";
  const Side ours = {vm::LvNameIn(volume.volume_id()), std::string(kFolder) + "/device"};
  const Side peer = {"peer", fmt::format("/dev/{}/peer", site.group())};
  QUARRY_TRY(Must("NodeStageVolume", client.Stage(volume, staging, vm::BlockCapability())));
  QUARRY_TRY(Must("NodePublishVolume", client.Publish(volume, staging, ours.path, vm::BlockCapability())));
  QUARRY_TRY(WaitSynced(site.group()));
  Settle();
  const bool tables = Same("tables", TablesOf(site.group(), ours.lv), TablesOf(site.group(), peer.lv));
  const bool queues = Same("queues", QueueOf(site.group(), ours.lv), QueueOf(site.group(), peer.lv));
  QUARRY_TRY(MeasurePairs(bench, ours, peer, tables && queues, fmt::format("raw.{}", type.name)));
  QUARRY_TRY(Must("NodeUnpublishVolume", client.Unpublish(volume.volume_id(), ours.path)));
  QUARRY_TRY(Must("NodeUnstageVolume", client.Unstage(volume.volume_id(), staging)));
  return site.Delete(volume.volume_id());
}

Status MountedOfType(Bench& bench, Site& site, const Type& type) {
  vm::CsiClient& client = site.client();
  const auto made = client.Create(SpecOf(type, "ext4", vm::MountCapability()));
  QUARRY_TRY(Must("CreateVolume", made));
  const vm::v1::Volume& volume = made.value.volume();
  const std::string staging = std::string(kFolder) + "/staging";
  const std::string target = std::string(kFolder) + "/target";
  const std::string bare = std::string(kFolder) + "/bare";
  QUARRY_TRY(Must("NodeStageVolume", client.Stage(volume, staging, vm::MountCapability())));
  QUARRY_TRY(Must("NodePublishVolume", client.Publish(volume, staging, target, vm::MountCapability())));
  // Quarry's defaults: small file systems have blocks of 4 KiB too, and no tenant gets devices or setuid
  // programs.
  const std::string device = fmt::format("/dev/{}/peer", site.group());
  QUARRY_TRY(Run({"mkfs.ext4", "-q", "-F", "-b", "4096", device}));
  QUARRY_TRY(Run({"mount", "-o", "nosuid,nodev", device, bare}));
  QUARRY_TRY(MakeFile(target + "/file"));
  QUARRY_TRY(MakeFile(bare + "/file"));
  QUARRY_TRY(WaitSynced(site.group()));
  Settle();
  const bool mounts = Same("mounts", MountOptions(target), MountOptions(bare));
  QUARRY_TRY(MeasurePairs(bench, {vm::LvNameIn(volume.volume_id()), target + "/file"},
                          {"peer", bare + "/file"}, mounts, fmt::format("ext4.{}", type.name)));
  QUARRY_TRY(Run({"umount", bare}));
  QUARRY_TRY(Must("NodeUnpublishVolume", client.Unpublish(volume.volume_id(), target)));
  QUARRY_TRY(Must("NodeUnstageVolume", client.Unstage(volume.volume_id(), staging)));
  return site.Delete(volume.volume_id());
}

}  // namespace

Status DataPathBesideBareDevice(Bench& bench) {
  QUARRY_ASSIGN(Site* const site, bench.Main());
  QUARRY_TRY(site->Clear());
  for (const char* place : {"staging", "bare"}) {
    fs::create_directories(fs::path(kFolder) / place);
  }
  for (const Type& type : kTypes) {
    Progress(fmt::format("P10 data path {}", type.name));
    std::vector<std::string> lvcreate = {"lvcreate", "-y", "-n", "peer", "-L", fmt::format("{}b", kSize)};
    lvcreate.insert(lvcreate.end(), type.lvcreate.begin(), type.lvcreate.end());
    lvcreate.push_back(site->group());
    QUARRY_TRY(Run(lvcreate));
    QUARRY_TRY(RawOfType(bench, *site, type));
    QUARRY_TRY(MountedOfType(bench, *site, type));
    QUARRY_TRY(Run({"lvremove", "-y", site->group() + "/peer"}));
  }
  return Ok();
}

}  // namespace quarry::bench
