// Thin stores that fall ill, on real LVM: damaged metadata, failed writes of metadata, a wrong transaction
// id, legs that differ, and kills during a repair. Needs four disks.
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/vm/store_damage.h"
#include "tests/vm/thin_stores_fixture.h"
#include "tests/vm/watched_requests.h"

namespace quarry::vm {
namespace {

constexpr uint64_t kLength = 8 << 20;
constexpr char kText[] = "/run/quarry-test/text";  // of the group, as vgcfgbackup writes it

class StoreHealthTest : public ThinStoresTest {
 protected:
  static std::string StoreList() { return Tool({"quarryctl", "store", "list"}).out; }
  static Outcome RepairStore(bool dry_run = false) {
    std::vector<std::string> command = {"quarryctl", "store", "repair", "fast"};
    if (dry_run) {
      command.emplace_back("--dry-run");
    }
    return Tool(command);
  }
  static std::string StoreId() {
    return Trim(
        Sh("lvs --noheadings -o lv_tags vg/" + Pool() + " | tr ',' '\\n' | sed -n 's/.*quarry.id=//p'").out);
  }
  // The logical volumes with former metadata of a repaired store, or with unfinished ones.
  static std::vector<std::string> KeptNames() {
    std::vector<std::string> out;
    for (const std::string& name : Lines(Tool({"lvs", "--noheadings", "-o", "lv_name", kGroup}).out)) {
      if (name.starts_with("meta")) {
        out.push_back(name);
      }
    }
    return out;
  }
  // What a repair leaves: the former metadata without a tag of Quarry's, and no spare. Removes them, as an
  // administrator does.
  static void ExpectKeptAndRemove(const std::string& name) {
    EXPECT_TRUE(Eventually([&] { return KeptNames() == std::vector{name}; })) << Lvs("lv_name,lv_tags");
    EXPECT_TRUE(Eventually([&] { return Lvs("lv_tags", "vg/" + name).find("quarry") == std::string::npos; }))
        << Lvs("lv_name,lv_tags");
    EXPECT_EQ(Lvs("lv_name").find("pmspare"), std::string::npos) << Lvs("lv_name");
    const Outcome removed = Tool({"lvremove", "-y", "vg/" + name});
    EXPECT_TRUE(removed.ok()) << removed.err;
  }

  // Ends the use of a volume that is published under this name.
  void Close(const v1::Volume& volume, const std::string& name) {
    EXPECT_OK(client().Unpublish(volume.volume_id(), TargetPath(name)));
    EXPECT_OK(client().Unstage(volume.volume_id(), StagingPath(name)));
  }
  // As after a reboot, before quarryd begins.
  void StopAll() {
    ASSERT_EQ(quarryd().Stop(), 0);
    const std::string devices = Sh("dmsetup info -c -o name,open,suspended,tables_loaded,uuid").out;
    const Outcome stopped = Tool({"vgchange", "-an", kGroup});
    ASSERT_TRUE(stopped.ok()) << stopped.err << devices;
  }
  v1::Volume MakeWritten(const std::string& name, uint64_t seed, int64_t size = 24 * kMi) {
    const v1::Volume volume = Make(name, size);
    EXPECT_OK(WritePattern(Publish(volume, name), seed, kLength));
    Close(volume, name);
    return volume;
  }
  void ExpectBytes(const v1::Volume& volume, const std::string& name, uint64_t seed) {
    EXPECT_OK(CheckPattern(Publish(volume, name), seed, kLength)) << name;
    Close(volume, name);
  }

