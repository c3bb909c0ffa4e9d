#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "base/little_endian.h"
#include "mount/filesystems.h"
#include "mount/filesystems/mkfs_options.h"

namespace quarry::mount {
namespace {

using little_endian::Load;

// mke2fs(8). Refused: -c -l -d (read files), -J device=, -E offset= (other places), -n (only simulates), -S,
// -F, -z, -t, -U.
constexpr std::array kRules = std::to_array<MkfsOptionRule>({
    {"-b"},
    {"-C"},
    {"-E", true, "offset"},
    {"-e"},
    {"-G"},
    {"-g"},
    {"-I"},
    {"-i"},
    {"-J", true, "device"},
    {"-L"},
    {"-m"},
    {"-N"},
    {"-O"},
    {"-T"},
});

constexpr uint64_t kDefaultBlockSize = 4096;
constexpr off_t kSuperblockOffset = 1024;

// Offsets within struct ext4_super_block; all fields are little-endian.
enum Field : size_t {
  kBlocksCountLow = 0x04,
  kLogBlockSize = 0x18,
  kBlocksPerGroup = 0x20,
  kInodesPerGroup = 0x28,
  kMagic = 0x38,
  kInodeSize = 0x58,
  kFeatureIncompat = 0x60,
  kReservedGdtBlocks = 0xCE,
  kDescriptorSize = 0xFE,
  kBlocksCountHigh = 0x150,
};
constexpr uint16_t kExtMagic = 0xEF53;
constexpr uint32_t kIncompat64Bit = 0x80;
// resize2fs does not start a group with fewer data blocks than this.
constexpr uint64_t kLeastDataBlocks = 50;

// If -b is given several times, the last one counts, as for mke2fs.
uint64_t BlockSizeOf(std::span<const MkfsOption> options) {
  uint64_t size = kDefaultBlockSize;
  for (const MkfsOption& option : options) {
    uint64_t given = 0;
    const char* end = option.value.data() + option.value.size();
    if (option.name == "-b" && std::from_chars(option.value.data(), end, given).ptr == end && given != 0) {
      size = given;
    }
  }
  return size;
}

class Ext4Filesystem final : public Filesystem {
 public:
  std::string_view type() const override { return "ext4"; }
  std::string_view package() const override { return "e2fsprogs"; }
  // 2048 blocks: with fewer, mke2fs omits the journal.
  Bytes minimum_size() const override { return {2048 * kDefaultBlockSize}; }

  Result<std::vector<std::string>> MakeCommand(const MakeFilesystem& spec,
                                               Bytes /*device_size*/) const override {
    QUARRY_ASSIGN(const std::vector<MkfsOption> extra, ParseMkfsOptions(spec.extra_options, kRules));
    // With the checksum seed a copy can get a new UUID without rewriting every checksum.
    std::string features = "metadata_csum_seed";
    std::string extended = "nodiscard";
    if (spec.stripe_unit.value != 0) {
      const uint64_t stride = spec.stripe_unit.value / BlockSizeOf(extra);
      if (stride > 1) {
        extended += fmt::format(",stride={},stripe_width={}", stride, stride * spec.data_stripes);
      }
    }
    // mke2fs uses only the last -E and -O. The options of the storage class are therefore joined to Quarry's,
    // and override them.
    std::vector<MkfsOption> rest;
    for (const MkfsOption& option : extra) {
      if (option.name == "-E" || option.name == "-O") {
        (option.name == "-E" ? extended : features) += "," + option.value;
      } else {
        rest.push_back(option);
      }
    }
    std::vector<std::string> words = {"mkfs.ext4", "-q",     "-b", fmt::format("{}", BlockSizeOf(extra)),
                                      "-O",        features, "-E", extended};
    std::erase_if(rest, [](const MkfsOption& option) { return option.name == "-b"; });
    AppendOptions(words, rest);
    words.push_back(spec.device);
    return words;
  }

