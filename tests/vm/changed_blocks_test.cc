// Lists of changed blocks of snapshots in a thin store on real LVM: of a volume in use that is written to,
// discarded and grown. They are compared with the bytes of the snapshots and with thin-provisioning-tools.
// Needs four disks.
#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "tests/unit/thin/thin_tools.h"
#include "tests/vm/thin_stores_fixture.h"

namespace quarry::vm {
namespace {

constexpr int64_t kChunk = 64 * 1024;
constexpr int64_t kFirstSize = 16 * kMi;
constexpr int64_t kGrown = 24 * kMi;

using Chunks = std::set<int64_t>;

// A stream of SnapshotMetadata, as a backup program reads it.
struct BlockList {
  grpc::Status status;
  int64_t capacity = 0;
  std::vector<std::pair<int64_t, int64_t>> ranges;  // offset and length
};

// A snapshot of the volume, and what it had.
struct Cut {
  v1::Snapshot snapshot;
  std::string bytes;
};

class ChangedBlocksTest : public ThinStoresTest {
 protected:
  ChangedBlocksTest()
      : ThinStoresTest(160 * kMi),
        stub_(v1::SnapshotMetadata::NewStub(
            grpc::CreateChannel(std::string("unix:") + kSocket, grpc::InsecureChannelCredentials()))) {}

  template <typename Response, typename Reader>
  static BlockList ReadAll(Reader& reader, int64_t offset) {
    BlockList out;
    Response part;
    int64_t end = offset;
    while (reader.Read(&part)) {
      EXPECT_EQ(part.block_metadata_type(), v1::VARIABLE_LENGTH);
      EXPECT_GT(part.block_metadata_size(), 0);
      EXPECT_TRUE(out.capacity == 0 || out.capacity == part.volume_capacity_bytes());
      out.capacity = part.volume_capacity_bytes();
      for (const v1::BlockMetadata& range : part.block_metadata()) {
        EXPECT_GE(range.byte_offset(), end);
        EXPECT_GT(range.size_bytes(), 0);
        end = range.byte_offset() + range.size_bytes();
        out.ranges.emplace_back(range.byte_offset(), range.size_bytes());
      }
    }
    EXPECT_LE(end, std::max(out.capacity, offset));
    out.status = reader.Finish();
    return out;
  }
  BlockList Delta(const Cut& base, const Cut& target, int64_t offset = 0, int32_t most = 0) {
    v1::GetMetadataDeltaRequest request;
    request.set_base_snapshot_id(base.snapshot.snapshot_id());
    request.set_target_snapshot_id(target.snapshot.snapshot_id());
    request.set_starting_offset(offset);
    request.set_max_results(most);
    grpc::ClientContext context;
    const auto reader = stub_->GetMetadataDelta(&context, request);
    return ReadAll<v1::GetMetadataDeltaResponse>(*reader, offset);
  }
  BlockList Allocated(const Cut& cut, int64_t offset = 0, int32_t most = 0) {
    v1::GetMetadataAllocatedRequest request;
    request.set_snapshot_id(cut.snapshot.snapshot_id());
    request.set_starting_offset(offset);
    request.set_max_results(most);
    grpc::ClientContext context;
    const auto reader = stub_->GetMetadataAllocated(&context, request);
    return ReadAll<v1::GetMetadataAllocatedResponse>(*reader, offset);
  }
  static Chunks ChunksOf(const BlockList& list) {
    Chunks out;
    for (const auto& [offset, length] : list.ranges) {
      EXPECT_EQ(offset % kChunk, 0);
      EXPECT_EQ(length % kChunk, 0);
      for (int64_t at = offset; at < offset + length; at += kChunk) {
        out.insert(at / kChunk);
      }
    }
    return out;
  }
  bool IsOffered() {
    const auto reply = client().Invoke(client().identity(), &v1::Identity::Stub::GetPluginCapabilities,
                                       v1::GetPluginCapabilitiesRequest());
    return std::ranges::any_of(reply.value.capabilities(), [](const v1::PluginCapability& one) {
      return one.service().type() == v1::PluginCapability::Service::SNAPSHOT_METADATA_SERVICE;
    });
  }

