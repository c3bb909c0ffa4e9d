// The metadata of the thin pools of a FakeDm.
#pragma once

#include <string>

#include "tests/fakes/fake_dm.h"
#include "tests/fakes/faults.h"
#include "thin/pool_reader_api.h"

namespace quarry::fakes {

// `dm` must outlive it. Faults: "HasDevice", "Mapped".
class FakePoolReader final : public thin::PoolReaderApi {
 public:
  explicit FakePoolReader(FakeDm& dm) : dm_(dm) {}
  Result<bool> HasDevice(const std::string& metadata, uint32_t id, const Call& /*call*/) override {
    QUARRY_TRY(faults.Check("HasDevice"));
    return dm_.HasThin(metadata, id);
  }
  Result<thin::MappedRanges> Mapped(const std::string& metadata, uint32_t id, Bytes from, size_t most,
                                    const Call& /*call*/) override {
    QUARRY_TRY(faults.Check("Mapped"));
    return dm_.MappedOfThin(metadata, id, from, most);
  }

  Faults faults;

 private:
  FakeDm& dm_;
};

}  // namespace quarry::fakes
