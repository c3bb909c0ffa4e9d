// Reads are never stale and start no process. They show another process's change of the group on the very
// next call.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

#include "tests/vm/fixture.h"
#include "tests/vm/kit/process_trace.h"

namespace quarry::vm {
namespace {

constexpr int64_t kExtent = 4 * kMi;

class ReadsTest : public VmTest {
 protected:
  bool StartsQuarryd() const override { return false; }
  void StartWith(const std::string& lvm) {
    QuarrydOptions options;
    options.arguments = {"--alpha", "--lvm", lvm};
    StartQuarryd(options);
  }
  int64_t Capacity(const std::string& type = "linear") {
    auto capacity = client().Capacity(TypeParameters(type));
    EXPECT_OK(capacity);
    return capacity.value.available_capacity();
  }
  // The number of processes that quarryd and its children start during `work`.
  template <typename Work>
  int ProcessesDuring(const Work& work) {
    auto trace = ProcessTrace::Start();
    EXPECT_OK(trace);
    if (!trace.has_value()) {
      return -1;
    }
    const std::set<pid_t> parents = WithChildren(quarryd().pid());
    work();
    const auto started = trace->StartedBy(parents);
    EXPECT_OK(started);
    return started.value_or(-1);
  }
};

class ReadsBy : public ReadsTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Lvm, ReadsBy, testing::Values("zygote", "spawn"),
                         [](const auto& by) { return std::string(by.param); });

TEST_P(ReadsBy, ReadsStartNoProcess) {
  StartWith(GetParam());
  const v1::VolumeCapability capability = MountCapability();
  const v1::Volume volume = MustCreate({"reads", TypeParameters("raid1"), capability});
  const std::string staging = StagingPath("reads");
  const std::string target = TargetPath("reads");
  ASSERT_OK(client().Stage(volume, staging, capability));
  ASSERT_OK(client().List());  // now quarryd has read what staging has changed

  v1::ControllerGetVolumeRequest get;
  get.set_volume_id(volume.volume_id());
  v1::ValidateVolumeCapabilitiesRequest validate;
  validate.set_volume_id(volume.volume_id());
  *validate.add_volume_capabilities() = capability;
  EXPECT_EQ(
      ProcessesDuring([&] {
        for (int i = 0; i < 5; ++i) {
          EXPECT_OK(client().Probe());
          for (const char* type : {"linear", "raid1", "raid5"}) {
            EXPECT_GT(Capacity(type), 0);
          }
          auto listed = client().List();
          EXPECT_OK(listed);
          EXPECT_EQ(listed.value.size(), 1U);
          EXPECT_OK(client().Invoke(client().controller(), &v1::Controller::Stub::ControllerGetVolume, get));
          EXPECT_OK(client().Invoke(client().controller(), &v1::Controller::Stub::ValidateVolumeCapabilities,
                                    validate));
          EXPECT_OK(client().Publish(volume, staging, target, capability));
          EXPECT_OK(client().Publish(volume, staging, target, capability)) << "repeated";
          EXPECT_OK(client().Stats(volume.volume_id(), target));
          EXPECT_OK(client().Unpublish(volume.volume_id(), target));
        }
      }),
      0);
  // The trace does record the processes of a change.
  EXPECT_GT(ProcessesDuring([&] { EXPECT_OK(client().Delete(MustCreate({"other"}).volume_id())); }), 0);

  EXPECT_OK(client().Unstage(volume.volume_id(), staging));
  EXPECT_OK(client().Delete(volume.volume_id()));
}

// The changes that another shell makes to the group, as a sequence of states.
class Shell {
 public:
  struct State {
    int64_t capacity = 0;
    size_t volumes = 0;
    bool operator==(const State&) const = default;
  };
  explicit Shell(State first) { states_.push_back(first); }

  // Runs a command that changes the last state into `next`.
  void Make(State next, const std::vector<std::string>& argv) {
    {
      const std::lock_guard lock(mutex_);
      states_.push_back(next);
    }
    const Outcome done = Tool(argv);
    EXPECT_TRUE(done.ok()) << argv[0] << ": " << done.err;
    done_ = states() - 1;
  }
  // done: the number of the newest state whose command has returned. states: the count of all states,
  // including those that are being made.
  size_t done() const { return done_; }
  size_t states() const {
    const std::lock_guard lock(mutex_);
    return states_.size();
  }
  // True if `holds` is true for a state from `first` on. States that are being made count too.
  template <typename Holds>
  bool HeldSince(size_t first, const Holds& holds) const {
    const std::lock_guard lock(mutex_);
    return std::any_of(states_.begin() + static_cast<std::ptrdiff_t>(first), states_.end(), holds);
  }

