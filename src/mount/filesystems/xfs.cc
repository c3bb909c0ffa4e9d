#include <sys/ioctl.h>

#include <array>
#include <cstdint>

#include <fmt/format.h>

#include "mount/filesystems.h"
#include "mount/filesystems/mkfs_options.h"

namespace quarry::mount {
namespace {

// mkfs.xfs(8). Refused: -r, logdev= (other devices), file= and name= (files), -p and -c (read files), -N
// (only simulates), -f, and -m uuid= (every volume of the class would get the same).
constexpr std::array kRules = std::to_array<MkfsOptionRule>({
    {"-b"},
    {"-m", true, "uuid"},
    {"-d", true, "file,name,size"},
    {"-i"},
    {"-l", true, "file,name,logdev"},
    {"-n"},
    {"-s"},
    {"-L"},
    {"-K", false},
    {"-q", false},
});

// mkfs.xfs refuses smaller devices, because their log would be too small to be useful.
constexpr Bytes kMinimum{300 * kMiB.value};
// With a stripe, mkfs.xfs expects many disks and makes 16 groups. Below about 1 GiB the log does not fit into
// one of those groups, and mkfs.xfs fails. Up to this size Quarry asks for the four groups of the default.
constexpr Bytes kFewGroups{4 * kGiB.value};

// XFS_IOC_FSGEOMETRY_V1 of the kernel's fs/xfs/libxfs/xfs_fs.h: a fixed part of its interface.
struct Geometry {
  uint32_t blocksize, rtextsize, agblocks, agcount, logblocks, sectsize, inodesize, imaxpct;
  uint64_t datablocks, rtblocks, rtextents, logstart;
  std::array<unsigned char, 16> uuid;
  uint32_t sunit, swidth;
  int32_t version;
  uint32_t flags, logsectsize, rtsectsize, dirblocksize;
};
static_assert(sizeof(Geometry) == 112);
constexpr unsigned long kGeometryRequest = _IOR('X', 100, Geometry);
// XFS_MIN_AG_BLOCKS: the kernel starts no allocation group smaller than this.
constexpr uint64_t kLeastGroupBlocks = 64;

// Has no check: fsck.xfs does nothing, and xfs_repair refuses a log that was not replayed. A mount replays
// it.
class XfsFilesystem final : public Filesystem {
 public:
  std::string_view type() const override { return "xfs"; }
  std::string_view package() const override { return "xfsprogs"; }
  Bytes minimum_size() const override { return kMinimum; }

  Result<std::vector<std::string>> MakeCommand(const MakeFilesystem& spec, Bytes device_size) const override {
    QUARRY_ASSIGN(std::vector<MkfsOption> extra, ParseMkfsOptions(spec.extra_options, kRules));
    std::erase_if(extra, [](const MkfsOption& option) {
      return option.value.empty();
    });  // -K, -q: Quarry sets these anyway
    std::vector<std::string> words = {"mkfs.xfs", "-q", "-K"};
    bool aligned = false;
    for (const std::string_view key : {"su", "sw", "sunit", "swidth", "noalign"}) {
      aligned = aligned || SetsKey(extra, "-d", key);
    }
    if (spec.stripe_unit.value != 0 && !aligned) {
      words.insert(words.end(),
                   {"-d", fmt::format("su={},sw={}", spec.stripe_unit.value, spec.data_stripes)});
    }
    if (device_size < kFewGroups && !SetsKey(extra, "-d", "agcount") && !SetsKey(extra, "-d", "agsize")) {
      words.insert(words.end(), {"-d", "agcount=4"});
    }
    AppendOptions(words, extra);
    words.push_back(spec.device);
    return words;
  }

  std::vector<std::string> ChangeUuidCommand(const std::string& device,
                                             const std::string& uuid) const override {
    // What `xfs_admin -U` runs: that is a script, and the container image has no shell.
    return {"xfs_db", "-x", "-p", "xfs_admin", "-c", "uuid " + uuid, device};
  }
  std::vector<std::string_view> uuid_refusals() const override {
    return {"valuable metadata changes in a log"};
  }

  // The UUID of device-mapper identifies the volume. A mounted copy of the volume, whose file system has the
  // same UUID, is no reason to refuse the mount.
  std::vector<std::string> standing_options() const override { return {"nouuid"}; }

  std::vector<std::string> GrowCommand(const std::string& /*device*/,
                                       const std::string& mount_point) const override {
    return {"xfs_growfs", "-d", mount_point};
  }

  Result<Measured> Measure(int mount_fd, int /*device_fd*/) const override {
    Geometry geometry{};
    if (ioctl(mount_fd, kGeometryRequest, &geometry) != 0) {
      return ErrnoError("reading the geometry of an xfs");
    }
    return Measured{{geometry.datablocks * geometry.blocksize}, {kLeastGroupBlocks * geometry.blocksize}};
  }
};

}  // namespace

const Filesystem& Xfs() {
  static const XfsFilesystem fs;
  return fs;
}

}  // namespace quarry::mount
