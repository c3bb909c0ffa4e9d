// A server without an orchestrator: quarryctl makes, mounts, grows, copies and deletes volumes, one by one
// and from a declaration. The mounts come back after a kill and after a power cut (the harness cuts the power
// between Before and After).
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kDeclared[] = "/run/quarry-test/volumes.toml";
constexpr char kMountPoint[] = "/srv/data";
constexpr uint64_t kLength = 4 << 20;

Outcome Ctl(std::vector<std::string> words) {
  words.insert(words.begin(), "quarryctl");
  words.insert(words.end(), {"--endpoint", kAdminEndpoint});
  return Tool(words);
}
Outcome Volume(std::vector<std::string> words) {
  words.insert(words.begin(), "volume");
  return Ctl(std::move(words));
}
void Declare(const std::string& text) {
  std::ofstream(kDeclared) << text;
}
Outcome Apply(std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"apply", "-f", kDeclared});
  return Ctl(std::move(more));
}
bool IsMountPoint(const std::string& path) {
  return Tool({"mountpoint", "-q", path}).ok();
}
std::string Declaration(const std::string& size) {
  return "[[volume]]\nname = \"data\"\nsize = \"" + size + "\"\ntype = \"raid1\"\nmount = \"" + kMountPoint +
         "\"\noptions = [\"noatime\"]\nowner = \"7:8\"\nmode = \"0750\"\n"
         "[[volume]]\nname = \"raw\"\nsize = \"16MiB\"\nraw = true\n";
}

#define ASSERT_DONE(outcome, words)           \
  do {                                        \
    const Outcome done_ = (outcome);          \
    ASSERT_EQ(done_.status, 0) << done_.err;  \
    ASSERT_THAT(done_.out, HasSubstr(words)); \
  } while (false)

// One line on standard error that contains `words`.
#define EXPECT_REFUSED(outcome, exit_status, words)                          \
  do {                                                                       \
    const Outcome refused_ = (outcome);                                      \
    EXPECT_EQ(refused_.status, exit_status) << refused_.out << refused_.err; \
    EXPECT_THAT(refused_.err, HasSubstr(words));                             \
    EXPECT_EQ(std::ranges::count(refused_.err, '\n'), 1) << refused_.err;    \
  } while (false)

class ByHand : public VmTest {
 protected:
  void TearDown() override {
    (void)Tool({"umount", kMountPoint});
    VmTest::TearDown();
  }
};

TEST_F(ByHand, ADeclaredServerIsMadeGrownAndKeptOverAKill) {
  Declare(Declaration("40MiB"));
  ASSERT_DONE(Apply({"--dry-run"}), "would create volume data: 40 MiB raid1 ext4");
  ASSERT_DONE(Volume({"list"}), "there are no volumes");
  ASSERT_DONE(Apply(), "done: mount volume data at /srv/data (noatime)");
  struct stat root{};
  ASSERT_EQ(stat(kMountPoint, &root), 0);
  EXPECT_EQ(root.st_uid, 7U);
  EXPECT_EQ(root.st_gid, 8U);
  EXPECT_EQ(root.st_mode & 07777U, 0750U);
  EXPECT_THAT(Sh("findmnt -no OPTIONS /srv/data").out, HasSubstr("noatime"));
  ASSERT_OK(WritePattern(std::string(kMountPoint) + "/f", 1, kLength));
  ASSERT_DONE(Apply(), "nothing to do: every volume is as declared");

  Declare(Declaration("80MiB"));
  ASSERT_DONE(Apply(), "done: grow volume data from 40 MiB to 80 MiB");
  ASSERT_OK(WritePattern(std::string(kMountPoint) + "/more", 2, 50 << 20));
  Declare(Declaration("40MiB"));
  ASSERT_DONE(Apply(), "note: volume data stays as large as it is");

  // A failed step leaves what worked as it was.
  Declare(Declaration("80MiB") + "[[volume]]\nname = \"data\"\nsize = \"1MiB\"\n");
  EXPECT_REFUSED(Apply(), 2, "is declared before");
  std::string moved = Declaration("80MiB");
  moved.replace(moved.find(kMountPoint), std::string(kMountPoint).size(), "/etc");
  Declare(moved);
  EXPECT_REFUSED(Apply({"--dry-run"}), 1, "'/etc' is not empty");
  EXPECT_REFUSED(Apply(), 1, "'/etc' is not empty");
  EXPECT_TRUE(IsMountPoint(kMountPoint));
  moved.replace(moved.find("/etc"), 4, "/srv/moved");
  Declare(moved);
  ASSERT_DONE(Apply(), "done: mount volume data at /srv/moved");
  EXPECT_FALSE(IsMountPoint(kMountPoint));
  EXPECT_OK(CheckPattern("/srv/moved/f", 1, kLength));
  Declare(Declaration("40MiB"));
  ASSERT_DONE(Apply(), "done: unmount volume data from /srv/moved");

  KillAndRestart();
  EXPECT_TRUE(IsMountPoint(kMountPoint));
  ASSERT_TRUE(Tool({"umount", kMountPoint}).ok());
  KillAndRestart();
  EXPECT_TRUE(Eventually([] { return IsMountPoint(kMountPoint); })) << quarryd().Log();
  EXPECT_OK(CheckPattern(std::string(kMountPoint) + "/f", 1, kLength));
  EXPECT_OK(CheckPattern(std::string(kMountPoint) + "/more", 2, 50 << 20));
  ASSERT_DONE(Apply(), "note: ");

  EXPECT_REFUSED(Volume({"delete", "data", "--yes"}), 1, "has the mount point /srv/data");
  Declare("[[volume]]\nname = \"raw\"\nsize = \"16MiB\"\nraw = true\n");
  ASSERT_DONE(Apply(), "nothing to do");
  EXPECT_TRUE(IsMountPoint(kMountPoint)) << "what is not declared stays";
  ASSERT_DONE(Apply({"--delete", "data"}), "done: delete volume data and its data");
  EXPECT_FALSE(IsMountPoint(kMountPoint));
  ASSERT_DONE(Volume({"delete", "raw", "--yes"}), "deleted volume raw");
  ASSERT_DONE(Volume({"delete", "raw", "--yes"}), "there is no volume 'raw' any more");
}

