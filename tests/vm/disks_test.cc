// New disks: a blank disk that meets a pool's rule joins it, and quarryd changes no other disk. Then the
// guest boots with its NVMe disks in another order (vmctl reboot --shuffle), and After runs. After also kills
// quarryd while a disk joins.
//
// Disks 1 and 2 make the group. Disk 3 is blank. The others have contents: 4 a file system, 5 an unmanaged
// group, 6 a group with the same name as the pool's, 7 a copy of disk 1. The guest's own system disk meets
// the rule, too.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include <nlohmann/json.hpp>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr char kConfig[] = "/root/disks.toml";
constexpr char kPlaces[] = "/root/disks";  // outlives the boot
constexpr char kFileData[] = "/root/disks/target-files/data";
constexpr char kRawData[] = "/root/disks/target-raw";
constexpr char kOrder[] = "/root/disks/crash-order";
constexpr int kMostKills = 10;
constexpr uint64_t kDataLength = 256 << 10;
constexpr int kMembers = 3;

class Disks : public testing::Test {
 protected:
  void Start() { ASSERT_OK(TryStart("quarryd")); }
  Status TryStart(const std::string& program) {
    QuarrydOptions options;
    options.program = program;
    options.pools = {};
    options.arguments = {"--config", kConfig};
    options.variables = {{"QUARRY_CRASH_ORDER", kOrder}};
    QUARRY_ASSIGN(quarryd_, QuarrydProcess::Start(options));
    return quarryd_->WaitReady(std::chrono::seconds(120));
  }
  // quarryd adds disks after it begins to serve. It has survived them all when it logs that the pool is
  // ready.
  bool OutlivesItsDisks() {
    const Status started = TryStart("quarryd_crash");
    const auto through = [&] { return quarryd_->Log().find(R"("msg":"ready")") != std::string::npos; };
    EXPECT_TRUE(!started.has_value() || Eventually([&] { return !quarryd_->Running() || through(); }, 120));
    return quarryd_->Running() && through();
  }
  void TearDown() override {
    if (HasFailure()) {
      const bool runs = quarryd_ && quarryd_->Running();
      fprintf(stderr, "%s\n%s\n", runs ? Devices(false).c_str() : "",
              quarryd_ ? quarryd_->Log().c_str() : "");
    }
  }

  static std::string Devices(bool json) {
    std::vector<std::string> words = {"quarryctl", "devices", "--endpoint", kAdminEndpoint};
    if (json) {
      words.emplace_back("--json");
    }
    const Outcome told = Tool(words);
    EXPECT_TRUE(told.ok()) << told.err;
    return told.out;
  }
  // The rows of quarryctl for the disks with this serial number.
  static std::vector<nlohmann::json> Rows(const std::string& serial) {
    std::vector<nlohmann::json> rows;
    for (const nlohmann::json& row : nlohmann::json::parse(Devices(true), nullptr, false)) {
      if (row.is_object() && row.value("serial", "") == serial) {
        rows.push_back(row);
      }
    }
    return rows;
  }
  static nlohmann::json Row(int disk) {
    const auto rows = Rows("quarry" + std::to_string(disk));
    EXPECT_EQ(rows.size(), 1U) << "disk " << disk;
    return rows.empty() ? nlohmann::json::object() : rows.front();
  }
  static std::string Reason(int disk) { return Row(disk).value("reason", ""); }
  static bool IsMember(int disk) { return Row(disk).value("member", false); }

  static std::string Sum(int disk) { return Sh("sha256sum < " + DiskNode(disk)).out; }
  static void Pull(int disk) { ASSERT_TRUE(Tool({"vmctl", "pull", std::to_string(disk)}).ok()) << disk; }
  static void Return(int disk) { ASSERT_TRUE(Tool({"vmctl", "return", std::to_string(disk)}).ok()) << disk; }

  // True if quarryd has examined the disk at its present node and logged that the disk does not join.
  bool WasLeft(int disk) {
    const std::string node = "\"" + DiskNode(disk) + "\"";
    return Eventually([&] {
      for (const std::string& line : Lines(quarryd_->Log())) {
        if (line.find("does not join") != std::string::npos && line.find(node) != std::string::npos) {
          return true;
        }
      }
      return false;
    });
  }
  int64_t Capacity() {
    auto capacity = client_.Capacity();
    EXPECT_OK(capacity);
    return capacity.value.available_capacity();
  }
  // The slot of the disk: the PCI address of its controller. With the kernel's NVMe multipath the parent of
  // the disk is not the controller but a subsystem, which has a link to it and a number by chance.
  static std::string Place(int disk) {
    const std::string name = fs::path(DiskNode(disk)).filename().string();
    const fs::path parent = fs::canonical("/sys/class/block/" + name).parent_path();
    fs::path controller = parent;
    for (const fs::directory_entry& entry : fs::directory_iterator(parent)) {
      if (entry.is_symlink() && fs::exists(entry.path() / "address")) {
        controller = entry.path();
      }
    }
    const std::string address = Trim(Sh("cat " + (controller / "address").string()).out);
    EXPECT_FALSE(address.empty()) << parent;
    return address;
  }

