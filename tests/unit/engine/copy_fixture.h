// An engine on fakes whose steps "copy …" can be held, with volumes that have bytes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"
#include "tests/unit/engine/eventually.h"

namespace quarry::engine {

inline constexpr Bytes kCopyExtent{4 * 1024 * 1024};

inline AbsolutePath Path(const std::string& text) {
  return *AbsolutePath::Parse(text);
}

// Holds every step that begins with "copy " until it is let go.
class Holding final : public StepWatcher {
 public:
  std::function<void(const std::string& step)> on_step;  // set while no step runs

  void Before(const std::string& step) override {
    if (on_step) {
      on_step(step);
    }
    if (!step.starts_with("copy ")) {
      return;
    }
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !hold_; });
  }
  void After(const std::string& /*step*/) override {}

  void Hold() {
    const std::lock_guard lock(mutex_);
    hold_ = true;
    arrived_ = 0;
  }
  void LetGo() {
    const std::lock_guard lock(mutex_);
    hold_ = false;
    changed_.notify_all();
  }
  void WaitForArrival() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hold_ = false;
  int arrived_ = 0;
};

class CopyFixture : public testing::Test {
 protected:
  CopyFixture() {
    lvm_.AddGroup("vg0", kCopyExtent,
                  {{"/dev/a", Extents{100}}, {"/dev/b", Extents{100}}, {"/dev/c", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory("/stage");
    mount_.AddDirectory("/pods");
    Restart();
  }
  ~CopyFixture() override { steps_.LetGo(); }

  void Restart() {
    engine_.reset();
    EngineConfig config;
    config.pools = {{.name = "default", .group = "vg0"}};
    config.node = "node-1";
    config.copy_rate = copy_rate_;
    config.copy_keep = copy_keep_;
    fakes::FakeWorld world{lvm_, dm_, erase_, mount_, clock_};
    world.steps = &steps_;
    engine_ = std::make_unique<Engine>(config, world, log_);
    ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }
  static Call Soon(int ms = 20000) { return CallWithin(std::chrono::milliseconds(ms)); }

  struct Asked {
    std::string name;
    uint64_t extents = 0;  // 0: not given
    ContentSource source = {};
    AccessType access = AccessType::kBlock;
    std::string fs_type = {};
    Parameters parameters = {};
    bool elsewhere = false;
    uint64_t limit = 0;  // in extents
  };
  static CreateRequest RequestOf(const Asked& asked) {
    return {.name = asked.name,
            .range = {Bytes{asked.extents * kCopyExtent.value}, Bytes{asked.limit * kCopyExtent.value}},
            .capabilities = {{.access = asked.access, .fs_type = asked.fs_type}},
            .parameters = asked.parameters,
            .elsewhere = asked.elsewhere,
            .source = asked.source};
  }
  Result<CreateResult> Create(const Asked& asked, int ms = 20000) {
    return engine_->volumes().Create(RequestOf(asked), Soon(ms));
  }
  std::string Make(const Asked& asked) {
    auto made = Create(asked);
    EXPECT_TRUE(made.has_value()) << (made.has_value() ? "" : made.error().message());
    return made.has_value() ? made->volume.id : "";
  }

  std::string DmUuidOf(const std::string& id) {
    const lvm::Snapshot group = *lvm_.Read("vg0", Soon());
    return lvm::DmUuid(group->uuid, group->FindLv(lvm::ParseVolumeId(id)->lv_name)->uuid);
  }
  void Write(const std::string& id, const std::string& text, uint64_t at) {
    const auto fd = dm_.Open(DmUuidOf(id), O_RDWR);
    ASSERT_TRUE(fd.has_value()) << fd.error().message();
    ASSERT_EQ(pwrite(fd->get(), text.data(), text.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(text.size()));
  }
  std::string Read(const std::string& id, size_t length, uint64_t at) {
    const auto fd = dm_.Open(DmUuidOf(id), O_RDONLY);
    std::string text(length, '?');
    EXPECT_TRUE(fd.has_value() && pread(fd->get(), text.data(), length, static_cast<off_t>(at)) ==
                                      static_cast<ssize_t>(length));
    return text;
  }
  // Without legs.
  size_t LvCount() {
    const lvm::Snapshot group = *lvm_.Read("vg0", Soon());
    return static_cast<size_t>(
        std::ranges::count_if(group->lvs, [](const lvm::LogicalVolume& lv) { return !lv.hidden; }));
  }
  bool UntilLvs(size_t count) {
    return Eventually([&] { return LvCount() == count; });
  }

  // Of the next start:
  std::optional<Bytes> copy_rate_;
  std::chrono::minutes copy_keep_{0};
  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  Holding steps_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace quarry::engine
