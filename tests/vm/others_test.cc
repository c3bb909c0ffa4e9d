// An administrator puts something on managed volumes, or moves them. Errors name what he did, nothing of it
// is lost, and the volumes do not change meanwhile. Also: what an interrupted conversion leaves behind. Needs
// four disks.
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "tests/vm/fixture.h"
#include "tests/vm/kit/move_rate.h"

namespace quarry::vm {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

constexpr int64_t kSize = 48 * kMi;
constexpr uint64_t kBytes = 8 * kMi;

class OthersTest : public VmTest {
 protected:
  static void Lvm(std::vector<std::string> words) {
    words.insert(words.begin(), "lvm");
    const Outcome done = Tool(words);
    ASSERT_TRUE(done.ok()) << words[1] << ": " << done.err;
  }
  static Outcome Ctl(std::vector<std::string> words) {
    words.insert(words.begin(), "quarryctl");
    words.insert(words.end(), {"--endpoint", kAdminEndpoint});
    return Tool(words);
  }
  static std::string Full(const std::string& lv) { return std::string(kGroup) + "/" + lv; }
  static std::string Node(const std::string& lv) { return "/dev/" + Full(lv); }
  static std::string SequenceNumber() {
    return Trim(Tool({"vgs", "--noheadings", "-o", "vg_seqno", kGroup}).out);
  }
  static std::string Names() { return Tool({"lvs", "-a", "--noheadings", "-o", "lv_name", kGroup}).out; }
  v1::Volume Make(const std::string& name, const std::string& type = "linear") {
    return MustCreate({name, TypeParameters(type), MountCapability(), kSize});
  }
  // Delete and Expand are refused with this code and message, and the group's metadata do not change.
  void ExpectRefused(const v1::Volume& volume, StatusCode code, const std::string& words) {
    const std::string before = SequenceNumber();
    EXPECT_TRUE(Fails(client().Delete(volume.volume_id()), code, words));
    EXPECT_TRUE(Fails(client().Expand(volume.volume_id(), 2 * kSize), code, words));
    EXPECT_EQ(SequenceNumber(), before) << "the group's metadata have changed";
  }
  // Starts a pvmove by name that no process completes: "+" delays its first check of the copy by that time.
  static void BeginMove(const std::string& lv, const std::string& from, const std::string& to) {
    Lvm({"pvmove", "--config", "global/use_lvmpolld=0", "-b", "-i", "+3600", "-n", lv, from, to});
    ASSERT_THAT(Tool({"lvs", "-a", "--noheadings", "-o", "move_pv", kGroup}).out, HasSubstr(from));
  }
  static void EndMove(const std::string& lv, const std::string& from) {
    Lvm({"pvmove", "--config", "global/use_lvmpolld=0", "-i", "1", "-n", lv, from});
  }
  // The disk of the volume, or of its first leg.
  static std::string DiskOf(const std::string& lv) { return *group().LegDevices(lv)->front().begin(); }
  static std::string AnotherDisk(const std::set<std::string>& than) {
    for (const std::string& node : group().devices()) {
      if (!than.contains(node)) {
        return node;
      }
    }
    return "";
  }
};

TEST_F(OthersTest, ASnapshotIsNamedAndKept) {
  for (const char* type : {"linear", "raid1"}) {
    SCOPED_TRACE(type);
    const v1::Volume volume = Make(std::string("snap-") + type, type);
    const std::string lv = LvOf(volume);
    ASSERT_OK(WritePattern(Node(lv), 1, kBytes));
    Lvm({"lvcreate", "-y", "-s", "-L", "16m", "-n", "backup", Full(lv)});
    ExpectRefused(volume, StatusCode::FAILED_PRECONDITION,
                  "vg/backup is a snapshot of it: remove that first");
    EXPECT_OK(CheckPattern(Node("backup"), 1, kBytes));
    EXPECT_OK(CheckPattern(Node(lv), 1, kBytes));
    Lvm({"lvremove", "-y", Full("backup")});
    EXPECT_OK(client().Expand(volume.volume_id(), 2 * kSize));
    EXPECT_OK(client().Delete(volume.volume_id()));
  }
}

TEST_F(OthersTest, ADeletionWithoutErasingKeepsASnapshot) {
  const v1::Volume volume =
      MustCreate({"bare", TypeParameters("linear", {{"erase", "none"}}), MountCapability(), kSize});
  const std::string lv = LvOf(volume);
  Lvm({"lvcreate", "-y", "-s", "-L", "16m", "-n", "backup", Full(lv)});
  EXPECT_TRUE(Fails(client().Delete(volume.volume_id()), StatusCode::FAILED_PRECONDITION,
                    "vg/backup is a snapshot of it"));
  EXPECT_THAT(Names(), HasSubstr("backup"));
  Lvm({"lvremove", "-y", Full("backup")});
  EXPECT_OK(client().Delete(volume.volume_id()));
}

TEST_F(OthersTest, CachesAreNamedAndKeptUntilTheyAreSplitOff) {
  const v1::Volume volume = Make("cached");
  const std::string lv = LvOf(volume);
  ASSERT_OK(WritePattern(Node(lv), 2, kBytes));
  Lvm({"lvcreate", "-y", "--type", "cache-pool", "-L", "16m", "-n", "fast", kGroup});
  Lvm({"lvconvert", "-y", "--type", "cache", "--cachepool", Full("fast"), Full(lv)});
  ExpectRefused(volume, StatusCode::FAILED_PRECONDITION, "lvconvert --splitcache " + Full(lv));
  EXPECT_OK(CheckPattern(Node(lv), 2, kBytes));
  Lvm({"lvconvert", "-y", "--splitcache", Full(lv)});
  Lvm({"lvremove", "-y", Full("fast")});

  Lvm({"lvcreate", "-y", "-an", "-L", "16m", "-n", "fast", kGroup});
  Lvm({"lvchange", "-an", Full(lv)});
  Lvm({"lvconvert", "-y", "--type", "writecache", "--cachevol", "fast", Full(lv)});
  ExpectRefused(volume, StatusCode::FAILED_PRECONDITION, "lvconvert --splitcache " + Full(lv));
  Lvm({"lvconvert", "-y", "--splitcache", Full(lv)});
  Lvm({"lvremove", "-y", Full("fast")});
  EXPECT_OK(client().Expand(volume.volume_id(), 2 * kSize));
  EXPECT_OK(client().Delete(volume.volume_id()));
}

TEST_F(OthersTest, AVolumeTurnedIntoACacheIsNotReportedDeleted) {
  const v1::Volume volume = Make("cachevol");
  const std::string lv = LvOf(volume);
  Lvm({"lvcreate", "-y", "-L", "64m", "-n", "his", kGroup});
  Lvm({"lvchange", "-an", Full(lv)});
  Lvm({"lvconvert", "-y", "--type", "cache", "--cachevol", lv, Full("his")});
  EXPECT_TRUE(Fails(client().Delete(volume.volume_id()), StatusCode::FAILED_PRECONDITION, lv + "_cvol"));
  Lvm({"lvconvert", "-y", "--splitcache", Full("his")});
  Lvm({"lvremove", "-y", Full("his")});
  EXPECT_OK(client().Delete(volume.volume_id()));
}

TEST_F(OthersTest, AThinPoolAndItsVolumesAreKept) {
  const v1::Volume volume = Make("pool");
  const std::string lv = LvOf(volume);
  Lvm({"lvconvert", "-y", "--type", "thin-pool", Full(lv)});
  Lvm({"lvcreate", "-y", "-V", "32m", "-T", "-n", "his", Full(lv)});
  ASSERT_OK(WritePattern(Node("his"), 3, kBytes));
  ExpectRefused(volume, StatusCode::FAILED_PRECONDITION, "vg/his");
  EXPECT_OK(CheckPattern(Node("his"), 3, kBytes));
  Lvm({"lvremove", "-y", Full("his")});
  ExpectRefused(volume, StatusCode::FAILED_PRECONDITION, "thin-pool");
  Lvm({"lvremove", "-y", Full(lv)});
  EXPECT_OK(client().Delete(volume.volume_id())) << "the administrator has removed the volume";
}

TEST_F(OthersTest, AVolumeBeingMovedIsServedLater) {
  for (const char* type : {"linear", "raid1"}) {
    SCOPED_TRACE(type);
    const v1::Volume volume = Make(std::string("moved-") + type, type);
    const std::string lv = LvOf(volume);
    std::set<std::string> own;
    const auto legs = group().LegDevices(lv);
    ASSERT_OK(legs);
    for (const auto& leg : *legs) {
      own.insert(leg.begin(), leg.end());
    }
    const std::string from = DiskOf(lv);
    BeginMove(lv, from, AnotherDisk(own));
    ASSERT_FALSE(HasFatalFailure());
    ExpectRefused(
        volume, StatusCode::UNAVAILABLE,
        "is being moved off disk " + Trim(Tool({"pvs", "--noheadings", "-o", "pv_uuid", from}).out));
    EndMove(lv, from);
    EXPECT_NE(DiskOf(lv), from);
    EXPECT_OK(client().Expand(volume.volume_id(), 2 * kSize));
    EXPECT_OK(client().Delete(volume.volume_id()));
  }
}

// quarryd's own move continues or is cancelled. The administrator's move goes on, whichever disk it vacates.
TEST_F(OthersTest, OnlyQuarrysMovesAreEnded) {
  const v1::Volume volume = Make("ours");
  const std::string lv = LvOf(volume);
  const std::string leaving = DiskOf(lv);
  const std::string his = AnotherDisk({leaving});
  const std::string target = AnotherDisk({leaving, his});
  Lvm({"lvcreate", "-y", "-Wn", "-L", "64m", "-n", "his", kGroup, his});
  ASSERT_OK(WritePattern(Node("his"), 4, kBytes));
  BeginMove("his", his, target);
  ASSERT_FALSE(HasFatalFailure());
  Lvm({"pvchange", "-x", "n", his, target});  // the managed volume goes to the fourth disk, or stays
  ASSERT_TRUE(LimitMoves(1));  // else the disk may have left the group before quarryctl cancels
  ASSERT_TRUE(Ctl({"evacuate", leaving, "--no-wait"}).ok());
  // While something is moved, LVM reads the group. That may take longer than quarryctl may wait.
  EXPECT_TRUE(Eventually([&] { return Ctl({"evacuate", leaving, "--cancel"}).ok(); }));
  ASSERT_TRUE(LimitMoves(100));
  EXPECT_THAT(Tool({"lvs", "-a", "--noheadings", "-o", "move_pv", kGroup}).out, HasSubstr(his));

  // Beside his move, one of quarryd's own that a killed quarryd left.
  ASSERT_TRUE(Eventually([&] { return Names().find("pvmove1") == std::string::npos; }));
  const std::string now = DiskOf(lv);
  quarryd().Kill();
  const std::string to = AnotherDisk({now, his, target});
  BeginMove(lv, now, to);
  ASSERT_FALSE(HasFatalFailure());
  Lvm({"pvchange", "-x", "n", "--addtag", "quarry.leaving", now});
  StartQuarryd();
  EXPECT_TRUE(Eventually(
      [&] {
        return Tool({"pvs", "--noheadings", "-o", "pv_name", "-S", std::string("vg_name=") + kGroup})
                   .out.find(now) == std::string::npos;
      },
      90))
      << quarryd().Log();
  EXPECT_EQ(DiskOf(lv), to) << "the move continued to its first target";
  EXPECT_THAT(Tool({"lvs", "-a", "--noheadings", "-o", "move_pv", kGroup}).out, HasSubstr(his))
      << "the administrator's volume has moved";
  EndMove("his", his);
  Lvm({"pvchange", "-x", "y", his, target});
  EXPECT_OK(CheckPattern(Node("his"), 4, kBytes));
  Lvm({"lvremove", "-y", Full("his")});
  EXPECT_OK(client().Delete(volume.volume_id()));
  EXPECT_TRUE(Sh("wipefs -a -q " + now + " && vgextend --metadatasize 64m " + kGroup + " " + now).ok());
}

TEST_F(OthersTest, AdoptionIsRefusedWhileASnapshotExists) {
  Lvm({"lvcreate", "-y", "-L", "32m", "-n", "data", kGroup});
  Lvm({"lvcreate", "-y", "-s", "-L", "16m", "-n", "backup", Full("data")});
  const Outcome refused = Ctl({"adopt", Full("data")});
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.err, HasSubstr("vg/backup is a snapshot of it"));
  Lvm({"lvremove", "-y", Full("data")});
}