  std::optional<std::vector<std::string>> CheckCommand(const std::string& device) const override {
    return std::vector<std::string>{"e2fsck", "-p", device};
  }

  // fsck(8) and e2fsck(8): 1 repaired; 2 repaired, reboot required, which applies to mounted file systems; 4
  // not repaired; 8 could not be checked, for example because the superblock is gone; 16, 32, 128: not run.
  CheckVerdict JudgeCheck(int exit_status) const override {
    return exit_status == 0            ? CheckVerdict::kClean
           : exit_status <= 3          ? CheckVerdict::kRepaired
           : (exit_status & 0xf0) == 0 ? CheckVerdict::kDamaged
                                       : CheckVerdict::kFailed;
  }

  // Replays the journal too.
  std::vector<std::string> ChangeUuidCommand(const std::string& device,
                                             const std::string& uuid) const override {
    return {"tune2fs", "-U", uuid, device};
  }
  // Without a checksum seed, as mkfs of Debian 12 makes an ext4 by default: tune2fs would write every
  // checksum again, and wants a check before that. With stable inodes the encryption of files depends on it.
  std::vector<std::string_view> uuid_refusals() const override {
    return {"requires a freshly checked filesystem", "stable_inodes feature"};
  }

  std::vector<std::string> GrowCommand(const std::string& device,
                                       const std::string& /*mount_point*/) const override {
    return {"resize2fs", device};
  }

  // The kernel keeps the superblock of a mounted ext4 in the page cache of the device, so a read returns the
  // current one.
  Result<Measured> Measure(int /*mount_fd*/, int device_fd) const override {
    std::array<std::byte, kExt4SuperblockSize> raw{};
    const ssize_t n = pread(device_fd, raw.data(), raw.size(), kSuperblockOffset);
    if (n != static_cast<ssize_t>(raw.size())) {
      return n < 0 ? ErrnoError("reading the ext4 superblock")
                   : Error(Code::kIo, "reading the ext4 superblock: short read");
    }
    return MeasureExt4(raw);
  }
};

}  // namespace

Result<Measured> MeasureExt4(std::span<const std::byte> superblock) {
  if (superblock.size() < kExt4SuperblockSize || Load(superblock, kMagic, 2) != kExtMagic) {
    return Error(Code::kCorrupt, "no ext4 superblock");
  }
  const uint64_t shift = Load(superblock, kLogBlockSize, 4);
  const uint64_t per_group = Load(superblock, kBlocksPerGroup, 4);
  if (shift > 6 || per_group == 0) {
    return Error(Code::kCorrupt, "ext4 superblock with an impossible block or group size");
  }
  const uint64_t block = uint64_t{1024} << shift;
  const bool wide = (Load(superblock, kFeatureIncompat, 4) & kIncompat64Bit) != 0;
  const uint64_t high = wide ? Load(superblock, kBlocksCountHigh, 4) : 0;
  const uint64_t blocks = (high << 32) | Load(superblock, kBlocksCountLow, 4);
  if (blocks > UINT64_MAX / block) {
    return Error(Code::kCorrupt, "ext4 superblock with an impossible block count");
  }

  // A last group is started only if its own metadata fits: superblock and descriptors, blocks reserved for
  // more descriptors, two bitmaps, the inode table.
  const uint64_t descriptor = wide ? std::max<uint64_t>(Load(superblock, kDescriptorSize, 2), 32) : 32;
  const uint64_t groups = blocks / per_group + 1;
  const uint64_t descriptors = groups * descriptor / block + 1;
  const uint64_t inodes = Load(superblock, kInodesPerGroup, 4) * Load(superblock, kInodeSize, 2) / block + 1;
  const uint64_t metadata =
      3 + descriptors + Load(superblock, kReservedGdtBlocks, 2) + inodes + kLeastDataBlocks;
  return Measured{{blocks * block}, {std::min(metadata, per_group) * block}};
}

const Filesystem& Ext4() {
  static const Ext4Filesystem fs;
  return fs;
}

}  // namespace quarry::mount
