// Metadata of thin pools that are not active, as a test states them: damaged or not, and what they say.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "tests/fakes/fake_dm.h"
#include "tests/fakes/faults.h"
#include "thin/repair_api.h"

namespace quarry::fakes {

// `dm` must outlive it. Faults: "Ready", "Look", "Compare", "Check", "Repair".
class FakeRepair final : public thin::RepairApi {
 public:
  explicit FakeRepair(FakeDm& dm) : dm_(dm) {}

  struct Metadata {
    bool sound = true;
    bool complete = true;  // false: blocks of the trees are damaged, so not all of `stored` can be read
    thin::StoredPool stored = {};
  };
  // What the volume with this device-mapper UUID (lvm::DmUuid) holds. At first nothing, which is damaged.
  Metadata& Of(const std::string& dm_uuid) { return volumes_[dm_uuid]; }
  bool Has(const std::string& dm_uuid) const { return volumes_.contains(dm_uuid); }
  // Repair() leaves these devices out; or one chunk of these.
  std::set<uint32_t> lost, shortened;

  Status Ready() override { return faults.Check("Ready"); }
  Result<thin::StoredPool> Look(const std::string& metadata, const Call& /*call*/) override {
    QUARRY_TRY(faults.Check("Look"));
    return Read(metadata);
  }
  Result<std::map<uint32_t, std::string>> Compare(const std::string& former, const std::string& repaired,
                                                  const Call& /*call*/) override {
    QUARRY_TRY(faults.Check("Compare"));
    QUARRY_ASSIGN(const thin::StoredPool was, Read(former));
    QUARRY_ASSIGN(const thin::StoredPool now, Read(repaired));
    std::map<uint32_t, std::string> out;
    for (const auto& [id, device] : was.devices) {
      const auto same = now.devices.find(id);
      if (same == now.devices.end()) {
        out.emplace(id, "is lost");
      } else if (same->second.mapped != device.mapped) {
        out.emplace(id, "has other mappings");
      } else if (same->second.transaction_id != device.transaction_id) {
        out.emplace(id, "has other details");
      }
    }
    for (const auto& [id, device] : now.devices) {
      if (!was.devices.contains(id)) {
        out.emplace(id, "was not there before");
      }
    }
    return out;
  }
  Status Check(const std::string& metadata, const Call& /*call*/) override {
    QUARRY_TRY(faults.Check("Check"));
    QUARRY_ASSIGN(const std::string uuid, UuidOf(metadata));
    return Has(uuid) && Of(uuid).sound ? Ok() : Status(Error(Code::kCorrupt, "thin_check: bad checksum"));
  }
  Status Repair(const std::string& from, const std::string& to, std::optional<uint64_t> transaction_id,
                const Call& /*call*/) override {
    QUARRY_TRY(faults.Check("Repair"));
    QUARRY_ASSIGN(const std::string source, UuidOf(from));
    QUARRY_ASSIGN(const std::string target, UuidOf(to));
    Metadata made = Of(source);
    made.sound = true;
    made.complete = true;
    made.stored.transaction_id = transaction_id.value_or(made.stored.transaction_id);
    for (const uint32_t id : lost) {
      made.stored.devices.erase(id);
    }
    for (const uint32_t id : shortened) {
      made.stored.devices.at(id).mapped = made.stored.devices.at(id).mapped - kChunk;
    }
    volumes_[target] = std::move(made);
    return Ok();
  }

  Faults faults;

 private:
  static constexpr Bytes kChunk{128 * 1024};

  Result<thin::StoredPool> Read(const std::string& metadata) {
    QUARRY_ASSIGN(const std::string uuid, UuidOf(metadata));
    if (!Has(uuid)) {
      return Error(Code::kCorrupt, "no superblock");
    }
    return Of(uuid).complete ? Result<thin::StoredPool>(Of(uuid).stored)
                             : Error(Code::kCorrupt, "metadata block 7: wrong checksum");
  }
  Result<std::string> UuidOf(const std::string& node) {
    const auto device = dm_.DeviceOfNode(node);
    if (!device.has_value()) {
      return Error(Code::kUnavailable, node + ": no such device");
    }
    const std::string& uuid = device->uuid;
    constexpr std::string_view kSuffix = "-tmeta";
    return uuid.ends_with(kSuffix) ? uuid.substr(0, uuid.size() - kSuffix.size()) : uuid;
  }

  FakeDm& dm_;
  std::map<std::string, Metadata> volumes_;
};

}  // namespace quarry::fakes
