#include "tests/contract/lvm_contract_cow.h"
#include "tests/contract/lvm_contract_hold.h"
#include "tests/contract/lvm_contract_moves.h"
#include "tests/contract/lvm_contract_thin.h"
#include "tests/fakes/fake_lvm.h"

namespace quarry::contract {
namespace {

class FakeWorld {
 public:
  void Reset() {
    std::vector<fakes::FakeDisk> disks;
    for (size_t i = 0; i < kDisks; ++i) {
      disks.push_back({"/dev/fake" + std::to_string(i), kDiskExtents});
    }
    lvm_.AddGroup(group(), kExtentSize, disks);
  }
  lvm::LvmApi& lvm() { return lvm_; }
  lvm::LvmApi& holder() { return lvm_; }
  std::string group() const { return "vg0"; }
  std::shared_ptr<void> Hold(const std::string& lv) {
    lvm_.SetOpen(group(), lv, true);
    return {nullptr, [this, lv](void*) { lvm_.SetOpen(group(), lv, false); }};
  }
  std::string SpareDisk() {
    lvm_.AddBlankDisk({"/dev/spare", kDiskExtents});
    return "/dev/spare";
  }
  void HideDisk(size_t index) { SetMissing(index, true); }
  void ShowDisk(size_t index) { SetMissing(index, false); }

 protected:
  fakes::FakeLvm& fake() { return lvm_; }

 private:
  void SetMissing(size_t index, bool missing) {
    lvm_.Happen(group(), [&](lvm::VolumeGroup& group) { group.pvs[index].missing = missing; });
  }
  fakes::FakeLvm lvm_;
};

// As on Debian 13.
class NewerFakeWorld : public FakeWorld {
 public:
  NewerFakeWorld() { fake().SetVersion("2.03.31"); }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Fake, LvmContract, FakeWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Fake, LvmMoveContract, FakeWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Fake, LvmCowContract, FakeWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Fake, LvmThinContract, FakeWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(NewerFake, LvmThinContract, NewerFakeWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Fake, LvmHoldContract, FakeWorld);

}  // namespace
}  // namespace quarry::contract
