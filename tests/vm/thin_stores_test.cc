// Thin stores on real LVM: every promised byte can be written, deleted bytes are on no disk, and disks that
// go away cost nothing that the type can do without. Needs four disks.
#include <atomic>
#include <thread>

#include <httplib.h>
#include <nlohmann/json.hpp>

#include "tests/vm/thin_stores_fixture.h"

namespace quarry::vm {
namespace {

class ThinStoreOfTypeTest : public ThinStoresTest, public testing::WithParamInterface<std::string> {};

TEST_P(ThinStoreOfTypeTest, IsFilledToTheLastPromisedByteAndErased) {
  ASSERT_NO_FATAL_FAILURE(StartWith(GetParam()));
  ASSERT_EQ(Left(), kStoreSize);
  const v1::Volume one = Make("one", 40 * kMi);
  const v1::Volume two = Make("two", 56 * kMi);
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(Left(), 0);
  EXPECT_TRUE(Fails(client().Create({"three", TypeParameters("thin"), BlockCapability(), 4 * kMi}),
                    grpc::StatusCode::RESOURCE_EXHAUSTED, "thin store 'fast'"));
  const std::string first = Publish(one, "one");
  const std::string second = Publish(two, "two");
  EXPECT_OK(CheckZero(first, 40 << 20));
  EXPECT_OK(WritePattern(first, 1, 40 << 20));
  Sh("yes '" + std::string(kMarker) + "' | dd of=" + second + " bs=1M iflag=fullblock oflag=direct 2>&1");
  EXPECT_OK(CheckPattern(first, 1, 40 << 20));
  EXPECT_EQ(Trim(Lvs("data_percent", "vg/" + Pool())), "100.00");
  EXPECT_GT(Markers(), 0);

  End(two, "two");
  EXPECT_TRUE(Eventually([&] { return Left() == 56 * kMi; }, 120)) << quarryd().Log();
  EXPECT_EQ(Markers(), 0) << "no byte of the deleted volume is on any disk";
  EXPECT_OK(CheckPattern(first, 1, 40 << 20));
  const v1::Volume next = Make("next", 56 * kMi);
  EXPECT_OK(CheckZero(Publish(next, "next"), 56 << 20));
  End(next, "next");
  End(one, "one");
  EXPECT_TRUE(IsEmptyStore());
}

INSTANTIATE_TEST_SUITE_P(Types, ThinStoreOfTypeTest, testing::Values("raid1", "striped"),
                         [](const auto& tested) { return tested.param; });

TEST_F(ThinStoresTest, AFileSystemGrowsInUse) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const v1::Volume volume = MustCreate({"grows", TypeParameters("thin"), MountCapability("ext4"), 40 * kMi});
  ASSERT_OK(client().Stage(volume, StagingPath("grows"), MountCapability("ext4")));
  ASSERT_OK(client().Publish(volume, StagingPath("grows"), TargetPath("grows"), MountCapability("ext4")));
  ASSERT_OK(WritePattern(TargetPath("grows") + "/file", 3, 8 << 20));
  ASSERT_OK(client().Expand(volume.volume_id(), kStoreSize));
  ASSERT_OK(client().NodeExpand(volume.volume_id(), TargetPath("grows"), StagingPath("grows"), kStoreSize));
  EXPECT_EQ(Left(), 0);
  EXPECT_TRUE(
      Fails(client().Expand(volume.volume_id(), kStoreSize + 4 * kMi), grpc::StatusCode::RESOURCE_EXHAUSTED));
  EXPECT_OK(WritePattern(TargetPath("grows") + "/more", 4, 48 << 20));
  EXPECT_OK(CheckPattern(TargetPath("grows") + "/file", 3, 8 << 20));
  End(volume, "grows");
  EXPECT_TRUE(IsEmptyStore());
}

TEST_F(ThinStoresTest, AScrubFindsWhatOneLegAloneHas) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const v1::Volume volume = Make("kept", 24 * kMi);
  ASSERT_OK(WritePattern(Publish(volume, "kept"), 1, 8 << 20));
  const std::string pool = Pool();
  const nlohmann::json stores =
      nlohmann::json::parse(Tool({"quarryctl", "store", "list", "--json"}).out, nullptr, false);
  ASSERT_TRUE(stores.is_array() && stores.size() == 1) << stores.dump();
  const std::string id = stores.front().value("store_id", "");
  ASSERT_TRUE(Eventually(
      [&] {
        for (const std::string part : {"_tdata", "_tmeta"}) {
          if (Trim(Lvs("sync_percent", "vg/" + pool + part)) != "100.00") {
            return false;
          }
        }
        return true;
      },
      120))
      << Lvs("lv_name,sync_percent");
  // The exit status, and the mismatched bytes of data and metadata together; -1: not both have a row.
  const auto scrub = [&](bool repair) {
    std::vector<std::string> command = {"quarryctl", "scrub", "--json", id};
    if (repair) {
      command.emplace_back("--repair");
    }
    const Outcome outcome = Tool(command);
    const nlohmann::json rows = nlohmann::json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(rows.is_array()) << outcome.out << outcome.err;
    int64_t bytes = rows.is_array() && rows.size() == 2 ? 0 : -1;
    for (const nlohmann::json& row : rows.is_array() ? rows : nlohmann::json::array()) {
      EXPECT_TRUE(row.value("compared", false)) << row.dump();
      bytes += row.value("mismatched_bytes", int64_t{0});
    }
    return std::pair(outcome.status, bytes);
  };
  EXPECT_EQ(scrub(false), std::pair(0, int64_t{0}));
  for (const std::string part : {"_tdata", "_tmeta"}) {
    // Past the array, into the last 64 KiB of the second leg, where the store has nothing.
    const std::string leg = "/dev/mapper/vg-" + pool + part + "_rimage_1";
    const std::string size = Trim(Tool({"blockdev", "--getsize64", leg}).out);
    ASSERT_FALSE(size.empty()) << leg;
    const Outcome damaged = Sh("head -c 65536 /dev/urandom | dd of=" + leg +
                               " bs=64k iflag=fullblock oflag=direct conv=notrunc " +
                               "seek=" + std::to_string(std::stoull(size) / 65536 - 1));
    ASSERT_TRUE(damaged.ok()) << damaged.err;
    const auto [status, bytes] = scrub(false);
    EXPECT_EQ(status, 1) << part;
    EXPECT_GT(bytes, 0) << part;
    EXPECT_EQ(scrub(true).first, 0) << part;
    EXPECT_EQ(scrub(false), std::pair(0, int64_t{0})) << part;
  }
  EXPECT_OK(CheckPattern(TargetPath("kept"), 1, 8 << 20));
  End(volume, "kept");
  EXPECT_TRUE(IsEmptyStore());
}

