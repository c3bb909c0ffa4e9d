// The service SnapshotMetadata: messages of its streams, its errors, and callers that read slowly.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "csi/edge.h"
#include "csi/errors.h"
#include "lvm/names.h"
#include "tests/unit/csi/service_harness.h"

namespace quarry::csi {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr int64_t kChunk = 64 * 1024;
constexpr int64_t kSize = 512 * kMebibyte;

struct Streamed {
  grpc::Status status;
  std::vector<std::pair<int64_t, int64_t>> ranges;
  std::vector<int> lengths;  // of the messages
};

class ChangedBlocksService : public testing::Test, public ServiceHarness {
 protected:
  ChangedBlocksService() : ServiceHarness({.store = true}) {
    pb::CreateVolumeRequest create = CreateRequest("one", true);
    create.mutable_capacity_range()->set_required_bytes(kSize);
    (*create.mutable_parameters())["type"] = "thin";
    pb::CreateVolumeResponse made;
    const grpc::Status status = Do(&pb::Controller::Stub::CreateVolume, *controller, create, &made);
    EXPECT_TRUE(status.ok()) << status.error_message();
    volume_ = made.volume().volume_id();
    EXPECT_TRUE(
        lvm.Apply(lvm::ActivateLvs{"vg0", {lvm::ParseVolumeId(volume_)->lv_name}}, Call{}).has_value());
  }
  void Write(int64_t chunk) {
    const lvm::Snapshot group = *lvm.Read("vg0", Call{});
    const auto fd =
        dm.Open(lvm::DmUuid(group->uuid, group->FindLv(lvm::ParseVolumeId(volume_)->lv_name)->uuid), O_RDWR);
    ASSERT_TRUE(fd.has_value()) << fd.error().message();
    ASSERT_EQ(pwrite(fd->get(), "x", 1, chunk * kChunk), 1);
  }
  std::string Cut(const std::string& name) {
    pb::CreateSnapshotRequest asked;
    asked.set_source_volume_id(volume_);
    asked.set_name(name);
    pb::CreateSnapshotResponse made;
    const grpc::Status status = Do(&pb::Controller::Stub::CreateSnapshot, *controller, asked, &made);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return made.snapshot().snapshot_id();
  }
  template <typename Reader, typename Response>
  static Streamed ReadAll(Reader& reader, Response& message) {
    Streamed out;
    while (reader.Read(&message)) {
      EXPECT_EQ(message.block_metadata_type(), pb::VARIABLE_LENGTH);
      EXPECT_EQ(message.volume_capacity_bytes(), kSize);
      out.lengths.push_back(message.block_metadata_size());
      for (const auto& range : message.block_metadata()) {
        out.ranges.emplace_back(range.byte_offset(), range.size_bytes());
      }
    }
    out.status = reader.Finish();
    return out;
  }
  Streamed Delta(const std::string& base, const std::string& target, int64_t offset = 0, int32_t most = 0) {
    pb::GetMetadataDeltaRequest request;
    request.set_base_snapshot_id(base);
    request.set_target_snapshot_id(target);
    request.set_starting_offset(offset);
    request.set_max_results(most);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const auto reader = snapshot_metadata->GetMetadataDelta(&context, request);
    pb::GetMetadataDeltaResponse message;
    return ReadAll(*reader, message);
  }
  Streamed Allocated(const std::string& id, int64_t offset = 0, int32_t most = 0) {
    pb::GetMetadataAllocatedRequest request;
    request.set_snapshot_id(id);
    request.set_starting_offset(offset);
    request.set_max_results(most);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const auto reader = snapshot_metadata->GetMetadataAllocated(&context, request);
    pb::GetMetadataAllocatedResponse message;
    return ReadAll(*reader, message);
  }

