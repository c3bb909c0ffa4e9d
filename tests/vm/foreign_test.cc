// Every kind of unmanaged content on a volume before its first staging is refused by name, and not a byte of
// it changes. On a linear volume and on a mirror.
#include <fmt/format.h>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using grpc::StatusCode;

struct Foreign {
  const char* name;
  int64_t size;  // of the volume: large enough for the content and for the file system that is asked for
  const char* commands;  // a shell's; $D is the device
  const char* word;      // the error must contain it
};

// A signature that is laid over another one comes from a second image, $X, which begins as a hole.
constexpr Foreign kForeign[] = {
    {"Xfs", 320 * kMi, "mkfs.xfs -q -f $D", "xfs"},
    {"Ext4", 320 * kMi, "mkfs.ext4 -q -F $D", "ext4"},
    {"PhysicalVolume", 48 * kMi, "lvm pvcreate -y -ff --devices $D --config 'devices{scan_lvs=1}' $D",
     "LVM2_member"},
    {"Luks", 48 * kMi,
     "printf pass | cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file - $D",
     "crypto_LUKS"},
    {"Gpt", 48 * kMi, "printf 'label: gpt\\n,,\\n' | sfdisk -q --no-reread --no-tell-kernel $D", "gpt"},
    {"Mbr", 48 * kMi, "printf 'label: dos\\n,,\\n' | sfdisk -q --no-reread --no-tell-kernel $D", "dos"},
    {"OnlyInTheLastSectors", 48 * kMi,
     "printf 'label: gpt\\n,,\\n' | sfdisk -q --no-reread --no-tell-kernel $D && blkdiscard -z -l 1M $D",
     "gpt"},
    {"TwoThatContradict", 128 * kMi,
     "mkfs.ext4 -q -F $D && truncate -s 128M $X && mkfs.btrfs -q $X && "
     "dd if=$X of=$D bs=4096 skip=16 seek=16 count=1 conv=notrunc,fsync status=none",
     "several"},
};

class ForeignTest : public VmTest, public testing::WithParamInterface<std::string> {
 protected:
  static std::string DigestOf(const std::string& device) {
    Tool({"blockdev", "--flushbufs", device});
    return Words(Tool({"sha256sum", device}).out).front();
  }
};

TEST_P(ForeignTest, UnmanagedContentIsRefusedByNameAndNotChanged) {
  for (const Foreign& foreign : kForeign) {
    SCOPED_TRACE(foreign.name);
    const v1::VolumeCapability ext4 = MountCapability("ext4");
    const v1::VolumeCapability wanted = std::string(foreign.name) == "Ext4" ? MountCapability("xfs") : ext4;
    const v1::Volume volume = MustCreate(
        {std::string("foreign-") + foreign.name, TypeParameters(GetParam()), wanted, foreign.size});
    ASSERT_FALSE(volume.volume_id().empty());
    const std::string node = NodeOf(volume);
    const auto prepared =
        Tool({"sh", "-ec", fmt::format("D={} X=/tmp/second-image; rm -f $X; {}", node, foreign.commands)});
    ASSERT_TRUE(prepared.ok()) << prepared.err;
    const std::string before = DigestOf(node);
    const std::string staging = StagingPath("foreign");
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(
          Fails(client().Stage(volume, staging, wanted), StatusCode::FAILED_PRECONDITION, foreign.word));
    }
    EXPECT_EQ(Tool({"findmnt", "-rn", "--mountpoint", staging}).out, "");
    EXPECT_EQ(DigestOf(node), before);
    EXPECT_OK(client().Unstage(volume.volume_id(), staging));
    ASSERT_OK(client().Delete(volume.volume_id())) << "a volume with unmanaged content can still be deleted";
    ASSERT_TRUE(ComesBackEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(On, ForeignTest, testing::Values("linear", "raid1"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace quarry::vm
