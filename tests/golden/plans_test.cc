// Compares the steps of each case with its file in plans/. After an intended change run this program with
// QUARRY_GOLDEN_UPDATE=1 in its environment, and review what it wrote (git diff).
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/golden/plan_world.h"

namespace quarry::engine {
namespace {

namespace fs = std::filesystem;

const fs::path kPlans = QUARRY_PLANS;

bool IsUpdate() {
  const char* const value = std::getenv("QUARRY_GOLDEN_UPDATE");
  return value != nullptr && std::string_view(value) == "1";
}

constexpr std::string_view kRemedy =
    "If the change is intended, run golden_plans_test with QUARRY_GOLDEN_UPDATE=1 and review the difference.";

std::vector<PlanCase> AllCases() {
  std::vector<PlanCase> out;
  for (const auto& cases : {VolumeCases(), NodeCases(), UpkeepCases()}) {
    out.insert(out.end(), cases.begin(), cases.end());
  }
  return out;
}

class GoldenPlanTest : public PlanWorld, public testing::WithParamInterface<PlanCase> {};

TEST_P(GoldenPlanTest, ThePlanIsTheOneInItsFile) {
  const fs::path file = kPlans / (GetParam().name + ".txt");
  GetParam().run(*this);
  ASSERT_FALSE(HasFailure()) << "the state of the case could not be made";
  const std::string page = Page(GetParam());
  if (IsUpdate()) {
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out << page;
    out.close();
    ASSERT_TRUE(out.good()) << "cannot write " << file;
    return;
  }
  std::ifstream in(file, std::ios::binary);
  ASSERT_TRUE(in.is_open()) << "no file " << file << ". " << kRemedy;
  const std::string golden(std::istreambuf_iterator<char>(in), {});
  EXPECT_TRUE(page == golden) << file << " has\n\n"
                              << golden << "\nand the plan is now\n\n"
                              << page << "\n"
                              << kRemedy;
}

INSTANTIATE_TEST_SUITE_P(Plans, GoldenPlanTest, testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

TEST(GoldenPlanFilesTest, EveryFileHasOneCase) {
  std::set<std::string> names;
  for (const PlanCase& one : AllCases()) {
    EXPECT_TRUE(names.insert(one.name).second) << "two cases have the name " << one.name;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(kPlans)) {
    EXPECT_TRUE(entry.path().extension() == ".txt" && names.contains(entry.path().stem().string()))
        << entry.path() << " has no case: remove the file";
  }
}

}  // namespace
}  // namespace quarry::engine
