// Blocks the fake LVM in the first command of one kind until released.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

#include "tests/fakes/fake_lvm.h"

namespace quarry::csi {

class Holdup {
 public:
  Holdup(fakes::FakeLvm& lvm, const std::string& method) : lvm_(lvm) {
    lvm.SetOnCall([this, method](const std::string& name) {
      std::unique_lock lock(mutex_);
      if (name == method && !reached_) {
        reached_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return released_; });
      }
    });
  }
  // The blocked thread has returned by now.
  ~Holdup() {
    Release();
    lvm_.SetOnCall(nullptr);
  }
  Holdup(const Holdup&) = delete;
  Holdup& operator=(const Holdup&) = delete;

  void WaitUntilReached() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reached_; });
  }
  void Release() {
    const std::scoped_lock lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

 private:
  fakes::FakeLvm& lvm_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  bool released_ = false;
};

}  // namespace quarry::csi
