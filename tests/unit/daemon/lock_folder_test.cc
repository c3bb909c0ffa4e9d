#include "daemon/locking/lock_folder.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/daemon/temporary_directory.h"

namespace quarry::daemon {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kFirst[] = "pid:[4026531836]";
constexpr char kOwn[] = "pid:[4026532001]";

// As much of a /proc, of a process in a container or on a host, as the check reads.
class LockFolder : public testing::Test {
 protected:
  LockFolder() {
    fs::create_directories(proc() + "/self/ns");
    fs::create_directories(proc() + "/1/ns");
    fs::create_directories(host() + "/etc/lvm");
    std::ofstream(proc() + "/self/mountinfo") << "30 1 0:24 / /run rw - tmpfs tmpfs rw\n";
  }

  std::string proc() const { return directory_.path() + "/proc"; }
  std::string host() const { return directory_.path() + "/host"; }
  std::string folder() const { return directory_.path() + "/run/lock/lvm"; }

  void Namespaces(const std::string& pids, bool shares_mounts) {
    fs::create_directories(directory_.path() + "/run");
    fs::create_symlink(pids, proc() + "/self/ns/pid");
    fs::create_symlink("mnt:[1]", proc() + "/self/ns/mnt");
    fs::create_symlink(shares_mounts ? "mnt:[1]" : "mnt:[2]", proc() + "/1/ns/mnt");
  }
  // The root of process 1: one of its own, or this test's, in which all paths are the same.
  void Root(const std::string& of_process_1) { fs::create_symlink(of_process_1, proc() + "/1/root"); }
  void Mount(const std::string& root = "/lvm") {
    std::ofstream(proc() + "/self/mountinfo", std::ios::app)
        << "31 30 0:24 " << root << " " << folder() << " rw shared:5 - tmpfs tmpfs rw\n";
  }
  // Makes the host's folder below the host's root; `ours`: it is the same as this process's.
  void HostHas(const std::string& path, bool ours) {
    fs::create_directories(folder());
    fs::create_directories(fs::path(host() + path).parent_path());
    if (ours) {
      fs::remove_all(folder());
      fs::create_directories(host() + path);
      fs::create_directories(fs::path(folder()).parent_path());
      fs::create_directory_symlink(host() + path, folder());
    } else {
      fs::create_directories(host() + path);
    }
  }
  Status Check() { return CheckLockFolder({.folder = folder(), .proc = proc()}); }
  void ExpectRefused(const std::string& host_folder) {
    const Status checked = Check();
    ASSERT_FALSE(checked.has_value());
    EXPECT_EQ(checked.error().code(), Code::kPrecondition);
    EXPECT_THAT(checked.error().message(),
                AllOf(HasSubstr("Mount the host's '" + host_folder + "' at '" + folder() + "'")));
  }

  TemporaryDirectory directory_;
};

TEST_F(LockFolder, IsMadeOnAPlainHostAndIsTheHosts) {
  Namespaces(kFirst, true);
  Root("/");
  EXPECT_TRUE(Check().has_value()) << Check().error().message();
  EXPECT_EQ(fs::status(folder()).permissions(), fs::perms::owner_all);
}

TEST_F(LockFolder, NeedsNoPermissionToInspectProcess1OnAPlainHost) {
  Namespaces(kFirst, true);
  EXPECT_TRUE(Check().has_value());
}

TEST_F(LockFolder, IsTheHostsForAServiceWithItsOwnMountsThatSharesRun) {
  Namespaces(kFirst, false);
  Root("/");
  EXPECT_TRUE(Check().has_value());
}

TEST_F(LockFolder, MustBeTheHostsVeryFolderInAContainer) {
  Namespaces(kFirst, false);
  Root(host());
  ExpectRefused(folder());
  Mount();
  ExpectRefused(folder());  // a mount of another folder
}

TEST_F(LockFolder, IsAcceptedInAContainerThatMountsTheHosts) {
  Namespaces(kFirst, false);
  Root(host());
  HostHas(folder(), true);
  EXPECT_TRUE(Check().has_value()) << Check().error().message();
}

TEST_F(LockFolder, MustBeAMountInAContainerThatCannotSeeTheHost) {
  Namespaces(kOwn, true);
  Root("/");
  ExpectRefused(folder());
  Mount();
  EXPECT_TRUE(Check().has_value());
}

// If the containers of a pod share a PID namespace, process 1 is "pause".
TEST_F(LockFolder, ProcessOneOfAPodProvesNothing) {
  Namespaces(kOwn, false);
  Root(host());
  ExpectRefused(folder());
  Mount();
  EXPECT_TRUE(Check().has_value());
}

// An emptyDir on disk, an emptyDir in memory, and a volume made by a container runtime.
TEST_F(LockFolder, IsNotAnyMountInAContainerThatCannotSeeTheHost) {
  Namespaces(kOwn, false);
  for (const char* root : {"/var/lib/kubelet/pods/1/volumes/kubernetes.io~empty-dir/lvm", "/",
                           "/var/lib/docker/volumes/1/_data", "/srv/locks", "/run/lock/lvm//deleted"}) {
    SCOPED_TRACE(root);
    Mount(root);
    ExpectRefused(folder());
    EXPECT_THAT(Check().error().message(),
                AllOf(HasSubstr("'" + std::string(root) + "'"), HasSubstr("(hostPID)")));
  }
  Mount("/run/lock/lvm");  // on top of the others
  EXPECT_TRUE(Check().has_value()) << Check().error().message();
}

TEST_F(LockFolder, IsCheckedByNameIfTheHostsProcess1MayNotBeInspected) {
  Namespaces(kFirst, false);
  ExpectRefused(folder());
  Mount("/");
  ExpectRefused(folder());
  Mount("/lock/lvm");
  EXPECT_TRUE(Check().has_value()) << Check().error().message();
}

TEST_F(LockFolder, IsTheFolderThatTheHostsLvmConfNames) {
  Namespaces(kFirst, false);
  Root(host());
  HostHas(folder(), true);
  std::ofstream(host() + "/etc/lvm/lvm.conf") << "global {\n\tlocking_dir = \"/srv/locks\"\n}\n";
  ExpectRefused("/srv/locks");
  fs::remove_all(folder());
  HostHas("/srv/locks", true);
  EXPECT_TRUE(Check().has_value()) << Check().error().message();
}

TEST(LockingDirOf, ReadsTheSettingAndNothingElse) {
  EXPECT_EQ(LockingDirOf(""), "");
  EXPECT_EQ(LockingDirOf("global {\n\t# locking_dir = \"/a\"\n}\n"), "");
  EXPECT_EQ(LockingDirOf("global {\n\tlocking_dir = \"/run/lock/lvm\"\n}\n"), "/run/lock/lvm");
  EXPECT_EQ(LockingDirOf("global/locking_dir=\"/b\" # \"/c\"\n"), "/b");
  EXPECT_EQ(LockingDirOf("global { locking_dir = \"/b\"\n locking_dir = \"/c\" }\n"), "/c");
  EXPECT_EQ(LockingDirOf("locking_dir"), "");
  EXPECT_EQ(LockingDirOf("locking_dir = \"/b"), "");
  EXPECT_EQ(LockingDirOf("locking_dir_of = \"/b\""), "");
}

}  // namespace
}  // namespace quarry::daemon
