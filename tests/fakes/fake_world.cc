#include "tests/fakes/fake_world.h"

#include <string>

#include "tests/fakes/fake_udev.h"

namespace quarry::fakes {
namespace {

class Nothing final : public Subprocess {
 public:
  Result<Finished> Run(const Command& /*command*/, const Call& /*call*/) override {
    return Error(Code::kUnavailable, "this test runs no commands");
  }
  StuckChildren Stuck() override { return {}; }
};

class Everything final : public lvm::GroupLocks {
 public:
  Status ClaimName(const std::string& /*group*/) override { return Ok(); }
  Result<bool> Claim(const std::string& /*group*/, const std::string& /*uuid*/) override { return false; }
  Status Check(const std::string& /*group*/) const override { return Ok(); }
  Result<int> ForCommand(const std::string& /*group*/) const override {
    return Error(Code::kInternal, "this test has no lock files");
  }
};

class NoMetadata final : public thin::PoolReaderApi {
 public:
  Result<std::optional<Bytes>> Device(const std::string& metadata, uint32_t /*id*/,
                                      const Call& /*call*/) override {
    return Error(Code::kUnavailable, metadata + ": this test has no thin pools");
  }
  Result<std::map<uint32_t, Bytes>> MappedBytes(const std::string& metadata,
                                                std::span<const uint32_t> /*ids*/,
                                                const Call& /*call*/) override {
    return Error(Code::kUnavailable, metadata + ": this test has no thin pools");
  }
  Result<std::map<uint32_t, Bytes>> ExclusiveBytes(const std::string& metadata,
                                                   std::span<const uint32_t> /*ids*/,
                                                   const Call& /*call*/) override {
    return Error(Code::kUnavailable, metadata + ": this test has no thin pools");
  }
  Result<uint64_t> CreationTime(const std::string& metadata, uint32_t /*id*/, const Call& /*call*/) override {
    return Error(Code::kUnavailable, metadata + ": this test has no thin pools");
  }
  Result<thin::MappedRanges> Mapped(const std::string& metadata, uint32_t /*id*/, Bytes /*from*/,
                                    const thin::WalkLimit& /*limit*/, const Call& /*call*/) override {
    return Error(Code::kUnavailable, metadata + ": this test has no thin pools");
  }
  Result<thin::OwnRanges> Exclusive(const std::string& metadata, uint32_t /*id*/, Bytes /*from*/,
                                    size_t /*most*/, const Call& /*call*/) override {
    return Error(Code::kUnavailable, metadata + ": this test has no thin pools");
  }
  Result<thin::WalkedRanges> Allocated(const std::string& metadata, uint32_t /*id*/, Bytes /*from*/,
                                       const thin::WalkLimit& /*limit*/, const Call& /*call*/) override {
    return Error(Code::kUnavailable, metadata + ": this test has no thin pools");
  }
  Result<thin::WalkedRanges> Different(const std::string& metadata, uint32_t /*base*/, uint32_t /*target*/,
                                       Bytes /*from*/, const thin::WalkLimit& /*limit*/,
                                       const Call& /*call*/) override {
    return Error(Code::kUnavailable, metadata + ": this test has no thin pools");
  }
};

class NoTools final : public thin::RepairApi {
 public:
  Status Ready() override { return Error(Code::kPrecondition, "this test has no tools"); }
  Result<std::map<uint32_t, std::string>> Compare(const std::string& former, const std::string& /*repaired*/,
                                                  const Call& /*call*/) override {
    return Error(Code::kUnavailable, former + ": this test has no thin pools");
  }
  Result<thin::StoredPool> Look(const std::string& metadata, const Call& /*call*/) override {
    return Error(Code::kUnavailable, metadata + ": this test has no thin pools");
  }
  Status Check(const std::string& metadata, const Call& /*call*/) override {
    return Error(Code::kPrecondition, metadata + ": this test has no tools");
  }
  Status Repair(const std::string& from, const std::string& /*to*/,
                std::optional<uint64_t> /*transaction_id*/, const Call& /*call*/) override {
    return Error(Code::kPrecondition, from + ": this test has no tools");
  }
};

}  // namespace

thin::RepairApi& NoRepairs() {
  static NoTools tools;
  return tools;
}

thin::PoolReaderApi& NoPools() {
  static NoMetadata pools;
  return pools;
}

udev::UdevApi& NoDisks() {
  static FakeUdev udev;
  return udev;
}

Subprocess& NoCommands() {
  static Nothing nothing;
  return nothing;
}

const lvm::GroupLocks& NoOtherQuarryd() {
  static const Everything kEverything;
  return kEverything;
}

FakeWorld::operator engine::World() const {
  return {.lvm = lvm,
          .dm = dm,
          .erase = erase,
          .mount = mount,
          .clock = clock,
          .children = children,
          .udev = udev,
          .pvs = lvm,
          .health = health,
          .raid_legs = raid_legs,
          .thin = thin,
          .thin_repair = thin_repair,
          .locks = locks,
          .steps = steps};
}

}  // namespace quarry::fakes
