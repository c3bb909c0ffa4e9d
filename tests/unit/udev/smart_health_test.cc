// smartctl's JSON, from fixtures, and the process around it, as a shell script.
#include "udev/smart_health.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::udev {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::string ContentOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string Fixture(const std::string& name) {
  return ContentOf(std::string(QUARRY_FIXTURES) + "/smartctl/" + name + ".json");
}

DiskHealth HealthOf(const std::string& name, int exit_status = 0) {
  const auto parsed = ParseSmartctl(Fixture(name), exit_status);
  EXPECT_TRUE(parsed.has_value() && parsed->has_value()) << name;
  return parsed.has_value() && parsed->has_value() ? **parsed : DiskHealth{};
}

TEST(ParseSmartctl, ReadsTheSectorsAndTheTemperatureOfASataDisk) {
  const DiskHealth health = HealthOf("ata_disk");
  EXPECT_EQ(health.source, HealthSource::kAta);
  EXPECT_EQ(health.critical_warning, 0);
  EXPECT_EQ(health.reallocated_sectors, 3U);
  EXPECT_EQ(health.pending_sectors, 8U);
  EXPECT_EQ(health.uncorrectable_sectors, 2U);
  EXPECT_FALSE(health.grown_defects.has_value());
  EXPECT_TRUE(health.has_temperature);
  EXPECT_EQ(health.temperature, 36);
  EXPECT_FALSE(health.has_wear) << "it turns";
  EXPECT_EQ(health.failure, "");
}

TEST(ParseSmartctl, ASataDiskFailsOnlyByItsOverallStatus) {
  const DiskHealth health = HealthOf("ata_failed", 24);
  EXPECT_EQ(health.critical_warning, kReliabilityDegraded);
  EXPECT_EQ(health.failure, "its overall SMART status is FAILED: Raw_Read_Error_Rate, Reallocated_Sector_Ct");
  EXPECT_EQ(health.reallocated_sectors, 3912U);
  // An attribute below its threshold, and errors in the disk's logs.
  std::string passed = Fixture("ata_failed");
  passed.replace(passed.find("\"passed\": false"), 15, "\"passed\": true ");
  for (const int status : {16, 32, 64, 128, 0xf4}) {
    EXPECT_EQ((*ParseSmartctl(passed, status))->critical_warning, 0) << status;
  }
}

TEST(ParseSmartctl, ReadsTheWearOfASolidStateDisk) {
  const DiskHealth health = HealthOf("ata_ssd");
  EXPECT_TRUE(health.has_wear);
  EXPECT_EQ(health.percentage_used, 103U);
  std::string invalid = Fixture("ata_ssd");
  const size_t at = invalid.rfind("\"valid\": true");
  invalid.replace(at, 13, "\"valid\": false");
  EXPECT_FALSE((*ParseSmartctl(invalid, 0))->has_wear);
}

TEST(ParseSmartctl, ReadsASasDisk) {
  const DiskHealth health = HealthOf("scsi_disk");
  EXPECT_EQ(health.source, HealthSource::kScsi);
  EXPECT_EQ(health.grown_defects, 12U);
  EXPECT_EQ(health.percentage_used, 7U);
  EXPECT_EQ(health.temperature, 41);
  EXPECT_EQ(health.critical_warning, 0);
  EXPECT_FALSE(health.reallocated_sectors.has_value());
}

TEST(ParseSmartctl, ASasDiskFailsOnlyIfItPredictsThat) {
  const DiskHealth failing = HealthOf("scsi_failing", 8);
  EXPECT_EQ(failing.critical_warning, kReliabilityDegraded);
  EXPECT_THAT(failing.failure, HasSubstr("IMPENDING FAILURE"));
  const DiskHealth hot = HealthOf("scsi_hot", 8);
  EXPECT_EQ(hot.critical_warning, kTemperature);
  EXPECT_EQ(hot.failure, "");
}