 private:
  mutable std::mutex mutex_;
  std::deque<State> states_;
  std::atomic<size_t> done_ = 0;
};

// Creates, tags and removes until `stop` is set. Removing and adding the format tag of the volume `lv` hides
// it from quarryd and shows it again.
void Disturb(Shell& shell, Shell::State quiet, const std::string& lv, const std::atomic<bool>& stop) {
  const std::string name = std::string(kGroup) + "/" + lv;
  for (int64_t extents = 1; !stop; extents = extents % 7 + 1) {
    const Shell::State less{quiet.capacity - extents * kExtent, quiet.volumes};
    shell.Make(less, {"lvcreate", "-y", "-an", "-Zn", "-Wn", "-l", std::to_string(extents), "-n", "foreign",
                      kGroup});
    shell.Make({less.capacity, 0}, {"lvchange", "--deltag", "quarry.v=1", name});
    shell.Make(less, {"lvchange", "--addtag", "quarry.v=1", name});
    shell.Make(quiet, {"lvremove", "-y", std::string(kGroup) + "/foreign"});
  }
}

// A read that begins after a command has returned must show its result, and no read may show a state that
// never was.
TEST_F(ReadsTest, NoReadIsStaleWhileAnotherShellChangesTheGroup) {
  const char* const wanted = std::getenv("QUARRY_STALE_READS");
  const int total = wanted != nullptr ? std::atoi(wanted) : 1000;
  ASSERT_GT(total, 0);
  constexpr int kReaders = 3;
  StartWith("zygote");
  const v1::Volume volume = MustCreate({"watched", {}, BlockCapability()});
  const Shell::State quiet{Capacity(), 1};
  Shell shell(quiet);
  std::atomic<bool> stop = false;
  std::atomic<int> reads = 0;
  std::atomic<int> wrong = 0;
  std::atomic<int> failed = 0;
  std::vector<std::jthread> readers;
  for (int reader = 0; reader < kReaders; ++reader) {
    readers.emplace_back([&, reader] {
      CsiClient own(kSocket);
      for (int i = reader; reads++ < total; ++i) {
        const size_t first = shell.done();
        if (i % 2 == 0) {
          const auto capacity = own.Capacity(TypeParameters("linear"));
          failed += capacity.ok() ? 0 : 1;
          wrong += shell.HeldSince(first,
                                   [&](const Shell::State& state) {
                                     return state.capacity == capacity.value.available_capacity();
                                   })
                       ? 0
                       : 1;
        } else {
          const auto listed = own.List();
          failed += listed.ok() ? 0 : 1;
          wrong += shell.HeldSince(
                       first, [&](const Shell::State& state) { return state.volumes == listed.value.size(); })
                       ? 0
                       : 1;
        }
      }
    });
  }
  std::jthread other([&] { Disturb(shell, quiet, LvOf(volume), stop); });
  readers.clear();  // joins them
  stop = true;
  other.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(wrong, 0) << "a read was stale or showed a state that never was";
  EXPECT_GE(shell.states(), 8U) << "the shell ran too few commands";
  printf("%d reads during %zu commands of another shell\n", total, shell.states() - 1);
  EXPECT_OK(client().Delete(volume.volume_id()));
}

// The last test, because it removes a disk.
TEST_F(ReadsTest, ReadsStartNoProcessWhileADiskIsMissingAndSeeItsReturn) {
  StartWith("zygote");
  // A pulled disk loses what was not flushed. vgcreate does not flush, quarryd does.
  ASSERT_OK(client().Delete(MustCreate({"flushed"}).volume_id()));
  ASSERT_TRUE(ComesBackEmpty());
  const int64_t whole = Capacity();
  ASSERT_GT(whole, 0);
  const int disk = static_cast<int>(group().devices().size());
  const std::string name = DiskNode(disk);
  ASSERT_TRUE(Tool({"vmctl", "pull", std::to_string(disk)}).ok());
  ASSERT_TRUE(Eventually([&] { return Capacity() == 0; })) << "with a missing disk LVM refuses every create";
  EXPECT_EQ(ProcessesDuring([&] {
              for (int i = 0; i < 20; ++i) {
                EXPECT_EQ(Capacity(), 0);
                EXPECT_OK(client().List());
              }
            }),
            0);
  ASSERT_TRUE(Tool({"vmctl", "return", std::to_string(disk)}).ok());
  EXPECT_TRUE(Eventually([&] { return Capacity() == whole; }))
      << "the disk was " << name << " and is " << DiskNode(disk);
}

}  // namespace
}  // namespace quarry::vm
