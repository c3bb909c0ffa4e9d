// Buckets on real volumes: killed at every step of create, grant, revoke and delete; a power cut after a
// grant; a disk that is lost. An HTTP server stands for the gateway, so that this test needs no other
// program: what the gateway does with the files is the matter of tests/gateway.
#include <httplib.h>
#include <sys/xattr.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

namespace fs = std::filesystem;

constexpr char kFolder[] = "/run/quarry/s3";
constexpr char kOrder[] = "/run/quarry-test/bucket-order";
constexpr char kNotes[] = "/root/bucket-notes";
constexpr int kMostKills = 40;

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class StandIn {
 public:
  StandIn() {
    // What quarryd's probe asks for: a bucket that does not exist.
    server_.Get("/.*", [](const httplib::Request&, httplib::Response& response) {
      response.status = 404;
      response.set_content("<Error><Code>NoSuchBucket</Code></Error>", "application/xml");
    });
    thread_ = std::thread([this] { server_.listen("127.0.0.1", 7070); });
    Eventually([this] { return server_.is_running(); }, 20);
  }
  ~StandIn() {
    server_.stop();
    thread_.join();
  }

 private:
  httplib::Server server_;
  std::thread thread_;
};

class Buckets : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories("/run/quarry-test");
    fs::remove(kOrder);
  }

  // The links of quarryd's active volumes are its own, and the system's LVM leaves them.
  static void RemoveActive(VolumeGroup& group) {
    (void)Sh("umount /run/quarry/s3/volumes/*");
    EXPECT_EQ(Sh("grep /run/quarry/s3 /proc/mounts").out, "");
    group.Remove();
    EXPECT_EQ(Sh("dmsetup ls").out, "No devices found\n");
    (void)Sh("rm -rf /dev/vg");
  }

  static Outcome Try(std::vector<std::string> words) {
    words.insert(words.begin(), "bucket_call");
    return Tool(words, std::chrono::seconds(180));
  }
  static std::string Do(const std::vector<std::string>& words) {
    const Outcome outcome = Try(words);
    EXPECT_TRUE(outcome.ok()) << words[0] << ": " << outcome.out << outcome.err;
    return Trim(outcome.out);
  }
  static Outcome Quarryctl(std::vector<std::string> words) {
    words.insert(words.begin(), "quarryctl");
    words.insert(words.end(), {"--endpoint", kAdminEndpoint});
    return Tool(words, std::chrono::seconds(180));
  }
  // Kills the call at each of its steps in turn, and repeats it until it is answered. `check` looks at the
  // world after each death, once the next start has put it in order.
  std::string DoWithDeaths(const std::vector<std::string>& words, const std::function<void()>& check) {
    std::ofstream(std::string(kOrder) + ".done", std::ios::trunc);
    setenv("QUARRY_CRASH_ORDER", kOrder, 1);
    for (int i = 0; i < kMostKills; ++i) {
      std::ofstream(kOrder) << "amid-ms 5\n";
      const Outcome outcome = Try(words);
      fs::remove(kOrder);
      if (outcome.ok()) {
        return Trim(outcome.out);
      }
      EXPECT_EQ(outcome.status, -1) << "an error instead of a death: " << outcome.out << outcome.err;
      ++deaths_;
      if (deaths_ % 3 == 0) {
        check();
      }
    }
    ADD_FAILURE() << words[0] << " makes no progress";
    return "";
  }

  static fs::path Link(const std::string& name) { return fs::path(kFolder) / "root" / name; }
  static bool Serves(const std::string& name) { return fs::is_directory(Link(name)); }
  static std::string Users() { return ReadAll(fs::path(kFolder) / "iam/users.json"); }
  static std::string Policy(const std::string& name) {
    std::string text(65536, '\0');
    const ssize_t n = ::getxattr(Link(name).c_str(), "user.policy", text.data(), text.size());
    return text.substr(0, n < 0 ? 0 : static_cast<size_t>(n));
  }
  static bool MayUse(const std::string& account, const std::string& name) {
    return Users().find('"' + account + '"') != std::string::npos &&
           Policy(name).find('"' + account + '"') != std::string::npos;
  }

  StandIn gateway_;
  int deaths_ = 0;
};