// What LVM leaves between the two commits of a conversion: a leg and its metadata, visible under new names.
// The test makes it by editing the metadata, on a disk that holds no other part of the volume.
class TakenOutTest : public OthersTest {
 protected:
  // The section "    NAME {\n … }\n" of a logical volume in a metadata backup.
  static std::string SectionOf(const std::string& text, const std::string& name) {
    const size_t first = text.find("\n\t\t" + name + " {\n");
    const size_t last = text.find("\n\t\t}\n", first);
    return first == std::string::npos ? "" : text.substr(first + 1, last + 5 - first);
  }
  static void ReplaceIn(std::string& text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in\n" << text;
    text.replace(at, from.size(), to);
  }
  static std::string PvNameOf(const std::string& text, const std::string& device) {
    const size_t at = text.rfind(" {\n", text.find("device = \"" + device + "\""));
    const size_t begin = text.find_last_of("\t", at) + 1;
    return text.substr(begin, at - begin);
  }
  // The place of the leg and its metadata: these extents of `disk`.
  static constexpr int kMetadataExtent = 200;
  static void Leave(const std::string& lv, const std::string& disk) {
    const std::string file = "/tmp/others.vg";
    Lvm({"vgcfgbackup", "-f", file, kGroup});
    std::stringstream read;
    read << std::ifstream(file).rdbuf();
    std::string text = read.str();
    int number = 0;
    for (const std::string part : {"_rmeta_1", "_rimage_1"}) {
      std::string section = SectionOf(text, lv + part);
      ASSERT_FALSE(section.empty());
      ReplaceIn(section, lv + part + " {", lv + part + "_extracted {");
      const size_t id = section.find("id = \"") + 6;
      section.replace(id, 6, fmt::format("Taken{}", number));
      ReplaceIn(section, "status = [\"READ\", \"WRITE\"]", "status = [\"READ\", \"WRITE\", \"VISIBLE\"]");
      const size_t stripes = section.find("stripes = [");
      const size_t end = section.find(']', stripes);
      section.replace(stripes, end - stripes,
                      fmt::format("stripes = [\"{}\", {}", PvNameOf(text, disk), kMetadataExtent + number));
      const size_t first = text.find("\n\t\t" + lv + " {\n") + 1;
      text.insert(first, section + "\n");
      ++number;
    }
    std::ofstream(file) << text;
    Lvm({"vgcfgrestore", "-y", "-f", file, kGroup});
  }
};

