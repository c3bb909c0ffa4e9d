// PoolReaderApi on the metadata reader.
#pragma once

#include "thin/pool_reader_api.h"

namespace quarry::thin {

class PoolReader final : public PoolReaderApi {
 public:
  Result<std::optional<Bytes>> Device(const std::string& metadata, uint32_t id, const Call& call) override;
  Result<std::map<uint32_t, Bytes>> MappedBytes(const std::string& metadata, std::span<const uint32_t> ids,
                                                const Call& call) override;
  Result<std::map<uint32_t, Bytes>> ExclusiveBytes(const std::string& metadata, std::span<const uint32_t> ids,
                                                   const Call& call) override;

  Result<uint64_t> CreationTime(const std::string& metadata, uint32_t id, const Call& call) override;
  Result<MappedRanges> Mapped(const std::string& metadata, uint32_t id, Bytes from, const WalkLimit& limit,
                              const Call& call) override;
  Result<OwnRanges> Exclusive(const std::string& metadata, uint32_t id, Bytes from, size_t most,
                              const Call& call) override;
  Result<WalkedRanges> Allocated(const std::string& metadata, uint32_t id, Bytes from, const WalkLimit& limit,
                                 const Call& call) override;
  Result<WalkedRanges> Different(const std::string& metadata, uint32_t base, uint32_t target, Bytes from,
                                 const WalkLimit& limit, const Call& call) override;
};

}  // namespace quarry::thin
