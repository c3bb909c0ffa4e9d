// What quarryctl tells about a node, compared with what LVM and the kernel really have: who holds a volume,
// and which volumes the orchestrator does not know.
#include <fcntl.h>
#include <signal.h>

#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/unique_fd.h"
#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// A command of quarryctl that reads the groups itself.
Outcome Ctl(std::vector<std::string> words) {
  words.insert(words.begin(), {"quarryctl", "--pool", std::string(kPool) + "=" + kGroup});
  return Tool(words);
}

class InquiryTest : public VmTest {
 protected:
  // Starts a shell script that goes on in the background. Returns its pid.
  pid_t Start(const std::string& script) {
    const Outcome started = Sh("setsid " + script + " </dev/null >/dev/null 2>&1 & echo $!");
    EXPECT_TRUE(started.ok()) << started.err;
    started_.push_back(std::stoi(Trim(started.out)));
    return started_.back();
  }
  void End() {
    for (const pid_t pid : started_) {
      kill(-pid, SIGKILL);
    }
    started_.clear();
  }
  void TearDown() override {
    End();
    VmTest::TearDown();
  }
  static bool Eventually(const std::string& volume, const std::string& words) {
    return vm::Eventually([&] { return Ctl({"who", volume}).out.find(words) != std::string::npos; });
  }

  std::vector<pid_t> started_;
};

TEST_F(InquiryTest, WhoNamesTheMountsAndProcessesOfAFileSystem) {
  const v1::Volume volume = MustCreate({"db", TypeParameters("raid1"), MountCapability("ext4"), 64 * kMi});
  const std::string staging = StagingPath("db");
  const std::string target = TargetPath("db");
  EXPECT_THAT(Ctl({"who", "db"}).out, HasSubstr("nothing holds it"));
  ASSERT_OK(client().Stage(volume, staging, MountCapability("ext4")));
  ASSERT_OK(client().Publish(volume, staging, target, MountCapability("ext4")));
  const pid_t inside = Start(fmt::format("unshare -m sh -c 'cd {} && exec sleep 600'", target));
  ASSERT_TRUE(Eventually("db", "works in " + target)) << Ctl({"who", "db"}).out;
  const Outcome text = Ctl({"who", "db"});
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.out,
              AllOf(HasSubstr(volume.volume_id()), HasSubstr(" at " + staging + " (ext4)\n"),
                    HasSubstr(" at " + target + " (ext4)\n"), HasSubstr("in the mount namespace of pid"),
                    HasSubstr(fmt::format("process  pid {} (sleep), user root", inside))));
  const auto page = json::parse(Ctl({"--json", "who", volume.volume_id()}).out);
  ASSERT_EQ(page["processes"].size(), 1U) << page;
  EXPECT_EQ(page["processes"][0]["pid"], inside);
  EXPECT_EQ(page["processes"][0]["command"], "sleep 600");
  EXPECT_EQ(page["mounts"].size(), 4U) << page;  // two in each of two namespaces
  // It answers without quarryd too.
  quarryd().Kill();
  EXPECT_THAT(Ctl({"who", "db"}).out, HasSubstr("works in " + target));
  StartQuarryd();
  End();
  EXPECT_OK(client().Unpublish(volume.volume_id(), target));
  EXPECT_OK(client().Unstage(volume.volume_id(), staging));
  EXPECT_THAT(Ctl({"who", "db"}).out, HasSubstr("nothing holds it"));
  EXPECT_OK(client().Delete(volume.volume_id()));
}

TEST_F(InquiryTest, WhoNamesOpenersOfARawVolumeAndDevicesOnTopOfIt) {
  const v1::Volume volume = MustCreate({"raw", TypeParameters("linear"), BlockCapability(), 64 * kMi});
  const std::string staging = StagingPath("raw");
  const std::string target = TargetPath("raw");
  ASSERT_OK(client().Stage(volume, staging, BlockCapability()));
  ASSERT_OK(client().Publish(volume, staging, target, BlockCapability()));
  const std::string node = NodeOf(volume);
  const Outcome top = Sh("dmsetup create top --table '0 8192 linear " + node + " 0'");
  ASSERT_TRUE(top.ok()) << top.err;
  const pid_t opener = Start("sh -c 'exec sleep 600 3<" + target + "'");
  ASSERT_TRUE(Eventually("raw", fmt::format("pid {} (sleep)", opener))) << Ctl({"who", "raw"}).out;
  EXPECT_THAT(Ctl({"who", "raw"}).out, AllOf(HasSubstr(" at " + target + " (device node)\n"),
                                             ContainsRegex("device   dm-[0-9]+ \\(top\\) on dm-"),
                                             ContainsRegex("has .* open \\(fd 3\\)"),
                                             HasSubstr(fmt::format("pid {} (quarryd)", quarryd().pid()))));
  End();
  EXPECT_TRUE(Tool({"dmsetup", "remove", "top"}).ok());
  EXPECT_OK(client().Unpublish(volume.volume_id(), target));
  EXPECT_OK(client().Unstage(volume.volume_id(), staging));
  EXPECT_OK(client().Delete(volume.volume_id()));
  EXPECT_EQ(Ctl({"who", "of-no-volume"}).status, 1);
}

