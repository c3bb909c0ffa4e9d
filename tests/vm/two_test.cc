// Two quarryd on one volume group: one on the host, and one in a container that shares only LVM's lock folder
// with it. Also: an LVM command that outlives the quarryd that ran it keeps the group until the command ends.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "daemon/locking/group_locks.h"
#include "lvm/run/lvm_config.h"
#include "lvm/run/lvm_spawn.h"
#include "lvm/run/zygote.h"
#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

namespace fs = std::filesystem;
using grpc::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr char kLvmLocks[] = "/run/lock/lvm";

std::string LinkOf(const fs::path& path) {
  std::error_code gone;
  return fs::read_symlink(path, gone).string();
}

// Takes one of LVM's locks, so that a command that needs it waits. LVM removes the file after use.
UniqueFd HoldLvmLock(const std::string& name) {
  const std::string path = fmt::format("{}/{}", kLvmLocks, name);
  for (;;) {
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    struct stat ours{};
    struct stat there{};
    if (::flock(fd.get(), LOCK_EX) == 0 && ::fstat(fd.get(), &ours) == 0 &&
        ::stat(path.c_str(), &there) == 0 && ours.st_ino == there.st_ino) {
      return fd;
    }
  }
}

// The pid of another process that has one of LVM's lock files open: a command. 0 if there is none.
int CommandThatWaits() {
  for (const auto& process : fs::directory_iterator("/proc")) {
    const int pid = std::atoi(process.path().filename().c_str());
    std::error_code gone;
    fs::directory_iterator fd(process.path() / "fd", gone);
    for (; pid > 0 && pid != ::getpid() && !gone && fd != fs::directory_iterator(); fd.increment(gone)) {
      const std::string file = LinkOf(fd->path());
      if (file.starts_with(std::string(kLvmLocks) + "/V_") ||
          file.starts_with(std::string(kLvmLocks) + "/P_")) {
        return pid;
      }
    }
  }
  return 0;
}

int WaitForCommand() {
  int pid = 0;
  EXPECT_TRUE(Eventually([&] { return (pid = CommandThatWaits()) != 0; }, 60)) << "no command was started";
  return pid;
}

bool Lives(int pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string text;
  return std::getline(in, text) && text.find(") Z ") == std::string::npos;
}

std::string GroupLock() {
  return fmt::format("{}/quarry-{}.lock", kLvmLocks,
                     Trim(Tool({"vgs", "--noheadings", "-o", "vg_uuid", kGroup}).out));
}

bool HoldsFlock(int pid, const std::string& lock) {
  if (LinkOf(fmt::format("/proc/{}/fd/0", pid)) != lock) {
    return false;
  }
  std::ifstream in(fmt::format("/proc/{}/fdinfo/0", pid));
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("lock:") && line.find("FLOCK") != std::string::npos) {
      return true;
    }
  }
  return false;
}

// The commands that have this lock as their standard input.
std::vector<int> CommandsHolding(const std::string& lock) {
  std::vector<int> pids;
  for (const auto& process : fs::directory_iterator("/proc")) {
    const int pid = std::atoi(process.path().filename().c_str());
    if (pid > 0 && HoldsFlock(pid, lock)) {
      pids.push_back(pid);
    }
  }
  return pids;
}

class TwoTest : public VmTest, public testing::WithParamInterface<const char*> {
 protected:
  bool StartsQuarryd() const override { return false; }