TEST_F(TakenOutTest, AnExtractedLegIsKeptUntilTheOthersAreInSync) {
  const v1::Volume volume = Make("taken", "raid1");
  const std::string lv = LvOf(volume);
  std::set<std::string> own;
  const auto legs = group().LegDevices(lv);
  ASSERT_OK(legs);
  for (const auto& leg : *legs) {
    own.insert(leg.begin(), leg.end());
  }
  const std::string disk = AnotherDisk(own);
  Lvm({"lvchange", "-an", Full(lv)});
  Leave(lv, disk);
  const std::string leg = lv + "_rimage_1_extracted";
  ASSERT_THAT(Names(), HasSubstr(leg));
  Lvm({"lvchange", "-ay", "-K", Full(leg)});
  ASSERT_OK(WritePattern(Node(leg), 5, kBytes));
  Lvm({"lvchange", "-an", Full(leg)});

  const Outcome kept = Ctl({"repair"});
  EXPECT_THAT(kept.out + kept.err, HasSubstr(leg));
  EXPECT_THAT(kept.out + kept.err, HasSubstr("is kept"));
  EXPECT_THAT(Names(), HasSubstr(leg));

  ASSERT_OK(client().Stage(volume, StagingPath("taken"), MountCapability()));
  EXPECT_TRUE(Eventually([&] {
    (void)Ctl({"repair"});
    return Names().find("_extracted") == std::string::npos;
  })) << Names()
      << quarryd().Log();
  const int64_t extent = 4 * kMi;
  const int64_t start = std::stoll(
      Trim(Tool({"pvs", "--noheadings", "--nosuffix", "--units", "b", "-o", "pe_start", disk}).out));
  EXPECT_OK(CheckZero(disk, kBytes, static_cast<uint64_t>(start + (kMetadataExtent + 1) * extent)));
  EXPECT_OK(client().Unstage(volume.volume_id(), StagingPath("taken")));
  EXPECT_OK(client().Delete(volume.volume_id()));
}