// Unpacks a report and returns its folder.
std::string Unpack(const std::string& archive) {
  const std::string folder = "/run/quarry-test/report";
  Tool({"rm", "-rf", folder});
  Tool({"mkdir", "-p", folder});
  const Outcome done =
      Tool({"tar", "--extract", "--file", archive, "--directory", folder, "--strip-components=1"});
  EXPECT_TRUE(done.ok()) << done.err;
  return folder;
}

TEST_F(InquiryTest, AReportHasTheStateOfTheNodeWithAndWithoutQuarryd) {
  const v1::Volume volume = MustCreate({"reported", TypeParameters("raid1"), MountCapability(), 32 * kMi});
  const std::string config = "/run/quarry-test/report.toml";
  std::ofstream(config)
      << "# a comment with a password\nlog-level = \"info\"\n[[pool]]\nname = \"main\"\nvg = \"vg\"\n";
  const auto report = [&](const std::string& file) {
    return Tool({"quarryctl", "--config", config, "report", file}, std::chrono::seconds(200));
  };
  const auto part = [](const std::string& folder, const std::string& name) {
    return Tool({"cat", folder + "/" + name}).out;
  };

  const Outcome made = report("/run/quarry-test/one.tar.gz");
  ASSERT_EQ(made.status, 0) << made.err;
  printf("%s", made.out.c_str());
  const std::string folder = Unpack("/run/quarry-test/one.tar.gz");
  printf("%s", part(folder, "CONTENTS").c_str());
  EXPECT_THAT(part(folder, "quarry/status.txt"), HasSubstr("reported"));
  EXPECT_THAT(part(folder, "quarry/devices.json"), HasSubstr("pv_uuid"));
  EXPECT_THAT(part(folder, "quarry/map.txt"), HasSubstr("vg"));
  EXPECT_THAT(part(folder, "quarry/configuration.toml"),
              AllOf(HasSubstr("vg = \"vg\""), Not(HasSubstr("password"))));
  EXPECT_TRUE(json::parse(part(folder, "lvm/fullreport.json"))["report"].is_array());
  EXPECT_THAT(part(folder, "lvm/lvs.txt"), HasSubstr(LvOf(volume)));
  EXPECT_THAT(part(folder, "lvm/groups.txt"), AllOf(HasSubstr("# vg.vg"), HasSubstr(LvOf(volume))));
  EXPECT_THAT(part(folder, "device-mapper/table.txt"), HasSubstr("raid"));
  EXPECT_TRUE(json::parse(part(folder, "kernel/lsblk.json")).contains("blockdevices"));
  EXPECT_THAT(part(folder, "kernel/log.txt"), HasSubstr("Linux version"));
  EXPECT_THAT(part(folder, "kernel/stuck_tasks.txt"), HasSubstr("task"));
  EXPECT_THAT(part(folder, "kernel/proc/mounts"), HasSubstr(" / "));
  EXPECT_EQ(Tool({"stat", "-c", "%a", "/run/quarry-test/one.tar.gz"}).out, "600\n");
  EXPECT_EQ(report("/run/quarry-test/one.tar.gz").status, 1) << "an existing file was replaced";

  quarryd().Kill();
  ASSERT_EQ(report("/run/quarry-test/two.tar.gz").status, 0);
  const std::string without = Unpack("/run/quarry-test/two.tar.gz");
  EXPECT_THAT(part(without, "CONTENTS"), ContainsRegex("quarry/status.txt +[0-9]+ ms  missing: .*quarryd"));
  EXPECT_THAT(part(without, "quarry/map.txt"), HasSubstr("vg"));
  EXPECT_EQ(Sh("ls -d /tmp/quarry-report-* 2>/dev/null").out, "") << "a folder was left behind";
  StartQuarryd();
  EXPECT_OK(client().Delete(volume.volume_id()));
}

TEST_F(InquiryTest, ACheckBesideARunningQuarrydShowsItsPools) {
  const std::string seqno = Trim(Tool({"vgs", "--noheadings", "-o", "vg_seqno", kGroup}).out);
  const auto check = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"quarryd", "--check", "--endpoint", "unix:///run/quarry-test/csi.sock"};
    words.insert(words.end(), more.begin(), more.end());
    return Tool(words);
  };
  const Outcome fine = check({"--pool", "main=vg"});
  EXPECT_EQ(fine.status, 0) << fine.out << fine.err;
  EXPECT_THAT(fine.out,
              AllOf(HasSubstr("pool main: 2 disks, 0 logical volumes"), HasSubstr("no problems\n")));
  const Outcome bad = check(
      {"--pool", "main=vg", "--pool", "other=nowhere", "--pool", "third=new,device=/dev/disk/by-id/none-*"});
  EXPECT_EQ(bad.status, 1);
  EXPECT_THAT(bad.out,
              AllOf(HasSubstr("problem: pool other: "), HasSubstr("nowhere"),
                    HasSubstr("problem: pool third: there is no volume group new"), HasSubstr("2 problems")))
      << bad.out;
  EXPECT_EQ(Trim(Tool({"vgs", "--noheadings", "-o", "vg_seqno", kGroup}).out), seqno);
  EXPECT_EQ(Sh("ls -d /run/quarryd-check-* 2>/dev/null").out, "");
  EXPECT_TRUE(quarryd().Running());
}