  void StartFirst() {
    QuarrydOptions options;
    options.arguments = {std::string("--lvm=") + GetParam()};
    StartQuarryd(options);
  }
  void StartSecond() {
    QuarrydOptions options;
    options.program = "contained";
    options.socket = "/run/quarry-test/second.sock";
    options.log = "/run/quarry-test/second.log";
    options.arguments = {std::string("--lvm=") + GetParam()};
    options.variables = {
        {"CONTAINED_SHARED", "/srv/kubelet"},
        {"CONTAINED_CAPABILITIES",
         "+sys_admin,+dac_override,+dac_read_search,+fowner,+chown,+mknod,+sys_rawio,+sys_module,+sys_nice,"
         "+ipc_lock,+sys_ptrace,+sys_resource"}};
    auto started = QuarrydProcess::Start(options);
    ASSERT_OK(started);
    second_ = std::move(*started);
    second_client_ = std::make_unique<CsiClient>(options.socket);
  }
  bool SecondSays(const std::string& words) {
    return Eventually([&] { return second_->Log().find(words) != std::string::npos; });
  }
  void TearDown() override {
    if (second_ != nullptr && second_->Running() && !HasFailure()) {
      EXPECT_TRUE(ComesBackEmpty());
      EXPECT_EQ(second_->Stop(), 0);
    } else if (second_ != nullptr && HasFailure()) {
      fprintf(stderr, "The second's log:\n%s\n", second_->Log().c_str());
    }
    second_.reset();
    VmTest::TearDown();
  }

  std::unique_ptr<QuarrydProcess> second_;
  std::unique_ptr<CsiClient> second_client_;
};

TEST_P(TwoTest, TheSecondNamesTheFirstAndGetsTheGroupAfterItsEnd) {
  StartFirst();
  const v1::Volume volume = MustCreate({"kept", {}, BlockCapability()});
  StartSecond();
  ASSERT_TRUE(SecondSays("volume group 'vg' belongs to another quarryd"));
  EXPECT_THAT(second_->Log(), HasSubstr(fmt::format("pid {} (quarryd)", quarryd().pid())));
  const auto probe = second_client_->Probe();
  EXPECT_TRUE(
      Fails(probe, StatusCode::FAILED_PRECONDITION, fmt::format("pid {} (quarryd)", quarryd().pid())));
  EXPECT_TRUE(Fails(second_client_->Delete(volume.volume_id()), StatusCode::UNAVAILABLE));
  EXPECT_OK(client().List()) << "the first quarryd goes on serving";

  EXPECT_EQ(quarryd().Stop(), 0);
  ASSERT_OK(second_->WaitReady());
  auto listed = second_client_->List();
  ASSERT_OK(listed);
  ASSERT_EQ(listed.value.size(), 1U);
  EXPECT_OK(second_client_->Delete(volume.volume_id()));
}

TEST_P(TwoTest, ACommandThatOutlivesTheFirstKeepsTheSecondOutUntilItEnds) {
  StartFirst();
  const v1::Volume kept = MustCreate({"kept", {}, BlockCapability()});
  const std::string target = TargetPath("kept");
  ASSERT_OK(client().Stage(kept, StagingPath("kept"), BlockCapability()));
  ASSERT_OK(client().Publish(kept, StagingPath("kept"), target, BlockCapability()));
  ASSERT_OK(WritePattern(target, 5, 4 * kMi));
  ASSERT_OK(client().Unpublish(kept.volume_id(), target));
  ASSERT_OK(client().Unstage(kept.volume_id(), StagingPath("kept")));

  const std::string lock = GroupLock();
  UniqueFd held = HoldLvmLock("V_vg");
  std::thread caller([&] {
    CsiClient own(kSocket);
    EXPECT_FALSE(own.Create({"cut-off", TypeParameters("raid1")}).ok());
  });
  const int command = WaitForCommand();
  ASSERT_GT(command, 1);
  // In this order: if a process group loses its last parent while it is stopped, the kernel wakes it.
  quarryd().Kill();
  ASSERT_EQ(::kill(command, SIGSTOP), 0);
  caller.join();
  held.Reset();
  EXPECT_TRUE(HoldsFlock(command, lock));

  StartSecond();
  ASSERT_TRUE(SecondSays("volume group 'vg' belongs to another quarryd, or to an LVM command"));
  EXPECT_THAT(second_->Log(), HasSubstr(fmt::format("pid {} (", command)));
  std::this_thread::sleep_for(seconds(3));
  EXPECT_FALSE(second_client_->Probe().ok()) << "the command may still change the group";

  ASSERT_EQ(::kill(command, SIGCONT), 0);
  ASSERT_OK(second_->WaitReady());
  EXPECT_FALSE(Lives(command));
  auto listed = second_client_->List();
  ASSERT_OK(listed);
  EXPECT_EQ(listed.value.size(), 1U) << "an unacknowledged volume is listed";
  auto made = second_client_->Create({"cut-off", TypeParameters("raid1")});
  ASSERT_OK(made);
  EXPECT_EQ(group().Lvs()->size(), 2U) << "the volume exists twice";
  const std::string node = "/dev/vg/" + LvOf(kept);
  EXPECT_TRUE(Tool({"lvchange", "-K", "-ay", std::string(kGroup) + "/" + LvOf(kept)}).ok());
  EXPECT_OK(CheckPattern(node, 5, 4 * kMi)) << "bytes are lost";
  EXPECT_OK(second_client_->Delete(kept.volume_id()));
  EXPECT_OK(second_client_->Delete(made.value.volume().volume_id()));
}