  static VolumeSpec Files() { return {"files", TypeParameters("linear"), MountCapability("ext4"), 32 * kMi}; }
  static VolumeSpec Raw() { return {"raw", TypeParameters("raid1"), BlockCapability(), 16 * kMi}; }
  static std::string Staging(const VolumeSpec& spec) {
    return std::string(kPlaces) + "/staging-" + spec.name;
  }
  static std::string Target(const VolumeSpec& spec) { return std::string(kPlaces) + "/target-" + spec.name; }
  // Creates the volume if it does not exist, stages and publishes it.
  v1::Volume Use(const VolumeSpec& spec) {
    fs::create_directories(Staging(spec));
    auto made = client_.Create(spec);
    EXPECT_OK(made);
    EXPECT_OK(client_.Stage(made.value.volume(), Staging(spec), spec.capability));
    EXPECT_OK(client_.Publish(made.value.volume(), Staging(spec), Target(spec), spec.capability));
    return made.value.volume();
  }
  void Leave(const VolumeSpec& spec, const v1::Volume& volume) {
    EXPECT_OK(client_.Unpublish(volume.volume_id(), Target(spec)));
    EXPECT_OK(client_.Unstage(volume.volume_id(), Staging(spec)));
  }

  // The checks for each kind of disk that must not join.
  void ExpectLeftAsItIs(int disk, const std::string& sum, const std::string& words) {
    SCOPED_TRACE(disk);
    ASSERT_TRUE(WasLeft(disk));
    EXPECT_NE(Reason(disk).find(words), std::string::npos) << Reason(disk);
    EXPECT_FALSE(IsMember(disk));
    EXPECT_EQ(Sum(disk), sum) << "the bytes of the disk have changed";
  }

  static void Clear(int disk) {
    const Outcome cleared = Tool({"blkdiscard", "--zeroout", DiskNode(disk)});
    ASSERT_TRUE(cleared.ok()) << cleared.err;
  }

  // The disk becomes blank while quarryd is stopped. Then quarryd, with its LVM, is killed before, amid and
  // after the join, and started again each time. In the end the disk is in the pool, or its reason says what
  // it needs.
  void AddUnderKills(int disk) {
    ASSERT_EQ(quarryd_->Stop(), 0);
    ASSERT_TRUE(Tool({"wipefs", "--all", DiskNode(disk)}).ok());
    ASSERT_NO_FATAL_FAILURE(Start());
    EXPECT_NE(Reason(disk).find("is not zero"), std::string::npos) << Reason(disk);
    EXPECT_FALSE(IsMember(disk)) << "the bytes of the file system are still there";
    ASSERT_EQ(quarryd_->Stop(), 0);
    Clear(disk);
    std::ofstream(kOrder) << "amid-ms 100\n";
    int kills = 0;
    while (!OutlivesItsDisks()) {
      ASSERT_LT(++kills, kMostKills);
    }
    EXPECT_GE(kills, 2) << "one kill before the join, one amid";
    fs::remove(kOrder);
    printf("  %d kills, then disk %d: %s\n", kills, disk, Reason(disk).c_str());
    EXPECT_EQ(quarryd_->Stop(), 0);
    if (Sh("pvs --noheadings -o vg_name " + DiskNode(disk)).out.find("vg") == std::string::npos) {
      Clear(disk);  // what the reason asks for
    }
    ASSERT_NO_FATAL_FAILURE(Start());
    EXPECT_TRUE(Eventually([&] { return IsMember(disk); }))
        << Reason(disk);  // the disk joins after quarryd begins to serve
  }

  std::unique_ptr<QuarrydProcess> quarryd_;
  CsiClient client_{kSocket};
};

