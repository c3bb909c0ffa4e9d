#include <stdexcept>

#include "tests/contract/dm_contract.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"

namespace quarry::contract {
namespace {

class FakeDmWorld final : public DmWorld {
 public:
  dm::DmApi& api() override { return dm_; }
  void Add(const std::string& uuid, const std::string& name, Bytes size) override {
    dm_.AddDevice(uuid, name, size);
  }
  void AddOnDisk(const std::string& uuid, const std::string& name, Bytes offset, Bytes length) override {
    dm_.AddDevice(uuid, name, length);
    dm_.SetMappings(uuid, Disk(), {{offset, length}});
  }
  void AddThinPool(const std::string& uuid, const std::string& name, bool has_volumes) override {
    dm_.AddThinPool(uuid, name, {64 * kKiB.value}, 256, has_volumes);
  }
  void AddThin(const std::string& uuid, const std::string& name, const std::string& pool, dm::ThinId id,
               Bytes size) override {
    const Status added = dm_.AddThin(uuid, name, pool, id, size);
    if (!added.has_value()) {
      throw std::runtime_error(added.error().message());
    }
  }
  std::string Disk() override { return "/dev/loop7"; }
  bool Remove(const std::string& uuid) override { return dm_.RemoveDevice(uuid).has_value(); }

 private:
  fakes::FakeDm dm_;
};

class FakeEraseWorld final : public EraseWorld {
 public:
  FakeEraseWorld() { erase_.AddPv(device(), pv_uuid()); }
  dm::EraseApi& api() override { return erase_; }
  std::string device() const override { return "/dev/nvme0n1"; }
  std::string pv_uuid() const override { return "abcdef-GHIJ-klmn-OPQR-stuv-WXYZ-012345"; }
  Bytes first_extent() const override { return kMiB; }

 private:
  fakes::FakeErase erase_;
};

}  // namespace

std::unique_ptr<DmWorld> MakeDmWorld() {
  return std::make_unique<FakeDmWorld>();
}

std::unique_ptr<EraseWorld> MakeEraseWorld(Bytes /*size*/) {
  return std::make_unique<FakeEraseWorld>();
}

}  // namespace quarry::contract
