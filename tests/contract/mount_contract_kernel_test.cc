// Behavior that only a kernel can show: flags take effect, no link is followed, holders are named.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "tests/contract/kernel_mount_world.h"

namespace quarry::contract {
namespace {

using mount::MountOptions;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Bytes kSize{320 * kMiB.value};

AbsolutePath Path(const std::string& text) {
  return *AbsolutePath::Parse(text);
}

MountOptions Options(const std::vector<std::string>& mount_flags) {
  const auto options = mount::ParseMountOptions(mount_flags);
  EXPECT_TRUE(options.has_value()) << options.error().message();
  return options.value_or(MountOptions());
}

// A device that refuses writes for a while. A loop device would stay read-only beyond its life.
class ReadOnlyDevice {
 public:
  explicit ReadOnlyDevice(UniqueFd device) : device_(std::move(device)) { Set(1); }
  ~ReadOnlyDevice() { Set(0); }
  ReadOnlyDevice(const ReadOnlyDevice&) = delete;
  ReadOnlyDevice& operator=(const ReadOnlyDevice&) = delete;

 private:
  void Set(int value) const { EXPECT_EQ(ioctl(device_.get(), BLKROSET, &value), 0); }
  UniqueFd device_;
};

class KernelMountTest : public ::testing::Test {
 protected:
  mount::MountApi& api() { return world_.api(); }
  static Call call() { return CallWithin(std::chrono::seconds(120)); }

