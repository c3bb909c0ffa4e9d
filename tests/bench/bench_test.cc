// Tests the parts of the benchmarks whose mistakes would not show in a figure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/bench/lvm_times.h"
#include "tests/bench/multiply.h"
#include "tests/bench/processes.h"
#include "tests/bench/report.h"
#include "tests/bench/stall_meter.h"

namespace quarry::bench {
namespace {

using testing::HasSubstr;

TEST(Samples, MedianAndP99AreThoseOfTheSortedValues) {
  Samples samples;
  for (const double value : {4.0, 1.0, 3.0, 2.0}) {
    samples.Add(value);
  }
  EXPECT_DOUBLE_EQ(samples.Median(), 2.5);
  EXPECT_DOUBLE_EQ(samples.P99(), 4.0);
  samples.Add(100.0);
  EXPECT_DOUBLE_EQ(samples.Median(), 3.0);
}

TEST(Samples, AmongTwoHundredTheTwoLargestAreBeyondP99) {
  Samples samples;
  for (int i = 200; i > 0; --i) {
    samples.Add(i);
  }
  EXPECT_DOUBLE_EQ(samples.P99(), 198.0);
  EXPECT_DOUBLE_EQ(samples.Quantile(0.25), 50.0);
  EXPECT_DOUBLE_EQ(samples.Quantile(1), 200.0);
}

TEST(LvmTimes, AreTheSumsOfEachVerbAndSpreadOverTheCalls) {
  const LvmTimes before = ParseLvmTimes(
      "# TYPE quarry_lvm_command_duration_seconds histogram\n"
      "quarry_lvm_command_duration_seconds_count{verb=\"lvcreate\"} 1\n"
      "quarry_lvm_command_duration_seconds_sum{verb=\"lvcreate\"} 0.5\n"
      "quarry_lvm_command_duration_seconds_sum{verb=\"fullreport\"} 2\n"
      "quarry_rpc_duration_seconds_sum{verb=\"lvcreate\"} 7\n");
  EXPECT_EQ(before, (LvmTimes{{"lvcreate", 0.5}, {"fullreport", 2}}));
  const LvmTimes after = {{"lvcreate", 4.5}, {"fullreport", 2}, {"lvchange", 1}};
  EXPECT_EQ(PerCall(before, after, 20),
            (std::vector<std::pair<std::string, double>>{{"lvchange_ms", 50}, {"lvcreate_ms", 200}}));
  EXPECT_TRUE(ParseLvmTimes("").empty());
}

TEST(Finding, AFindingWithoutAPeerHasNoRatio) {
  Finding finding;
  finding.name = "P7.memory";
  finding.ours.Add(12.34567);
  EXPECT_THAT(ToJson(finding), HasSubstr(R"("ours":12.35,"peer":null)"));
  EXPECT_THAT(ToJson(finding), HasSubstr(R"("ratio":null)"));
}

TEST(Finding, AFindingWithoutAGoalIsNeitherMetNorMissed) {
  Finding finding;
  finding.met = true;
  EXPECT_THAT(ToJson(finding), HasSubstr(R"("goal":"","met":null)"));
  finding.goal = "ratio <= 1";
  EXPECT_THAT(ToJson(finding), HasSubstr(R"("met":true)"));
}

TEST(StallMeter, MeasuresTheWritesSinceBegin) {
  const std::string path = testing::TempDir() + "/stall_meter";
  std::ofstream(path) << std::string(1 << 20, 'x');
  StallMeter meter(path, 1 << 20);
  ASSERT_TRUE(meter.Longest().has_value());
  meter.Begin();
  const auto longest = meter.Longest();
  ASSERT_TRUE(longest.has_value()) << longest.error().message();
  EXPECT_GT(*longest, 0);
  std::filesystem::remove(path);
}

TEST(StallMeter, AWriteThatFailsIsReported) {
  StallMeter meter(testing::TempDir() + "/no such file", 4096);
  const auto longest = meter.Longest();
  ASSERT_FALSE(longest.has_value());
  EXPECT_EQ(longest.error().code(), Code::kNotFound);
}

constexpr char kBackup[] = R"(contents = "Text Format Volume Group"
vg {
	id = "VGVGVG-0000-0000-0000-0000-0000-000000"
	physical_volumes {
		pv0 {
			id = "PVPVPV-0000-0000-0000-0000-0000-000000"
			pe_count = 100	# 400 Megabytes
		}
	}
	logical_volumes {
		model {
			id = "LVLVLV-0000-0000-0000-0000-0000-000001"
			tags = ["quarry.id=main.model", "quarry.name=fill-00"]
			segment1 {
				extent_count = 3	# 12 Megabytes
				type = "raid1"
				raids = [
					"model_rmeta_0", "model_rimage_0"
				]
			}
		}
		model_rmeta_0 {
			id = "LVLVLV-0000-0000-0000-0000-0000-000002"
			segment1 {
				extent_count = 1	# 4 Megabytes
				stripes = [
					"pv0", 7
				]
			}
		}
		model_rimage_0 {
			id = "LVLVLV-0000-0000-0000-0000-0000-000003"
			segment1 {
				extent_count = 3	# 12 Megabytes
				stripes = [
					"pv0", 8
				]
			}
		}
		other {
			id = "LVLVLV-0000-0000-0000-0000-0000-000004"
			segment1 {
				extent_count = 2	# 8 Megabytes
				stripes = [
					"pv0", 20
				]
			}
		}
	}
}
)";

size_t Count(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

TEST(MultiplyVolumes, CopiesHaveNamesIdsAndExtentsOfTheirOwn) {
  const auto text = MultiplyVolumes(kBackup, {{"model", "fill-00"}}, 2);
  ASSERT_TRUE(text.has_value()) << text.error().message();
  EXPECT_EQ(Count(*text, "quarry.id=main."), 3U);
  EXPECT_EQ(Count(*text, "quarry.id=main.model\""), 1U);
  EXPECT_THAT(*text, HasSubstr("quarry.name=fill-00-copy-0"));
  EXPECT_THAT(*text, HasSubstr("quarry.name=fill-00-copy-1"));
  // Behind the last extent in use, which is another volume's. An image has three extents, its metadata one.
  for (const char* extent : {"\"pv0\", 22\n", "\"pv0\", 25\n", "\"pv0\", 26\n", "\"pv0\", 29\n"}) {
    EXPECT_EQ(Count(*text, extent), 1U) << extent;
  }
  std::set<std::string> ids;
  std::istringstream lines(*text);
  size_t count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\tid = ") != std::string::npos) {
      ids.insert(line.substr(line.find('"')));
      ++count;
    }
  }
  EXPECT_EQ(count, 2U + 4U + 2U * 3U);
  EXPECT_EQ(ids.size(), count);
}

