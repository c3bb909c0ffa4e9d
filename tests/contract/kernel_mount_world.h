// The kernel as a world for mounts: loop devices, a tmpfs, and a private mount namespace. Needs root.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "base/subprocess.h"
#include "mount/kernel_mount.h"
#include "tests/contract/loop_device.h"
#include "tests/contract/mount_contract.h"

namespace quarry::contract {

class KernelMountWorld final : public MountWorld {
 public:
  // The first object moves the whole process into a new mount namespace. Throws.
  KernelMountWorld();
  ~KernelMountWorld() override;

  mount::MountApi& api() override { return mount_; }
  std::string NewDevice(Bytes size) override;
  void GrowDevice(const std::string& node, Bytes size) override;
  UniqueFd OpenDevice(const std::string& node) override;
  mount::DeviceNumber NumberOf(const std::string& node) override;
  void PutSwap(const std::string& node) override;
  void Damage(const std::string& node, bool fixable) override;
  std::string CopyOf(const std::string& node, const std::string& fs_type, bool unclean) override;
  AbsolutePath NewDirectory() override;
  void PutFile(const std::string& path, bool empty) override;
  void PutSymlink(const std::string& path, const std::string& to) override;
  Access AccessOf(const std::string& path) override;
  void SetAccess(const std::string& path, Access access) override;
  std::shared_ptr<void> Hold(const std::string& path) override;

  LoopDevice& Loop(const std::string& node);

 private:
  SpawnSubprocess subprocess_;
  mount::KernelMount mount_{subprocess_};
  std::string base_;
  int count_ = 0;
  std::deque<LoopDevice> loops_;
};

// A child process of the test that sleeps until this object is destroyed.
class SleepingChild {
 public:
  // `enter` runs in the child before the child sleeps; false fails the test.
  template <typename Enter>
  explicit SleepingChild(Enter enter) {
    Begin();
    if (pid_ == 0) {
      Sleep(enter());
    }
    AwaitSleep();
  }
  ~SleepingChild();
  SleepingChild(const SleepingChild&) = delete;
  SleepingChild& operator=(const SleepingChild&) = delete;
  int pid() const { return pid_; }

 private:
  void Begin();
  [[noreturn]] void Sleep(bool entered) const;
  void AwaitSleep();

  int pid_ = -1;
  UniqueFd read_;
  UniqueFd write_;
};

}  // namespace quarry::contract