// The group of before the cut is there afterwards, so these two come first.
TEST_F(Buckets, BeforeACut) {
  VolumeGroup group(kGroup, DiskNodes());
  group.Keep();
  ASSERT_OK(group.Make());
  const std::string id = Do({"create", "logs", "size=400M"});
  const std::string gone = Do({"grant", "gone", id});
  const std::string secret = Do({"grant", "app", id});
  EXPECT_EQ(Do({"revoke", "gone", id}), "revoked");
  std::ofstream(kNotes) << id << ' ' << secret << ' ' << gone;
  ASSERT_TRUE(Sh("sync " + std::string(kNotes)).ok());
}

TEST_F(Buckets, AfterACut) {
  VolumeGroup group(kGroup, DiskNodes());
  std::string id, secret, gone;
  std::ifstream(kNotes) >> id >> secret >> gone;
  EXPECT_FALSE(Serves("logs"));
  const std::string listed = Do({"list"});
  EXPECT_NE(listed.find("logs serves"), std::string::npos) << listed;
  EXPECT_TRUE(MayUse("app", "logs"));
  EXPECT_NE(Users().find(secret), std::string::npos) << "what was granted is there";
  EXPECT_EQ(Users().find(gone), std::string::npos) << "what was revoked is not";
  EXPECT_EQ(Do({"grant", "app", id}), secret);
  RemoveActive(group);
}

TEST_F(Buckets, KilledAtEveryStep) {
  VolumeGroup group(kGroup, DiskNodes());
  ASSERT_OK(group.Make());
  const int64_t free = *group.FreeExtents();
  const std::string id = DoWithDeaths({"create", "logs", "size=400M", "ondelete=erase"}, [] {});
  ASSERT_TRUE(Serves("logs")) << id;
  EXPECT_EQ(group.Lvs()->size(), 1U) << "no second volume";
  const std::string options = Sh("grep /run/quarry/s3/volumes/ /proc/mounts").out;
  for (const char* option : {"xfs", "sync", "nosuid", "nodev", "noexec"}) {
    EXPECT_NE(options.find(option), std::string::npos) << options;
  }
  const std::string kept = Do({"grant", "kept", id});
  const auto kept_is_as_it_was = [&] {
    EXPECT_NE(Do({"list"}).find("logs serves"), std::string::npos);
    EXPECT_TRUE(MayUse("kept", "logs"));
    EXPECT_NE(Users().find(kept), std::string::npos) << "its secret has changed";
  };
  const std::string secret = DoWithDeaths({"grant", "app", id}, kept_is_as_it_was);
  EXPECT_EQ(secret.size(), 48U);
  EXPECT_TRUE(MayUse("app", "logs"));
  EXPECT_EQ(Do({"grant", "app", id}), secret);
  EXPECT_EQ(DoWithDeaths({"revoke", "app", id}, kept_is_as_it_was), "revoked");
  EXPECT_FALSE(MayUse("app", "logs"));
  EXPECT_EQ(Users().find(secret), std::string::npos);
  kept_is_as_it_was();
  std::ofstream(Link("logs") / "object") << "x";
  EXPECT_EQ(DoWithDeaths({"delete", id}, [] {}), "deleted");
  EXPECT_FALSE(fs::is_symlink(Link("logs")));
  EXPECT_EQ(Users().find("kept"), std::string::npos);
  EXPECT_EQ(Sh("grep -c /run/quarry/s3/ /proc/mounts").out, "0\n");
  EXPECT_EQ(*group.FreeExtents(), free) << "space has leaked";
  printf("%d deaths\n", deaths_);
}

