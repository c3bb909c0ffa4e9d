#include <fcntl.h>
#include <fmt/format.h>

#include <stdexcept>

#include "tests/contract/mount_contract.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_mount.h"

namespace quarry::contract {
namespace {

class FakeMountWorld final : public MountWorld {
 public:
  mount::MountApi& api() override { return mount_; }

  std::string NewDevice(Bytes size) override {
    const std::string uuid = fmt::format("LVM-{}", ++count_);
    return dm_.AddDevice(uuid, fmt::format("vg-lv{}", count_), size).Node();
  }
  void GrowDevice(const std::string& node, Bytes size) override { Must(dm_.SetSize(UuidOf(node), size)); }
  UniqueFd OpenDevice(const std::string& node) override { return Must(dm_.Open(UuidOf(node), O_RDONLY)); }
  mount::DeviceNumber NumberOf(const std::string& node) override {
    const auto device = dm_.DeviceOfNode(node);
    return {device->major, device->minor};
  }
  void PutSwap(const std::string& node) override {
    mount_.SetContent(UuidOf(node), {mount::Content::Kind::kOther, "swap", ""});
  }

  void Damage(const std::string& node, bool fixable) override {
    using Kind = fakes::FakeMount::Damage;
    mount_.SetDamage(UuidOf(node), fixable ? Kind::kFixable : Kind::kUnfixable);
  }

  std::string CopyOf(const std::string& node, const std::string& /*fs_type*/, bool unclean) override {
    const std::string source = UuidOf(node);
    std::string copy = NewDevice(*dm_.SizeOf(source));
    mount_.SetContent(UuidOf(copy), mount_.ContentOf(source));
    mount_.SetFilesystemSize(UuidOf(copy), mount_.FilesystemSize(source));
    mount_.SetUnclean(UuidOf(copy), unclean);
    return copy;
  }

  AbsolutePath NewDirectory() override {
    const std::string path = fmt::format("/world/{}", ++count_);
    mount_.AddDirectory(path);
    return *AbsolutePath::Parse(path);
  }
  void PutFile(const std::string& path, bool empty) override { mount_.AddFile(path, empty); }
  void PutSymlink(const std::string& path, const std::string& to) override { mount_.AddLink(path, to); }
  Access AccessOf(const std::string& path) override {
    const auto access = mount_.AccessOf(path);
    return {access.gid, access.mode};
  }
  void SetAccess(const std::string& path, Access access) override {
    mount_.SetAccess(path, {access.gid, access.mode});
  }
  std::shared_ptr<void> Hold(const std::string& path) override {
    mount_.SetBusy(path, "pid 12 (postgres)");
    return {nullptr, [this, path](void*) { mount_.SetBusy(path, ""); }};
  }

 private:
  template <typename T>
  static T Must(Result<T> result) {
    if (!result.has_value()) {
      throw std::runtime_error(result.error().message());
    }
    if constexpr (!std::is_void_v<T>) {
      return std::move(*result);
    }
  }
  std::string UuidOf(const std::string& node) const { return dm_.DeviceOfNode(node)->uuid; }

  int count_ = 0;
  fakes::FakeDm dm_;
  fakes::FakeMount mount_{dm_};
};

}  // namespace

std::unique_ptr<MountWorld> MakeMountWorld() {
  return std::make_unique<FakeMountWorld>();
}

}  // namespace quarry::contract