  static std::string DigestOfLegs() {
    std::string out;
    for (const MetadataLeg& leg : MetadataLegs()) {
      out += Sh("dd if=" + leg.disk + " bs=4096 count=256 iflag=direct status=none skip=" +
                std::to_string(leg.offset / static_cast<int64_t>(kMetadataBlock)) + " | md5sum")
                 .out;
    }
    return out;
  }
  // Stops everything, damages the metadata, and starts quarryd.
  void FallIll() {
    ASSERT_NO_FATAL_FAILURE(StopAll());
    ASSERT_NO_FATAL_FAILURE(DamageMetadata());
    ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
    ASSERT_TRUE(Eventually([] { return StoreMode() == "damaged"; })) << StoreList() << quarryd().Log();
  }
  // Makes `file`, a text of the group, that which LVM has.
  static void RestoreText(const std::string& file) {
    const Outcome restored = Tool({"vgcfgrestore", "-y", "--force", "-f", file, kGroup});
    ASSERT_TRUE(restored.ok()) << restored.err;
  }
  static void SaveText(const std::string& file) {
    const Outcome saved = Tool({"vgcfgbackup", "-f", file, kGroup});
    ASSERT_TRUE(saved.ok()) << saved.err;
  }
};

TEST_F(StoreHealthTest, DamagedMetadataAreRepairedWithEveryByteAndKept) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  // Without erasing: a snapshot made by hand would keep the volume when it is deleted.
  auto parameters = TypeParameters("thin");
  parameters["erase"] = "none";
  const v1::Volume one = MustCreate({"one", parameters, BlockCapability(), 24 * kMi});
  const v1::Volume two = MakeWritten("two", 2);
  const std::string path = Publish(one, "one");
  ASSERT_OK(WritePattern(path, 1, kLength));
  ASSERT_TRUE(Tool({"lvcreate", "-s", "-n", "by_hand", "vg/" + LvOf(one)}).ok());
  ASSERT_OK(WritePattern(path, 3, kLength / 2));
  Close(one, "one");
  ASSERT_NO_FATAL_FAILURE(FallIll());
  const std::string pool = Pool();
  for (const v1::Volume& volume : {one, two}) {
    const std::string condition = ConditionOf(volume);
    EXPECT_TRUE(condition.starts_with("abnormal")) << condition;
    EXPECT_NE(condition.find("metadata are damaged"), std::string::npos) << condition;
    EXPECT_NE(condition.find("quarryctl store repair " + StoreId()), std::string::npos) << condition;
  }
  EXPECT_FALSE(client().Stage(two, StagingPath("two"), BlockCapability()).ok());

  const std::string before = DigestOfLegs();
  const std::string text = Lvs("lv_name,lv_uuid,lv_tags");
  const Outcome planned = RepairStore(true);
  EXPECT_TRUE(planned.ok()) << planned.out << planned.err;
  EXPECT_NE(planned.out.find("Manual repair required"), std::string::npos) << planned.out;
  EXPECT_NE(planned.out.find("  would check its metadata"), std::string::npos) << planned.out;
  EXPECT_EQ(DigestOfLegs(), before);
  EXPECT_EQ(Lvs("lv_name,lv_uuid,lv_tags"), text);
  EXPECT_EQ(StoreMode(), "damaged") << StoreList();