TEST_F(InquiryTest, ATraceHasTheStepsOfACallUnderTheCallersId) {
  const std::string id = "4bf92f3577b34da6a3ce929d0e0e4736";
  grpc::ClientContext context;
  context.AddMetadata("traceparent", "00-" + id + "-00f067aa0ba902b7-01");
  v1::CreateVolumeRequest request;
  request.set_name("traced");
  request.mutable_capacity_range()->set_required_bytes(32 * kMi);
  *request.add_volume_capabilities() = MountCapability();
  v1::CreateVolumeResponse made;
  const grpc::Status status = client().controller().CreateVolume(&context, request, &made);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const Outcome steps = Tool({"quarryctl", "trace", id});
  printf("%s", steps.out.c_str());
  EXPECT_THAT(steps.out, AllOf(HasSubstr("CreateVolume (v1)"), ContainsRegex(": ok after [0-9.]+ ms"),
                               HasSubstr("prove or read volume group vg"), HasSubstr("lvcreate"),
                               ContainsRegex("flush [0-9]+ disks")));
  EXPECT_THAT(quarryd().Log(), ContainsRegex("CreateVolume.*\"trace\":\"" + id + "\""));
  const auto calls = json::parse(Tool({"quarryctl", "trace", "--json"}).out);
  const auto one = std::ranges::find_if(calls, [&](const json& call) { return call["trace_id"] == id; });
  ASSERT_NE(one, calls.end());
  int64_t lvm = 0;
  for (const auto& step : (*one)["steps"]) {
    lvm += step["text"].get<std::string>().starts_with("run lvm") ? step["took_us"].get<int64_t>() : 0;
  }
  EXPECT_GT(lvm, 0);
  EXPECT_LE(lvm, (*one)["took_us"].get<int64_t>());
  EXPECT_THAT(Tool({"quarryctl", "trace", "--slow", "600000"}).out, HasSubstr("no such call"));
  EXPECT_EQ(Tool({"quarryctl", "trace", "ffff0000"}).status, 1);
  EXPECT_OK(client().Delete(made.volume().volume_id()));
}

TEST_F(InquiryTest, OrphansAreTheVolumesThatTheListLacks) {
  const v1::Volume known = MustCreate({"known", {}, MountCapability(), 32 * kMi});
  const v1::Volume orphan = MustCreate({"orphan", TypeParameters("raid1"), BlockCapability(), 32 * kMi});
  const std::string list = "/run/quarry-test/list";
  const auto write = [&](const std::string& text) { std::ofstream(list) << text; };
  const auto ask = [&] { return Ctl({"orphans", "--against", list, "--least-age", "0"}); };

  write(known.volume_id() + "\n");
  const Outcome one = ask();
  EXPECT_EQ(one.status, 1) << one.err;
  EXPECT_THAT(one.out, AllOf(HasSubstr("volume delete " + orphan.volume_id() + "\n"), HasSubstr("'orphan'"),
                             HasSubstr("32 MiB, raid1"), Not(HasSubstr("delete " + known.volume_id()))));
  EXPECT_THAT(Ctl({"orphans", "--against", list}).out,
              AllOf(HasSubstr("young"), Not(HasSubstr("volume delete"))));

  write(fmt::format(R"([{{"ID":"a","ExternalID":"{}"}},{{"ID":"b","ExternalID":"{}"}}])", known.volume_id(),
                    orphan.volume_id()));
  EXPECT_EQ(ask().status, 0) << ask().out << ask().err;

  for (const char* nothing :
       {"", "error: You must be logged in to the server\n", R"({"kind":"List","items":[)"}) {
    write(nothing);
    const Outcome refused = ask();
    EXPECT_EQ(refused.status, 2);
    EXPECT_EQ(refused.out, "");
    EXPECT_THAT(refused.err, HasSubstr(list));
  }

  EXPECT_OK(client().Delete(orphan.volume_id()));
  write(known.volume_id() + "\n" + orphan.volume_id() + "\n");
  ASSERT_TRUE(vm::Eventually([&] { return ask().status == 1; })) << ask().out;  // once it is erased
  EXPECT_THAT(ask().out, HasSubstr("missing: the list has " + orphan.volume_id()));
  EXPECT_OK(client().Delete(known.volume_id()));
}

}  // namespace
}  // namespace quarry::vm
