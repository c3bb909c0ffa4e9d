// How an administrator hears of a pulled disk: by the program of --on-change and by `quarryctl check`. Both
// report the end as well. Needs three disks.
#include <sys/stat.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/vm/disks_under_load.h"

namespace quarry::vm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kHook[] = "/run/quarry-test/hook";
constexpr char kEvents[] = "/run/quarry-test/events";

class ToldTest : public DisksUnderLoad {
 protected:
  void StartWithHook() {
    std::filesystem::create_directories("/run/quarry-test");
    std::filesystem::remove(kEvents);
    std::ofstream(kHook) << "#!/bin/sh\ncat >> " << kEvents << "\n";
    ASSERT_EQ(chmod(kHook, 0700), 0);
    QuarrydOptions options;
    options.arguments = {"--repair-delay=" + std::to_string(kDelay), std::string("--on-change=") + kHook};
    StartQuarryd(options);
  }

  // "volume raid1: healthy -> degraded", in the order in which they were told.
  static std::vector<std::string> Events() {
    std::vector<std::string> out;
    std::ifstream in(kEvents);
    for (std::string line; std::getline(in, line);) {
      const auto event = nlohmann::json::parse(line);
      const std::string kind = event["kind"];
      out.push_back(kind + " " + (kind == "disk" ? "" : event["name"].get<std::string>() + " ") +
                    event["before"].get<std::string>() + " -> " + event["state"].get<std::string>());
    }
    return out;
  }
  static bool WasTold(const std::string& event) {
    const auto events = Events();
    return std::ranges::find(events, event) != events.end();
  }
};

TEST_F(ToldTest, APulledDiskAndTheRepairAreToldAndChecked) {
  StartWithHook();
  Use("raid1");
  ASSERT_FALSE(HasFailure());
  Outcome check;
  const auto checked = [&](int status) {
    check = Tool({"quarryctl", "check"});
    return check.status == status;
  };
  ASSERT_TRUE(Eventually([&] { return checked(0); })) << check.out << check.err;
  EXPECT_THAT(check.out, AllOf(testing::StartsWith("QUARRY OK - 1 pool, 3 disks, 1 volume; "),
                               HasSubstr(" main_disks=3;"), HasSubstr(" main_volumes_degraded=0;")));
  EXPECT_THAT(Events(), testing::IsEmpty());

  const int lost = NumberOf(*DevicesOf(used_.front()).begin());
  Pull(lost);
  EXPECT_TRUE(Eventually([&] { return checked(2); })) << check.out << check.err;
  EXPECT_THAT(check.out, AllOf(testing::StartsWith("QUARRY CRITICAL - disk "), HasSubstr("missing")));
  EXPECT_TRUE(Eventually([&] { return WasTold("disk ok -> missing"); })) << Conditions();
  EXPECT_TRUE(Eventually([&] { return WasTold("volume raid1 healthy -> degraded"); })) << Conditions();

  EXPECT_TRUE(Eventually([&] { return WasTold("disk missing -> removed"); }, 180)) << Conditions();
  EXPECT_TRUE(Eventually(
      [&] {
        const auto events = Events();
        return std::ranges::any_of(events, [](const std::string& event) {
          return event.starts_with("volume raid1 ") && event.ends_with(" -> healthy");
        });
      },
      180))
      << Conditions();
  EXPECT_TRUE(Eventually([&] { return checked(0); })) << check.out << check.err;
  EXPECT_THAT(check.out, HasSubstr(" main_disks=2;"));
  for (const std::string& event : Events()) {
    printf("  told: %s\n", event.c_str());
  }

  EXPECT_EQ(quarryd().Stop(), 0);
  check = Tool({"quarryctl", "check"});
  EXPECT_EQ(check.status, 2) << check.out;
  EXPECT_THAT(check.out, HasSubstr("no answer from quarryd"));
  StartWithHook();
  EndAll();
  Return(lost);
  EXPECT_TRUE(
      Sh("wipefs -a -q " + DiskNode(lost) + " && vgextend --metadatasize 64m vg " + DiskNode(lost)).ok());
}

}  // namespace
}  // namespace quarry::vm
