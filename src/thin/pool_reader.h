// PoolReaderApi on the metadata reader.
#pragma once

#include "thin/pool_reader_api.h"

namespace quarry::thin {

class PoolReader final : public PoolReaderApi {
 public:
  Result<std::optional<Bytes>> Device(const std::string& metadata, uint32_t id, const Call& call) override;
  Result<MappedRanges> Mapped(const std::string& metadata, uint32_t id, Bytes from, size_t most,
                              const Call& call) override;
  Result<OwnRanges> Exclusive(const std::string& metadata, uint32_t id, Bytes from, size_t most,
                              const Call& call) override;
};

}  // namespace quarry::thin