TEST_F(ByHand, AVolumeIsCopiedAndBroughtBack) {
  ASSERT_DONE(Volume({"create", "data", "--size", "32MiB", "type=raid1", "--mount", kMountPoint}),
              "created volume data: 32 MiB raid1 ext4, mounted at /srv/data");
  ASSERT_OK(WritePattern(std::string(kMountPoint) + "/f", 3, kLength));
  EXPECT_REFUSED(Volume({"snapshot", "data", "before"}), 1, "in use");
  ASSERT_DONE(Volume({"unmount", "data"}), "volume data is unmounted from /srv/data");
  ASSERT_DONE(Volume({"unmount", "data"}), "was not mounted");
  ASSERT_DONE(Volume({"snapshot", "data", "before"}), "snapshot before of volume data");
  ASSERT_DONE(Volume({"mount", "data", kMountPoint, "-o", "ro"}), "is mounted at /srv/data");
  EXPECT_FALSE(WritePattern(std::string(kMountPoint) + "/g", 3, 4096).has_value());
  ASSERT_DONE(Volume({"unmount", "data"}), "is unmounted");
  ASSERT_DONE(Volume({"clone", "data", "twin"}), "volume twin has the bytes of volume data");
  ASSERT_DONE(Volume({"delete", "data", "--yes"}), "deleted volume data");
  ASSERT_DONE(Volume({"restore", "before", "again"}), "volume again has the bytes of snapshot before");
  for (const std::string name : {"twin", "again"}) {
    ASSERT_DONE(Volume({"mount", name, kMountPoint}), "is mounted");
    EXPECT_OK(CheckPattern(std::string(kMountPoint) + "/f", 3, kLength)) << name;
    ASSERT_DONE(Volume({"unmount", name}), "is unmounted");
  }
  ASSERT_DONE(Volume({"list"}), "snapshot");
  ASSERT_DONE(Volume({"show", "again", "--json"}), "\"mount_point\":\"\"");
  for (const std::string name : {"before", "twin", "again"}) {
    ASSERT_DONE(Volume({"delete", name, "--yes"}), "deleted ");
  }
}

TEST_F(ByHand, APathWithALinkIsOnePath) {
  ASSERT_TRUE(Sh("mkdir -p /srv/real && ln -sfn /srv/real /srv/link").ok());
  for (int i = 0; i < 2; ++i) {
    ASSERT_DONE(Volume({"create", "data", "--size", "16MiB", "--mount", "/srv/link/data"}),
                "mounted at /srv/real/data");
  }
  ASSERT_DONE(Volume({"mount", "data", "/srv/link/data"}), "is mounted at /srv/real/data");
  EXPECT_REFUSED(Volume({"mount", "data", "/srv/elsewhere"}), 1, "unmount it first");
  ASSERT_DONE(Volume({"unmount", "data", "/srv/link/data"}), "is unmounted from /srv/real/data");
  ASSERT_DONE(Volume({"delete", "data", "--yes"}), "deleted");
}

