// Buckets on an engine whose LVM and kernel are fakes, and in real folders.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/scratch_folder.h"
#include "bucket/buckets.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::bucket {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::HasSubstr;

// Dies, as quarryd would, at a step that begins with `at`.
class Death final : public engine::StepWatcher {
 public:
  struct Killed {};
  void Before(const std::string& step) override { Look(step, true); }
  void After(const std::string& step) override { Look(step, false); }
  void At(std::string step, bool before) {
    at_ = std::move(step);
    before_ = before;
  }

 private:
  void Look(const std::string& step, bool before) {
    if (!at_.empty() && step.starts_with(at_) && before == before_) {
      at_.clear();
      throw Killed();
    }
  }
  std::string at_;
  bool before_ = false;
};

class BucketsTest : public testing::Test {
 protected:
  BucketsTest() {
    lvm_.AddGroup("vg0", Bytes{4 * kMiB.value}, {{"/dev/a", Extents{1000}}, {"/dev/b", Extents{1000}}});
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory((path_ / "s3/volumes").string());
    Restart();
  }

  // The state after kill -9.
  void Restart(const std::vector<engine::PoolConfig>& pools = {
                   {.name = "p", .group = "vg0", .reserve = {}}}) {
    buckets_.reset();
    engine_.reset();
    engine_ = std::make_unique<engine::Engine>(
        engine::EngineConfig{.pools = pools}, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_, *children_},
        log_);
    ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
    auto made = Buckets::Make({.folder = *AbsolutePath::Parse((path_ / "s3").string()),
                               .spare = *AbsolutePath::Parse((path_ / "spare/root").string()),
                               .gateway = {geteuid(), getegid()},
                               .settings = {.listen = "127.0.0.1:7070", .region = "us-east-1"},
                               .url = "http://127.0.0.1:7070",
                               .probe = [this] { return gateway_; },
                               .is_mount_point = [](const AbsolutePath&) { return true; },
                               .prove_mount = [this](int folder, dev_t) { return prove_(folder); },
                               .touch_disk = [this](dev_t) { touch_(); },
                               .steps = &death_,
                               .look_limit = look_limit_,
                               .count_interval = count_interval_,
                               .silent_after = silent_after_,
                               .full_interval = full_interval_},
                              *engine_, log_);
    ASSERT_TRUE(made.has_value()) << made.error().message();
    buckets_ = std::move(*made);
  }
  void Reboot() {
    buckets_.reset();
    engine_.reset();
    dm_.Reboot();
    mount_.Reboot();
    for (const auto& entry : fs::directory_iterator(path_ / "s3/root")) {
      if (entry.is_symlink()) {
        fs::remove(entry);
      }
    }
    fs::remove(path_ / "s3/iam/users.json");
    fs::remove(path_ / "s3/gateway.env");
    Restart();
  }
  static Call Soon() { return CallWithin(milliseconds(20000)); }

  Result<CreateResult> TryCreate(const std::string& name, Parameters more = {}) {
    more.try_emplace("size", "400MiB");
    return buckets_->Create({.name = name, .parameters = std::move(more)}, Soon());
  }
  std::string Create(const std::string& name, Parameters more = {}) {
    const auto made = TryCreate(name, std::move(more));
    EXPECT_TRUE(made.has_value()) << made.error().message();
    return made.has_value() ? made->bucket.id : "";
  }
  std::string Grant(const std::string& account, const std::vector<AccessedBucket>& to) {
    const auto granted = buckets_->Grant({.account = account, .buckets = to}, Soon());
    EXPECT_TRUE(granted.has_value()) << granted.error().message();
    return granted.has_value() ? granted->secret_key : "";
  }
  // What the volume of a bucket has.
  fs::path Mounted(const std::string& id) const {
    return path_ / "s3/volumes" / id.substr(id.rfind('.') + 1);
  }
  fs::path Link(const std::string& name) const { return path_ / "s3/root" / name; }
  bool IsLinked(const std::string& name) const { return fs::is_directory(Link(name)); }
  // What the gateway knows: accounts, and the policy of a bucket.
  nlohmann::json Users() const {
    std::ifstream file(path_ / "s3/iam/users.json");
    return nlohmann::json::parse(file)["accessAccounts"];
  }
  std::string Policy(const std::string& name) const {
    std::string text(65536, '\0');
    const ssize_t n = getxattr((Link(name)).c_str(), "user.policy", text.data(), text.size());
    return text.substr(0, n < 0 ? 0 : static_cast<size_t>(n));
  }
  bool MayUse(const std::string& account, const std::string& name) const {
    return Users().contains(account) && Policy(name).find('"' + account + '"') != std::string::npos;
  }
  std::string Environment() const {
    std::ifstream file(path_ / "s3/gateway.env");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const ScratchFolder folder_ =
      ScratchFolder::Make((fs::temp_directory_path() / "quarry-buckets-XXXXXX").string()).value();
  const fs::path path_ = folder_.path();
  fakes::FakeDm dm_;
  fakes::FakeLvm lvm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  Death death_;
  Status gateway_ = Ok();
  // Whether an open folder is the mount of a bucket's volume.
  std::function<Status(int)> prove_ = [](int) { return Ok(); };
  std::function<void()> touch_ = [] {};  // waits for the disk of a bucket
  Subprocess* children_ = &fakes::NoCommands();
  milliseconds silent_after_{30000};
  milliseconds full_interval_{10000};
  milliseconds count_interval_{60000};
  milliseconds look_limit_{20000};  // longer than a look takes on the slowest machine
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Buckets> buckets_;
};

}  // namespace quarry::bucket
