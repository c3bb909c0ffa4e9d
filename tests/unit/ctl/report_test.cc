#include "ctl/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>

#include "ctl/node_facts.h"

namespace quarry::ctl {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

Result<std::string> Text(const std::string& text) {
  return text;
}

TEST(Report, EveryPartIsCollectedInItsPlace) {
  const auto parts = CollectReport({{"a", milliseconds(1000), [](const Call&) { return Text("first\n"); }},
                                    {"b/c", milliseconds(1000), [](const Call&) { return Text("second"); }}});
  ASSERT_THAT(parts, SizeIs(2));
  EXPECT_EQ(parts[0].name, "a");
  EXPECT_EQ(parts[0].text, "first\n");
  EXPECT_EQ(parts[1].text, "second");
}

TEST(Report, AFailedPartDoesNotEndTheReport) {
  const auto parts =
      CollectReport({{"a", milliseconds(1000),
                      [](const Call&) -> Result<std::string> { return Error(Code::kIo, "no token=x"); }},
                     {"b", milliseconds(1000),
                      [](const Call&) -> Result<std::string> { throw std::runtime_error("thrown"); }},
                     {"c", milliseconds(1000), [](const Call&) { return Text("there"); }}});
  EXPECT_EQ(parts[0].problem, "no token=<removed>");
  EXPECT_EQ(parts[1].problem, "thrown");
  EXPECT_EQ(parts[2].text, "there");
  EXPECT_THAT(ReportContents(parts), AllOf(HasSubstr("missing: thrown"), HasSubstr("5 bytes")));
}

TEST(Report, SecretsAreRemovedFromEveryPart) {
  const auto parts =
      CollectReport({{"a", milliseconds(1000), [](const Call&) { return Text("x password=hunter2\n"); }}});
  EXPECT_EQ(parts[0].text, "x password=<removed>\n");
}

TEST(Report, APartThatHangsIsLeftAlone) {
  const auto forever = std::make_shared<std::promise<void>>();
  const auto parts = CollectReport({{"hangs", milliseconds(1),
                                     [forever](const Call&) {
                                       forever->get_future().wait();
                                       return Text("late");
                                     }},
                                    {"ends", milliseconds(1), [](const Call&) { return Text("there"); }}},
                                   milliseconds(200));
  EXPECT_THAT(parts[0].problem, HasSubstr("did not end"));
  EXPECT_EQ(parts[1].text, "there");
  forever->set_value();
}

TEST(Report, EachPartIsAFileAndTheContentsNameAll) {
  std::string pattern = (fs::temp_directory_path() / "quarry-report-test-XXXXXX").string();
  const std::string folder = mkdtemp(pattern.data());
  const std::vector<ReportedPart> parts = {{"lvm/a.txt", "text", "", milliseconds(3)},
                                           {"b", "", "no such tool", milliseconds(4)}};
  ASSERT_TRUE(WriteReport(*AbsolutePath::Parse(folder), parts).has_value());
  std::ifstream in(folder + "/lvm/a.txt");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "text");
  EXPECT_TRUE(fs::exists(folder + "/CONTENTS"));
  EXPECT_FALSE(fs::exists(folder + "/b"));
  EXPECT_FALSE(WriteReport(*AbsolutePath::Parse(folder + "/CONTENTS"), parts).has_value());
  fs::remove_all(folder);
}

TEST(StuckTasks, TasksInUninterruptibleSleepAreNamedWithTheirPlace) {
  std::string pattern = (fs::temp_directory_path() / "quarry-tasks-XXXXXX").string();
  const std::string proc = mkdtemp(pattern.data());
  const auto task = [&](const std::string& pid, const std::string& id, const std::string& state) {
    const std::string place = proc + "/" + pid + "/task/" + id;
    fs::create_directories(place);
    std::ofstream(place + "/stat") << id << " (a) D b) " << state << " 1 2\n";
    std::ofstream(place + "/comm") << "lvm\n";
    std::ofstream(place + "/wchan") << "io_schedule";
    std::ofstream(place + "/stack") << "[<0>] io_schedule\n";
  };
  task("7", "7", "S");
  fs::create_directories(proc + "/self");
  EXPECT_EQ(StuckTasks(proc), "no task is in uninterruptible sleep\n");
  task("7", "8", "D");
  EXPECT_THAT(StuckTasks(proc),
              AllOf(HasSubstr("pid 7 task 8 (lvm), waits in io_schedule\n[<0>] io_schedule\n"),
                    Not(HasSubstr("task 7"))));
  fs::remove_all(proc);
}

}  // namespace
}  // namespace quarry::ctl
