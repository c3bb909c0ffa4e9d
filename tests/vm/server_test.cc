// A new user's day, from the Debian package alone: two blank disks become a mounted raid1 with an owner, by
// three commands and two files. The server is booted again, a disk is pulled, the administrator is told, the
// repair heals the volume. Before and After are on both sides of the boot.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr char kMountPoint[] = "/srv/data";
constexpr char kTold[] = "/var/lib/told";
constexpr char kHook[] = "/usr/local/sbin/quarry-changed";
constexpr uint64_t kLength = 8 << 20;

Outcome Shell(const std::string& script) {
  return Sh(script, std::chrono::seconds(300));
}
void Done(const std::string& script) {
  const Outcome done = Shell(script);
  ASSERT_EQ(done.status, 0) << script << ": " << done.out << done.err
                            << Shell("journalctl -b -u quarryd").out;
}
std::string Output(const std::string& script) {
  return Shell(script).out;
}
// The package in /opt/quarry/extra.
std::string Package() {
  for (const auto& entry : fs::directory_iterator("/opt/quarry/extra")) {
    if (entry.path().extension() == ".deb") {
      return entry.path();
    }
  }
  return "no package";
}

class Server : public testing::Test {
 protected:
  static void ExpectMounted() {
    struct stat root{};
    ASSERT_EQ(stat(kMountPoint, &root), 0);
    EXPECT_EQ(root.st_uid, 7U);
    EXPECT_EQ(root.st_mode & 07777U, 0750U);
    EXPECT_EQ(Shell(std::string("mountpoint -q ") + kMountPoint).status, 0);
  }
};

TEST_F(Server, Before) {
  // The files.
  fs::create_directories("/etc/quarry/volumes.d");
  std::ofstream config("/etc/quarry/quarry.toml");
  config << "endpoint = \"unix:///run/quarry/csi.sock\"\non-change = \"" << kHook
         << "\"\n[[pool]]\nname = \"main\"\n"
         << "vg = \"vg-data\"\ndevices = [";
  for (const std::string& disk : DiskNodes()) {
    config << '"' << disk << "\", ";
  }
  config << "]\n" << std::flush;
  std::ofstream("/etc/quarry/volumes.d/data.toml")
      << "[[volume]]\nname = \"data\"\nsize = \"128MiB\"\ntype = \"raid1\"\nmount = \"" << kMountPoint
      << "\"\nowner = \"7:8\"\nmode = \"0750\"\n"
      << std::flush;
  std::ofstream(kHook) << "#!/bin/sh\necho \"$QUARRY_EVENT_SUMMARY\" >> " << kTold << "\n" << std::flush;
  ASSERT_EQ(chmod(kHook, 0755), 0);

  // The commands. The package's question about the configuration file is answered with the one that is there.
  ASSERT_NO_FATAL_FAILURE(
      Done("DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Options::=--force-confold install " +
           Package()));
  ASSERT_NO_FATAL_FAILURE(Done("systemctl enable --now quarryd"));
  ASSERT_NO_FATAL_FAILURE(Done("quarryctl apply"));

  ASSERT_NO_FATAL_FAILURE(ExpectMounted());
  EXPECT_THAT(Output("quarryctl apply"), HasSubstr("nothing to do"));
  EXPECT_TRUE(Eventually([] { return Shell("quarryctl check").status == 0; })) << Output("quarryctl check");
  ASSERT_OK(WritePattern(std::string(kMountPoint) + "/f", 1, kLength));
  ASSERT_NO_FATAL_FAILURE(Done("sync"));
}

TEST_F(Server, After) {
  EXPECT_TRUE(Eventually([] { return Shell(std::string("mountpoint -q ") + kMountPoint).status == 0; }, 120))
      << Output("journalctl -b -u quarryd");
  ASSERT_NO_FATAL_FAILURE(ExpectMounted());
  EXPECT_OK(CheckPattern(std::string(kMountPoint) + "/f", 1, kLength));
  EXPECT_TRUE(Eventually([] { return Shell("quarryctl check").status == 0; }, 120))
      << Output("quarryctl check");

  // A reload succeeds only if the file as it is written is in force.
  const std::string file = "/etc/quarry/quarry.toml";
  ASSERT_NO_FATAL_FAILURE(Done("sed -i '1i health-interval = 7' " + file + " && systemctl reload quarryd"));
  ASSERT_NO_FATAL_FAILURE(Done("sed -i '1i trim-hours = 5' " + file));
  EXPECT_NE(Shell("systemctl reload quarryd").status, 0);
  EXPECT_THAT(Output("journalctl -b -u quarryd"),
              HasSubstr("trim-hours is not in force before quarryd is restarted"));
  ASSERT_NO_FATAL_FAILURE(Done("sed -i '1i nonsense = 1' " + file));
  EXPECT_NE(Shell("systemctl reload quarryd").status, 0);
  ASSERT_NO_FATAL_FAILURE(Done("sed -i 1,2d " + file + " && systemctl reload quarryd"));

  ASSERT_NO_FATAL_FAILURE(Done("vmctl pull 1"));
  ASSERT_OK(WritePattern(std::string(kMountPoint) + "/g", 2, kLength));
  EXPECT_TRUE(Eventually([] { return Shell("quarryctl check").status == 2; }, 120))
      << Output("quarryctl check");
  EXPECT_THAT(Output("quarryctl check"), HasSubstr("QUARRY CRITICAL"));
  EXPECT_TRUE(Eventually(
      [] { return Output(std::string("cat ") + kTold).find("degraded") != std::string::npos; }, 120))
      << Output("journalctl -b -u quarryd");

  ASSERT_NO_FATAL_FAILURE(Done("vmctl return 1"));
  EXPECT_TRUE(Eventually([] { return Shell("quarryctl check").status == 0; }, 240))
      << Output("quarryctl status");
  EXPECT_TRUE(Eventually(
      [] { return Output(std::string("tail -n 3 ") + kTold).find("healthy") != std::string::npos; }, 120))
      << Output(std::string("cat ") + kTold);
  EXPECT_OK(CheckPattern(std::string(kMountPoint) + "/f", 1, kLength));
  EXPECT_OK(CheckPattern(std::string(kMountPoint) + "/g", 2, kLength));
  EXPECT_THAT(Output("quarryctl apply"), HasSubstr("nothing to do"));
  printf("%s%s", Output(std::string("cat ") + kTold).c_str(), Output("quarryctl status").c_str());
}

}  // namespace
}  // namespace quarry::vm
