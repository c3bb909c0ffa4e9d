// Keeps this process's eraser from a logical volume that is not whole yet.
#pragma once

#include <string>
#include <utility>

#include "engine/erase/eraser.h"
#include "engine/pool/pool.h"

namespace quarry::engine {

// The logical volume has the tags of a deleted one, so that a crash leaves nothing of it. At the end of this
// object's life the eraser looks whether there is anything to erase.
class Copying {
 public:
  // Both must outlive this object.
  Copying(Pool& pool, Eraser& eraser, std::string lv_name)
      : pool_(pool), eraser_(eraser), name_(std::move(lv_name)) {
    const MutexLock lock(pool_.making_mutex);
    pool_.copying.insert(name_);
  }
  ~Copying() {
    {
      const MutexLock lock(pool_.making_mutex);
      pool_.copying.erase(name_);
    }
    eraser_.Wake();
  }
  Copying(const Copying&) = delete;
  Copying& operator=(const Copying&) = delete;

 private:
  Pool& pool_;
  Eraser& eraser_;
  std::string name_;
};

}  // namespace quarry::engine
