#include "dm/thin_message.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace quarry::dm {
namespace {

using Mode = ThinPoolStatus::Mode;

const std::vector<PoolMessage> kAll = {ReserveMetadataSnap{}, ReleaseMetadataSnap{}, CreateThin{1},
                                       CreateSnap{2, 1}, DeleteThin{1}};

ThinPoolStatus Healthy() {
  return {.uuid = "LVM-x-tpool",
          .name = "vg-p-tpool",
          .mode = Mode::kReadWrite,
          .metadata_used = 10,
          .metadata_total = 1024,
          .metadata_low_water = 256};
}

Code CodeOf(const Status& status) {
  return status.has_value() ? Code::kInternal : status.error().code();
}

TEST(ThinMessageTest, TextsAreThoseOfTheKernel) {
  EXPECT_EQ(Text(ReserveMetadataSnap{}), "reserve_metadata_snap");
  EXPECT_EQ(Text(ReleaseMetadataSnap{}), "release_metadata_snap");
  EXPECT_EQ(Text(CreateThin{16777215}), "create_thin 16777215");
  EXPECT_EQ(Text(CreateSnap{5, 3}), "create_snap 5 3");
  EXPECT_EQ(Text(DeleteThin{0}), "delete 0");
}

TEST(ThinMessageTest, NothingIsSentToAPoolThatCannotCommit) {
  ThinPoolStatus read_only = Healthy();
  read_only.mode = Mode::kReadOnly;
  ThinPoolStatus failed = Healthy();
  failed.mode = Mode::kFailed;
  ThinPoolStatus flagged = Healthy();
  flagged.needs_check = true;
  for (ThinPoolStatus pool : {read_only, failed, flagged}) {
    for (const PoolMessage& message : kAll) {
      pool.held_root = 7;
      EXPECT_EQ(CodeOf(MaySend(message, pool)), Code::kPrecondition) << Text(message);
    }
  }
}

TEST(ThinMessageTest, OnlyAReservationNeedsRoomAndOnlyInTheMetadata) {
  ThinPoolStatus full = Healthy();
  full.mode = Mode::kOutOfDataSpace;
  ThinPoolStatus low = Healthy();
  low.metadata_used = low.metadata_total - low.metadata_low_water;
  for (const PoolMessage& message : kAll) {
    ThinPoolStatus held = full;
    held.held_root = 7;
    const bool reserves = std::holds_alternative<ReserveMetadataSnap>(message);
    const bool releases = std::holds_alternative<ReleaseMetadataSnap>(message);
    EXPECT_TRUE(MaySend(message, releases ? held : full).has_value()) << Text(message);
    EXPECT_EQ(MaySend(message, low).has_value(), !reserves && !releases) << Text(message);
  }
  EXPECT_EQ(CodeOf(MaySend(ReserveMetadataSnap{}, low)), Code::kNoSpace);
  --low.metadata_used;
  EXPECT_TRUE(MaySend(ReserveMetadataSnap{}, low).has_value());
}

TEST(ThinMessageTest, MetadataSnapshotsAreReservedAndReleasedInTurn) {
  ThinPoolStatus pool = Healthy();
  EXPECT_EQ(CodeOf(MaySend(ReleaseMetadataSnap{}, pool)), Code::kNotFound);
  pool.held_root = 7;
  EXPECT_TRUE(MaySend(ReleaseMetadataSnap{}, pool).has_value());
  EXPECT_EQ(CodeOf(MaySend(ReserveMetadataSnap{}, pool)), Code::kPrecondition);
}

TEST(ThinMessageTest, IdsHave24Bits) {
  EXPECT_TRUE(MaySend(CreateThin{kMaxThinId}, Healthy()).has_value());
  EXPECT_EQ(CodeOf(MaySend(CreateThin{kMaxThinId + 1}, Healthy())), Code::kInvalidArgument);
  EXPECT_EQ(CodeOf(MaySend(CreateSnap{1, kMaxThinId + 1}, Healthy())), Code::kInvalidArgument);
  EXPECT_EQ(CodeOf(MaySend(DeleteThin{kMaxThinId + 1}, Healthy())), Code::kInvalidArgument);
}

TEST(ThinMessageTest, ARefusalNamesPoolMessageAndReason) {
  const Error there = Refusal(CreateSnap{5, 3}, Healthy(), EEXIST);
  EXPECT_EQ(there.code(), Code::kAlreadyExists);
  EXPECT_EQ(there.sys_errno(), EEXIST);
  EXPECT_EQ(there.message(),
            "sending 'create_snap 5 3' to thin pool vg-p-tpool (LVM-x-tpool): the pool has a thin device 5 "
            "already");
  const Error origin = Refusal(CreateSnap{5, 3}, Healthy(), ENODATA);
  EXPECT_EQ(origin.code(), Code::kNotFound);
  EXPECT_TRUE(origin.message().ends_with("has no thin device 3")) << origin.message();
  const Error gone = Refusal(DeleteThin{5}, Healthy(), ENODATA);
  EXPECT_TRUE(gone.message().ends_with("has no thin device 5")) << gone.message();
  EXPECT_EQ(Refusal(DeleteThin{5}, Healthy(), EBUSY).code(), Code::kPrecondition);
  EXPECT_EQ(Refusal(ReserveMetadataSnap{}, Healthy(), EBUSY).code(), Code::kPrecondition);
  EXPECT_EQ(Refusal(ReleaseMetadataSnap{}, Healthy(), EINVAL).code(), Code::kNotFound);
  EXPECT_EQ(Refusal(CreateThin{5}, Healthy(), ENOSPC).code(), Code::kNoSpace);
  EXPECT_EQ(Refusal(CreateThin{5}, Healthy(), EOPNOTSUPP).code(), Code::kPrecondition);
  EXPECT_EQ(Refusal(CreateThin{5}, Healthy(), EIO).code(), Code::kIo);
}

// A caller may take kNotFound of a deletion for "it is gone".
TEST(ThinMessageTest, OnlyAPoolThatLookedSaysNotFound) {
  for (const int failure : {ENXIO, ENODEV, ENOENT, EINVAL, EIO, EINTR}) {
    EXPECT_NE(Refusal(DeleteThin{5}, Healthy(), failure).code(), Code::kNotFound) << failure;
  }
  EXPECT_EQ(NoActivePool(DeleteThin{5}, "LVM-x").code(), Code::kPrecondition);
}

TEST(ThinMessageTest, AFailedCommitIsAnError) {
  EXPECT_TRUE(IsInForce(CreateThin{1}, Healthy()).has_value());
  ThinPoolStatus after = Healthy();
  after.mode = Mode::kOutOfDataSpace;
  EXPECT_TRUE(IsInForce(CreateThin{1}, after).has_value());
  after.mode = Mode::kReadOnly;
  EXPECT_EQ(CodeOf(IsInForce(CreateThin{1}, after)), Code::kIo);
  after = Healthy();
  after.needs_check = true;
  EXPECT_EQ(CodeOf(IsInForce(CreateThin{1}, after)), Code::kIo);
}

}  // namespace
}  // namespace quarry::dm