TEST_F(Disks, Before) {
  fs::create_directories(kPlaces);
  std::ofstream(kConfig)
      << "[[pool]]\nname = \"main\"\nvg = \"vg\"\n"
         "devices = [{ model = \"QEMU NVMe*\", transport = \"nvme\", min-size = \"64MiB\" }]\n";
  for (const std::string& command :
       std::vector<std::string>{"mkfs.ext4 -q " + DiskNode(4), "vgcreate -q other " + DiskNode(5),
                                "lvcreate -qq -an -Zn -Wn -l 4 -n data other",
                                "vgcreate -q vg " + DiskNode(6), "mkfs.ext4 -q " + DiskNode(7)}) {
    const Outcome made = Sh(command);
    ASSERT_TRUE(made.ok()) << command << ": " << made.err;
  }
  std::map<int, std::string> sums;
  for (const int disk : {4, 5, 6}) {
    sums[disk] = Sum(disk);
  }
  for (int disk = kMembers; disk <= 7; ++disk) {
    ASSERT_TRUE(Tool({"sync", DiskNode(disk)})
                    .ok());  // LVM does not flush, and a pulled disk loses what was not flushed
    Pull(disk);
  }

  const Outcome planned = Tool({"quarryctl", "--config", kConfig, "plan", "--json"});
  const auto wanted = nlohmann::json::parse(planned.out, nullptr, false);
  ASSERT_TRUE(wanted.is_array()) << planned.out << planned.err;
  ASSERT_EQ(wanted.size(), 2U) << planned.out;
  for (const nlohmann::json& row : wanted) {
    EXPECT_TRUE(row["device"] == DiskNode(1) || row["device"] == DiskNode(2)) << row.dump();
    EXPECT_EQ(row["volume_group"], "vg");
  }
  EXPECT_EQ(Sh("pvs --noheadings -o vg_name").out.find(" vg"), std::string::npos) << "a plan changes nothing";
  Start();
  EXPECT_TRUE(IsMember(1));
  EXPECT_TRUE(IsMember(2));
  for (const nlohmann::json& row : Rows("quarry-system")) {
    EXPECT_FALSE(row.value("member", true) || row.value("wanted", true)) << row.dump();
  }
  const int64_t small = Capacity();
  Return(4);
  ExpectLeftAsItIs(4, sums[4], "holds ext4");
  Return(5);
  ExpectLeftAsItIs(5, sums[5], "belongs to volume group other");
  Return(6);
  ExpectLeftAsItIs(6, sums[6], "another volume group vg of this name");

  // Disk 3 joins while all of these are present.
  Return(3);
  const auto came = steady_clock::now();
  EXPECT_TRUE(Eventually([&] { return Capacity() > small; }));
  const double took = std::chrono::duration<double>(steady_clock::now() - came).count();
  printf("  capacity was up %.2f s after the disk had its node: %lld MiB, before %lld MiB\n", took,
         static_cast<long long>(Capacity() / kMi), static_cast<long long>(small / kMi));
  EXPECT_TRUE(IsMember(3));
  const Outcome area = Tool({"pvs", "--noheadings", "--units", "m", "-o", "pv_mda_size", DiskNode(3)});
  EXPECT_GE(std::stod("0" + Trim(area.out)), 63.0) << area.out << area.err;

  const v1::Volume files = Use(Files());
  const v1::Volume raw = Use(Raw());
  ASSERT_OK(WritePattern(kFileData, 1, kDataLength));
  ASSERT_OK(WritePattern(kRawData, 2, kDataLength));
  Leave(Files(), files);
  Leave(Raw(), raw);

  Return(7);
  ASSERT_TRUE(WasLeft(7));
  ASSERT_TRUE(Sh("dd if=" + DiskNode(1) + " of=" + DiskNode(7) + " bs=1M conv=fsync").ok());
  const std::string copy = Sum(7);
  Pull(7);
  Return(7);
  EXPECT_TRUE(Eventually([&] {
    return Reason(7).find("bears the UUID of another disk") != std::string::npos;
  })) << Reason(7);
  ExpectLeftAsItIs(7, copy, "bears the UUID of another disk of pool 'main'");
  EXPECT_TRUE(IsMember(1));
  for (const int disk : {4, 5, 6}) {
    EXPECT_EQ(Sum(disk), sums[disk]) << "disk " << disk;
  }
  Pull(6);
  Pull(7);
  EXPECT_EQ(quarryd_->Stop(), 0);
  std::ofstream places(std::string(kPlaces) + "/places");
  for (int disk = 1; disk <= kMembers; ++disk) {
    places << Place(disk) << "\n" << DiskNode(disk) << "\n";
  }
  ASSERT_TRUE(places.flush().good());
  ASSERT_TRUE(Sh(std::string("sync -f ") + kPlaces).ok());
}

TEST_F(Disks, After) {
  std::ifstream places(std::string(kPlaces) + "/places");
  for (int disk = 1; disk <= kMembers; ++disk) {
    std::string place;
    std::string node;
    ASSERT_TRUE(std::getline(places, place) && std::getline(places, node));
    EXPECT_NE(Place(disk), place) << "the order on the bus is the same";
    printf("  disk %d was %s, is %s\n", disk, node.c_str(), DiskNode(disk).c_str());
  }
  Start();
  for (int disk = 1; disk <= kMembers; ++disk) {
    EXPECT_TRUE(IsMember(disk)) << Reason(disk);
  }
  ASSERT_NO_FATAL_FAILURE(AddUnderKills(4));
  auto listed = client_.List();
  ASSERT_OK(listed);
  EXPECT_EQ(listed.value.size(), 2U);
  const v1::Volume files = Use(Files());
  const v1::Volume raw = Use(Raw());
  EXPECT_EQ(client_.List().value.size(), 2U) << "a repeated create returns the same volume";
  EXPECT_OK(CheckPattern(kFileData, 1, kDataLength));
  EXPECT_OK(CheckPattern(kRawData, 2, kDataLength));
  Leave(Files(), files);
  Leave(Raw(), raw);
  EXPECT_OK(client_.Delete(files.volume_id()));
  EXPECT_OK(client_.Delete(raw.volume_id()));
  EXPECT_EQ(quarryd_->Stop(), 0);
}

}  // namespace
}  // namespace quarry::vm
