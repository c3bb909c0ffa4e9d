// The metadata of the thin pools of a FakeDm.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "tests/fakes/fake_dm.h"
#include "tests/fakes/faults.h"
#include "thin/pool_reader_api.h"

namespace quarry::fakes {

// `dm` must outlive it. Faults: "Device", "Mapped", "Exclusive".
class FakePoolReader final : public thin::PoolReaderApi {
 public:
  explicit FakePoolReader(FakeDm& dm) : dm_(dm) {}
  Result<std::optional<Bytes>> Device(const std::string& metadata, uint32_t id,
                                      const Call& /*call*/) override {
    QUARRY_TRY(faults.Check("Device"));
    return dm_.BytesOfThin(metadata, id);
  }
  Result<thin::MappedRanges> Mapped(const std::string& metadata, uint32_t id, Bytes from, size_t most,
                                    const Call& /*call*/) override {
    QUARRY_TRY(faults.Check("Mapped"));
    return dm_.MappedOfThin(metadata, id, from, most);
  }
  Result<thin::OwnRanges> Exclusive(const std::string& metadata, uint32_t id, Bytes from, size_t most,
                                    const Call& /*call*/) override {
    QUARRY_TRY(faults.Check("Exclusive"));
    if (on_exclusive_) {
      on_exclusive_();
    }
    return dm_.ExclusiveOfThin(metadata, id, from, most);
  }

  // Called before each answer of Exclusive().
  void OnExclusive(std::function<void()> hook) { on_exclusive_ = std::move(hook); }

  Faults faults;

 private:
  FakeDm& dm_;
  std::function<void()> on_exclusive_;
};

}  // namespace quarry::fakes
