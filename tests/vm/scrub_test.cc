// Scrubs find legs that differ while volumes are in use; the difference is reported and repaired. An aborted
// scrub is not counted. Needs six disks.
#include <array>
#include <chrono>
#include <filesystem>
#include <thread>

#include <nlohmann/json.hpp>

#include "tests/vm/disks_under_load.h"

namespace quarry::vm {
namespace {

using nlohmann::json;
using std::chrono::duration;
using std::chrono::steady_clock;

class ScrubTest : public DisksUnderLoad {
 protected:
  struct Told {
    int exit_status;
    json rows;
  };
  Told Scrub(std::vector<std::string> words) {
    words.insert(words.begin(), {"quarryctl", "scrub", "--json", "--endpoint", kAdminEndpoint});
    const Outcome outcome = Tool(words);
    Told told{outcome.status, json::parse(outcome.out, nullptr, false)};
    EXPECT_TRUE(told.rows.is_array()) << outcome.out << outcome.err;
    return told;
  }
  static json RowOf(const Told& told, const v1::Volume& volume) {
    for (const json& row : told.rows) {
      if (row.value("volume_id", "") == volume.volume_id()) {
        return row;
      }
    }
    ADD_FAILURE() << "the volume has no row in " << told.rows.dump();
    return json::object();
  }
  // Changes bytes of one leg behind the kernel's back, where the writer does not write.
  static void Damage(const Used& used, int leg) {
    const std::string device =
        "/dev/mapper/" + std::string(kGroup) + "-" + LvOf(used.volume) + "_rimage_" + std::to_string(leg);
    const uint64_t blocks = std::stoull(Sh("blockdev --getsize64 " + device).out) / 65536;
    const Outcome done = Sh("head -c 65536 /dev/urandom | dd of=" + device + " bs=64k iflag=fullblock " +
                            "oflag=direct conv=notrunc seek=" + std::to_string(blocks / 4 * 3));
    ASSERT_TRUE(done.ok()) << done.err;
  }
  static std::string StateOf(const v1::Volume& volume, const char* key) {
    const Outcome told = Tool({"quarryctl", "status", "--json", "--endpoint", kAdminEndpoint});
    const json status = json::parse(told.out, nullptr, false);
    for (const json& pool : status.value("pools", json::array())) {
      for (const json& one : pool["volumes"]) {
        if (one["volume_id"] == volume.volume_id()) {
          return one.contains(key) ? one[key].dump() : "";
        }
      }
    }
    return "no such volume";
  }
  static bool IsBeingCompared(const v1::Volume& volume) {
    return StateOf(volume, "detail").find("being checked") != std::string::npos;
  }
};

// Each pair has a type with copies and a type with parity.
using TwoTypes = std::array<const char*, 2>;
class ScrubTypesTest : public ScrubTest, public testing::WithParamInterface<TwoTypes> {};
INSTANTIATE_TEST_SUITE_P(Of, ScrubTypesTest,
                         testing::Values(TwoTypes{"raid1", "raid5"}, TwoTypes{"raid10", "raid6"}),
                         [](const auto& test) { return std::string(test.param[0]) + "_" + test.param[1]; });

TEST_P(ScrubTypesTest, DifferencesAreFoundReportedAndRepairedUnderLoad) {
  Start("600");
  for (const char* type : GetParam()) {
    Use(type);
  }
  ASSERT_FALSE(HasFailure());
  WaitForTurns(2);
  ASSERT_TRUE(Eventually([&] {
    return std::ranges::all_of(used_, [](const Used& used) {
      return Trim(Tool({"lvs", "--noheadings", "-o", "sync_percent",
                        std::string(kGroup) + "/" + LvOf(used.volume)})
                      .out) == "100.00";
    });
  }));
  const Told clean = Scrub({});
  EXPECT_EQ(clean.exit_status, 0) << clean.rows.dump();
  for (const Used& used : used_) {
    EXPECT_EQ(RowOf(clean, used.volume).value("mismatched_bytes", -1), 0) << used.type;
    Damage(used, 1);
  }
  const Told damaged = Scrub({});
  EXPECT_EQ(damaged.exit_status, 1);
  for (const Used& used : used_) {
    EXPECT_GT(RowOf(damaged, used.volume).value("mismatched_bytes", 0), 0) << used.type;
    const bool parity = used.type == "raid5" || used.type == "raid6";
    EXPECT_EQ(IsWell(used.volume), !parity) << used.type << ": " << ConditionOf(used.volume);
  }
  KillAndRestart();
  EXPECT_NE(ConditionOf(used_[1].volume).find("quarryctl scrub --repair"), std::string::npos)
      << ConditionOf(used_[1].volume);

  EXPECT_EQ(Scrub({"--repair"}).exit_status, 0);
  const Told repaired = Scrub({});
  EXPECT_EQ(repaired.exit_status, 0) << repaired.rows.dump();
  EXPECT_TRUE(AllWell()) << Conditions();
  EndAll();
}

TEST_F(ScrubTest, AnAbortedScrubIsNotCountedAndTheRateIsKept) {
  QuarrydOptions options;
  options.arguments = {"--repair-delay=1", "--rebuild-rate=1MiB"};
  StartQuarryd(options);
  for (const char* type : {"raid1", "raid5"}) {
    Use(type);
  }
  ASSERT_FALSE(HasFailure());
  const Used& mirror = used_.front();
  const Used& parity = used_.back();
  const auto synced = [&](const Used& used) {
    return Trim(Tool({"lvs", "--noheadings", "-o", "sync_percent",
                      std::string(kGroup) + "/" + LvOf(used.volume)})
                    .out) == "100.00";
  };
  ASSERT_TRUE(Eventually([&] { return synced(mirror) && synced(parity); }, 120));

  const auto begun = steady_clock::now();
  EXPECT_EQ(Scrub({mirror.volume.volume_id()}).exit_status, 0);
  const double took = duration<double>(steady_clock::now() - begun).count();
  printf("  %lld MiB of each leg scrubbed in %.1f s, at 1 MiB/s at most\n",
         static_cast<long long>(kSize / kMi), took);
  EXPECT_GE(took, static_cast<double>(kSize / kMi) / 2) << "the scrub was much faster than its rate";
  const std::string before = StateOf(mirror.volume, "scrubbed");
  EXPECT_NE(before, "");

  // Growth loads new tables, and the kernel forgets its scrub.
  EXPECT_EQ(Scrub({"--no-wait", mirror.volume.volume_id()}).exit_status, 0);
  ASSERT_TRUE(Eventually([&] { return IsBeingCompared(mirror.volume); }));
  const auto grown = client().Expand(mirror.volume.volume_id(), 2 * kSize);
  EXPECT_OK(grown);
  // quarryd is killed during a scrub, and the next process records it.
  EXPECT_EQ(Scrub({"--no-wait", parity.volume.volume_id()}).exit_status, 0);
  ASSERT_TRUE(Eventually([&] { return IsBeingCompared(parity.volume); }, 120));
  quarryd().Kill();
  StartQuarryd(options);
  EXPECT_TRUE(Eventually([&] { return !StateOf(parity.volume, "scrubbed").empty(); }, 120)) << Conditions();

  // A leg fails and is rebuilt, and the scrub is not counted.
  const std::string known = StateOf(parity.volume, "scrubbed");
  EXPECT_EQ(Scrub({"--no-wait", parity.volume.volume_id()}).exit_status, 0);
  ASSERT_TRUE(Eventually([&] { return IsBeingCompared(parity.volume); }, 120));
  const int lost = NumberOf(*group().LegDevices(LvOf(parity.volume))->front().begin());
  Pull(lost);
  EXPECT_TRUE(Eventually([&] { return !IsWell(parity.volume); }));
  EXPECT_TRUE(Eventually([&] { return AllWell(); }, 240)) << Conditions();
  EXPECT_EQ(StateOf(parity.volume, "scrubbed"), known);
  EndAll();
  Return(lost);
  ASSERT_TRUE(Sh("sleep 2; wipefs -a -q " + DiskNode(lost) + " && vgextend --metadatasize 64m " + kGroup +
                 " " + DiskNode(lost))
                  .ok());
}

}  // namespace
}  // namespace quarry::vm
