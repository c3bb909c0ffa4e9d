// A disk fails or goes silent during each call of a volume's life. The call ends in time and its answer is
// true. After the disk has recovered the same call succeeds, and no acknowledged byte is lost.
#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr uint64_t kDataLength = 1 << 20;
constexpr uint64_t kSeed = 11;
// The deadline of a call while the disk is faulty, and how much later the call must have ended at the latest.
constexpr auto kDeadline = seconds(10);
constexpr auto kSlack = seconds(5);

struct Fault {
  std::string name;
  std::vector<std::string> begin;  // arguments of vmctl
  std::vector<std::string> end;
};

const Fault kWriteErrors{"WriteErrors", {"error", "1", "write"}, {"error", "1", "off"}};
const Fault kReadErrors{"ReadErrors", {"error", "1", "read"}, {"error", "1", "off"}};
const Fault kFlushErrors{"FlushErrors", {"error", "1", "flush"}, {"error", "1", "off"}};
const Fault kAllErrors{"AllErrors", {"error", "1", "all"}, {"error", "1", "off"}};
const Fault kSilence{"Silence", {"stall", "1"}, {"unstall", "1"}};

struct Case {
  Fault fault;
  std::string type;
};

// Codes that report a fault or ask for a retry. Any other code is a statement about the volume or the
// request, and a faulty disk changes neither of these.
bool IsHonest(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::DATA_LOSS:
      return true;
    default:
      return false;
  }
}

class FaultTest : public VmTest, public testing::WithParamInterface<Case> {
 protected:
  using Call = std::function<grpc::Status(CsiClient&)>;

  void TearDown() override {
    Vmctl(GetParam().fault.end);
    Mend();
    VmTest::TearDown();
  }

  static void Vmctl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "vmctl");
    const Outcome outcome = Tool(arguments);
    ASSERT_TRUE(outcome.ok()) << outcome.err;
  }

  // What an administrator does after the disk has recovered. LVM keeps calling a PV missing if it did not see
  // the PV during a commit, and a mirror keeps running without a leg that failed.
  static void Mend() {
    for (const std::string& line :
         Lines(Tool({"pvs", "--noheadings", "-o", "pv_name,pv_missing", "-S", "pv_missing=1"}).out)) {
      Tool({"vgextend", "--restoremissing", kGroup, Words(line).at(0)});
    }
    Tool({"lvchange", "-K", "--refresh", kGroup});
  }

  // Makes the call while the disk is faulty, then repeats it until it succeeds.
  void Through(const std::string& what, const Call& call) {
    SCOPED_TRACE(what);
    Vmctl(GetParam().fault.begin);
    CsiClient hurried(kSocket, kDeadline);
    const auto before = steady_clock::now();
    const grpc::Status ill = call(hurried);
    const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - before);
    EXPECT_LT(took, kDeadline + kSlack);
    EXPECT_TRUE(IsHonest(ill.error_code())) << ill.error_code() << ": " << ill.error_message();
    printf("  %-24s %6lld ms  %d %s\n", what.c_str(), static_cast<long long>(took.count()), ill.error_code(),
           ill.error_message().substr(0, 160).c_str());
    fflush(stdout);
    EXPECT_OK(CsiClient(kSocket, kDeadline).PluginInfo());  // other callers are served
    Vmctl(GetParam().fault.end);
    Mend();
    grpc::Status well;
    EXPECT_TRUE(Eventually(
        [&] {
          well = call(client());
          return well.ok();
        },
        120))
        << well.error_code() << ": " << well.error_message();
  }
};

TEST_P(FaultTest, EachCallEndsInTimeAndSucceedsAfterwards) {
  const v1::VolumeCapability how = MountCapability("ext4");
  const VolumeSpec spec{"ill", TypeParameters(GetParam().type), how, 32 * kMi};
  const std::string staging = StagingPath("ill");
  const std::string target = TargetPath("ill");
  v1::Volume volume;
  Through("CreateVolume", [&](CsiClient& c) {
    auto made = c.Create(spec);
    volume = made.value.volume();
    return made.status;
  });
  ASSERT_FALSE(HasFailure());
  const std::string id = volume.volume_id();
  Through("GetCapacity", [&](CsiClient& c) { return c.Capacity(spec.parameters).status; });
  Through("ListVolumes", [&](CsiClient& c) {
    auto listed = c.List();
    EXPECT_TRUE(!listed.ok() || listed.value.size() == 1U);
    return listed.status;
  });
  Through("NodeStageVolume", [&](CsiClient& c) { return c.Stage(volume, staging, how).status; });
  Through("NodePublishVolume", [&](CsiClient& c) { return c.Publish(volume, staging, target, how).status; });
  ASSERT_FALSE(HasFailure());
  // A file system that met errors while it was mounted works again after another mount.
  ASSERT_OK(client().Unpublish(id, target));
  ASSERT_OK(client().Unstage(id, staging));
  ASSERT_OK(client().Stage(volume, staging, how));
  ASSERT_OK(client().Publish(volume, staging, target, how));
  ASSERT_OK(WritePattern(target + "/data", kSeed, kDataLength));
  Through("NodeGetVolumeStats", [&](CsiClient& c) { return c.Stats(id, target).status; });
  Through("ControllerExpandVolume", [&](CsiClient& c) { return c.Expand(id, 64 * kMi).status; });
  Through("NodeUnpublishVolume", [&](CsiClient& c) { return c.Unpublish(id, target).status; });
  Through("NodeUnstageVolume", [&](CsiClient& c) { return c.Unstage(id, staging).status; });
  ASSERT_FALSE(HasFailure());
  ASSERT_OK(client().Stage(volume, staging, how));  // replays the journal and finishes the growth
  ASSERT_OK(client().Publish(volume, staging, target, how));
  EXPECT_OK(CheckPattern(target + "/data", kSeed, kDataLength));
  EXPECT_OK(client().Unpublish(id, target));
  EXPECT_OK(client().Unstage(id, staging));
  Through("DeleteVolume", [&](CsiClient& c) { return c.Delete(id).status; });
}

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.fault.name << " under " << c.type;
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  return info.param.fault.name + "_" + info.param.type;
}

INSTANTIATE_TEST_SUITE_P(ADisk, FaultTest,
                         testing::Values(Case{kWriteErrors, "linear"}, Case{kWriteErrors, "raid1"},
                                         Case{kReadErrors, "linear"}, Case{kReadErrors, "raid1"},
                                         Case{kFlushErrors, "linear"}, Case{kFlushErrors, "raid1"},
                                         Case{kAllErrors, "linear"}, Case{kAllErrors, "raid1"},
                                         Case{kSilence, "linear"}, Case{kSilence, "raid1"}),
                         NameOf);

}  // namespace
}  // namespace quarry::vm