TEST_F(TakenOutTest, AnExtractedLegIsDeletedWithItsVolume) {
  const v1::Volume volume = Make("taken", "raid1");
  const std::string lv = LvOf(volume);
  std::set<std::string> own;
  const auto legs = group().LegDevices(lv);
  ASSERT_OK(legs);
  for (const auto& leg : *legs) {
    own.insert(leg.begin(), leg.end());
  }
  const std::string disk = AnotherDisk(own);
  Lvm({"lvchange", "-an", Full(lv)});
  Leave(lv, disk);
  EXPECT_OK(client().Delete(volume.volume_id()));
  EXPECT_TRUE(Eventually([&] { return Trim(Names()).empty(); })) << Names() << quarryd().Log();
}

// A group may limit the number of its logical volumes. At the limit it has no capacity.
TEST_F(OthersTest, AGroupAtItsVolumeLimitHasNoCapacity) {
  const v1::Volume volume = Make("one");
  Lvm({"vgchange", "-l", "1", kGroup});
  auto capacity = client().Capacity();
  ASSERT_OK(capacity);
  EXPECT_EQ(capacity.value.available_capacity(), 0);
  EXPECT_TRUE(Fails(client().Create({"two"}), StatusCode::RESOURCE_EXHAUSTED, "maxlogicalvolumes"));
  EXPECT_OK(client().Expand(volume.volume_id(), 2 * kSize)) << "growth makes no logical volume";
  Lvm({"vgchange", "-l", "0", kGroup});
  capacity = client().Capacity();
  ASSERT_OK(capacity);
  EXPECT_GT(capacity.value.available_capacity(), 0);
  EXPECT_OK(client().Delete(volume.volume_id()));
}

}  // namespace
}  // namespace quarry::vm