TEST_P(TwoTest, ARemovedLockFileStopsTheGroupUntilARestart) {
  StartFirst();
  const std::string lock = GroupLock();
  ASSERT_EQ(::unlink(lock.c_str()), 0);
  EXPECT_TRUE(Fails(client().Create({"none"}), StatusCode::UNAVAILABLE, lock));
  EXPECT_EQ(group().Lvs()->size(), 0U);
  KillAndRestart();
  const v1::Volume volume = MustCreate({"some"});
  EXPECT_OK(client().Delete(volume.volume_id()));
}

INSTANTIATE_TEST_SUITE_P(By, TwoTest, testing::Values("zygote", "spawn"),
                         [](const auto& test) { return std::string(test.param); });

// LVM's commands, one by one, as quarryd runs them.
class CommandTest : public VmTest, public testing::WithParamInterface<const char*> {
 protected:
  bool StartsQuarryd() const override { return false; }
  void SetUp() override {
    VmTest::SetUp();
    ASSERT_OK(lvm::WriteLvmConfig({.system_dir = kSystemDir}));
    Subprocess& runner = GetParam() == std::string("zygote") ? static_cast<Subprocess&>(zygote_) : spawn_;
    auto made = lvm::LvmSpawn::Make(runner, {.system_dir = kSystemDir, .locks = &locks_}, Limit());
    ASSERT_OK(made);
    lvm_ = std::move(*made);
    auto read = lvm_->Read(kGroup, Limit());
    ASSERT_OK(read);
    read_ = *read;
  }
  static Call Limit() { return CallWithin(seconds(60)); }

  static constexpr char kSystemDir[] = "/run/quarry-test/lvm";
  SpawnSubprocess spawn_;
  lvm::ZygoteSubprocess zygote_{"/opt/quarry/bin/quarry-lvm", spawn_};
  daemon::FlockGroupLocks locks_{"/run/quarry-test/locks", kLvmLocks};
  std::unique_ptr<lvm::LvmSpawn> lvm_;
  lvm::Snapshot read_;
};