  std::string volume_;
};

TEST_F(ChangedBlocksService, IsOfferedWhereAThinStoreIs) {
  const auto offers = [](ServiceHarness& harness) {
    pb::GetPluginCapabilitiesResponse response;
    EXPECT_TRUE(ServiceHarness::Do(&pb::Identity::Stub::GetPluginCapabilities, *harness.identity,
                                   pb::GetPluginCapabilitiesRequest(), &response)
                    .ok());
    return std::ranges::any_of(response.capabilities(), [](const pb::PluginCapability& one) {
      return one.service().type() == pb::PluginCapability::Service::SNAPSHOT_METADATA_SERVICE;
    });
  };
  EXPECT_TRUE(offers(*this));
  ServiceHarness without;
  EXPECT_FALSE(offers(without));
}

TEST_F(ChangedBlocksService, SendsRangesInMessagesOfTheLengthThatWasAskedFor) {
  const std::string empty = Cut("empty");
  for (int64_t chunk = 0; chunk < 1000; chunk += 2) {
    Write(chunk);
  }
  const std::string first = Cut("first");
  Write(1);
  Write(1003);
  const std::string second = Cut("second");

  const Streamed delta = Delta(first, second);
  ASSERT_TRUE(delta.status.ok()) << delta.status.error_message();
  EXPECT_THAT(delta.ranges, ElementsAre(Pair(kChunk, kChunk), Pair(1003 * kChunk, kChunk)));
  EXPECT_THAT(delta.lengths, ElementsAre(2));
  EXPECT_THAT(Delta(first, second, 2 * kChunk - 1).ranges,
              ElementsAre(Pair(2 * kChunk - 1, 1), Pair(1003 * kChunk, kChunk)));

  const Streamed usual = Allocated(first);
  ASSERT_TRUE(usual.status.ok()) << usual.status.error_message();
  EXPECT_THAT(usual.lengths, ElementsAre(256, 244));
  for (const int most : {1, 3, 500, 1'000'000}) {
    const Streamed asked = Allocated(first, 0, most);
    ASSERT_TRUE(asked.status.ok());
    EXPECT_EQ(asked.ranges, usual.ranges);
    EXPECT_EQ(asked.lengths.size(), (500U + static_cast<size_t>(most) - 1) / static_cast<size_t>(most));
  }
  EXPECT_THAT(Allocated(second).ranges.front(), Pair(0, 3 * kChunk)) << "adjacent chunks are one range";
  for (const Streamed& none : {Allocated(empty), Allocated(first, kSize), Delta(second, second)}) {
    EXPECT_TRUE(none.status.ok()) << none.status.error_message();
    EXPECT_THAT(none.lengths, IsEmpty());
  }
  EXPECT_THAT(Logged(), HasSubstr("\"method\":\"GetMetadataDelta\",\"volume\":\"" + second));
  EXPECT_THAT(Logged(), HasSubstr("500 ranges"));
}

TEST_F(ChangedBlocksService, RefusesWhatIsWrongAndNamesTheField) {
  const std::string id = Cut("first");
  const auto expect = [](const Streamed& refused, grpc::StatusCode code, const std::string& words) {
    EXPECT_EQ(refused.status.error_code(), code) << words;
    EXPECT_THAT(refused.status.error_message(), HasSubstr(words));
    EXPECT_THAT(refused.lengths, IsEmpty());
  };
  using enum grpc::StatusCode;
  expect(Allocated(""), INVALID_ARGUMENT, "snapshot_id: ");
  expect(Delta("", id), INVALID_ARGUMENT, "base_snapshot_id: ");
  expect(Delta(id, ""), INVALID_ARGUMENT, "target_snapshot_id: ");
  expect(Allocated(id, 0, -1), INVALID_ARGUMENT, "max_results: ");
  expect(Delta(id, id, 0, -1), INVALID_ARGUMENT, "max_results: ");
  expect(Allocated(id, -1), OUT_OF_RANGE, "starting_offset: ");
  expect(Delta(id, id, -1), OUT_OF_RANGE, "starting_offset: ");
  expect(Allocated(id, kSize + 1), OUT_OF_RANGE, "starting_offset: ");
  expect(Delta(id, id, kSize + 1), OUT_OF_RANGE, "starting_offset: ");
  expect(Allocated("none-exist-id"), NOT_FOUND, "snapshot_id: ");
  expect(Delta("none-exist-id", id), NOT_FOUND, "base_snapshot_id: ");
  expect(Allocated(std::string(200, 'x')), INVALID_ARGUMENT, "snapshot_id: ");
  volume_ = MakeVolume("thick", true);
  const std::string thick = Cut("thick");
  expect(Delta(thick, thick), FAILED_PRECONDITION, "make a full backup");
  expect(Allocated(thick), FAILED_PRECONDITION, "make a full backup");
}

// The stream is longer than what gRPC keeps for a caller that does not read.
TEST_F(ChangedBlocksService, ACallerThatDoesNotReadHoldsNothing) {
  for (int64_t chunk = 0; chunk < kSize / kChunk; chunk += 2) {
    Write(chunk);
  }
  const std::string id = Cut("first");
  pb::GetMetadataAllocatedRequest request;
  request.set_snapshot_id(id);
  request.set_max_results(1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto reader = snapshot_metadata->GetMetadataAllocated(&context, request);
  pb::GetMetadataAllocatedResponse message;
  ASSERT_TRUE(reader->Read(&message));
  // Each of these takes the turn of the pool.
  Write(1);
  const std::string second = Cut("second");
  EXPECT_EQ(Delta(id, second).ranges.size(), 1U);
  for (const auto& pool : dm.Devices()) {
    const auto status = dm.ThinPool(pool.uuid);
    EXPECT_TRUE(!status->has_value() || !(*status)->held_root.has_value());
  }
  const Streamed rest = ReadAll(*reader, message);
  EXPECT_TRUE(rest.status.ok()) << rest.status.error_message();
  EXPECT_EQ(rest.ranges.size() + 1, static_cast<size_t>(kSize / kChunk / 2));
}

TEST_F(ChangedBlocksService, StreamsAreLimitedAndAPlaceIsFreeAgainAtTheirEnd) {
  Write(7);
  pb::GetMetadataAllocatedRequest request;
  request.set_snapshot_id(Cut("first"));
  std::latch may_go(1);
  thin.OnWalk([&] { may_go.wait(); });
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<pb::GetMetadataAllocatedResponse>>> readers;
  for (int i = 0; i < 20; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    contexts.back()->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    readers.push_back(snapshot_metadata->GetMetadataAllocated(contexts.back().get(), request));
  }
  const auto refused = [this] {
    const std::string log = Logged();
    int count = 0;
    for (size_t at = log.find("16 lists of"); at != std::string::npos; at = log.find("16 lists of", at + 1)) {
      ++count;
    }
    return count;
  };
  for (int i = 0; i < 400 && refused() < 4; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(refused(), 4);
  may_go.count_down();
  int served = 0;
  pb::GetMetadataAllocatedResponse message;
  for (const auto& reader : readers) {
    const Streamed one = ReadAll(*reader, message);
    served += one.status.ok() ? 1 : 0;
    EXPECT_TRUE(one.status.ok() || one.status.error_code() == grpc::StatusCode::UNAVAILABLE)
        << one.status.error_message();
    EXPECT_EQ(one.ranges.size(), one.status.ok() ? 1U : 0U);
  }
  EXPECT_EQ(served, 16);
  EXPECT_TRUE(Allocated(request.snapshot_id()).status.ok());
}

// A service whose stream never ends, and whose calls may take 200 ms.
class Endless final : public pb::SnapshotMetadata::Service {
 public:
  grpc::Status GetMetadataAllocated(grpc::ServerContext* context,
                                    const pb::GetMetadataAllocatedRequest* request,
                                    grpc::ServerWriter<pb::GetMetadataAllocatedResponse>* writer) override {
    const RpcName name{.method = "GetMetadataAllocated", .changes_things = false, .streams = true};
    return edge_.Serve(name, *context, *request, "", [&](Rpc&) -> Status {
      pb::GetMetadataAllocatedResponse message;
      message.add_block_metadata()->set_byte_offset(1);
      while (writer->Write(message)) {
      }
      ended.count_down();
      return Error(Code::kCancelled, "the stream has ended");
    });
  }

  std::latch ended{1};

 private:
  Logger log_{LogLevel::kError, LogFormat::kText};
  CancelWatch watch_;
  CallHistory history_;
  Edge edge_{log_,
             watch_,
             history_,
             {.version = "v1", .codes = &v1::ToGrpcCode, .longest_call = std::chrono::milliseconds(200)},
             {}};
};

TEST(StreamTest, ACallerThatNeverReadsIsCutOffAtTheDeadlineOfTheServer) {
  Endless service;
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub = pb::SnapshotMetadata::NewStub(server->InProcessChannel({}));
  grpc::ClientContext context;  // without a deadline
  const auto reader = stub->GetMetadataAllocated(&context, {});
  for (int i = 0; i < 400 && !service.ended.try_wait(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(service.ended.try_wait());
  if (!service.ended.try_wait()) {
    context.TryCancel();
  }
  pb::GetMetadataAllocatedResponse message;
  while (reader->Read(&message)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

}  // namespace
}  // namespace quarry::csi
