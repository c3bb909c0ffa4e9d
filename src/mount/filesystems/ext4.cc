#include <unistd.h>

#include <array>
#include <charconv>

#include <fmt/format.h>

#include "mount/filesystems.h"
#include "mount/filesystems/ext4_superblock.h"
#include "mount/filesystems/mkfs_options.h"

namespace quarry::mount {
namespace {

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

  std::vector<std::string> GrowCommand(const std::string& device,
                                       const std::string& /*mount_point*/) const override {
    return {"resize2fs", device};
  }

  // The kernel keeps the superblock of a mounted ext4 in the page cache of the device, so a read returns the
  // current one.
  Result<Measured> Measure(int /*mount_fd*/, int device_fd) const override {
    std::array<std::byte, kExt4SuperblockSize> raw{};
    const ssize_t n = pread(device_fd, raw.data(), raw.size(), kExt4SuperblockOffset);
    if (n != static_cast<ssize_t>(raw.size())) {
      return n < 0 ? ErrnoError("reading the ext4 superblock")
                   : Error(Code::kIo, "reading the ext4 superblock: short read");
    }
    return MeasureExt4(raw);
  }
};

}  // namespace

const Filesystem& Ext4() {
  static const Ext4Filesystem fs;
  return fs;
}

}  // namespace quarry::mount
