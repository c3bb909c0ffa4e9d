// The LvmApi contract on the real lvm2 of this host, run both ways: the part that is only metadata.
#include <cstdlib>
#include <iostream>

#include "lvm/fresh/fresh_lvm.h"
#include "lvm/run/zygote.h"
#include "tests/contract/lvm_contract_hold.h"
#include "tests/contract/lvm_contract_moves.h"
#include "tests/contract/native_world.h"
#include "tests/unit/lvm/text_agreement.h"

namespace quarry::contract {
namespace {

constexpr Bytes kDiskSize{kGiB};

// One world for each way; `runner` outlives it.
class NativeContractWorld {
 public:
  static constexpr bool kHasDriver = false;
  static std::string TextDifference(const lvm::VolumeGroup& report) {
    return lvm::testing::TextDifference(report);
  }

  explicit NativeContractWorld(Subprocess& runner) {
    auto made = NativeWorld::Make(runner, NativeWorld::View::kAll, kDisks + 1, kDiskSize);
    if (!made.has_value()) {
      const Code code = made.error().code();
      const bool lacking = code == Code::kUnavailable || code == Code::kNotFound;
      std::cout << (lacking ? "NOT TESTED against the real lvm2: " : "") << made.error().message()
                << std::endl;
      std::_Exit(lacking ? 0 : 1);
    }
    world_ = std::move(*made);
  }

  void Reset() {
    for (size_t i = 0; i < kDisks; ++i) {
      ShowDisk(i);
    }
    world_->Blank();
    std::vector<std::string> words = {"vgcreate", "-y", "--physicalextentsize", "4m", group()};
    for (size_t i = 0; i < kDisks; ++i) {
      words.push_back(world_->ShellPath(i));
    }
    world_->Shell(words);
    // A new object, because it does not know the next group of the same name.
    fresh_ = std::make_unique<lvm::FreshLvm>(world_->lvm(), world_->headers(), nullptr, nullptr, nullptr,
                                             world_->locking_dir());
  }
  lvm::LvmApi& lvm() { return world_->lvm(); }
  lvm::LvmApi& holder() { return *fresh_; }
  std::string group() const { return world_->group(); }
  std::shared_ptr<void> Hold(const std::string&) { return nullptr; }
  std::string SpareDisk() const { return world_->ShellPath(kDisks); }
  void HideDisk(size_t index) { world_->Unlink(index); }
  void ShowDisk(size_t index) { world_->Link(index); }

 private:
  std::unique_ptr<NativeWorld> world_;
  std::unique_ptr<lvm::FreshLvm> fresh_;
};

struct Spawn {
  SpawnSubprocess subprocess;
};
class SpawnWorld : Spawn, public NativeContractWorld {
 public:
  SpawnWorld() : NativeContractWorld(subprocess) {}
};

struct Zygote {
  SpawnSubprocess others;
  lvm::ZygoteSubprocess zygote{QUARRY_ZYGOTE, others};
};
class ZygoteWorld : Zygote, public NativeContractWorld {
 public:
  ZygoteWorld() : NativeContractWorld(zygote) {}
  ~ZygoteWorld() {
    EXPECT_EQ(zygote.counts().starts, 1U) << "the zygote died";
    EXPECT_EQ(zygote.counts().passed_on, 0U) << "the tests did not use the zygote";
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Spawn, LvmContract, SpawnWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Spawn, LvmMoveContract, SpawnWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Spawn, LvmHoldContract, SpawnWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Zygote, LvmContract, ZygoteWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Zygote, LvmMoveContract, ZygoteWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Zygote, LvmHoldContract, ZygoteWorld);

}  // namespace
}  // namespace quarry::contract