  // Random writes of any length and discards of whole chunks, through the published device.
  void Change(const std::string& device, int64_t size, int count) {
    const UniqueFd file(open(device.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(file.valid()) << device;
    const auto below = [&](int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); };
    for (int i = 0; i < count; ++i) {
      if (i % 4 == 3) {
        const int64_t chunk = below(size / kChunk - 4);
        std::array<uint64_t, 2> range{static_cast<uint64_t>(chunk * kChunk),
                                      static_cast<uint64_t>(kChunk * (1 + below(4)))};
        ASSERT_EQ(ioctl(file.get(), BLKDISCARD, range.data()), 0);
        continue;
      }
      const int64_t at = below(size - 3 * kChunk);
      const std::string bytes(static_cast<size_t>(1 + below(3 * kChunk)), static_cast<char>('a' + below(26)));
      ASSERT_EQ(pwrite(file.get(), bytes.data(), bytes.size(), at), static_cast<ssize_t>(bytes.size()));
    }
    ASSERT_EQ(fsync(file.get()), 0);
  }
  // The bytes of a snapshot. quarryd deactivates a snapshot again as soon as no program has it open.
  std::string BytesOf(const v1::Snapshot& snapshot, int64_t size) {
    const std::string& id = snapshot.snapshot_id();
    const std::string name = SnapshotLv(id);
    std::string bytes(static_cast<size_t>(size), '?');
    std::string why;
    const bool read = Eventually([&] {
      const Outcome activated = Tool({"lvchange", "-ay", "-K", "vg/" + name});
      Tool({"dmsetup", "mknodes"});
      const UniqueFd file(open(("/dev/mapper/vg-" + name).c_str(), O_RDONLY | O_CLOEXEC));
      why = activated.err + ErrnoError("open").message();
      if (!file.valid()) {
        return false;
      }
      const ssize_t got = pread(file.get(), bytes.data(), bytes.size(), 0);
      why = "read " + std::to_string(got) + ErrnoError(" bytes").message();
      return got == size;
    });
    EXPECT_TRUE(read) << "cannot read " << name << ": " << why;
    EXPECT_TRUE(Eventually([&] { return Tool({"lvchange", "-an", "vg/" + name}).ok(); }));
    return bytes;
  }
  Cut MustCut(const std::string& name, const v1::Volume& volume, int64_t size) {
    const auto made = client().Snapshot(name, volume.volume_id());
    EXPECT_OK(made);
    EXPECT_EQ(made.value.snapshot().size_bytes(), size);
    return {made.value.snapshot(), BytesOf(made.value.snapshot(), size)};
  }
  static std::string SnapshotLv(const std::string& id) {
    v1::Volume same;
    same.set_volume_id(id);
    return LvOf(same);
  }
  static thin::DeviceId DeviceOf(const Cut& cut) {
    const std::string id = Trim(Lvs("thin_id", "vg/" + SnapshotLv(cut.snapshot.snapshot_id())));
    return static_cast<thin::DeviceId>(std::atoll(id.c_str()));
  }

  std::unique_ptr<v1::SnapshotMetadata::Stub> stub_;
  std::mt19937 random_{20261128};
};

Chunks DifferentChunks(std::string base, const std::string& target) {
  base.resize(target.size(), '\0');
  Chunks out;
  for (size_t at = 0; at < target.size(); at += kChunk) {
    if (base.compare(at, kChunk, target, at, kChunk) != 0) {
      out.insert(static_cast<int64_t>(at) / kChunk);
    }
  }
  return out;
}

// A copy of the base, after what the list names was copied from the target.
std::string Restored(std::string base, const std::string& target, const BlockList& list) {
  base.resize(target.size(), '\0');
  for (const auto& [offset, length] : list.ranges) {
    base.replace(static_cast<size_t>(offset), static_cast<size_t>(length), target,
                 static_cast<size_t>(offset), static_cast<size_t>(length));
  }
  return base;
}

TEST_F(ChangedBlocksTest, ListsAgreeWithBytesAndTools) {
  ASSERT_NO_FATAL_FAILURE(StartWith("striped"));
  EXPECT_TRUE(IsOffered());
  const v1::Volume volume = Make("used", kFirstSize);
  ASSERT_FALSE(HasFailure());
  const std::string device = Publish(volume, "used");
  std::vector<Cut> cuts;
  ASSERT_NO_FATAL_FAILURE(Change(device, kFirstSize / 2, 40));
  cuts.push_back(MustCut("first", volume, kFirstSize));
  ASSERT_NO_FATAL_FAILURE(Change(device, kFirstSize, 16));
  cuts.push_back(MustCut("second", volume, kFirstSize));
  ASSERT_OK(client().Expand(volume.volume_id(), kGrown));
  ASSERT_OK(client().NodeExpand(volume.volume_id(), TargetPath("used"), StagingPath("used"), kGrown));
  ASSERT_NO_FATAL_FAILURE(Change(device, kGrown, 24));
  cuts.push_back(MustCut("third", volume, kGrown));
  ASSERT_FALSE(HasFailure());
  ASSERT_NO_FATAL_FAILURE(Change(device, kGrown, 4));  // in no snapshot

  const std::string pool = Pool();
  const std::string metadata = "/dev/mapper/vg-" + pool + "_tmeta";
  std::vector<std::pair<size_t, size_t>> pairs{{0, 1}, {1, 2}, {0, 2}};
  std::map<std::pair<size_t, size_t>, Chunks> deltas;
  for (const auto& [base, target] : pairs) {
    SCOPED_TRACE(std::to_string(base) + " to " + std::to_string(target));
    const BlockList list = Delta(cuts[base], cuts[target]);
    ASSERT_TRUE(list.status.ok()) << list.status.error_message();
    EXPECT_EQ(list.capacity, static_cast<int64_t>(cuts[target].bytes.size()));
    const Chunks listed = ChunksOf(list);
    EXPECT_FALSE(listed.empty());
    EXPECT_LT(listed.size(), cuts[target].bytes.size() / kChunk) << "not everything has changed";
    const Chunks bytes = DifferentChunks(cuts[base].bytes, cuts[target].bytes);
    EXPECT_TRUE(std::ranges::includes(listed, bytes));
    EXPECT_TRUE(Restored(cuts[base].bytes, cuts[target].bytes, list) == cuts[target].bytes);
    // Begun again anywhere, in short messages.
    const int64_t middle = kFirstSize / 2 + 4711;
    const BlockList rest = Delta(cuts[base], cuts[target], middle, 3);
    ASSERT_TRUE(rest.status.ok()) << rest.status.error_message();
    std::string half = cuts[base].bytes;
    half.replace(0, static_cast<size_t>(middle), cuts[target].bytes, 0, static_cast<size_t>(middle));
    EXPECT_TRUE(Restored(half, cuts[target].bytes, rest) == cuts[target].bytes);
    deltas[{base, target}] = listed;
  }
  std::vector<Chunks> allocated;
  for (const Cut& cut : cuts) {
    const BlockList list = Allocated(cut, 0, 5);
    ASSERT_TRUE(list.status.ok()) << list.status.error_message();
    EXPECT_TRUE(Restored("", cut.bytes, list) == cut.bytes) << "all others are zeroes";
    allocated.push_back(ChunksOf(list));
    EXPECT_LT(allocated.back().size(), cut.bytes.size() / kChunk);
  }

  Tool({"dmsetup", "mknodes"});
  const std::string uuid_pool = "vg-" + pool + "-tpool";
  ASSERT_TRUE(Tool({"dmsetup", "message", uuid_pool, "0", "reserve_metadata_snap"}).ok());
  for (const auto& [base, target] : pairs) {
    const auto tool =
        thin::testing::DeltaOf(metadata, thin::Root::kHeld, DeviceOf(cuts[base]), DeviceOf(cuts[target]));
    Chunks expected;
    ASSERT_TRUE(tool.has_value()) << tool.error().message();
    for (const auto& [block, change] : *tool) {
      expected.insert(static_cast<int64_t>(block));
    }
    EXPECT_EQ((deltas[{base, target}]), expected) << base << " to " << target;
  }
  const auto dump = thin::testing::DumpMetadata(metadata, thin::Root::kHeld);
  ASSERT_TRUE(dump.has_value()) << dump.error().message();
  for (size_t i = 0; i < cuts.size(); ++i) {
    Chunks expected;
    for (const auto& [block, data] : dump->devices.at(DeviceOf(cuts[i])).mappings) {
      expected.insert(static_cast<int64_t>(block));
    }
    EXPECT_EQ(allocated[i], expected) << i;
  }
  // That hold is not quarryd's, as far as this process knows.
  const BlockList refused = Delta(cuts[0], cuts[1]);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(refused.status.error_message().find("dmsetup message " + uuid_pool + " 0 release_metadata_snap"),
            std::string::npos)
      << refused.status.error_message();
  ASSERT_TRUE(Tool({"dmsetup", "message", uuid_pool, "0", "release_metadata_snap"}).ok());
  EXPECT_EQ(ChunksOf(Delta(cuts[0], cuts[1])), (deltas[{0, 1}]));
  const std::string held = "dmsetup status " + uuid_pool + " | awk '{print $7}'";
  EXPECT_EQ(Sh(held).out, "-\n") << "no metadata snapshot is left";

  // A killed quarryd might have left one.
  ASSERT_TRUE(Tool({"dmsetup", "message", uuid_pool, "0", "reserve_metadata_snap"}).ok());
  ASSERT_NO_FATAL_FAILURE(KillAndRestart());
  EXPECT_EQ(Sh(held).out, "-\n");
  EXPECT_EQ(ChunksOf(Delta(cuts[1], cuts[2])), (deltas[{1, 2}])) << "after a restart";
  ASSERT_OK(client().DeleteSnapshot(cuts[1].snapshot.snapshot_id()));
  EXPECT_EQ(Delta(cuts[1], cuts[2]).status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Delta(cuts[2], cuts[0]).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ChunksOf(Delta(cuts[0], cuts[2])), (deltas[{0, 2}])) << "whatever was deleted in between";
  for (const size_t i : {0U, 2U}) {
    EXPECT_OK(client().DeleteSnapshot(cuts[i].snapshot.snapshot_id()));
  }
  End(volume, "used");
  EXPECT_TRUE(IsEmptyStore());
}

}  // namespace
}  // namespace quarry::vm