TEST_P(CommandTest, EachChangingCommandHoldsTheGroupsLock) {
  const std::string a = read_->pvs[0].device;
  const std::string b = read_->pvs[1].device;
  const std::string made = Tool({"lvcreate", "-y", "-n", "q", "-l", "4", kGroup, a}).err;
  ASSERT_EQ(group().Lvs()->size(), 1U) << made;
  const lvm::Geometry linear = *lvm::Geometry::Make({});
  lvm::CreateLv create{.group = kGroup, .name = "new", .geometry = linear, .step = {}, .tags = {}};
  create.step = {.logical_extents = Extents{1}, .alloc = "contiguous", .pv_arguments = {b + ":0-0"}};
  const lvm::ExtendLv extend{.group = kGroup, .name = "q", .geometry = linear, .step = create.step};
  const std::string of_group = GroupLock();
  const std::string of_new = "/run/quarry-test/locks/vg-new.lock";
  struct Verb {
    const char* name;
    std::function<Status()> run;
    std::string lock;
  };
  const std::vector<Verb> verbs = {
      {"vgcreate", [&] { return lvm_->Apply(lvm::CreateGroup{"new", {"/dev/ram9"}, kMiB}, Limit()); },
       of_new},
      {"lvcreate", [&] { return lvm_->Apply(create, Limit()); }, of_group},
      {"lvextend", [&] { return lvm_->Apply(extend, Limit()); }, of_group},
      {"lvremove", [&] { return lvm_->Apply(lvm::RemoveLvs{kGroup, {"q"}, 0}, Limit()); }, of_group},
      {"tag", [&] { return lvm_->Apply(lvm::ChangeTags{kGroup, "q", {"a"}, {}}, Limit()); }, of_group},
      {"activate", [&] { return lvm_->Apply(lvm::ActivateLvs{kGroup, {"q"}}, Limit()); }, of_group},
      {"deactivate", [&] { return lvm_->Apply(lvm::DeactivateLv{kGroup, "q", 0}, Limit()); }, of_group},
      {"refresh", [&] { return lvm_->Apply(lvm::RefreshLvs{kGroup, {"q"}}, Limit()); }, of_group},
      {"lvconvert", [&] { return lvm_->Apply(lvm::RepairLv{kGroup, "q", {}, ""}, Limit()); }, of_group},
      {"rate", [&] { return lvm_->Apply(lvm::LimitRecovery{kGroup, {"q"}, kMiB}, Limit()); }, of_group},
      {"restore", [&] { return lvm_->Apply(lvm::RestorePv{kGroup, a}, Limit()); }, of_group},
      {"drop", [&] { return lvm_->Apply(lvm::DropMissingPvs{kGroup}, Limit()); }, of_group},
      {"pvchange", [&] { return lvm_->Apply(lvm::ChangePv{kGroup, a, false, {}, {}}, Limit()); }, of_group},
      {"pvmove", [&] { return lvm_->Apply(lvm::MoveExtents{kGroup, "q", a + ":0-1", b + ":0-1"}, Limit()); },
       of_group},
      {"abort", [&] { return lvm_->Apply(lvm::AbortMove{kGroup, a}, Limit()); }, of_group},
      {"vgreduce", [&] { return lvm_->Apply(lvm::RemovePv{kGroup, b}, Limit()); }, of_group},
      {"vgextend", [&] { return lvm_->Apply(lvm::AddPv{.group = kGroup, .device = "/dev/ram9"}, Limit()); },
       of_group},
  };
  UniqueFd group_held = HoldLvmLock("V_vg");
  UniqueFd all_held = HoldLvmLock("P_global");
  UniqueFd orphans_held = HoldLvmLock("P_orphans");
  for (const Verb& verb : verbs) {
    SCOPED_TRACE(verb.name);
    Status ended;
    std::thread caller([&] { ended = verb.run(); });
    const int command = WaitForCommand();
    EXPECT_TRUE(HoldsFlock(command, verb.lock)) << LinkOf(fmt::format("/proc/{}/fd/0", command));
    if (command > 1) {
      ::kill(command, SIGKILL);  // the command still waits and has changed nothing
    }
    caller.join();
    EXPECT_FALSE(ended.has_value());
    EXPECT_TRUE(Eventually([&] { return !Lives(command); }));
  }
  group_held.Reset();
  all_held.Reset();
  orphans_held.Reset();
  EXPECT_TRUE(Tool({"lvremove", "-y", std::string(kGroup) + "/q"}).ok());
}