TEST(MultiplyVolumes, ExistingVolumesStay) {
  const auto text = MultiplyVolumes(kBackup, {{"model", "fill-00"}}, 1);
  ASSERT_TRUE(text.has_value());
  const std::string before(kBackup);
  const size_t kept = before.rfind("\t}\n}");
  EXPECT_TRUE(text->starts_with(before.substr(0, kept)));
  EXPECT_TRUE(text->ends_with(before.substr(kept)));
}

TEST(MultiplyVolumes, AMissingModelIsNotFound) {
  const auto text = MultiplyVolumes(kBackup, {{"absent", "fill-00"}}, 1);
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().code(), Code::kNotFound);
}

TEST(ProcessTree, TheTreeContainsItsRoot) {
  const auto tree = ProcessTree(getpid());
  ASSERT_FALSE(tree.empty());
  EXPECT_EQ(tree.front(), getpid());
  const auto memory = MemoryOf(tree);
  ASSERT_TRUE(memory.has_value()) << memory.error().message();
  EXPECT_GT(memory->proportional, 100'000U);
  EXPECT_GT(memory->anonymous, 0U);
  EXPECT_LT(memory->anonymous, memory->proportional);
}

// Runs with the memory of the thread that made it, so it must use nothing that a sanitizer or the C library
// keeps there.
__attribute__((no_sanitize("address", "thread", "undefined"))) int Sleep(void*) {
  for (;;) {
    ::syscall(SYS_pause);
  }
}

TEST(MemoryOf, AnAddressSpaceThatTwoProcessesShareCountsOnce) {
  alignas(16) static std::array<char, 64 * 1024> stack;
  const pid_t child = ::clone(Sleep, stack.data() + stack.size(), CLONE_VM | SIGCHLD, nullptr);
  ASSERT_GT(child, 0);
  const auto one = MemoryOf({getpid()});
  const auto both = MemoryOf({getpid(), child});
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(one.has_value() && both.has_value());
  EXPECT_LT(both->proportional, one->proportional + one->proportional / 2);
}

}  // namespace
}  // namespace quarry::bench