// Qualifiers of the same code: the first is wear, which SSDs of one purchase reach together, the second a
// test.
TEST(ParseSmartctl, AWornSasDiskIsWornAndATestIsNothing) {
  const auto with = [](const std::string& qualifier) {
    const std::string text = std::regex_replace(Fixture("scsi_failing"), std::regex("\"ascq\": *[0-9]+"),
                                                "\"ascq\": " + qualifier);
    return **ParseSmartctl(text, 8);
  };
  const DiskHealth worn = with("115");
  EXPECT_EQ(worn.critical_warning, 0);
  EXPECT_EQ(worn.failure, "");
  EXPECT_TRUE(worn.has_wear);
  EXPECT_EQ(worn.percentage_used, 100U);
  EXPECT_EQ(with("255").critical_warning, 0);
  EXPECT_EQ(with("16").critical_warning, kReliabilityDegraded);
}

TEST(ParseSmartctl, NothingIsConcludedFromADiskWithoutSmart) {
  EXPECT_EQ(*ParseSmartctl(Fixture("scsi_without_smart"), 0), std::nullopt);
  EXPECT_EQ(*ParseSmartctl(R"({"smartctl":{"messages":[{"string":"Unknown USB bridge"}]}})", 1),
            std::nullopt);
  EXPECT_EQ(*ParseSmartctl(R"({"device":{"protocol":"NVMe"},"smart_status":{"passed":false}})", 8),
            std::nullopt);
}

TEST(ParseSmartctl, ASleepingOrSilentDiskIsAnError) {
  EXPECT_EQ(ParseSmartctl("{}", kAsleep).error().code(), Code::kUnavailable);
  const auto silent = ParseSmartctl(
      R"({"smartctl":{"messages":[{"string":"Smartctl open device: /dev/sda failed","severity":"error"}]}})",
      2);
  EXPECT_EQ(silent.error().code(), Code::kIo);
  EXPECT_EQ(silent.error().message(), "smartctl: Smartctl open device: /dev/sda failed");
  EXPECT_EQ(ParseSmartctl("smartctl: bad option", 1).error().code(), Code::kIo);
  EXPECT_EQ(ParseSmartctl("{", 0).error().code(), Code::kIo);
}

TEST(ParseSmartctl, FieldsOfAnotherTypeAreLeftOut) {
  const auto odd = ParseSmartctl(
      R"({"device":{"protocol":"ATA"},"smart_status":{"passed":true},"temperature":{"current":"hot"},
          "ata_smart_attributes":{"table":[7,{"id":5,"raw":{"value":-1}},{"id":"x"}]},
          "ata_device_statistics":{"pages":{"number":7}},"endurance_used":[1]})",
      0);
  ASSERT_TRUE(odd.has_value() && odd->has_value());
  EXPECT_FALSE((*odd)->has_temperature);
  EXPECT_FALSE((*odd)->has_wear);
  EXPECT_FALSE((*odd)->reallocated_sectors.has_value());
}