TEST_F(ThinStoresTest, KilledAgainAndAgainQuarrydLeavesNothing) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const v1::Volume kept = Make("kept", 32 * kMi);
  ASSERT_OK(WritePattern(Publish(kept, "kept"), 7, 32 << 20));
  for (int round = 0; round < 6; ++round) {
    std::atomic<bool> stop = false;
    std::jthread caller([&stop] {
      CsiClient own(kSocket);
      while (!stop) {
        const auto made = own.Create({"killed", TypeParameters("thin"), BlockCapability(), 64 * kMi});
        if (made.ok()) {
          (void)WritePattern("/dev/vg/" + LvOf(made.value.volume()), 8, 4 << 20);
          (void)own.Delete(made.value.volume().volume_id());
        }
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(600 + 450 * round));
    stop = true;
    KillAndRestart();
  }
  const auto rest = client().List();
  ASSERT_OK(rest);
  for (const v1::Volume& volume : rest.value) {
    if (volume.volume_id() != kept.volume_id()) {
      EXPECT_OK(client().Delete(volume.volume_id()));
    }
  }
  EXPECT_TRUE(Eventually([&] { return Left() == 64 * kMi; }, 120))
      << Lvs("lv_name,lv_tags") << quarryd().Log();
  EXPECT_OK(CheckPattern(TargetPath("kept"), 7, 32 << 20));
  End(kept, "kept");
  EXPECT_TRUE(IsEmptyStore());
}

TEST_F(ThinStoresTest, LegsOfAPulledDiskAreRebuiltWhileTheStoreIsInUse) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1", "4"));
  const v1::Volume volume = Make("used", 64 * kMi);
  Writer writer(Publish(volume, "used"), true, std::chrono::milliseconds(250));
  ASSERT_TRUE(Eventually([&] { return writer.turns() > 3; }));
  const std::string pool = Pool();
  const std::set<int> before = DisksOf(pool);
  ASSERT_GE(before.size(), 2U) << Lvs("lv_name,devices");
  const int lost = *before.begin();
  Pull(lost);
  EXPECT_TRUE(Eventually([&] { return !IsWell(volume); }, 60)) << ConditionOf(volume);
  printf("  the volume says: %s\n", ConditionOf(volume).c_str());
  EXPECT_TRUE(Eventually([&] { return IsWell(volume); }, 180)) << ConditionOf(volume) << quarryd().Log();
  EXPECT_FALSE(Lvs("lv_name,devices").find("unknown") != std::string::npos) << Lvs("lv_name,devices");
  EXPECT_GE(DisksOf(pool).size(), 2U) << Lvs("lv_name,devices");
  Return(lost);
  EXPECT_TRUE(Eventually([&] { return IsWell(volume); }, 60)) << ConditionOf(volume);
  EXPECT_OK(writer.StopAndCheck());
  // quarryd gave the disk up, so it is a stranger now.
  EXPECT_TRUE(Sh("sleep 2; wipefs -a -q " + DiskNode(lost) + " && vgextend --metadatasize 64m " + kGroup +
                 " " + DiskNode(lost))
                  .ok());
  End(volume, "used");
  EXPECT_TRUE(IsEmptyStore());
}