TEST_F(Buckets, ALostDiskTakesOnlyItsBucketAway) {
  const std::vector<std::string> disks = DiskNodes();
  VolumeGroup group(kGroup, disks);
  ASSERT_OK(group.Make());
  // Most of the first disk, then the second.
  const std::string lost = Do({"create", "lost", "size=700M"});
  const std::string fine = Do({"create", "fine", "size=700M"});
  const auto legs = group.LegDevices(LvNameIn(lost));
  ASSERT_OK(legs);
  ASSERT_FALSE(*legs == *group.LegDevices(LvNameIn(fine)));
  const std::string secret = Do({"grant", "app", lost});
  size_t number = 0;
  while (number < disks.size() && !legs->front().contains(disks[number])) {
    ++number;
  }
  auto quarryd = QuarrydProcess::Start({.arguments = {"--s3-listen=127.0.0.1:7070", "--s3-user=nobody"}});
  ASSERT_OK(quarryd);
  ASSERT_OK((*quarryd)->WaitReady());
  ASSERT_TRUE(Eventually([] { return Serves("lost") && Serves("fine"); }));
  ASSERT_TRUE(Tool({"vmctl", "pull", std::to_string(number + 1)}).ok());
  EXPECT_TRUE(Eventually([] { return !fs::is_symlink(Link("lost")); })) << (*quarryd)->Log();
  EXPECT_TRUE(Eventually([&] {
    return (*quarryd)->Log().find("a bucket does not serve") != std::string::npos;
  })) << "it is told";
  EXPECT_TRUE(Serves("fine"));
  std::ofstream(Link("fine") / "object") << "x";
  EXPECT_EQ(ReadAll(Link("fine") / "object"), "x");
  ASSERT_TRUE(Tool({"vmctl", "return", std::to_string(number + 1)}).ok());
  EXPECT_TRUE(Eventually([] { return Serves("lost"); }, 120)) << (*quarryd)->Log();
  EXPECT_TRUE(MayUse("app", "lost"));
  EXPECT_NE(Users().find(secret), std::string::npos);

  // Now it is gone for good.
  ASSERT_TRUE(Tool({"vmctl", "pull", std::to_string(number + 1)}).ok());
  ASSERT_TRUE(Eventually([] { return !fs::is_symlink(Link("lost")); })) << (*quarryd)->Log();
  const Outcome unseen = Quarryctl({"bucket", "delete", "lost", "--yes"});
  EXPECT_EQ(unseen.status, 1);
  EXPECT_NE(unseen.err.find("bucket delete --lost " + lost), std::string::npos) << unseen.err;
  const Outcome here = Quarryctl({"bucket", "delete", "fine", "--lost", "--yes"});
  EXPECT_EQ(here.status, 1);
  EXPECT_NE(here.err.find("lacks no disk"), std::string::npos) << here.err;
  const Outcome gone = Quarryctl({"bucket", "delete", "lost", "--lost", "--yes"});
  EXPECT_TRUE(gone.ok()) << gone.err << (*quarryd)->Log();
  EXPECT_EQ(Users().find(secret), std::string::npos);
  EXPECT_EQ(Sh("grep -c /run/quarry/s3/volumes/ /proc/mounts").out, "1\n");
  // One gives the disk up, so the volume goes; another one takes the disk out of the group.
  EXPECT_TRUE(Eventually(
      [] {
        (void)Quarryctl({"repair"});
        return Trim(Sh("vgs --noheadings --separator / -o pv_count,lv_count,vg_missing_pv_count vg").out) ==
               "1/1/0";
      },
      120))
      << Sh("vgs -o pv_count,lv_count,vg_missing_pv_count vg; lvs -a -o +lv_tags vg").out
      << (*quarryd)->Log();
  EXPECT_EQ(ReadAll(Link("fine") / "object"), "x");
  EXPECT_EQ((*quarryd)->Stop(), 0);
  RemoveActive(group);
}

}  // namespace
}  // namespace quarry::vm
