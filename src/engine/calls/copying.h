// Keeps this process's eraser from a logical volume that is not whole yet.
#pragma once

#include <stop_token>
#include <string>
#include <utility>

#include "engine/erase/eraser.h"
#include "engine/pool/pool.h"

namespace quarry::engine {

// The logical volume has the tags of a deleted one, so that no process takes it for a volume. At the end of
// this object's life the eraser looks whether there is anything to erase.
class Copying {
 public:
  // Both must outlive this object.
  Copying(Pool& pool, Eraser& eraser, std::string lv_name)
      : pool_(pool), eraser_(eraser), name_(std::move(lv_name)) {
    const MutexLock lock(pool_.making_mutex);
    pool_.copying.insert(name_);
    pool_.unfinished.erase(name_);
  }
  ~Copying() {
    if (stop_.stop_requested()) {
      return;
    }
    {
      const MutexLock lock(pool_.making_mutex);
      pool_.copying.erase(name_);
    }
    eraser_.Wake();
  }
  // If a stop is requested before the end of this object's life, this process leaves the logical volume alone
  // for good, so that the next one can go on with it.
  void LeaveAtStop(std::stop_token stop) { stop_ = std::move(stop); }
  Copying(const Copying&) = delete;
  Copying& operator=(const Copying&) = delete;

 private:
  Pool& pool_;
  Eraser& eraser_;
  std::string name_;
  std::stop_token stop_;
};

}  // namespace quarry::engine