  const Outcome repaired = RepairStore();
  printf("%s%s", planned.out.c_str(), repaired.out.c_str());
  ASSERT_TRUE(repaired.ok()) << repaired.out << repaired.err << quarryd().Log();
  EXPECT_NE(repaired.out.find("the former metadata are kept as vg/meta0_" + pool), std::string::npos)
      << repaired.out;
  EXPECT_EQ(Pool(), pool);
  EXPECT_NE(DigestOfLegs(), before);
  EXPECT_TRUE(Eventually([] { return StoreMode() == "rw"; })) << StoreList();
  EXPECT_TRUE(IsWell(one)) << ConditionOf(one);
  ASSERT_OK(CheckPattern(Publish(one, "one"), 3, kLength / 2));
  ExpectBytes(two, "two", 2);
  ASSERT_TRUE(Tool({"lvchange", "-ay", "-K", "vg/by_hand"}).ok());
  Tool({"vgmknodes", kGroup});
  EXPECT_OK(CheckPattern("/dev/vg/by_hand", 1, kLength));
  // The next start of quarryd leaves what is kept alone.
  KillAndRestart();
  EXPECT_OK(CheckPattern(TargetPath("one"), 3, kLength / 2));
  const Outcome again = RepairStore();
  EXPECT_TRUE(again.ok()) << again.out << again.err;
  EXPECT_NE(again.out.find("nothing that a repair would mend"), std::string::npos) << again.out;
  ExpectKeptAndRemove("meta0_" + pool);
  const Outcome removed = Tool({"lvremove", "-y", "vg/by_hand"});
  EXPECT_TRUE(removed.ok()) << removed.err;
  EXPECT_OK(client().Delete(two.volume_id()));
  End(one, "one");
  EXPECT_TRUE(IsEmptyStore());
}

TEST_F(StoreHealthTest, AStoreThatTheKernelGaveUpIsRevivedOnceUnused) {
  ASSERT_NO_FATAL_FAILURE(StartWith("linear"));
  const v1::Volume volume = Make("used", 48 * kMi);
  const std::string path = Publish(volume, "used");
  ASSERT_OK(WritePattern(path, 1, kLength));
  // From now on every block of the metadata but the superblock fails. A new start loads LVM's table again.
  const std::string device = "vg-" + Pool() + "_tmeta";
  ASSERT_EQ(Lines(Tool({"dmsetup", "table", device}).out).size(), 1U) << "the metadata have one piece";
  const Outcome failing =
      Sh("dmsetup table " + device +
         R"( | awk '{print "0 8 linear", $4, $5; print "8", $2 - 8, "error"}' | dmsetup load )" + device +
         " && dmsetup suspend --noflush " + device + " && dmsetup resume " + device);
  ASSERT_TRUE(failing.ok()) << failing.err;
  EXPECT_FALSE(WritePattern(path, 2, kLength, 16 << 20).has_value()) << "new chunks cannot be recorded";

  std::string mode;
  EXPECT_TRUE(Eventually([&] {
    mode = StoreMode();
    return mode == "failed" || mode == "read-only" || mode == "needs-check";
  })) << StoreList();
  printf("  mode %s; the volume says: %s\n", mode.c_str(), ConditionOf(volume).c_str());
  EXPECT_TRUE(ConditionOf(volume).starts_with("abnormal")) << ConditionOf(volume);
  EXPECT_FALSE(client().Create({"more", TypeParameters("thin"), BlockCapability(), 4 * kMi}).ok());
  const Outcome refused = RepairStore();
  EXPECT_FALSE(refused.ok()) << refused.out;
  EXPECT_NE(refused.err.find("volumes in it are in use"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find(volume.volume_id()), std::string::npos) << refused.err;
  std::this_thread::sleep_for(std::chrono::seconds(8));
  EXPECT_EQ(StoreMode(), mode) << "quarryd stops no store with a volume in use";

  Close(volume, "used");
  EXPECT_TRUE(Eventually([] { return StoreMode() == "rw"; }, 180)) << StoreList() << quarryd().Log();
  EXPECT_TRUE(Eventually([&] { return IsWell(volume); })) << ConditionOf(volume);
  EXPECT_OK(CheckPattern(Publish(volume, "used"), 1, kLength))
      << "what was flushed before the error is there";
  EXPECT_OK(WritePattern(path, 4, kLength, 16 << 20));
  EXPECT_OK(CheckPattern(path, 4, kLength, 16 << 20));
  EXPECT_TRUE(KeptNames().empty()) << Lvs("lv_name");
  End(volume, "used");
  EXPECT_TRUE(IsEmptyStore());
}

TEST_F(StoreHealthTest, ALaterTransactionIdIsReplacedIfAllVolumesAreTheSame) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const v1::Volume one = MakeWritten("one", 1);
  const v1::Volume two = MakeWritten("two", 2);
  const std::string older = std::string(kText) + "-older";
  ASSERT_NO_FATAL_FAILURE(SaveText(older));
  const size_t volumes = Lines(Lvs("lv_name")).size();
  const v1::Volume gone = MakeWritten("gone", 3);
  EXPECT_OK(client().Delete(gone.volume_id()));
  ASSERT_TRUE(Eventually([&] { return Lines(Lvs("lv_name")).size() == volumes; }, 120))
      << Lvs("lv_name,lv_tags");
  ASSERT_NO_FATAL_FAILURE(StopAll());
  ASSERT_NO_FATAL_FAILURE(RestoreText(older));
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  ASSERT_TRUE(Eventually([] { return StoreMode() == "mismatch"; })) << StoreList() << quarryd().Log();
  EXPECT_NE(ConditionOf(one).find("transaction id"), std::string::npos) << ConditionOf(one);
  const Outcome repaired = RepairStore();
  ASSERT_TRUE(repaired.ok()) << repaired.out << repaired.err << quarryd().Log();
  EXPECT_NE(repaired.out.find("have exactly the volumes of LVM's text"), std::string::npos) << repaired.out;
  EXPECT_TRUE(Eventually([] { return StoreMode() == "rw"; })) << StoreList();
  ExpectBytes(one, "one", 1);
  ExpectBytes(two, "two", 2);
  ExpectKeptAndRemove("meta0_" + Pool());
  EXPECT_OK(client().Delete(one.volume_id()));
  EXPECT_OK(client().Delete(two.volume_id()));
  EXPECT_TRUE(IsEmptyStore());
}

TEST_F(StoreHealthTest, OlderMetadataAreRefused) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const v1::Volume one = MakeWritten("one", 1);
  ASSERT_NO_FATAL_FAILURE(StopAll());
  const std::string right = std::string(kText) + "-right";
  const std::string wrong = std::string(kText) + "-wrong";
  ASSERT_NO_FATAL_FAILURE(SaveText(right));
  const Outcome changed =
      Sh(R"(sed '/type = "thin-pool"/,/}/ s/transaction_id = [0-9]*/transaction_id = 99/' )" + right + " > " +
         wrong + " && grep -q 'transaction_id = 99' " + wrong);
  ASSERT_TRUE(changed.ok()) << changed.err;
  ASSERT_NO_FATAL_FAILURE(RestoreText(wrong));
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  ASSERT_TRUE(Eventually([] { return StoreMode() == "mismatch"; })) << StoreList() << quarryd().Log();
  const Outcome refused = RepairStore();
  EXPECT_FALSE(refused.ok()) << refused.out;
  EXPECT_NE(refused.err.find("older than LVM's text"), std::string::npos) << refused.err;
  EXPECT_TRUE(KeptNames().empty()) << Lvs("lv_name");
  ASSERT_NO_FATAL_FAILURE(StopAll());
  ASSERT_NO_FATAL_FAILURE(RestoreText(right));
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  ASSERT_TRUE(Eventually([] { return StoreMode() == "rw"; })) << StoreList() << quarryd().Log();
  ExpectBytes(one, "one", 1);
  EXPECT_OK(client().Delete(one.volume_id()));
  EXPECT_TRUE(IsEmptyStore());
}

