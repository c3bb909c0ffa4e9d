#include "engine/pool/activation.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {
namespace {

constexpr Bytes kExtent{4 * 1024 * 1024};
constexpr size_t kVolumes = 50;

// Fifty inactive volumes, all of which are activated while another writer has the turn.
class ActivationTest : public testing::Test {
 protected:
  ActivationTest() {
    lvm_.AddGroup("vg0", kExtent, {{"/dev/a", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {
      for (size_t i = 0; i < kVolumes; ++i) {
        lvm::LogicalVolume lv;
        lv.name = lvm::NewLvName();
        lv.uuid = "uuid-of-" + lv.name;
        lv.size = kExtent;
        lv.segment_type = "linear";
        lv.tags = {std::string(lvm::kCreatingTag)};
        group.lvs.push_back(lv);
      }
    });
    catalog_ = ReadCatalog("p", *lvm_.Read("vg0", Soon()));
    lvm_.SetOnCall([this](const std::string& method) { commands_ += method == "Activate" ? 1 : 0; });
  }
  ~ActivationTest() override { lvm_.SetOnCall(nullptr); }

  static Call Soon() { return CallWithin(std::chrono::seconds(20)); }
  bool IsActive(const Record& record) { return dm_.Find(record.DmUuid())->has_value(); }

  // The result of each activation.
  std::vector<Status> ActivateTogether(const std::vector<Record>& records) {
    std::vector<Status> out(records.size());
    std::vector<std::jthread> threads;
    auto turn = writers_.Wait("somebody else's work", Soon());
    EXPECT_TRUE(turn.has_value());
    for (size_t i = 0; i < records.size(); ++i) {
      threads.emplace_back([&, i] { out[i] = activations_.Activate(records[i], writers_, world_, Soon()); });
    }
    while (activations_.waiting() < records.size()) {
      std::this_thread::yield();
    }
    {
      const auto over = std::move(turn);
    }
    threads.clear();
    return out;
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  World world_ = fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_};
  WriterQueue writers_;
  Activations activations_;
  Catalog catalog_;
  std::atomic<int> commands_ = 0;
};

TEST_F(ActivationTest, VolumesThatWaitTogetherShareOneCommand) {
  ASSERT_EQ(catalog_.records.size(), kVolumes);
  for (const Status& status : ActivateTogether(catalog_.records)) {
    EXPECT_TRUE(status.has_value()) << status.error().message();
  }
  for (const Record& record : catalog_.records) {
    EXPECT_TRUE(IsActive(record));
  }
  EXPECT_EQ(commands_, 2) << "a command activates at most forty volumes";
  EXPECT_EQ(activations_.waiting(), 0U);
}

TEST_F(ActivationTest, AVolumeThatFailsDoesNotFailTheOthers) {
  std::vector<Record> records = catalog_.records;
  lvm::LogicalVolume gone = *records[3].lv;
  gone.name = lvm::NewLvName();
  gone.uuid = "gone";
  records[3].lv = &gone;
  const std::vector<Status> got = ActivateTogether(records);
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(got[i].has_value(), i != 3) << i;
    EXPECT_EQ(IsActive(records[i]), i != 3) << i;
  }
  EXPECT_EQ(got[3].error().code(), Code::kNotFound);
  EXPECT_NE(got[3].error().message().find(gone.name), std::string::npos) << got[3].error().message();
  EXPECT_LE(commands_, 3);
}

TEST_F(ActivationTest, ACallThatGaveUpWaitingIsNotActivated) {
  auto turn = writers_.Wait("somebody else's work", Soon());
  ASSERT_TRUE(turn.has_value());
  const Status waited =
      activations_.Activate(catalog_.records[0], writers_, world_, CallWithin(std::chrono::milliseconds(10)));
  EXPECT_EQ(waited.error().code(), Code::kTimeout);
  EXPECT_EQ(activations_.waiting(), 0U);
  {
    const auto over = std::move(turn);
  }
  ASSERT_TRUE(activations_.Activate(catalog_.records[1], writers_, world_, Soon()).has_value());
  EXPECT_FALSE(IsActive(catalog_.records[0]));
}

}  // namespace
}  // namespace quarry::engine
