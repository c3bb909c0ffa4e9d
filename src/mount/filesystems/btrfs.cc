#include <linux/btrfs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/little_endian.h"
#include "mount/filesystems.h"
#include "mount/filesystems/mkfs_options.h"

namespace quarry::mount {
namespace {

// mkfs.btrfs(8). Refused: -r (reads files), -f, -U, --shrink, -b, and further devices.
constexpr std::array kRules = std::to_array<MkfsOptionRule>({
    {"-m"},        {"--metadata"},     {"-d"},        {"--data"},
    {"-M", false}, {"--mixed", false}, {"-n"},        {"--nodesize"},
    {"-s"},        {"--sectorsize"},   {"-L"},        {"--label"},
    {"-O"},        {"--features"},     {"-R"},        {"--runtime-features"},
    {"--csum"},    {"--checksum"},     {"-K", false}, {"--nodiscard", false},
    {"-q", false}, {"--quiet", false},
});

using little_endian::Load;

// The first superblock, and fields of struct btrfs_super_block (linux/btrfs_tree.h), little-endian.
constexpr off_t kSuperblockOffset = 64 * 1024;
constexpr size_t kSuperblockSize = 4096;
constexpr size_t kMagic = 0x40;
constexpr size_t kLogRoot = 0x60;
constexpr uint64_t kBtrfsMagic = 0x4D5F53665248425F;  // "_BHRfS_M"

// The minimum with duplicated metadata, the default on one device: 114,294,784 bytes, rounded up to a MiB.
constexpr Bytes kMinimum{109 * kMiB.value};

// Has no check: a copy-on-write tree is consistent at every moment, and `btrfs check --repair` needs an
// administrator.
class BtrfsFilesystem final : public Filesystem {
 public:
  std::string_view type() const override { return "btrfs"; }
  std::string_view package() const override { return "btrfs-progs"; }
  Bytes minimum_size() const override { return kMinimum; }

  // The kernel knows a btrfs by its UUID, whatever device it was given, so a copy needs another one.
  // btrfstune gives it, but a log that was not replayed is lost by that: the copy could not be mounted.
  Status CheckCopyable(int fd) const override {
    std::array<std::byte, kSuperblockSize> raw{};
    const ssize_t n = pread(fd, raw.data(), raw.size(), kSuperblockOffset);
    if (n != static_cast<ssize_t>(raw.size())) {
      return n < 0 ? ErrnoError("reading the btrfs superblock")
                   : Error(Code::kIo, "reading the btrfs superblock: short read");
    }
    if (Load(raw, kMagic, 8) != kBtrfsMagic) {
      return Error(Code::kCorrupt, "no btrfs superblock");
    }
    return Load(raw, kLogRoot, 8) == 0
               ? Ok()
               : Error(Code::kPrecondition,
                       "the btrfs was not unmounted cleanly: mount it once and unmount it");
  }

  // The metadata keeps the old UUID, which only the superblock then names (metadata_uuid, since Linux 5.0).
  std::vector<std::string> ChangeUuidCommand(const std::string& device,
                                             const std::string& uuid) const override {
    return {"btrfstune", "-f", "-M", uuid, device};
  }

  // btrfs does not take the stripes below it into account.
  Result<std::vector<std::string>> MakeCommand(const MakeFilesystem& spec,
                                               Bytes /*device_size*/) const override {
    QUARRY_ASSIGN(const std::vector<MkfsOption> extra, ParseMkfsOptions(spec.extra_options, kRules));
    std::vector<std::string> words = {"mkfs.btrfs", "-q", "-K"};
    AppendOptions(words, extra);
    words.push_back(spec.device);
    return words;
  }

  std::vector<std::string> GrowCommand(const std::string& /*device*/,
                                       const std::string& mount_point) const override {
    return {"btrfs", "filesystem", "resize", "max", mount_point};
  }

  Result<Measured> Measure(int mount_fd, int /*device_fd*/) const override {
    btrfs_ioctl_fs_info_args info{};
    if (ioctl(mount_fd, BTRFS_IOC_FS_INFO, &info) != 0) {
      return ErrnoError("reading the device count of a btrfs");
    }
    if (info.num_devices != 1) {
      return Error(Code::kPrecondition, "the btrfs has more than one device");
    }
    btrfs_ioctl_dev_info_args device{};
    device.devid = info.max_id;
    if (ioctl(mount_fd, BTRFS_IOC_DEV_INFO, &device) != 0) {
      return ErrnoError("reading the size of a btrfs device");
    }
    return Measured{{device.total_bytes}, {info.sectorsize}};
  }
};

}  // namespace

const Filesystem& Btrfs() {
  static const BtrfsFilesystem fs;
  return fs;
}

}  // namespace quarry::mount