// A block device of this machine, called sda in a sysfs of the test's own.
class SmartHealthTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto& entry : fs::directory_iterator("/dev")) {
      struct stat status{};
      if (stat(entry.path().c_str(), &status) == 0 && S_ISBLK(status.st_mode)) {
        node_ = entry.path();
        device_ = status.st_rdev;
        break;
      }
    }
    if (node_.empty()) {
      node_ = folder_ + "/block";
      if (mknod(node_.c_str(), S_IFBLK | 0600, makedev(7, 250)) != 0) {
        GTEST_SKIP() << "there is no block device, and making one needs root";
      }
      device_ = makedev(7, 250);
    }
    Place("sda", "7");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Place(const std::string& name, const std::string& sequence, const std::string& partition = "") {
    fs::remove_all(folder_ + "/numbers");
    const std::string disk = folder_ + "/devices/" + name;
    fs::create_directories(disk + "/" + partition);
    fs::create_directories(folder_ + "/numbers");
    std::ofstream(disk + "/diskseq") << sequence << "\n";
    if (!partition.empty()) {
      std::ofstream(disk + "/" + partition + "/partition") << "1\n";
    }
    fs::create_directory_symlink(disk + "/" + partition, folder_ + "/numbers/" +
                                                             std::to_string(gnu_dev_major(device_)) + ":" +
                                                             std::to_string(gnu_dev_minor(device_)));
  }

  // A smartctl that notes its arguments.
  SmartHealth With(const std::string& body, milliseconds fresh = milliseconds(600000),
                   milliseconds limit = milliseconds(60000)) {
    const std::string program = folder_ + "/smartctl";
    std::ofstream(program) << "#!/bin/sh\necho \"$@\" >> " << folder_ << "/calls\n" << body << "\n";
    chmod(program.c_str(), 0755);
    return SmartHealth(
        {.program = program, .numbers = folder_ + "/numbers", .fresh = fresh, .time_limit = limit});
  }
  std::string Calls() const { return fs::exists(folder_ + "/calls") ? ContentOf(folder_ + "/calls") : ""; }
  static std::string Print(const std::string& fixture) {
    return "cat " + std::string(QUARRY_FIXTURES) + "/smartctl/" + fixture + ".json";
  }

  std::string folder_ = [] {
    std::string path = "/tmp/quarry-smart-XXXXXX";
    return std::string(mkdtemp(path.data()));
  }();
  std::string node_;
  dev_t device_ = 0;
};

TEST_F(SmartHealthTest, AsksForTheWholeDiskWithoutWakingItAndReusesTheAnswer) {
  Place("sda", "7", "sda1");
  SmartHealth health = With(Print("ata_disk"));
  const auto read = health.Read(node_);
  ASSERT_TRUE(read.has_value() && read->has_value());
  EXPECT_EQ((*read)->reallocated_sectors, 3U);
  EXPECT_EQ(Calls(), "--json -n standby,255 -i -H -A -l ssd /dev/sda\n");
  EXPECT_TRUE(health.Read(node_)->has_value());
  EXPECT_EQ(std::ranges::count(Calls(), '\n'), 1) << "the answer is fresh";
  Place("sda", "8");
  EXPECT_TRUE(health.Read(node_)->has_value());
  EXPECT_EQ(std::ranges::count(Calls(), '\n'), 2) << "another disk has the name";
}

TEST_F(SmartHealthTest, AFailedDiskIsReadAlthoughSmartctlFails) {
  SmartHealth health = With(Print("ata_failed") + "; exit 24");
  EXPECT_EQ((*health.Read(node_))->critical_warning, kReliabilityDegraded);
}

TEST_F(SmartHealthTest, OtherKindsOfDisksAreNotAsked) {
  Place("vda", "1");
  SmartHealth health = With(Print("ata_disk"));
  EXPECT_EQ(*health.Read(node_), std::nullopt);
  EXPECT_EQ(*health.Read("/dev/null"), std::nullopt);
  EXPECT_FALSE(health.Read(folder_ + "/nothing").has_value());
  EXPECT_EQ(Calls(), "");
}

TEST_F(SmartHealthTest, ASilentDiskIsGivenUpAtTheLimitAndNamed) {
  SmartHealth health = With("exec sleep 1000", milliseconds(600000), milliseconds(200));
  const auto read = health.Read(node_);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code(), Code::kIo);
  EXPECT_THAT(read.error().message(), HasSubstr("asking /dev/sda for its health"));
}

TEST_F(SmartHealthTest, ASleepingDiskIsNamed) {
  SmartHealth health = With("exit 255");
  EXPECT_THAT(health.Read(node_).error().message(),
              HasSubstr("asking /dev/sda for its health: the disk sleeps"));
}

}  // namespace
}  // namespace quarry::udev
