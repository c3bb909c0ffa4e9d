#include "lvm/fresh/metadata_header_reader.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "tests/unit/lvm/slow_disk.h"

namespace quarry::lvm {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using Kind = PvState::Kind;

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.is_open()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

// A folder of disk images on the file system of the build, which supports O_DIRECT (a tmpfs may not).
class Reader : public testing::Test {
 protected:
  Reader() {
    std::string name = QUARRY_SCRATCH "/headers-XXXXXX";
    fs::create_directories(QUARRY_SCRATCH);
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~Reader() override { fs::remove_all(folder_); }

  static std::string Front(const std::string& name, int disk) {
    return ReadFile(fs::path(QUARRY_FIXTURES) / "lvm/headers/2.03.16" / name /
                    (std::to_string(disk) + ".front"));
  }
  std::string Image(const std::string& name, const std::string& bytes, uint64_t at = 0) {
    const fs::path path = folder_ / name;
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    if (!file.is_open()) {
      std::ofstream(path).close();
      file.open(path, std::ios::binary | std::ios::in | std::ios::out);
    }
    file.seekp(static_cast<std::streamoff>(at));
    file << bytes;
    file.close();
    // A direct read waits for data that is not written back yet.
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(fsync(fd.get()), 0);
    return path;
  }
  PvState One(const std::string& path) {
    const std::vector<std::string> paths = {path};
    auto states = reader_.Read(paths, {});
    EXPECT_TRUE(states.has_value()) << states.error().message();
    return states->at(0);
  }

  fs::path folder_;
  HeaderReader reader_;
};

TEST_F(Reader, AnswersForEachPathInItsOrder) {
  const std::vector<std::string> paths = {Image("a", Front("changed", 1)),
                                          folder_ / "none",
                                          Image("blank", std::string(8192, '\0')),
                                          Image("b", Front("changed", 2)),
                                          folder_ / "a/inside",
                                          folder_,
                                          Image("short", "x")};
  const auto states = reader_.Read(paths, {});
  ASSERT_TRUE(states.has_value());
  std::vector<Kind> kinds;
  for (const PvState& state : *states) {
    kinds.push_back(state.kind);
  }
  EXPECT_THAT(kinds, testing::ElementsAre(Kind::kPv, Kind::kAbsent, Kind::kNoPv, Kind::kPv, Kind::kAbsent,
                                          Kind::kUnreadable, Kind::kNoPv));
  EXPECT_EQ((*states)[5].error, ENOTBLK);
  const PvState& a = (*states)[0];
  ASSERT_EQ(a.areas.size(), 1U);
  EXPECT_EQ(a.areas[0].area.offset, 4096U);
  ASSERT_TRUE(a.areas[0].committed.has_value());
  EXPECT_NE(a.uuid, (*states)[3].uuid);
  EXPECT_EQ(a.areas[0].committed->checksum, (*states)[3].areas[0].committed->checksum);
}

TEST_F(Reader, NothingAskedNothingAnswered) {
  EXPECT_TRUE(reader_.Read({}, {})->empty());
}

TEST_F(Reader, SeesACommitAndNothingElse) {
  const std::string path = Image("a", Front("changed", 1));
  const PvState before = One(path);
  EXPECT_EQ(One(path), before);
  Image("a", Front("precommitted", 1));
  EXPECT_EQ(One(path), before);
  Image("a", Front("half_committed", 1));
  EXPECT_NE(One(path), before);
}

TEST_F(Reader, AreaAtTheEndOfTheDiskIsReadToo) {
  const std::string path = Image("a", Front("two_and_none", 1));
  EXPECT_TRUE(One(path).areas.at(1).damaged) << "there is nothing at its place yet";
  const uint64_t at = 267386880;
  Image(
      "a",
      ReadFile(fs::path(QUARRY_FIXTURES) / "lvm/headers/2.03.16/two_and_none" / ("1." + std::to_string(at))),
      at);
  const PvState state = One(path);
  ASSERT_EQ(state.areas.size(), 2U);
  EXPECT_FALSE(state.areas[1].damaged);
  EXPECT_EQ(state.areas[1].committed->checksum, state.areas[0].committed->checksum);
  EXPECT_TRUE(One(Image("b", Front("two_and_none", 2))).areas.empty());
}

TEST_F(Reader, DamageIsAStateOfItsOwnAndStaysTheSame) {
  std::string front = Front("changed", 1);
  front[4096 + 50] ^= 1;
  const std::string path = Image("a", front);
  const PvState damaged = One(path);
  EXPECT_EQ(damaged.kind, Kind::kPv);
  EXPECT_TRUE(damaged.areas.at(0).damaged);
  EXPECT_EQ(One(path), damaged);
  front[4096 + 51] ^= 1;
  Image("a", front);
  EXPECT_NE(One(path), damaged) << "other damage is a change";
  front[512 + 20] ^= 1;
  Image("a", front);
  EXPECT_EQ(One(path).kind, Kind::kDamaged);
}

TEST_F(Reader, OtherDiskUnderTheSamePathIsAChange) {
  const std::string path = Image("a", Front("changed", 1));
  const PvState before = One(path);
  fs::copy_file(path, folder_ / "copy");
  fs::rename(folder_ / "copy", path);
  EXPECT_NE(One(path), before) << "same bytes, other file";
}

TEST_F(Reader, GivesNoTextFromBeyondTheEndOrFromNoDevice) {
  const std::string path = Image("a", Front("changed", 1));
  EXPECT_EQ(reader_.ReadText(path, {1 << 20, 8192}, {512, 100, 0}, {}).error().code(), Code::kCorrupt);
  EXPECT_EQ(reader_.ReadText("/nowhere", {4096, 8192}, {512, 100, 0}, {}).error().code(), Code::kNotFound);
}

TEST_F(Reader, WorksWithoutAsynchronousReads) {
  const std::string path = Image("a", Front("changed", 1));
  const PvState expected = One(path);
  PvState state;
  // As on a host with fs.aio-max-nr used up, but for one thread only.
  std::thread([&] {
    const unsigned number = offsetof(struct seccomp_data, nr);
    std::array<sock_filter, 4> filter = {{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
                                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_setup, 0, 1),
                                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
                                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
    const sock_fprog program{filter.size(), filter.data()};
    ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
    HeaderReader plain;
    const std::vector<std::string> paths = {path};
    state = plain.Read(paths, {})->at(0);
  }).join();
  EXPECT_EQ(state, expected);
}

TEST_F(Reader, ManyThreadsMayReadAtOnce) {
  std::vector<std::string> paths;
  for (int i = 0; i < 40; ++i) {
    paths.push_back(Image(std::to_string(i), Front("changed", 1 + i % 2)));
  }
  const auto expected = reader_.Read(paths, {});
  std::vector<std::thread> threads;
  std::atomic<int> equal = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        equal += *reader_.Read(paths, {}) == *expected ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(equal, 400);
}

// A disk that holds its reads.
class SilentDisk : public Reader {
 protected:
  void SetUp() override {
    if (geteuid() != 0 || access("/dev/fuse", R_OK | W_OK) != 0) {
      GTEST_SKIP() << "needs root and FUSE";
    }
    const std::string front = Front("changed", 1);
    const auto bytes = std::as_bytes(std::span(front));
    fs::create_directory(folder_ / "fuse");
    auto disk = SlowDisk::Make(folder_ / "fuse", {bytes.begin(), bytes.end()});
    ASSERT_TRUE(disk.has_value()) << disk.error().message();
    disk_ = std::move(*disk);
    paths_ = {disk_->path(), Image("b", Front("changed", 2))};
  }
  void TearDown() override {
    if (disk_ != nullptr) {
      disk_->Answer();
    }
  }

  HeaderReader impatient_{milliseconds(100)};
  std::vector<std::string> paths_;
  std::unique_ptr<SlowDisk> disk_;
};

milliseconds Took(const std::function<void()>& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start);
}

TEST_F(SilentDisk, IsReportedAfterItsTimeAndCostsNothingLater) {
  const auto before = impatient_.Read(paths_, {});
  ASSERT_EQ(before->at(0).kind, Kind::kPv);
  disk_->Hold();
  auto states = impatient_.Read(paths_, {});
  ASSERT_TRUE(states.has_value());
  EXPECT_EQ(states->at(0).kind, Kind::kSilent);
  EXPECT_EQ(states->at(1), before->at(1)) << "the other disk answered all the same";

  const int asked = disk_->reads();
  EXPECT_LT(Took([&] {
              for (int i = 0; i < 20; ++i) {
                EXPECT_EQ(impatient_.Read(paths_, {})->at(0).kind, Kind::kSilent);
              }
            }),
            milliseconds(1000))
      << "waiting each time would take 2000 ms";
  EXPECT_EQ(disk_->reads(), asked) << "not asked again while it owes an answer";

  disk_->Answer();
  for (int i = 0; i < 100 && states->at(0).kind == Kind::kSilent; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    states = impatient_.Read(paths_, {});
  }
  EXPECT_EQ(*states, *before);
}

TEST_F(SilentDisk, AFailingDiskIsReadThreeTimesAndThenOnce) {
  const auto before = impatient_.Read(paths_, {});
  disk_->SetFailing(true);
  int asked = disk_->reads();
  auto states = impatient_.Read(paths_, {});
  EXPECT_EQ(states->at(0).kind, Kind::kUnreadable);
  EXPECT_EQ(states->at(0).error, EIO);
  EXPECT_EQ(states->at(1), before->at(1));
  EXPECT_EQ(disk_->reads(), asked + 3);
  asked = disk_->reads();
  EXPECT_EQ(impatient_.Read(paths_, {})->at(0).kind, Kind::kUnreadable);
  EXPECT_EQ(disk_->reads(), asked + 1) << "it is known to fail";
  disk_->SetFailing(false);
  EXPECT_EQ(*impatient_.Read(paths_, {}), *before);

  // A single failed read is not a failed disk.
  disk_->SetFailing(true);
  std::jthread healer([&] {
    std::this_thread::sleep_for(milliseconds(20));
    disk_->SetFailing(false);
  });
  EXPECT_EQ(*impatient_.Read(paths_, {}), *before);
}

TEST_F(SilentDisk, DeadlineAndStopEndTheWait) {
  HeaderReader patient{milliseconds(60000)};
  disk_->Hold();
  EXPECT_LT(Took([&] {
              EXPECT_EQ(patient.Read(paths_, CallWithin(milliseconds(50))).error().code(), Code::kTimeout);
            }),
            milliseconds(1000));
  disk_->Answer();
  std::this_thread::sleep_for(milliseconds(50));
  disk_->Hold();
  std::stop_source stop;
  std::thread stopper([&] {
    std::this_thread::sleep_for(milliseconds(50));
    stop.request_stop();
  });
  EXPECT_LT(Took([&] {
              EXPECT_EQ(patient.Read(paths_, Call{.stop = stop.get_token()}).error().code(),
                        Code::kCancelled);
            }),
            milliseconds(1000));
  stopper.join();
  disk_->Answer();
}

}  // namespace
}  // namespace quarry::lvm