  std::string Formatted(const std::string& type, Bytes size = kSize) {
    const std::string node = world_.NewDevice(size);
    mount::MakeFilesystem spec;
    spec.fs_type = type;
    spec.device = node;
    const Status made = api().Make(spec, call());
    EXPECT_TRUE(made.has_value()) << made.error().message();
    return node;
  }
  AbsolutePath Mounted(const std::string& node, const std::string& type, const MountOptions& options = {}) {
    const AbsolutePath target = world_.NewDirectory();
    const Status mounted = api().Mount(node, target, type, options, call());
    EXPECT_TRUE(mounted.has_value()) << mounted.error().message();
    return target;
  }
  static bool CanWrite(const AbsolutePath& directory) {
    const UniqueFd file(open((directory.str() + "/probe").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    return file.valid();
  }
  static std::string Words(const Status& status) {
    return status.has_value() ? "" : status.error().message();
  }

  KernelMountWorld world_;
};

// --- Flags and options

TEST_F(KernelMountTest, AReadOnlyBindRefusesWritesThatItsStagedMountTakes) {
  const AbsolutePath staged = Mounted(Formatted("xfs"), "xfs");
  const AbsolutePath target = world_.NewDirectory();
  ASSERT_TRUE(api().Bind(staged.str(), target, {MS_RDONLY, 0, {}}, call()).has_value());
  EXPECT_FALSE(CanWrite(target));
  EXPECT_EQ(errno, EROFS);
  EXPECT_TRUE(CanWrite(staged));
}

TEST_F(KernelMountTest, AReadOnlyMountRefusesWrites) {
  EXPECT_FALSE(CanWrite(Mounted(Formatted("ext4"), "ext4", {MS_RDONLY, 0, {}})));
  EXPECT_EQ(errno, EROFS);
}

TEST_F(KernelMountTest, NeverTurnsAWritableMountIntoAReadOnlyOneByItself) {
  const std::string node = Formatted("ext4");
  const ReadOnlyDevice read_only(world_.OpenDevice(node));
  const AbsolutePath target = world_.NewDirectory();
  const Status mounted = api().Mount(node, target, "ext4", {}, call());
  ASSERT_FALSE(mounted.has_value());
  EXPECT_EQ(mounted.error().code(), Code::kPrecondition);
  EXPECT_THAT(Words(mounted), HasSubstr("read-only"));
  EXPECT_EQ(api().Mounts()->At(target), nullptr);
  EXPECT_TRUE(api().Mount(node, target, "ext4", {MS_RDONLY, 0, {}}, call()).has_value());
  EXPECT_TRUE(api().Unmount(target, call()).has_value());
}

TEST_F(KernelMountTest, OptionsOfTheFileSystemReachIt) {
  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4", Options({"commit=17", "nodiscard"}));
  const auto table = api().Mounts();
  ASSERT_NE(table->At(target), nullptr);
  EXPECT_THAT(table->At(target)->super_options, Contains("commit=17"));
}

TEST_F(KernelMountTest, AnUnknownMountOptionIsReportedByPositionNotByText) {
  for (const char* type : {"ext4", "xfs"}) {
    const std::string node = Formatted(type);
    const AbsolutePath target = world_.NewDirectory();
    const MountOptions options = Options({"noatime", "discard", "topsecret=1", "x"});
    const Status mounted = api().Mount(node, target, type, options, call());
    ASSERT_FALSE(mounted.has_value());
    EXPECT_EQ(mounted.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(Words(mounted), AllOf(HasSubstr("mount_flags[2]"), Not(HasSubstr("topsecret"))));
    EXPECT_EQ(api().Mounts()->At(target), nullptr);
  }
}

TEST_F(KernelMountTest, BtrfsRefusesAnUnknownOptionToo) {
  const Status mounted =
      api().Mount(Formatted("btrfs"), world_.NewDirectory(), "btrfs", Options({"topsecret"}), call());
  ASSERT_FALSE(mounted.has_value());
  EXPECT_THAT(Words(mounted), Not(HasSubstr("topsecret")));
}

// --- Contents of devices

TEST_F(KernelMountTest, ABlankDeviceIsToldFromAnEmptyOne) {
  const std::string node = world_.NewDevice(kSize);
  const auto device = AbsolutePath::Parse(node);
  ASSERT_TRUE(device.has_value());
  const auto empty = api().ProbeDevice(*device);
  ASSERT_TRUE(empty.has_value()) << empty.error().message();
  EXPECT_EQ(empty->kind, mount::Content::Kind::kBlank);
  EXPECT_EQ(empty->residue, std::nullopt);
  const Bytes at{kSize.value - 5};
  {
    const UniqueFd fd(open(node.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(pwrite(fd.get(), "x", 1, static_cast<off_t>(at.value)), 1);
    ASSERT_EQ(fsync(fd.get()), 0);
  }
  const auto used = api().ProbeDevice(*device);
  ASSERT_TRUE(used.has_value()) << used.error().message();
  EXPECT_EQ(used->kind, mount::Content::Kind::kBlank);
  EXPECT_EQ(used->residue, at);
}

TEST_F(KernelMountTest, AProbeThatIsNotExclusiveFindsABlankDeviceThatIsHeld) {
  const std::string node = world_.NewDevice(kSize);
  const auto device = AbsolutePath::Parse(node);
  ASSERT_TRUE(device.has_value());
  const UniqueFd other(open(node.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
  ASSERT_TRUE(other.valid());
  EXPECT_FALSE(api().ProbeDevice(*device).has_value());
  SpawnSubprocess processes;
  mount::KernelMount looker(processes, {.exclusive_probe = false});
  EXPECT_FALSE(looker.ProbeDevice(*device).has_value());
  // What is on a device can be said without holding it.
  const std::string formatted = Formatted("ext4");
  const UniqueFd holder(open(formatted.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
  ASSERT_TRUE(holder.valid());
  const auto content = looker.ProbeDevice(*AbsolutePath::Parse(formatted));
  ASSERT_TRUE(content.has_value()) << content.error().message();
  EXPECT_EQ(content->kind, mount::Content::Kind::kFilesystem);
}

TEST_F(KernelMountTest, AProbeThatIsNotExclusiveFindsAFreeDeviceBlank) {
  const auto device = AbsolutePath::Parse(world_.NewDevice(kSize));
  ASSERT_TRUE(device.has_value());
  SpawnSubprocess processes;
  mount::KernelMount looker(processes, {.exclusive_probe = false});
  const auto content = looker.ProbeDevice(*device);
  ASSERT_TRUE(content.has_value()) << content.error().message();
  EXPECT_EQ(content->kind, mount::Content::Kind::kBlank);
}

// --- Copies

TEST_F(KernelMountTest, ACopyOfAMountedFileSystemIsMountedOrRefusedClearly) {
  for (const char* type : {"ext4", "xfs", "btrfs"}) {
    const std::string original = Formatted(type);
    const std::string copy = world_.NewDevice(kSize);
    RunTool({"dd", "if=" + original, "of=" + copy, "bs=4M", "conv=sparse,fsync", "status=none"});
    const AbsolutePath first = Mounted(original, type);
    const AbsolutePath second = world_.NewDirectory();
    const Status mounted = api().Mount(copy, second, type, {}, call());
    if (std::string(type) == "btrfs" && !mounted.has_value()) {  // newer kernels accept the copy
      EXPECT_EQ(mounted.error().code(), Code::kPrecondition);
      EXPECT_THAT(Words(mounted), HasSubstr("same UUID"));
      EXPECT_EQ(api().Mounts()->At(second), nullptr);
      continue;
    }
    ASSERT_TRUE(mounted.has_value()) << type << ": " << Words(mounted);
    EXPECT_EQ(api().Mounts()->At(first)->backing, world_.NumberOf(original)) << type;
    EXPECT_EQ(api().Mounts()->At(second)->backing, world_.NumberOf(copy)) << type;
    EXPECT_TRUE(CanWrite(second)) << type;
  }
}

// --- Paths

TEST_F(KernelMountTest, ALinkAtTheEndOfATargetIsNotFollowed) {
  const AbsolutePath victim = world_.NewDirectory();
  const AbsolutePath directory = world_.NewDirectory();
  const AbsolutePath link = Path(directory.str() + "/link");
  ASSERT_EQ(symlink(victim.c_str(), link.c_str()), 0);
  const std::string node = Formatted("ext4");
  EXPECT_EQ(api().Mount(node, link, "ext4", {}, call()).error().code(), Code::kPrecondition);
  EXPECT_EQ(api().Bind(world_.NewDirectory().str(), link, {}, call()).error().code(), Code::kPrecondition);
  EXPECT_TRUE(api().Unmount(link, call()).has_value());
  EXPECT_EQ(api().Mounts()->At(victim), nullptr);
}

TEST_F(KernelMountTest, UnmountingALinkToAMountLeavesTheMount) {
  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4");
  const AbsolutePath link = Path(world_.NewDirectory().str() + "/link");
  ASSERT_EQ(symlink(target.c_str(), link.c_str()), 0);
  EXPECT_TRUE(api().Unmount(link, call()).has_value());
  EXPECT_NE(api().Mounts()->At(target), nullptr);
}

TEST_F(KernelMountTest, LinksOfProcAreNeverFollowed) {
  const AbsolutePath victim = world_.NewDirectory();
  const UniqueFd fd(open(victim.c_str(), O_PATH | O_DIRECTORY));
  const AbsolutePath magic = Path(fmt::format("/proc/self/fd/{}/inner", fd.get()));
  EXPECT_EQ(api().MakeDirectory(magic).error().code(), Code::kPrecondition);
  EXPECT_EQ(api().Inspect(Path(victim.str() + "/inner")).value(), mount::PathKind::kAbsent);
}

// --- Reaching the host

// This test is in a mount namespace of its own, with private mounts: a container without propagation.
TEST_F(KernelMountTest, AMountThatTheHostWouldNotSeeIsRefused) {
  SpawnSubprocess subprocess;
  mount::KernelMount contained(subprocess, {.for_the_host = true});
  const std::string node = Formatted("ext4");
  const AbsolutePath target = world_.NewDirectory();
  const Status mounted = contained.Mount(node, target, "ext4", {}, call());
  ASSERT_FALSE(mounted.has_value());
  EXPECT_EQ(mounted.error().code(), Code::kPrecondition);
  EXPECT_THAT(Words(mounted), HasSubstr(target.str()));
  EXPECT_THAT(Words(mounted), HasSubstr("Bidirectional"));
  const AbsolutePath elsewhere = world_.NewDirectory();
  EXPECT_EQ(contained.Bind(elsewhere.str(), target, {}, call()).error().code(), Code::kPrecondition);
  EXPECT_FALSE((*api().Mounts()).At(target) != nullptr);
  // Shared, but not with the host: a slave that shares what it gets (as systemd's PrivateTmp).
  ASSERT_EQ(::mount("none", target.Parent().c_str(), nullptr, MS_SHARED, nullptr), 0);
  EXPECT_EQ(contained.Mount(node, target, "ext4", {}, call()).error().code(), Code::kPrecondition);
  ASSERT_EQ(::mount("none", target.Parent().c_str(), nullptr, MS_PRIVATE, nullptr), 0);
}

// --- Groups

constexpr uint32_t kGroup = 4000;

TEST_F(KernelMountTest, NewFilesInAGroupsVolumeBelongToTheGroup) {
  for (const char* type : {"ext4", "xfs", "btrfs"}) {
    const AbsolutePath target = Mounted(Formatted(type), type);
    ASSERT_TRUE(api().GiveToGroup(target, kGroup, call()).has_value());
    ASSERT_EQ(mkdir((target.str() + "/new").c_str(), 0755), 0);
    EXPECT_EQ(world_.AccessOf(target.str() + "/new").gid, kGroup) << type;
    EXPECT_EQ(world_.AccessOf(target.str() + "/new").mode & S_ISGID, uint32_t{S_ISGID}) << type;
    world_.PutFile(target.str() + "/new/file", false);
    EXPECT_EQ(world_.AccessOf(target.str() + "/new/file").gid, kGroup) << type;
  }
}

TEST_F(KernelMountTest, GivesALinkButNotItsTarget) {
  const AbsolutePath outside = world_.NewDirectory();
  world_.PutFile(outside.str() + "/file", false);
  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4");
  ASSERT_EQ(symlink((outside.str() + "/file").c_str(), (target.str() + "/link").c_str()), 0);
  ASSERT_EQ(symlink(outside.c_str(), (target.str() + "/tree").c_str()), 0);
  ASSERT_EQ(mkfifo((target.str() + "/pipe").c_str(), 0600), 0);  // opening the pipe for reading would block
  ASSERT_TRUE(api().GiveToGroup(target, kGroup, call()).has_value());
  EXPECT_EQ(world_.AccessOf(target.str() + "/link").gid, kGroup);
  EXPECT_EQ(world_.AccessOf(target.str() + "/tree").gid, kGroup);
  EXPECT_EQ(world_.AccessOf(target.str() + "/pipe").gid, kGroup);
  EXPECT_EQ(world_.AccessOf(outside.str()).gid, 0U);
  EXPECT_EQ(world_.AccessOf(outside.str() + "/file").gid, 0U);
}

TEST_F(KernelMountTest, ABindOfTheSameFileSystemIsAMountBelow) {
  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4");
  for (const char* name : {"/a", "/b"}) {
    ASSERT_EQ(mkdir((target.str() + name).c_str(), 0700), 0);
  }
  ASSERT_TRUE(api().Bind(target.str() + "/a", Path(target.str() + "/b"), {}, call()).has_value());
  const Status given = api().GiveToGroup(target, kGroup, call());
  ASSERT_FALSE(given.has_value());
  EXPECT_EQ(given.error().code(), Code::kPrecondition);
  EXPECT_THAT(Words(given), HasSubstr(target.str() + "/b"));
}

TEST_F(KernelMountTest, SubvolumesOfABtrfsAreGivenToo) {
  const AbsolutePath target = Mounted(Formatted("btrfs"), "btrfs");
  RunTool({"btrfs", "subvolume", "create", target.str() + "/sub"});
  world_.PutFile(target.str() + "/sub/file", false);
  ASSERT_TRUE(api().GiveToGroup(target, kGroup, call()).has_value());
  EXPECT_EQ(world_.AccessOf(target.str() + "/sub/file").gid, kGroup);
}

// Otherwise one file of a tenant would keep his pod, and every later one, from the volume.
TEST_F(KernelMountTest, UnchangeableFilesAreSkipped) {
  const AbsolutePath ext4 = Mounted(Formatted("ext4"), "ext4");
  // Sets `flag` and keeps the file system's own flags. 0 clears both flags.
  const auto set_flag = [](const std::string& path, int flag) {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    int flags = 0;
    ASSERT_EQ(ioctl(fd.get(), FS_IOC_GETFLAGS, &flags), 0) << path;
    flags = (flags & ~(FS_IMMUTABLE_FL | FS_APPEND_FL)) | flag;
    ASSERT_EQ(ioctl(fd.get(), FS_IOC_SETFLAGS, &flags), 0) << path;
  };
  for (const char* name : {"/dir", "/dir/within"}) {
    ASSERT_EQ(mkdir((ext4.str() + name).c_str(), 0700), 0);
  }
  world_.PutFile(ext4.str() + "/frozen", false);
  world_.PutFile(ext4.str() + "/log", false);
  world_.PutFile(ext4.str() + "/plain", false);
  set_flag(ext4.str() + "/frozen", FS_IMMUTABLE_FL);
  set_flag(ext4.str() + "/log", FS_APPEND_FL);
  set_flag(ext4.str() + "/dir", FS_IMMUTABLE_FL);
  Status given = api().GiveToGroup(ext4, kGroup, call());
  ASSERT_TRUE(given.has_value()) << Words(given);
  for (const char* name : {"", "/plain", "/dir/within"}) {
    EXPECT_EQ(world_.AccessOf(ext4.str() + name).gid, kGroup) << name;
  }
  for (const char* name : {"/frozen", "/log", "/dir"}) {
    EXPECT_EQ(world_.AccessOf(ext4.str() + name).gid, 0U) << name;
  }
  set_flag(ext4.str(), FS_IMMUTABLE_FL);  // the pod could not write, so this is an error
  given = api().GiveToGroup(ext4, kGroup + 1, call());
  set_flag(ext4.str(), 0);
  ASSERT_FALSE(given.has_value());
  EXPECT_EQ(given.error().sys_errno(), EPERM) << Words(given);

  const AbsolutePath btrfs = Mounted(Formatted("btrfs"), "btrfs");
  RunTool({"btrfs", "subvolume", "create", btrfs.str() + "/sub"});
  world_.PutFile(btrfs.str() + "/sub/file", false);
  RunTool({"btrfs", "property", "set", btrfs.str() + "/sub", "ro", "true"});
  world_.PutFile(btrfs.str() + "/plain", false);
  given = api().GiveToGroup(btrfs, kGroup, call());
  ASSERT_TRUE(given.has_value()) << Words(given);
  EXPECT_EQ(world_.AccessOf(btrfs.str()).gid, kGroup);
  EXPECT_EQ(world_.AccessOf(btrfs.str() + "/plain").gid, kGroup);
  EXPECT_EQ(world_.AccessOf(btrfs.str() + "/sub/file").gid, 0U);
}

// Deeper than the longest path, and deeper than the number of descriptors.
TEST_F(KernelMountTest, GivesATreeHoweverDeep) {
  constexpr int kDepth = 3000;
  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4");
  UniqueFd at(open(target.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < kDepth; ++i) {
    ASSERT_EQ(mkdirat(at.get(), "deep", 0700), 0);
    at.Reset(openat(at.get(), "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(at.valid());
  }
  ASSERT_EQ(mkdirat(at.get(), "last", 0700), 0);
  const Status given = api().GiveToGroup(target, kGroup, call());
  ASSERT_TRUE(given.has_value()) << Words(given).substr(0, 300);
  struct stat st{};
  ASSERT_EQ(fstatat(at.get(), "last", &st, 0), 0);
  EXPECT_EQ(st.st_gid, kGroup);
}

// More levels than keep their names, and on each level more names than are read at once. The walk returns to
// directories that it must reopen, and finds its place by each file system's own offsets.
TEST_F(KernelMountTest, GivesATreeThatIsWideOnEveryLevel) {
  constexpr int kLevels = 18;
  constexpr int kNames = 160;
  for (const char* type : {"ext4", "xfs", "btrfs"}) {
    SCOPED_TRACE(type);
    const AbsolutePath target = Mounted(Formatted(type), type);
    std::vector<std::string> levels = {target.str()};
    for (int level = 0; level < kLevels; ++level) {
      for (int i = 0; i < kNames; ++i) {
        ASSERT_EQ(mkdir(fmt::format("{}/{:0>200}", levels.back(), i).c_str(), 0700), 0);
      }
      levels.push_back(levels.back() + "/m");
      ASSERT_EQ(mkdir(levels.back().c_str(), 0700), 0);
    }
    const Status given = api().GiveToGroup(target, kGroup, call());
    ASSERT_TRUE(given.has_value()) << Words(given);
    int missed = 0;
    for (const std::string& level : levels) {
      missed += world_.AccessOf(level).gid == kGroup ? 0 : 1;
      for (int i = 0; level != levels.back() && i < kNames; ++i) {
        missed += world_.AccessOf(fmt::format("{}/{:0>200}", level, i)).gid == kGroup ? 0 : 1;
      }
    }
    EXPECT_EQ(missed, 0);
    ASSERT_TRUE(api().Unmount(target, call()).has_value());
  }
}

TEST_F(KernelMountTest, AFileThatChangesItsGroupLosesSetUidAndSetGid) {
  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4");
  for (const char* name : {"/theirs", "/ours"}) {
    world_.PutFile(target.str() + name, false);
  }
  world_.SetAccess(target.str() + "/theirs", {7, 06755});
  world_.SetAccess(target.str() + "/ours", {kGroup, 06755});
  ASSERT_TRUE(api().GiveToGroup(target, kGroup, call()).has_value());
  EXPECT_EQ(world_.AccessOf(target.str() + "/theirs").mode, 0775U);
  EXPECT_EQ(world_.AccessOf(target.str() + "/ours").mode, 06775U);
}

// --- Holders

TEST_F(KernelMountTest, NamesTheProcessWithAnOpenFile) {
  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4");
  const SleepingChild child(
      [&] { return open((target.str() + "/file").c_str(), O_RDWR | O_CREAT, 0600) >= 0; });
  EXPECT_THAT(Words(api().Unmount(target, call())), HasSubstr(fmt::format("pid {} (", child.pid())));
}

TEST_F(KernelMountTest, NamesTheProcessWithAMappedFile) {
  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4");
  const SleepingChild child([&] {
    const int fd = open((target.str() + "/file").c_str(), O_RDWR | O_CREAT, 0600);
    return ftruncate(fd, 4096) == 0 && mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED &&
           close(fd) == 0;
  });
  EXPECT_THAT(Words(api().Unmount(target, call())), HasSubstr(fmt::format("pid {} (", child.pid())));
}

TEST_F(KernelMountTest, DoesNotReportProcessesOfAnotherMountOfTheFileSystem) {
  const AbsolutePath staged = Mounted(Formatted("ext4"), "ext4");
  const AbsolutePath first = world_.NewDirectory();
  ASSERT_TRUE(api().Bind(staged.str(), first, {}, call()).has_value());
  const SleepingChild innocent([&] { return chdir(staged.c_str()) == 0; });
  const SleepingChild guilty([&] { return chdir(first.c_str()) == 0; });
  const std::string words = Words(api().Unmount(first, call()));
  EXPECT_THAT(words, HasSubstr(fmt::format("pid {} (", guilty.pid())));
  EXPECT_THAT(words, Not(HasSubstr(fmt::format("pid {} (", innocent.pid()))));
}

TEST_F(KernelMountTest, WaitsAMomentForAHolderToGo) {
  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4");
  auto holder = world_.Hold(target.str());
  std::thread([&holder] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    holder.reset();
  }).detach();
  EXPECT_TRUE(api().Unmount(target, call()).has_value());
}

TEST_F(KernelMountTest, NamesAMountInAnotherMountNamespace) {
  const std::string node = Formatted("ext4");
  const AbsolutePath target = Mounted(node, "ext4");
  {
    const SleepingChild other([] { return unshare(CLONE_NEWNS) == 0; });
    ASSERT_TRUE(api().Unmount(target, call()).has_value());
    const auto users = api().Users(world_.NumberOf(node));
    EXPECT_THAT(*users, Contains(AllOf(HasSubstr("in another mount namespace"), HasSubstr(target.str()),
                                       HasSubstr(fmt::format("pid {} (", other.pid())))));
    mount::MakeFilesystem spec;
    spec.fs_type = "ext4";
    spec.device = node;
    spec.overwrite = true;
    EXPECT_EQ(api().Make(spec, call()).error().code(), Code::kPrecondition);
  }
  // A namespace disappears a moment after its last process.
  for (int i = 0; i < 100 && !api().Users(world_.NumberOf(node))->empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_THAT(*api().Users(world_.NumberOf(node)), IsEmpty());
}

TEST_F(KernelMountTest, NamesAFileSystemThatNoProcessShowsAMountOf) {
  for (const char* type : {"ext4", "xfs", "btrfs"}) {
    const std::string node = Formatted(type);
    const AbsolutePath target = Mounted(node, type);
    // A detached mount: only this descriptor knows it.
    UniqueFd tree(open_tree(AT_FDCWD, target.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    ASSERT_TRUE(tree.valid());
    ASSERT_TRUE(api().Unmount(target, call()).has_value());
    EXPECT_THAT(*api().Users(world_.NumberOf(node)), Contains(HasSubstr("file system is in use"))) << type;
    tree.Reset();
    for (int i = 0; i < 100 && !api().Users(world_.NumberOf(node))->empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_THAT(*api().Users(world_.NumberOf(node)), IsEmpty()) << type;
  }
}

TEST_F(KernelMountTest, NamesTheProcessThatHasTheDeviceOpen) {
  const std::string node = world_.NewDevice(kSize);
  const SleepingChild child([&] { return open(node.c_str(), O_RDONLY) >= 0; });
  EXPECT_THAT(*api().Openers(world_.NumberOf(node)),
              Contains(HasSubstr(fmt::format("pid {} (", child.pid()))));
}

// --- Tools

TEST_F(KernelMountTest, AToolThatIsMissingIsNamedWithItsPackage) {
  SpawnSubprocess subprocess;
  mount::KernelMountConfig config;
  config.tool_directories = {"/var/empty"};
  mount::KernelMount bare(subprocess, config);
  mount::MakeFilesystem spec;
  spec.fs_type = "xfs";
  spec.device = world_.NewDevice(kSize);
  const Status made = bare.Make(spec, call());
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), Code::kPrecondition);
  EXPECT_THAT(Words(made), AllOf(HasSubstr("mkfs.xfs"), HasSubstr("xfsprogs")));
}

TEST_F(KernelMountTest, ACheckFailsBeyondItsMemoryLimit) {
  const std::string node = Formatted("ext4");
  world_.Damage(node, true);
  SpawnSubprocess subprocess;
  mount::KernelMountConfig config;
  config.check_memory = {2 * kMiB.value};  // not even libc fits
  mount::KernelMount poor(subprocess, config);
  const auto report = poor.Check("ext4", node, call());
  ASSERT_FALSE(report.has_value());
  EXPECT_NE(report.error().code(), Code::kCorrupt) << report.error().message();
  EXPECT_TRUE(api().Check("ext4", node, call())->repaired);
}

TEST_F(KernelMountTest, TheErrorHasTheMessageOfMkfs) {
  mount::MakeFilesystem spec;
  spec.fs_type = "ext4";
  spec.device = world_.NewDevice(kSize);
  spec.extra_options = "-O no_such_feature";
  const Status made = api().Make(spec, call());
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(Words(made), HasSubstr("no_such_feature"));
}

TEST_F(KernelMountTest, AnInterruptedMkfsCanBeRepeatedByOverwriting) {
  for (const char* type : {"ext4", "xfs", "btrfs"}) {
    mount::MakeFilesystem spec;
    spec.fs_type = type;
    spec.device = world_.NewDevice({2 * kGiB.value});
    for (const int wait : {2, 5, 10, 20}) {
      (void)api().Make(spec, CallWithin(std::chrono::milliseconds(wait)));
      spec.overwrite = true;
    }
    const Status made = api().Make(spec, call());
    ASSERT_TRUE(made.has_value()) << made.error().message();
    EXPECT_TRUE(api().Unmount(Mounted(spec.device, type), call()).has_value());
  }
}

TEST_F(KernelMountTest, FileSystemsAreAlignedToTheStripe) {
  mount::MakeFilesystem spec;
  spec.fs_type = "xfs";
  spec.device = world_.NewDevice(kSize);
  spec.stripe_unit = {64 * 1024};
  spec.data_stripes = 3;
  ASSERT_TRUE(api().Make(spec, call()).has_value()) << "the smallest sizes need fewer allocation groups";
  const AbsolutePath target = Mounted(spec.device, "xfs");
  EXPECT_THAT(RunTool({"xfs_info", target.str()}), HasSubstr("sunit=16     swidth=48 blks"));

  spec.fs_type = "ext4";
  spec.device = world_.NewDevice(kSize);
  ASSERT_TRUE(api().Make(spec, call()).has_value());
  const std::string header = RunTool({"dumpe2fs", "-h", spec.device});
  EXPECT_THAT(header, HasSubstr("RAID stride:              16"));
  EXPECT_THAT(header, HasSubstr("RAID stripe width:        48"));
  EXPECT_THAT(header, HasSubstr("metadata_csum_seed"));
  EXPECT_THAT(header, HasSubstr("has_journal"));
}

TEST_F(KernelMountTest, GrowsByAsLittleAsOneExtent) {
  for (const char* type : {"ext4", "xfs", "btrfs"}) {
    const std::string node = Formatted(type);
    const AbsolutePath target = Mounted(node, type);
    for (int i = 1; i <= 3; ++i) {
      world_.GrowDevice(node, kSize + Bytes{4 * kMiB.value * static_cast<uint64_t>(i)});
      const Status grown = api().Grow(type, node, target, call());
      EXPECT_TRUE(grown.has_value()) << Words(grown);
    }
  }
}

}  // namespace
}  // namespace quarry::contract