TEST_F(ByHand, BadInputIsOneLineWithTheRemedy) {
  EXPECT_REFUSED(Volume({"create", "x", "--size", "10GB"}), 2, "--size: must be");
  EXPECT_REFUSED(Volume({"create", "x", "--size", "16MiB", "type=raid7"}), 2, "raid7");
  EXPECT_REFUSED(Volume({"create", "x", "--size", "16MiB", "--owner", "root"}), 2, "--mount");
  EXPECT_REFUSED(Volume({"create", "x", "--size", "16MiB", "--mount", "/srv/x", "--owner", "nobody-here"}), 2,
                 "there is no user 'nobody-here'");
  EXPECT_REFUSED(Volume({"create", "x", "--size", "100TiB", "--dry-run"}), 1, "can have at most");
  EXPECT_REFUSED(Volume({"create", "x", "--size", "100TiB"}), 1, "");
  EXPECT_REFUSED(Volume({"mount", "x", "/srv/x"}), 1, "there is no volume 'x'");
  ASSERT_DONE(Volume({"create", "x", "--size", "16MiB"}), "created volume x");
  ASSERT_DONE(Volume({"create", "x", "--size", "16MiB"}), "there is already volume x");
  EXPECT_REFUSED(Volume({"create", "x", "--size", "32MiB"}), 1, "x");
  EXPECT_REFUSED(Volume({"mount", "x"}), 1, "has no mount point yet");
  EXPECT_REFUSED(Volume({"mount", "x", "/etc"}), 1, "'/etc' is not empty");
  EXPECT_REFUSED(Volume({"mount", "x", "srv"}), 2, "PATH: ");
  EXPECT_REFUSED(Volume({"mount", "x", "/srv/x", "-o", "bind"}), 2, "bind");
  EXPECT_REFUSED(Volume({"grow", "x", "--size", "8MiB"}), 2, "never shrinks");
  EXPECT_REFUSED(Volume({"delete", "x"}), 2, "--yes");
  EXPECT_REFUSED(Ctl({"apply", "-f", "/none.toml"}), 2, "/none.toml");
  Declare("[[volume]]\nname = \"x\"\nsize = \"16MiB\"\ntype = \"raid1\"\n");
  EXPECT_REFUSED(Apply(), 1, "volume 'x' exists with type linear, and raid1 is declared");
  ASSERT_DONE(Volume({"delete", "x", "--yes"}), "deleted volume x");
}

// No VmTest: the group must outlive the process.
class ByHandReboot : public testing::Test {
 protected:
  void Start() {
    auto started = QuarrydProcess::Start({});
    ASSERT_OK(started);
    quarryd_ = std::move(*started);
    ASSERT_OK(quarryd_->WaitReady(std::chrono::seconds(120)));
  }
  std::unique_ptr<QuarrydProcess> quarryd_;
};

TEST_F(ByHandReboot, Before) {
  VolumeGroup group(kGroup, DiskNodes());
  group.Keep();
  ASSERT_OK(group.Make());
  Start();
  ASSERT_DONE(Volume({"create", "data", "--size", "32MiB", "type=raid1", "--mount", kMountPoint}),
              "mounted at");
  ASSERT_OK(WritePattern(std::string(kMountPoint) + "/f", 5, kLength));
  ASSERT_TRUE(Sh(std::string("sync -f ") + kMountPoint).ok());
  (void)quarryd_.release();  // the power cut ends it
}

TEST_F(ByHandReboot, After) {
  VolumeGroup group(kGroup, DiskNodes());
  EXPECT_FALSE(IsMountPoint(kMountPoint));
  // As quarry-volume@.service does it: while quarryd starts.
  auto started = QuarrydProcess::Start({});
  ASSERT_OK(started);
  quarryd_ = std::move(*started);
  ASSERT_TRUE(Eventually([] { return Sh("test -S /run/quarry/admin.sock").ok(); }));
  ASSERT_DONE(Volume({"mount", "data"}), "is mounted at /srv/data");  // waits for what the start does anyhow
  EXPECT_OK(CheckPattern(std::string(kMountPoint) + "/f", 5, kLength));
  ASSERT_DONE(Volume({"unmount", "data"}), "is unmounted");
  ASSERT_DONE(Volume({"delete", "data", "--yes"}), "deleted");
}

}  // namespace
}  // namespace quarry::vm