TEST_F(StoreHealthTest, AnOlderTextOfLvmIsRefusedWithTheVolumesThatItLacks) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const v1::Volume one = MakeWritten("one", 1);
  const std::string older = std::string(kText) + "-older";
  const std::string newer = std::string(kText) + "-newer";
  ASSERT_NO_FATAL_FAILURE(SaveText(older));
  const v1::Volume two = MakeWritten("two", 2);
  ASSERT_NO_FATAL_FAILURE(StopAll());
  ASSERT_NO_FATAL_FAILURE(SaveText(newer));
  ASSERT_NO_FATAL_FAILURE(RestoreText(older));
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  ASSERT_TRUE(Eventually([] { return StoreMode() == "mismatch"; })) << StoreList() << quarryd().Log();
  const Outcome refused = RepairStore();
  EXPECT_FALSE(refused.ok()) << refused.out;
  EXPECT_NE(refused.err.find("is not in LVM's text"), std::string::npos) << refused.err;
  EXPECT_TRUE(KeptNames().empty()) << Lvs("lv_name");
  ASSERT_NO_FATAL_FAILURE(StopAll());
  ASSERT_NO_FATAL_FAILURE(RestoreText(newer));
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  EXPECT_TRUE(Eventually([] { return StoreMode() == "rw"; })) << StoreList() << quarryd().Log();
  ExpectBytes(one, "one", 1);
  ExpectBytes(two, "two", 2);
  EXPECT_OK(client().Delete(one.volume_id()));
  EXPECT_OK(client().Delete(two.volume_id()));
  EXPECT_TRUE(IsEmptyStore());
}

TEST_F(StoreHealthTest, KilledDuringARepairTheStoreIsRepairedOrRepairable) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const v1::Volume one = MakeWritten("one", 1);
  const v1::Volume two = MakeWritten("two", 2);
  const std::string pool = Pool();
  int unfinished = 0;
  constexpr int kRounds = 8;
  // The kills are spread over the time that a repair takes here.
  std::chrono::milliseconds whole{};
  for (int round = 0; round <= kRounds; ++round) {
    SCOPED_TRACE(round);
    ASSERT_NO_FATAL_FAILURE(FallIll());
    if (round == 0) {
      const auto begin = std::chrono::steady_clock::now();
      const Outcome repaired = RepairStore();
      whole = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
      ASSERT_TRUE(repaired.ok()) << repaired.out << repaired.err << quarryd().Log();
      ExpectKeptAndRemove("meta0_" + pool);
      continue;
    }
    const std::chrono::milliseconds delay = whole * round / kRounds;
    ASSERT_TRUE(Sh("quarryctl store repair fast > /run/quarry-test/repair.out 2>&1 < /dev/null &").ok());
    std::this_thread::sleep_for(delay);
    KillAndRestart();
    ASSERT_TRUE(Eventually([] { return !Tool({"pgrep", "-x", "quarryctl"}).ok(); }, 120));
    std::string mode;
    ASSERT_TRUE(Eventually([&] {
      mode = StoreMode();
      return mode == "rw" || mode == "damaged";
    })) << StoreList()
        << quarryd().Log();
    printf("  killed after %lld of %lld ms: the store is %s\n", static_cast<long long>(delay.count()),
           static_cast<long long>(whole.count()), mode.c_str());
    if (mode == "damaged") {
      ++unfinished;
      if (!KeptNames().empty()) {
        // Killed between the tags and the exchange: nothing proves that they were never used.
        EXPECT_EQ(KeptNames().size(), 1U) << Lvs("lv_name,lv_tags") << quarryd().Log();
        EXPECT_EQ(Lvs("lv_tags", "vg/meta0_" + pool).find("quarry"), std::string::npos);
        ASSERT_TRUE(Tool({"lvremove", "-y", "vg/meta0_" + pool}).ok());
      }
      const Outcome repaired = RepairStore();
      ASSERT_TRUE(repaired.ok()) << repaired.out << repaired.err << quarryd().Log();
      ASSERT_TRUE(Eventually([] { return StoreMode() == "rw"; })) << StoreList();
    }
    ExpectBytes(one, "one", 1);
    ExpectBytes(two, "two", 2);
    ExpectKeptAndRemove("meta0_" + pool);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(unfinished, 0) << "no kill came before the end of a repair";
  EXPECT_OK(client().Delete(one.volume_id()));
  EXPECT_OK(client().Delete(two.volume_id()));
  EXPECT_TRUE(IsEmptyStore());
}