// Its data and metadata are moved, or rebuilt elsewhere, while a volume is written to. quarryd is killed amid
// the second one.
class EvacuatedStoreTest : public ThinStoresTest, public testing::WithParamInterface<const char*> {
 protected:
  static bool IsOn(const std::string& node) {
    return Sh("lvs -a --noheadings -o lv_name,devices vg | grep '" + Pool() + "_t' | grep -q '" + node + "('")
        .ok();
  }
  static bool IsMember(const std::string& node) {
    return Sh("pvs --noheadings -o pv_name -S vg_name=vg | grep -q '" + node + "$'").ok();
  }
  static std::string AnyDiskOfStore() {
    for (const std::string& node : DiskNodes()) {
      if (IsOn(node)) {
        return node;
      }
    }
    ADD_FAILURE() << Lvs("lv_name,devices");
    return "";
  }
};
INSTANTIATE_TEST_SUITE_P(Types, EvacuatedStoreTest, testing::Values("raid1", "linear"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_P(EvacuatedStoreTest, KeepsEveryByteOnOtherDisks) {
  // Slow enough to be seen at work.
  ASSERT_NO_FATAL_FAILURE(StartWith(GetParam(), "600", {{"QUARRY_REBUILD_RATE", "8MiB"}}));
  const v1::Volume kept = Make("kept", 8 * kMi);
  ASSERT_OK(WritePattern(Publish(kept, "kept"), 3, 8 << 20));
  const auto snapshot = client().Snapshot("nightly", kept.volume_id());
  ASSERT_OK(snapshot);
  ASSERT_OK(WritePattern(TargetPath("kept"), 4, 4 << 20));
  const v1::Volume used = Make("used", kSize);
  Writer writer(Publish(used, "used"), true, std::chrono::milliseconds(250));
  for (const std::string verb : {"evacuate", "replace"}) {
    SCOPED_TRACE(verb);
    const std::string leaving = AnyDiskOfStore();
    if (verb == "evacuate") {
      const Outcome done = Tool({"quarryctl", verb, leaving});
      EXPECT_TRUE(done.ok()) << done.out << done.err << quarryd().Log();
    } else {
      ASSERT_TRUE(Tool({"quarryctl", verb, leaving, "--no-wait"}).ok());
      const auto under_way = [] {
        return Sh("dmsetup ls | grep -q pvmove || dmsetup status --target raid | "
                  "awk '{split($8, part, \"/\"); if (part[1] != part[2]) busy = 1} END {exit !busy}'")
            .ok();
      };
      EXPECT_TRUE(Eventually(under_way, 60)) << quarryd().Log();
      KillAndRestart();
    }
    EXPECT_TRUE(Eventually([&] { return !IsMember(leaving); }, 240))
        << Lvs("lv_name,devices") << quarryd().Log();
    EXPECT_FALSE(IsOn(leaving)) << Lvs("lv_name,devices");
    EXPECT_TRUE(Eventually([&] { return IsWell(used); }, 120)) << ConditionOf(used);
    EXPECT_EQ(Lvs("lv_name").find("pvmove"), std::string::npos);
    EXPECT_TRUE(Sh("wipefs -a -q " + leaving + " && vgextend --metadatasize 64m vg " + leaving).ok());
  }
  EXPECT_OK(writer.StopAndCheck());
  EXPECT_OK(CheckPattern(TargetPath("kept"), 4, 4 << 20));
  VolumeSpec spec{"restored", TypeParameters("thin"), BlockCapability(), 8 * kMi};
  spec.snapshot = snapshot.value.snapshot().snapshot_id();
  const v1::Volume restored = MustCreate(spec);
  EXPECT_OK(CheckPattern(Publish(restored, "restored"), 3, 8 << 20));
  EXPECT_OK(client().DeleteSnapshot(spec.snapshot));
  End(restored, "restored");
  End(kept, "kept");
  End(used, "used");
  EXPECT_TRUE(IsEmptyStore());
}

TEST_F(ThinStoresTest, AStoreStartsWithoutADiskThatItCanDoWithout) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const v1::Volume volume = Make("kept", 32 * kMi);
  ASSERT_OK(WritePattern(Publish(volume, "kept"), 9, 32 << 20));
  EXPECT_OK(client().Unpublish(volume.volume_id(), TargetPath("kept")));
  EXPECT_OK(client().Unstage(volume.volume_id(), StagingPath("kept")));
  const int lost = *DisksOf(Pool()).begin();
  ASSERT_EQ(quarryd().Stop(), 0);
  ASSERT_TRUE(Tool({"vgchange", "-an", kGroup}).ok());
  Pull(lost);
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  // The disk may have writes that the other lacks: nobody has seen it fail.
  EXPECT_TRUE(Fails(client().Stage(volume, StagingPath("kept"), BlockCapability()),
                    grpc::StatusCode::FAILED_PRECONDITION, "is on a missing disk"));
  const std::string store = Trim(
      Sh("lvs --noheadings -o lv_tags vg/" + Pool() + " | tr ',' '\\n' | sed -n 's/.*quarry.id=//p'").out);
  const Outcome started = Tool({"quarryctl", "repair", store});
  EXPECT_TRUE(started.ok()) << started.out << started.err;
  EXPECT_OK(CheckPattern(Publish(volume, "kept"), 9, 32 << 20));
  // Who asks for repairs gives missing disks up, so its legs are rebuilt on other disks.
  EXPECT_TRUE(Eventually([&] { return IsWell(volume); }, 180)) << ConditionOf(volume) << quarryd().Log();
  EXPECT_OK(client().Unpublish(volume.volume_id(), TargetPath("kept")));
  EXPECT_OK(client().Unstage(volume.volume_id(), StagingPath("kept")));
  Return(lost);
  EXPECT_TRUE(Sh("sleep 2; wipefs -a -q " + DiskNode(lost) + " && vgextend --metadatasize 64m " + kGroup +
                 " " + DiskNode(lost))
                  .ok());
  EXPECT_TRUE(Eventually([&] {
    return client().Create({"late", TypeParameters("thin"), BlockCapability(), 4 * kMi}).ok();
  })) << quarryd().Log();
  for (const v1::Volume& one : client().List().value) {
    EXPECT_OK(client().Delete(one.volume_id()));
  }
  EXPECT_TRUE(IsEmptyStore());
}

nlohmann::json Asked(std::vector<std::string> command) {
  command.insert(command.begin(), "quarryctl");
  command.emplace_back("--json");
  const Outcome asked = Tool(command);
  EXPECT_TRUE(asked.ok()) << asked.out << asked.err;
  return nlohmann::json::parse(asked.out, nullptr, false);
}

// The value of a metric of the store, or -1.
double StoreMetric(const std::string& name) {
  httplib::Client http(kMetrics);
  http.set_address_family(AF_UNIX);
  const auto answer = http.Get("/metrics");
  const std::string line = "quarry_store_" + name + "{pool=\"main\",store=\"fast\"} ";
  for (const std::string& one : Lines(answer ? answer->body : std::string())) {
    if (one.starts_with(line)) {
      return std::stod(one.substr(line.size()));
    }
  }
  return -1;
}

// "used/total" of the kernel's status line: 0 for metadata (in blocks of 4 KiB), 1 for data (in chunks).
std::pair<int64_t, int64_t> KernelSays(const std::string& pool, int which) {
  const std::string line = Tool({"dmsetup", "status", "vg-" + pool + "-tpool"}).out;
  std::istringstream words(line);
  std::string word;
  std::vector<std::string> fractions;
  while (words >> word) {
    if (word.find('/') != std::string::npos) {
      fractions.push_back(word);
    }
  }
  EXPECT_GE(fractions.size(), 2U) << line;
  const std::string text = fractions.size() < 2 ? "0/0" : fractions.at(static_cast<size_t>(which));
  return {std::stoll(text), std::stoll(text.substr(text.find('/') + 1))};
}

// Of the volume with this name in the store, as `store show` says.
int64_t Shown(const nlohmann::json& store, const std::string& name, const std::string& what) {
  for (const auto& volume : store["volumes"]) {
    if (volume["name"] == name || volume["logical_volume"] == name) {
      return volume.contains(what) ? volume[what].get<int64_t>() : -1;
    }
  }
  return -2;
}

TEST_F(ThinStoresTest, WhatQuarryctlShowsIsWhatTheKernelAndLvmSay) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  constexpr int64_t kChunk = 64 << 10;
  // Without erasing: a snapshot made by hand would keep the volume when it is deleted.
  auto parameters = TypeParameters("thin");
  parameters["erase"] = "none";
  const v1::Volume one = MustCreate({"one", parameters, BlockCapability(), 40 * kMi});
  const v1::Volume two = MustCreate({"two", parameters, BlockCapability(), 16 * kMi});
  const std::string target = Publish(one, "one");
  ASSERT_OK(WritePattern(target, 1, 10 << 20));
  Sh("sync");
  const std::string pool = Pool();
  // The kernel's numbers are at most a second late.
  EXPECT_TRUE(Eventually([&] { return KernelSays(pool, 1).first == 10 * kMi / kChunk; }));
  const auto [data, chunks] = KernelSays(pool, 1);
  const auto [metadata, blocks] = KernelSays(pool, 0);

  const nlohmann::json list = Asked({"store", "list"});
  ASSERT_EQ(list.size(), 1U) << list;
  const nlohmann::json& store = list[0];
  EXPECT_EQ(store["name"], "fast");
  EXPECT_EQ(store["pool"], "main");
  EXPECT_EQ(store["mode"], "rw") << store;
  EXPECT_EQ(store["problem"], "");
  EXPECT_EQ(store["logical_volume"], pool);
  EXPECT_EQ(
      store["size_bytes"],
      std::stoll(Trim(
          Tool({"lvs", "--noheadings", "--nosuffix", "--units", "b", "-o", "lv_size", "vg/" + pool}).out)));
  EXPECT_EQ(store["size_bytes"], chunks * kChunk);
  EXPECT_EQ(store["chunk_bytes"], kChunk);
  EXPECT_EQ(store["promised_bytes"], 56 * kMi);
  EXPECT_EQ(store["free_bytes"], Left());
  EXPECT_EQ(store["use"]["data_bytes"], data * kChunk);
  EXPECT_EQ(store["use"]["metadata_bytes"], metadata * 4096);
  EXPECT_EQ(store["use"]["metadata_size_bytes"], blocks * 4096);
  EXPECT_EQ(store["legs"], 4);
  EXPECT_EQ(store["degraded_legs"], 0) << store;
  EXPECT_EQ(store["volumes"], 2);
  EXPECT_NEAR(std::stod(Trim(Lvs("data_percent", "vg/" + pool))), 100.0 * data / chunks, 0.01);
  EXPECT_NEAR(std::stod(Trim(Lvs("metadata_percent", "vg/" + pool))), 100.0 * metadata / blocks, 0.01);

  EXPECT_EQ(StoreMetric("healthy"), 1);
  EXPECT_EQ(StoreMetric("size_bytes"), static_cast<double>(chunks * kChunk));
  EXPECT_EQ(StoreMetric("promised_bytes"), static_cast<double>(56 * kMi));
  EXPECT_EQ(StoreMetric("free_bytes"), static_cast<double>(Left()));
  EXPECT_EQ(StoreMetric("data_used_bytes"), static_cast<double>(data * kChunk));
  EXPECT_EQ(StoreMetric("metadata_used_bytes"), static_cast<double>(metadata * 4096));
  EXPECT_EQ(StoreMetric("volumes"), 2);

  const nlohmann::json before = Asked({"store", "show", "fast", "--exclusive"});
  EXPECT_EQ(before["unknown"], "");
  EXPECT_EQ(Shown(before, "one", "mapped_bytes"), 10 * kMi);
  EXPECT_EQ(Shown(before, "one", "exclusive_bytes"), 10 * kMi);
  EXPECT_EQ(Shown(before, "two", "mapped_bytes"), 0) << "it was never active";
  EXPECT_NEAR(std::stod(Trim(Lvs("data_percent", "vg/" + LvOf(one)))), 100.0 * 10 / 40, 0.01);

  // A snapshot by hand shares all chunks, until the volume writes.
  ASSERT_TRUE(Tool({"lvcreate", "-s", "-n", "by_hand", "vg/" + LvOf(one)}).ok());
  ASSERT_OK(WritePattern(target, 2, 2 << 20));
  Sh("sync");
  const nlohmann::json after = Asked({"store", "show", "main/fast", "--exclusive"});
  EXPECT_EQ(after["unknown"], "");
  EXPECT_EQ(Shown(after, "one", "mapped_bytes"), 10 * kMi);
  EXPECT_EQ(Shown(after, "one", "exclusive_bytes"), 2 * kMi);
  EXPECT_EQ(Shown(after, "by_hand", "mapped_bytes"), 10 * kMi);
  EXPECT_EQ(Shown(after, "by_hand", "exclusive_bytes"), 2 * kMi);
  EXPECT_EQ(after["store"]["promised_bytes"], 96 * kMi) << "a snapshot counts with all of its size";
  const auto used = [&] { return KernelSays(pool, 1).first * kChunk; };
  EXPECT_TRUE(Eventually([&] { return used() == 12 * kMi; })) << used();
  ASSERT_TRUE(Tool({"lvremove", "-y", "vg/by_hand"}).ok());
  EXPECT_TRUE(Eventually([&] { return used() == 10 * kMi; })) << "what was exclusive came back: " << used();

  const Outcome checked = Tool({"quarryctl", "check"});
  EXPECT_EQ(checked.out.find("thin store"), std::string::npos) << checked.out;
  const std::string map = Sh("quarryctl --pool main=vg map --width 100").out;
  EXPECT_NE(map.find(", thin store\n"), std::string::npos) << map;
  EXPECT_EQ(map.find("foreign"), std::string::npos) << map;
  printf("%s%s%s", Tool({"quarryctl", "store", "list"}).out.c_str(),
         Tool({"quarryctl", "store", "show", "fast", "--exclusive"}).out.c_str(), map.c_str());
  EXPECT_OK(client().Delete(two.volume_id()));
  End(one, "one");
  EXPECT_TRUE(IsEmptyStore());
}

}  // namespace
}  // namespace quarry::vm