// LVM gets the end of its input as the answer to a question, also if that input is a lock file with text in
// it.
TEST_P(CommandTest, ACommandThatAsksAQuestionIsRefused) {
  const std::string disk = read_->pvs[1].device;
  ASSERT_TRUE(Tool({"vgreduce", kGroup, disk}).ok());
  ASSERT_TRUE(Tool({"pvremove", disk}).ok());
  ASSERT_TRUE(Tool({"mkfs.ext4", "-q", "-F", disk}).ok());
  const Status added = lvm_->Apply(lvm::AddPv{.group = kGroup, .device = disk}, Limit());
  ASSERT_FALSE(added.has_value());
  EXPECT_EQ(added.error().code(), Code::kPrecondition) << added.error().message();
  EXPECT_THAT(Tool({"blkid", "-p", disk}).out, HasSubstr("ext4"));
  EXPECT_TRUE(Tool({"wipefs", "-a", "-q", disk}).ok());
  EXPECT_TRUE(Tool({"vgextend", "--metadatasize", "64m", kGroup, disk}).ok());
}

// A move that pvmove began continues without its process, which would keep the group until everything is
// copied.
TEST_P(CommandTest, APvmoveEndsWithItsCallerAndTheNextOneContinuesIt) {
  constexpr int kExtents = 32;
  const std::string lock = GroupLock();
  const std::string a = DiskNode(1);
  const std::string b = DiskNode(2);
  ASSERT_TRUE(Tool({"lvcreate", "-y", "-n", "q", "-l", std::to_string(kExtents), kGroup, a}).ok());
  ASSERT_OK(WritePattern("/dev/vg/q", 9, 4 * kMi));
  ASSERT_TRUE(Tool({"vmctl", "slow", "2", "150"}).ok() && Tool({"vmctl", "slow", "1", "150"}).ok());
  const pid_t us = ::fork();
  if (us == 0) {
    lvm::ZygoteSubprocess zygote("/opt/quarry/bin/quarry-lvm", spawn_);
    Subprocess& runner = GetParam() == std::string("zygote") ? static_cast<Subprocess&>(zygote) : spawn_;
    auto lvm = lvm::LvmSpawn::Make(runner, {.system_dir = kSystemDir, .locks = &locks_}, Limit());
    (void)(*lvm)->Apply(lvm::MoveExtents{kGroup, "q", fmt::format("{}:0-{}", a, kExtents - 1),
                                         fmt::format("{}:0-{}", b, kExtents - 1)},
                        CallWithin(std::chrono::minutes(5)));
    ::_exit(0);
  }
  const auto moving = [] { return Tool({"dmsetup", "ls"}).out.find("pvmove") != std::string::npos; };
  EXPECT_TRUE(Eventually(moving));
  EXPECT_THAT(CommandsHolding(lock), testing::SizeIs(1));
  ASSERT_EQ(::kill(us, SIGKILL), 0);
  ASSERT_EQ(::waitpid(us, nullptr, 0), us);
  EXPECT_TRUE(Eventually([&] { return CommandsHolding(lock).empty(); }, 20));
  EXPECT_TRUE(moving()) << "the kernel goes on copying";
  EXPECT_TRUE(Tool({"vmctl", "slow", "2", "0"}).ok() && Tool({"vmctl", "slow", "1", "0"}).ok());
  ASSERT_OK(lvm_->Apply(lvm::MoveExtents{kGroup, "q", fmt::format("{}:0-{}", a, kExtents - 1),
                                         fmt::format("{}:0-{}", b, kExtents - 1)},
                        CallWithin(std::chrono::minutes(2))));
  EXPECT_OK(CheckPattern("/dev/vg/q", 9, 4 * kMi));
  EXPECT_THAT(Tool({"lvs", "--noheadings", "-o", "devices", "vg/q"}).out, HasSubstr(b));
  EXPECT_TRUE(Tool({"lvremove", "-y", "vg/q"}).ok());
}

INSTANTIATE_TEST_SUITE_P(By, CommandTest, testing::Values("zygote", "spawn"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace quarry::vm
