// Inline volumes of pods: the call that publishes one creates it, and finds it again after quarryd was
// killed. After unpublishing it is neither in LVM nor, byte by byte, on the disks.
#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

constexpr uint64_t kDataLength = 8 << 20;

// A part of a disk that is allocated to a logical volume of the group.
struct Piece {
  std::string device;
  uint64_t offset, length;  // bytes
};

class EphemeralTest : public VmTest, public testing::WithParamInterface<std::string> {
 protected:
  bool StartsQuarryd() const override { return false; }

  grpc::Status Publish(const std::map<std::string, std::string>& context) {
    v1::NodePublishVolumeRequest request;
    request.set_volume_id(handle_);
    request.set_target_path(target_);
    *request.mutable_volume_capability() = MountCapability("ext4");
    request.mutable_volume_context()->insert({"csi.storage.k8s.io/ephemeral", "true"});
    request.mutable_volume_context()->insert(context.begin(), context.end());
    return client().Invoke(client().node(), &v1::Node::Stub::NodePublishVolume, request).status;
  }

  static uint64_t Number(const std::vector<std::string>& command) {
    const Outcome said = Tool(command);
    EXPECT_TRUE(said.ok()) << said.err;
    return said.ok() ? std::stoull(Trim(said.out)) : 0;
  }

  // All allocated parts of disks, as LVM's own tools report them ("/dev/nvme0n1:3-10").
  static std::vector<Piece> Allocated() {
    const uint64_t extent =
        Number({"vgs", "--noheadings", "--nosuffix", "--units", "b", "-o", "vg_extent_size", kGroup});
    std::vector<Piece> pieces;
    for (const std::string& range :
         Words(Tool({"lvs", "-a", "--noheadings", "-o", "seg_pe_ranges", kGroup}).out)) {
      const size_t colon = range.find(':');
      const size_t dash = range.find('-', colon);
      if (!range.starts_with("/dev/") || dash == std::string::npos) {
        continue;  // a RAID volume lists its legs here
      }
      const std::string device = range.substr(0, colon);
      const uint64_t start =
          Number({"pvs", "--noheadings", "--nosuffix", "--units", "b", "-o", "pe_start", device});
      const uint64_t first = std::stoull(range.substr(colon + 1, dash - colon - 1));
      const uint64_t last = std::stoull(range.substr(dash + 1));
      pieces.push_back({device, start + first * extent, (last - first + 1) * extent});
    }
    return pieces;
  }

  const std::string handle_ = "csi-" + std::string(62, '0') + "5d";
  const std::string target_ = TargetPath("inline");
};

TEST_P(EphemeralTest, AnInlineVolumeLivesWhileItIsPublishedAndLeavesNothing) {
  ASSERT_NO_FATAL_FAILURE(StartQuarryd({.arguments = {"--ephemeral-max-size", "64MiB"}}));
  EXPECT_EQ(Publish({{"type", GetParam()}, {"size", "65MiB"}}).error_code(), grpc::INVALID_ARGUMENT);
  const std::map<std::string, std::string> context = {{"type", GetParam()}, {"size", "32MiB"}};
  grpc::Status published = Publish(context);
  ASSERT_TRUE(published.ok()) << published.error_message();
  ASSERT_TRUE(Tool({"mountpoint", "-q", target_}).ok());
  ASSERT_OK(WritePattern(target_ + "/data", 9, kDataLength));

  KillAndRestart();
  published = Publish(context);
  ASSERT_TRUE(published.ok()) << published.error_message();
  EXPECT_OK(CheckPattern(target_ + "/data", 9, kDataLength));
  ASSERT_EQ(group().Lvs()->size(), 1U) << "the second publication uses the same volume";
  EXPECT_OK(client().Stats(handle_, target_));
  auto listed = client().List();
  ASSERT_OK(listed);
  EXPECT_TRUE(listed.value.empty());

  const std::vector<Piece> pieces = Allocated();
  ASSERT_EQ(pieces.size(), GetParam() == "raid1" ? 4U : 1U);
  EXPECT_FALSE(CheckZero(pieces.front().device, pieces.front().length, pieces.front().offset).has_value());
  ASSERT_OK(client().Unpublish(handle_, target_));
  EXPECT_FALSE(Sh("test -e " + target_).ok());
  KillAndRestart();  // the erasing has not begun, is running, or is done
  EXPECT_OK(client().Unpublish(handle_, target_)) << "a deleted inline volume counts as unpublished";
  ASSERT_TRUE(ComesBackEmpty());
  for (const Piece& piece : pieces) {
    EXPECT_OK(CheckZero(piece.device, piece.length, piece.offset));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EphemeralTest, testing::Values("linear", "raid1"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace quarry::vm