// "one": the process that makes the request is killed; "all": quarryd too.
class RepairKilledTest : public StoreHealthTest, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    StoreHealthTest::SetUp();
    watched::Disarm();
    watched::Begin();
  }
  void TearDown() override {
    watched::Disarm();
    watched::End();
    StoreHealthTest::TearDown();
  }
  static std::string SettledMode() {
    std::string mode;
    EXPECT_TRUE(Eventually([&] {
      mode = StoreMode();
      return mode == "rw" || mode == "damaged";
    })) << StoreList();
    return mode;
  }
};

TEST_P(RepairKilledTest, AtEachRequestTheStoreIsRepairedOrRepairable) {
  constexpr int kMostRequests = 300;  // more means that the repair makes no progress
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const v1::Volume one = MakeWritten("one", 1);
  const v1::Volume two = MakeWritten("two", 2);
  bool more = true;
  for (int nth = 0; more; nth += watched::Every()) {
    SCOPED_TRACE("request " + std::to_string(nth));
    ASSERT_LT(nth, kMostRequests);
    ASSERT_NO_FATAL_FAILURE(FallIll());
    watched::Arm(nth, GetParam());
    const Outcome interrupted = RepairStore();
    more = !watched::Disarm();
    if (more) {
      std::string killed;
      ASSERT_TRUE(Eventually([&] { return !(killed = watched::CarriedOutAt()).empty(); }, 20));
      if (GetParam() == "all" || killed.ends_with("@ quarryd")) {
        ASSERT_TRUE(Eventually([this] { return !quarryd().Running(); }, 20)) << "it outlived the kill";
        ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
      }
      const std::string mode = SettledMode();
      printf("  %s: the store is %s\n", killed.c_str(), mode.c_str());
      EXPECT_TRUE(!interrupted.ok() || mode == "rw") << "repaired, it said";
    } else {
      EXPECT_TRUE(interrupted.ok()) << interrupted.err;
    }
    Outcome repaired;
    ASSERT_TRUE(Eventually([&] { return (repaired = RepairStore()).ok(); }, 60))
        << repaired.out << repaired.err << quarryd().Log();
    ASSERT_EQ(SettledMode(), "rw") << StoreList() << quarryd().Log();
    ExpectBytes(one, "one", 1);
    ExpectBytes(two, "two", 2);
    // The former metadata, and an unfinished copy if nothing proves that it was never used.
    const auto is_tagged = [] {
      return Sh("lvs --noheadings -o lv_name,lv_tags vg | grep -q 'meta.*quarry'").ok();
    };
    EXPECT_TRUE(Eventually([&] { return !is_tagged(); })) << Lvs("lv_name,lv_tags");
    EXPECT_LE(KeptNames().size(), 2U) << Lvs("lv_name,lv_tags");
    for (const std::string& name : KeptNames()) {
      EXPECT_TRUE(Tool({"lvremove", "-y", "vg/" + name}).ok()) << name;
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_OK(client().Delete(one.volume_id()));
  EXPECT_OK(client().Delete(two.volume_id()));
  EXPECT_TRUE(IsEmptyStore());
}

INSTANTIATE_TEST_SUITE_P(Each, RepairKilledTest, testing::Values("one", "all"), [](const auto& tested) {
  return tested.param == "one" ? "one_process" : "quarryd_too";
});

}  // namespace
}  // namespace quarry::vm
