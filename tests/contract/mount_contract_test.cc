#include "tests/contract/mount_contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "tests/fakes/mount_words.h"

namespace quarry::contract {
namespace {

using mount::Content;
using mount::MountOptions;
using mount::MountTable;
using mount::PathKind;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Large enough for every file system, including an ext4 with a journal.
constexpr Bytes kSize{320 * kMiB.value};

AbsolutePath Path(const std::string& text) {
  return *AbsolutePath::Parse(text);
}

class MountContract : public ::testing::Test {
 protected:
  mount::MountApi& api() { return world_->api(); }
  Call call() const { return CallWithin(std::chrono::seconds(120)); }

  static mount::MakeFilesystem Spec(const std::string& type, const std::string& node) {
    mount::MakeFilesystem spec;
    spec.fs_type = type;
    spec.device = node;
    return spec;
  }
  std::string Formatted(const std::string& type, Bytes size = kSize) {
    const std::string node = world_->NewDevice(size);
    const Status made = api().Make(Spec(type, node), call());
    EXPECT_TRUE(made.has_value()) << made.error().message();
    return node;
  }
  Content ContentOf(const std::string& node) {
    const UniqueFd fd = world_->OpenDevice(node);
    const auto content = api().Probe(fd.get());
    EXPECT_TRUE(content.has_value()) << content.error().message();
    return content.value_or(Content{});
  }
  AbsolutePath Below(const AbsolutePath& directory, const std::string& name) {
    return Path(directory.str() + "/" + name);
  }
  // Mounts on a new directory.
  AbsolutePath Mounted(const std::string& node, const std::string& type, const MountOptions& options = {}) {
    const AbsolutePath target = world_->NewDirectory();
    const Status mounted = api().Mount(node, target, type, options, call());
    EXPECT_TRUE(mounted.has_value()) << mounted.error().message();
    return target;
  }
  // By value, because the table is only read here.
  std::optional<mount::MountEntry> At(const AbsolutePath& target) {
    const auto table = api().Mounts();
    EXPECT_TRUE(table.has_value());
    const mount::MountEntry* entry = table->At(target);
    return entry == nullptr ? std::nullopt : std::optional(*entry);
  }

  std::unique_ptr<MountWorld> world_ = MakeMountWorld();
};

#define EXPECT_OK(expression)                                            \
  do {                                                                   \
    const auto quarry_got = (expression);                                \
    EXPECT_TRUE(quarry_got.has_value()) << quarry_got.error().message(); \
  } while (false)
#define EXPECT_CODE(expected, expression)                                                                 \
  do {                                                                                                    \
    const auto quarry_got = (expression);                                                                 \
    EXPECT_FALSE(quarry_got.has_value());                                                                 \
    if (!quarry_got.has_value()) {                                                                        \
      EXPECT_EQ(CodeName(quarry_got.error().code()), CodeName(expected)) << quarry_got.error().message(); \
    }                                                                                                     \
  } while (false)

// --- Contents of devices

TEST_F(MountContract, ANewDeviceIsBlankAndHasItsSize) {
  const std::string node = world_->NewDevice(kSize);
  EXPECT_EQ(ContentOf(node).kind, Content::Kind::kBlank);
  const UniqueFd fd = world_->OpenDevice(node);
  EXPECT_EQ(api().DeviceSize(fd.get())->value, kSize.value);
}

TEST_F(MountContract, MakesEveryFileSystemItOffersAndSeesItAfterwards) {
  for (const std::string_view type : mount::SupportedFilesystems()) {
    const Content content = ContentOf(Formatted(std::string(type)));
    EXPECT_EQ(content.kind, Content::Kind::kFilesystem) << type;
    EXPECT_EQ(content.type, type);
    EXPECT_FALSE(content.uuid.empty());
  }
}

TEST_F(MountContract, TwoFileSystemsDifferInUuid) {
  EXPECT_NE(ContentOf(Formatted("ext4")).uuid, ContentOf(Formatted("ext4")).uuid);
}

TEST_F(MountContract, NeverMakesAFileSystemOverAnother) {
  const std::string node = Formatted("ext4");
  const Content before = ContentOf(node);
  EXPECT_CODE(Code::kPrecondition, api().Make(Spec("xfs", node), call()));
  EXPECT_CODE(Code::kPrecondition, api().Make(Spec("ext4", node), call()));
  EXPECT_EQ(ContentOf(node).uuid, before.uuid);
}

TEST_F(MountContract, NeverMakesAFileSystemOverAnythingElse) {
  const std::string node = world_->NewDevice(kSize);
  world_->PutSwap(node);
  const Status made = api().Make(Spec("ext4", node), call());
  EXPECT_CODE(Code::kPrecondition, made);
  EXPECT_THAT(made.error().message(), HasSubstr("swap"));
  EXPECT_EQ(ContentOf(node).kind, Content::Kind::kOther);
  EXPECT_EQ(ContentOf(node).type, "swap");
}

TEST_F(MountContract, OverwritesContentOnlyOnRequest) {
  for (const std::string_view type : mount::SupportedFilesystems()) {
    const std::string node = Formatted("xfs");
    mount::MakeFilesystem spec = Spec(std::string(type), node);
    spec.overwrite = true;
    EXPECT_OK(api().Make(spec, call()));
    EXPECT_EQ(ContentOf(node).type, type);
  }
}

TEST_F(MountContract, NeverOverwritesAMountedDevice) {
  const std::string node = Formatted("ext4");
  const AbsolutePath target = Mounted(node, "ext4");
  mount::MakeFilesystem spec = Spec("ext4", node);
  spec.overwrite = true;
  EXPECT_CODE(Code::kPrecondition, api().Make(spec, call()));
  EXPECT_OK(api().Unmount(target, call()));
}

TEST_F(MountContract, RefusesADeviceThatIsTooSmall) {
  for (const std::string_view type : mount::SupportedFilesystems()) {
    const std::string node = world_->NewDevice(mount::MinimumSize(type) - kMiB);
    EXPECT_CODE(Code::kOutOfRange, api().Make(Spec(std::string(type), node), call()));
    EXPECT_EQ(ContentOf(node).kind, Content::Kind::kBlank);
  }
}

TEST_F(MountContract, MakesAFileSystemOnTheSmallestDevice) {
  for (const std::string_view type : mount::SupportedFilesystems()) {
    const std::string node = Formatted(std::string(type), mount::MinimumSize(type));
    EXPECT_OK(api().Unmount(Mounted(node, std::string(type)), call()));
  }
}

TEST_F(MountContract, RefusesOptionsOfMkfsThatReachElsewhere) {
  const std::string node = world_->NewDevice(kSize);
  mount::MakeFilesystem spec = Spec("btrfs", node);
  spec.extra_options = "-L x /dev/null";
  EXPECT_CODE(Code::kInvalidArgument, api().Make(spec, call()));
  spec = Spec("vfat", node);
  EXPECT_CODE(Code::kInvalidArgument, api().Make(spec, call()));
  EXPECT_EQ(ContentOf(node).kind, Content::Kind::kBlank);
}

TEST_F(MountContract, TakesOptionsOfMkfs) {
  const std::string node = world_->NewDevice(kSize);
  mount::MakeFilesystem spec = Spec("ext4", node);
  spec.extra_options = "-m 0 -E lazy_itable_init=0 -O ^resize_inode";
  spec.stripe_unit = {64 * 1024};
  spec.data_stripes = 3;
  EXPECT_OK(api().Make(spec, call()));
}

// --- Mounting

TEST_F(MountContract, MountsEveryFileSystemAtItsTarget) {
  for (const std::string_view type : mount::SupportedFilesystems()) {
    const std::string node = Formatted(std::string(type));
    const AbsolutePath target = Mounted(node, std::string(type));
    const auto entry = At(target);
    ASSERT_TRUE(entry.has_value());
    EXPECT_EQ(entry->fs_type, type);
    EXPECT_EQ(entry->backing, world_->NumberOf(node));
    EXPECT_EQ(entry->device == entry->backing, type != "btrfs") << "a btrfs has its own device number";
    EXPECT_EQ(entry->root, "/");
    EXPECT_FALSE(entry->read_only());
    EXPECT_EQ(api().Mounts()->Of(world_->NumberOf(node)).size(), 1U);
    EXPECT_OK(api().Unmount(target, call()));
    EXPECT_FALSE(At(target).has_value());
  }
}

TEST_F(MountContract, GivesAMountItsFlags) {
  const std::string node = Formatted("ext4");
  const MountOptions options = *mount::ParseMountOptions({"ro", "nosuid", "nodev", "noexec", "noatime"});
  const auto entry = At(Mounted(node, "ext4", options));
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(fakes::PerMountFlagsOf(*entry),
            uint64_t{MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME});
}

TEST_F(MountContract, MountsAtPathsThatAreLongAndOdd) {
  const std::string node = Formatted("ext4");
  const AbsolutePath target =
      Below(world_->NewDirectory(), "a b\tc\\040d\ne#" + std::string(180, 'x') + "\xC3\xA4");
  EXPECT_OK(api().MakeDirectory(target));
  EXPECT_OK(api().Mount(node, target, "ext4", {}, call()));
  ASSERT_TRUE(At(target).has_value());
  EXPECT_EQ(At(target)->target, target.str());
  EXPECT_OK(api().Unmount(target, call()));
  EXPECT_OK(api().RemovePath(target));
}

TEST_F(MountContract, NeverStacksMounts) {
  const std::string first = Formatted("ext4");
  const std::string second = Formatted("ext4");
  const AbsolutePath target = Mounted(first, "ext4");
  EXPECT_CODE(Code::kPrecondition, api().Mount(second, target, "ext4", {}, call()));
  EXPECT_CODE(Code::kPrecondition, api().Bind(world_->NewDirectory().str(), target, {}, call()));
  EXPECT_EQ(std::ranges::count(api().Mounts()->entries(), target.str(), &mount::MountEntry::target), 1);
  EXPECT_EQ(At(target)->backing, world_->NumberOf(first));
}

TEST_F(MountContract, MountsOnDirectoriesOnly) {
  const std::string node = Formatted("ext4");
  const AbsolutePath directory = world_->NewDirectory();
  EXPECT_CODE(Code::kNotFound, api().Mount(node, Below(directory, "absent"), "ext4", {}, call()));
  world_->PutFile(directory.str() + "/file", true);
  EXPECT_CODE(Code::kPrecondition, api().Mount(node, Below(directory, "file"), "ext4", {}, call()));
}

TEST_F(MountContract, DoesNotMountWhatIsNotThere) {
  const AbsolutePath target = world_->NewDirectory();
  EXPECT_CODE(Code::kCorrupt, api().Mount(world_->NewDevice(kSize), target, "ext4", {}, call()));
  EXPECT_CODE(Code::kCorrupt, api().Mount(Formatted("xfs"), target, "ext4", {}, call()));
  EXPECT_CODE(Code::kNotFound, api().Mount("/dev/no-such-device", target, "ext4", {}, call()));
  EXPECT_FALSE(At(target).has_value());
}

TEST_F(MountContract, DoesNothingForAnExpiredCall) {
  const std::string node = Formatted("ext4");
  const AbsolutePath target = world_->NewDirectory();
  Call late;
  late.deadline = std::chrono::steady_clock::now();
  EXPECT_CODE(Code::kTimeout, api().Mount(node, target, "ext4", {}, late));
  EXPECT_CODE(Code::kTimeout, api().Bind(world_->NewDirectory().str(), target, {}, late));
  EXPECT_CODE(Code::kTimeout, api().Make(Spec("ext4", world_->NewDevice(kSize)), late));
  const AbsolutePath mounted = Mounted(node, "ext4");
  EXPECT_CODE(Code::kTimeout, api().GiveToGroup(mounted, 7, late));
  EXPECT_EQ(*api().GroupOf(mounted), 0U);
  EXPECT_FALSE(At(target).has_value());
}

// --- Checking

TEST_F(MountContract, FindsNothingWrongWithANewFileSystem) {
  for (const std::string_view type : mount::SupportedFilesystems()) {
    const std::string node = Formatted(std::string(type));
    const auto report = api().Check(type, node, call());
    ASSERT_TRUE(report.has_value()) << report.error().message();
    EXPECT_EQ(report->checked, type == "ext4") << type;
    EXPECT_FALSE(report->repaired);
    EXPECT_OK(api().Unmount(Mounted(node, std::string(type)), call()));
  }
}

TEST_F(MountContract, SafeRepairsAreMadeAndReported) {
  const std::string node = Formatted("ext4");
  world_->Damage(node, true);
  auto report = api().Check("ext4", node, call());
  ASSERT_TRUE(report.has_value()) << report.error().message();
  EXPECT_TRUE(report->repaired);
  EXPECT_FALSE(report->words.empty());
  report = api().Check("ext4", node, call());
  ASSERT_TRUE(report.has_value()) << report.error().message();
  EXPECT_FALSE(report->repaired);
  EXPECT_OK(api().Unmount(Mounted(node, "ext4"), call()));
}

TEST_F(MountContract, UnsafeRepairsAreLeftToAnAdministrator) {
  const std::string node = Formatted("ext4");
  world_->Damage(node, false);
  for (int i = 0; i < 2; ++i) {
    const auto report = api().Check("ext4", node, call());
    EXPECT_CODE(Code::kCorrupt, report);
    EXPECT_THAT(report.error().message(), HasSubstr("UNEXPECTED INCONSISTENCY"));
  }
}

TEST_F(MountContract, ChecksOnlyUnusedDevices) {
  const std::string node = Formatted("ext4");
  const AbsolutePath target = Mounted(node, "ext4");
  EXPECT_CODE(Code::kPrecondition, api().Check("ext4", node, call()));
  EXPECT_OK(api().Unmount(target, call()));
  EXPECT_OK(api().Check("ext4", node, call()));
  EXPECT_CODE(Code::kCorrupt, api().Check("ext4", world_->NewDevice(kSize), call()));
  Call late;
  late.deadline = std::chrono::steady_clock::now();
  EXPECT_CODE(Code::kTimeout, api().Check("ext4", node, late));
}

// --- Copies

TEST_F(MountContract, ACopyGetsAUuidOfItsOwnAndIsMountedBesideItsSource) {
  for (const std::string_view supported : mount::SupportedFilesystems()) {
    const std::string type(supported);
    const std::string node = Formatted(type);
    EXPECT_OK(api().CheckCopyable(type, world_->OpenDevice(node).get()));
    const std::string copy = world_->CopyOf(node, type, false);
    const auto changed = api().ChangeUuid(type, copy, call());
    ASSERT_TRUE(changed.has_value()) << changed.error().message();
    ASSERT_TRUE(changed->has_value()) << type;
    const auto seen = api().Probe(world_->OpenDevice(copy).get());
    EXPECT_EQ(seen->uuid, **changed);
    EXPECT_NE(seen->uuid, api().Probe(world_->OpenDevice(node).get())->uuid);
    const AbsolutePath first = Mounted(node, type);
    const AbsolutePath second = Mounted(copy, type);
    EXPECT_EQ(At(second)->backing, world_->NumberOf(copy));
    EXPECT_CODE(Code::kPrecondition, api().ChangeUuid(type, copy, call()));
    EXPECT_OK(api().Unmount(first, call()));
    EXPECT_OK(api().Unmount(second, call()));
    if (type != "btrfs") {
      continue;
    }
    // A copy of a copy: its metadata has the UUID of the first.
    const std::string third = world_->CopyOf(copy, type, false);
    const auto again = api().ChangeUuid(type, third, call());
    ASSERT_TRUE(again.has_value() && again->has_value()) << type;
    EXPECT_OK(api().Unmount(Mounted(third, type), call()));
  }
}

TEST_F(MountContract, TheLogOfACopyIsNeverLost) {
  const struct {
    std::string type;
    bool changes;  // else it keeps its UUID
  } cases[] = {{"ext4", true}, {"xfs", false}};
  for (const auto& one : cases) {
    const std::string copy = world_->CopyOf(Formatted(one.type), one.type, true);
    const std::string before = api().Probe(world_->OpenDevice(copy).get())->uuid;
    EXPECT_OK(api().CheckCopyable(one.type, world_->OpenDevice(copy).get()));
    const auto changed = api().ChangeUuid(one.type, copy, call());
    ASSERT_TRUE(changed.has_value()) << changed.error().message();
    EXPECT_EQ(changed->has_value(), one.changes) << one.type;
    EXPECT_EQ(api().Probe(world_->OpenDevice(copy).get())->uuid == before, !one.changes);
    EXPECT_OK(api().Unmount(Mounted(copy, one.type), call()));
  }
  const std::string copy = world_->CopyOf(Formatted("btrfs"), "btrfs", true);
  const std::string before = api().Probe(world_->OpenDevice(copy).get())->uuid;
  EXPECT_CODE(Code::kPrecondition, api().CheckCopyable("btrfs", world_->OpenDevice(copy).get()));
  EXPECT_CODE(Code::kPrecondition, api().ChangeUuid("btrfs", copy, call()));
  EXPECT_EQ(api().Probe(world_->OpenDevice(copy).get())->uuid, before);
}

TEST_F(MountContract, ChangesNoUuidOfAnythingElse) {
  EXPECT_CODE(Code::kCorrupt, api().ChangeUuid("ext4", world_->NewDevice(kSize), call()));
  EXPECT_CODE(Code::kCorrupt, api().ChangeUuid("xfs", Formatted("ext4"), call()));
  Call late;
  late.deadline = std::chrono::steady_clock::now();
  EXPECT_CODE(Code::kTimeout, api().ChangeUuid("ext4", Formatted("ext4"), late));
}

// --- Binding

TEST_F(MountContract, BindsAStagedFileSystemReadOnlyWhileItStaysWritable) {
  const std::string node = Formatted("xfs");
  const AbsolutePath staged = Mounted(node, "xfs", {MS_NOSUID | MS_NODEV, 0, {}});
  const AbsolutePath target = world_->NewDirectory();
  EXPECT_OK(api().Bind(staged.str(), target, {MS_RDONLY | MS_NOEXEC, 0, {}}, call()));
  const auto bound = At(target);
  ASSERT_TRUE(bound.has_value());
  EXPECT_TRUE(bound->read_only());
  EXPECT_EQ(fakes::PerMountFlagsOf(*bound),
            uint64_t{MS_RDONLY | MS_NOEXEC | MS_NOSUID | MS_NODEV | MS_RELATIME})
      << "flags of the staged mount stay";
  EXPECT_EQ(bound->backing, world_->NumberOf(node));
  EXPECT_EQ(bound->root, "/");
  EXPECT_FALSE(At(staged)->read_only());
  EXPECT_EQ(api().Mounts()->Of(world_->NumberOf(node)).size(), 2U);
  EXPECT_OK(api().Unmount(target, call()));
  EXPECT_TRUE(At(staged).has_value());
  EXPECT_OK(api().Unmount(staged, call()));
}

TEST_F(MountContract, ABindCanOptOutOfAFlag) {
  const AbsolutePath staged = Mounted(Formatted("ext4"), "ext4", {MS_NOSUID | MS_NODEV | MS_NOATIME, 0, {}});
  const AbsolutePath target = world_->NewDirectory();
  EXPECT_OK(api().Bind(staged.str(), target, *mount::ParseMountOptions({"suid", "relatime"}), call()));
  EXPECT_EQ(fakes::PerMountFlagsOf(*At(target)), uint64_t{MS_NODEV | MS_RELATIME});
}

TEST_F(MountContract, BindsADirectoryWithinAFileSystem) {
  const AbsolutePath staged = Mounted(Formatted("ext4"), "ext4");
  const AbsolutePath inner = Below(staged, "inner");
  EXPECT_OK(api().MakeDirectory(inner));
  const AbsolutePath target = world_->NewDirectory();
  EXPECT_OK(api().Bind(inner.str(), target, {}, call()));
  EXPECT_EQ(At(target)->root, "/inner");
}

TEST_F(MountContract, BindsADeviceNodeOntoAFile) {
  const std::string node = world_->NewDevice(kSize);
  const AbsolutePath file = Below(world_->NewDirectory(), "volume");
  EXPECT_OK(api().MakeFile(file));
  EXPECT_EQ(*api().BlockDeviceAt(file), std::nullopt);
  EXPECT_OK(api().Bind(node, file, {}, call()));
  EXPECT_EQ(*api().BlockDeviceAt(file), world_->NumberOf(node));
  EXPECT_EQ(*api().Inspect(file), PathKind::kOther);
  ASSERT_TRUE(At(file).has_value());
  EXPECT_EQ("/dev" + At(file)->root, node);
  EXPECT_CODE(Code::kPrecondition, api().Bind(node, file, {}, call()));
  EXPECT_CODE(Code::kPrecondition, api().RemovePath(file));
  EXPECT_OK(api().Unmount(file, call()));
  EXPECT_EQ(*api().BlockDeviceAt(file), std::nullopt);
  EXPECT_OK(api().RemovePath(file));
}

TEST_F(MountContract, BindsFilesToFilesAndDirectoriesToDirectories) {
  const std::string node = world_->NewDevice(kSize);
  const AbsolutePath directory = world_->NewDirectory();
  const AbsolutePath file = Below(directory, "file");
  EXPECT_OK(api().MakeFile(file));
  EXPECT_CODE(Code::kPrecondition, api().Bind(node, directory, {}, call()));
  EXPECT_CODE(Code::kPrecondition, api().Bind(world_->NewDirectory().str(), file, {}, call()));
  EXPECT_CODE(Code::kNotFound, api().Bind(node, Below(directory, "absent"), {}, call()));
  EXPECT_CODE(Code::kNotFound, api().Bind(directory.str() + "/absent", directory, {}, call()));
  EXPECT_CODE(Code::kInvalidArgument, api().Bind(node, file, {MS_NODEV, 0, {}}, call()));
  EXPECT_EQ(*api().BlockDeviceAt(file), std::nullopt);
}

// --- Unmounting

TEST_F(MountContract, UnmountingNothingIsFine) {
  const AbsolutePath directory = world_->NewDirectory();
  EXPECT_OK(api().Unmount(directory, call()));
  EXPECT_OK(api().Unmount(Below(directory, "absent"), call()));
  EXPECT_OK(api().Unmount(Below(Below(directory, "absent"), "absent"), call()));
  EXPECT_OK(api().MakeFile(Below(directory, "file")));
  EXPECT_OK(api().Unmount(Below(directory, "file"), call()));
}

TEST_F(MountContract, UnmountingTwiceIsFine) {
  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4");
  EXPECT_OK(api().Unmount(target, call()));
  EXPECT_OK(api().Unmount(target, call()));
}

TEST_F(MountContract, ABusyMountStaysAndItsHolderIsNamed) {
  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4");
  auto holder = world_->Hold(target.str());
  const Status unmounted = api().Unmount(target, call());
  EXPECT_CODE(Code::kPrecondition, unmounted);
  EXPECT_THAT(unmounted.error().message(), HasSubstr("pid"));
  EXPECT_EQ(unmounted.error().sys_errno(), EBUSY);
  EXPECT_TRUE(At(target).has_value());
  holder.reset();
  EXPECT_OK(api().Unmount(target, call()));
}

TEST_F(MountContract, AMountBelowKeepsAMountBusyAndIsNamed) {
  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4");
  const AbsolutePath below = Below(target, "below");
  EXPECT_OK(api().MakeDirectory(below));
  EXPECT_OK(api().Mount(Formatted("ext4"), below, "ext4", {}, call()));
  const Status unmounted = api().Unmount(target, call());
  EXPECT_CODE(Code::kPrecondition, unmounted);
  EXPECT_THAT(unmounted.error().message(), HasSubstr(below.str()));
  EXPECT_OK(api().Unmount(below, call()));
  EXPECT_OK(api().Unmount(target, call()));
}

// --- Growing and usage

TEST_F(MountContract, GrowsEveryFileSystemToItsDevice) {
  for (const std::string_view type : mount::SupportedFilesystems()) {
    const std::string node = Formatted(std::string(type));
    const AbsolutePath target = Mounted(node, std::string(type));
    const Bytes before = api().Usage(target)->total;
    world_->GrowDevice(node, {2 * kSize.value});
    EXPECT_OK(api().Grow(type, node, target, call()));
    const Bytes after = api().Usage(target)->total;
    EXPECT_GT(after.value, before.value + kSize.value * 9 / 10) << type;
    EXPECT_OK(api().Grow(type, node, target, call()));
    EXPECT_EQ(api().Usage(target)->total, after) << type;
    EXPECT_OK(api().Unmount(target, call()));
  }
}

TEST_F(MountContract, GrowsOnlyWritableMounts) {
  const std::string node = Formatted("ext4");
  const std::string other = Formatted("ext4");
  const AbsolutePath target = Mounted(node, "ext4");
  EXPECT_CODE(Code::kPrecondition, api().Grow("ext4", other, target, call()));
  EXPECT_CODE(Code::kPrecondition, api().Grow("xfs", node, target, call()));
  EXPECT_CODE(Code::kPrecondition, api().Grow("ext4", node, world_->NewDirectory(), call()));
  const AbsolutePath read_only = Mounted(other, "ext4", {MS_RDONLY, 0, {}});
  world_->GrowDevice(other, {2 * kSize.value});
  EXPECT_CODE(Code::kPrecondition, api().Grow("ext4", other, read_only, call()));
}

TEST_F(MountContract, ReportsTheUsageOfAPath) {
  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4");
  const auto usage = api().Usage(target);
  ASSERT_TRUE(usage.has_value());
  EXPECT_GT(usage->total.value, kSize.value / 2);
  EXPECT_LE(usage->total, kSize);
  EXPECT_LE((usage->used + usage->available).value, usage->total.value);
  EXPECT_EQ(usage->inodes_total, usage->inodes_used + usage->inodes_free);
  EXPECT_CODE(Code::kNotFound, api().Usage(Below(target, "absent")));
}

// --- Groups

constexpr uint32_t kDirectoryBits = 02070;
constexpr uint32_t kGroup = 4000000000;

TEST_F(MountContract, GivesANewFileSystemToAGroup) {
  for (const std::string_view type : mount::SupportedFilesystems()) {
    const AbsolutePath target = Mounted(Formatted(std::string(type)), std::string(type));
    EXPECT_EQ(*api().GroupOf(target), 0U);
    EXPECT_OK(api().GiveToGroup(target, kGroup, call()));
    EXPECT_EQ(*api().GroupOf(target), kGroup);
    EXPECT_EQ(world_->AccessOf(target.str()).mode, 0755U | kDirectoryBits) << type;
    EXPECT_OK(api().GiveToGroup(target, kGroup, call()));
    EXPECT_OK(api().Unmount(target, call()));
    EXPECT_NE(*api().GroupOf(target), kGroup) << "it is the file system's, not the mount point's";
  }
}

TEST_F(MountContract, GivesExistingFilesToTheGroupToo) {
  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4");
  const AbsolutePath directory = Below(target, "directory");
  EXPECT_OK(api().MakeDirectory(directory));
  world_->PutFile(directory.str() + "/file", false);
  world_->SetAccess(directory.str(), {7, 0700});
  world_->SetAccess(directory.str() + "/file", {7, 0600});
  EXPECT_OK(api().GiveToGroup(target, kGroup, call()));
  EXPECT_EQ(world_->AccessOf(directory.str()).gid, kGroup);
  EXPECT_EQ(world_->AccessOf(directory.str()).mode, 0700 | kDirectoryBits);
  EXPECT_EQ(world_->AccessOf(directory.str() + "/file").gid, kGroup);
  EXPECT_EQ(world_->AccessOf(directory.str() + "/file").mode, 0660U);
}

TEST_F(MountContract, ARootOfTheGroupIsNotSearchedFurther) {
  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4");
  EXPECT_OK(api().GiveToGroup(target, kGroup, call()));
  const std::string file = target.str() + "/file";
  world_->PutFile(file, false);
  world_->SetAccess(file, {7, 0600});
  EXPECT_OK(api().GiveToGroup(target, kGroup, call()));
  EXPECT_EQ(world_->AccessOf(file).gid, 7U);
  world_->SetAccess(target.str(), {kGroup, 0755});
  EXPECT_OK(api().GiveToGroup(target, kGroup, call()));
  EXPECT_EQ(world_->AccessOf(file).gid, kGroup)
      << "a root without the permissions is given with all its files";
}

TEST_F(MountContract, GivesOnlyWritableMounts) {
  EXPECT_CODE(Code::kPrecondition, api().GiveToGroup(world_->NewDirectory(), kGroup, call()));
  const std::string node = Formatted("ext4");
  const AbsolutePath target = Mounted(node, "ext4", {MS_RDONLY, 0, {}});
  EXPECT_CODE(Code::kPrecondition, api().GiveToGroup(target, kGroup, call()));
  EXPECT_EQ(*api().GroupOf(target), 0U);
  EXPECT_CODE(Code::kNotFound, api().GroupOf(Below(world_->NewDirectory(), "absent")));
}

TEST_F(MountContract, DoesNotGiveMountsBelow) {
  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4");
  const AbsolutePath below = Below(target, "below");
  EXPECT_OK(api().MakeDirectory(below));
  EXPECT_OK(api().Mount(Formatted("ext4"), below, "ext4", {}, call()));
  const Status given = api().GiveToGroup(target, kGroup, call());
  EXPECT_CODE(Code::kPrecondition, given);
  EXPECT_THAT(given.error().message(), HasSubstr(below.str()));
  EXPECT_EQ(*api().GroupOf(below), 0U);
  EXPECT_EQ(*api().GroupOf(target), 0U) << "an interrupted change of the group must start again";
  EXPECT_OK(api().Unmount(below, call()));
  EXPECT_OK(api().GiveToGroup(target, kGroup, call()));
}

// --- Paths

TEST_F(MountContract, ReportsTheKindOfAPath) {
  const AbsolutePath directory = world_->NewDirectory();
  world_->PutFile(directory.str() + "/file", true);
  world_->PutSymlink(directory.str() + "/link");
  EXPECT_EQ(*api().Inspect(directory), PathKind::kDirectory);
  EXPECT_EQ(*api().Inspect(Below(directory, "file")), PathKind::kFile);
  EXPECT_EQ(*api().Inspect(Below(directory, "link")), PathKind::kOther);
  EXPECT_EQ(*api().Inspect(Below(directory, "absent")), PathKind::kAbsent);
  EXPECT_EQ(*api().Inspect(Below(Below(directory, "absent"), "absent")), PathKind::kAbsent);
  EXPECT_EQ(*api().BlockDeviceAt(Below(directory, "absent")), std::nullopt);
  EXPECT_EQ(*api().BlockDeviceAt(directory), std::nullopt);
}

TEST_F(MountContract, ResolvesLinksAboveTheLastComponent) {
  const AbsolutePath real = world_->NewDirectory();
  const AbsolutePath other = world_->NewDirectory();
  const AbsolutePath link = Below(other, "link");
  const AbsolutePath links = Below(other, "links");
  world_->PutSymlink(link.str(), real.str());
  world_->PutSymlink(links.str(), link.str());
  EXPECT_OK(api().MakeDirectory(Below(links, "deep")));
  EXPECT_EQ(api().Resolve(Below(links, "new"))->str(), Below(real, "new").str());
  EXPECT_EQ(api().Resolve(Below(Below(links, "deep"), "new"))->str(), real.str() + "/deep/new");
  EXPECT_EQ(api().Resolve(Below(real, "new"))->str(), Below(real, "new").str());
  EXPECT_EQ(api().Resolve(link)->str(), link.str()) << "the last component is not followed";
  EXPECT_CODE(Code::kNotFound, api().Resolve(Below(Below(links, "absent"), "new")));
}

TEST_F(MountContract, NamesALinkThatLeadsNowhereOrInACircle) {
  const AbsolutePath directory = world_->NewDirectory();
  const AbsolutePath dead = Below(directory, "dead");
  const AbsolutePath round = Below(directory, "round");
  world_->PutSymlink(dead.str(), directory.str() + "/never");
  world_->PutSymlink(round.str(), directory.str() + "/again");
  world_->PutSymlink(directory.str() + "/again", round.str());
  for (const AbsolutePath& link : {dead, round}) {
    const auto resolved = api().Resolve(Below(Below(link, "deep"), "new"));
    EXPECT_CODE(Code::kPrecondition, resolved);
    EXPECT_THAT(resolved.error().message(), HasSubstr("symbolic link " + link.str()));
  }
}

TEST_F(MountContract, EveryCallWorksBelowALinkedFolder) {
  const std::string node = Formatted("ext4");
  const AbsolutePath real = world_->NewDirectory();
  const AbsolutePath link = Below(world_->NewDirectory(), "link");
  world_->PutSymlink(link.str(), real.str());
  const AbsolutePath staging = Below(link, "staging");
  const AbsolutePath target = Below(link, "target");
  EXPECT_OK(api().MakeDirectory(staging));
  EXPECT_OK(api().MakeDirectory(target));
  EXPECT_OK(api().Mount(node, staging, "ext4", {}, call()));
  EXPECT_CODE(Code::kPrecondition, api().Mount(node, staging, "ext4", {}, call()));
  EXPECT_EQ(At(staging), std::nullopt) << "the table has no links";
  ASSERT_TRUE(At(*api().Resolve(staging)).has_value());
  EXPECT_EQ(At(*api().Resolve(staging))->backing, world_->NumberOf(node));
  EXPECT_OK(api().Bind(staging.str(), target, {}, call()));
  EXPECT_TRUE(At(*api().Resolve(target)).has_value());
  world_->GrowDevice(node, Bytes{kSize.value + 64 * kMiB.value});
  EXPECT_OK(api().Grow("ext4", node, staging, call()));
  EXPECT_GT(api().Usage(target)->total, Bytes{kSize.value});
  EXPECT_OK(api().GiveToGroup(staging, 4000, call()));
  EXPECT_EQ(*api().GroupOf(target), 4000U);
  for (const AbsolutePath& path : {target, staging}) {
    EXPECT_CODE(Code::kPrecondition, api().RemovePath(path));
    EXPECT_OK(api().Unmount(path, call()));
    EXPECT_EQ(At(*api().Resolve(path)), std::nullopt);
    EXPECT_OK(api().RemovePath(path));
  }
  const AbsolutePath file = Below(link, "volume");
  EXPECT_OK(api().MakeFileFromDirectory(file));
  EXPECT_OK(api().Bind(node, file, {}, call()));
  EXPECT_EQ(*api().BlockDeviceAt(file), world_->NumberOf(node));
  EXPECT_OK(api().Unmount(file, call()));
  EXPECT_OK(api().RemovePath(file));
  EXPECT_OK(api().RemovePath(real));  // and nothing else is left in it
}

TEST_F(MountContract, KnowsTheFileSystemOfADevicesOwnNode) {
  const std::string node = world_->NewDevice(kSize);
  const mount::DeviceNumber number = world_->NumberOf(node);
  const AbsolutePath file = Below(world_->NewDirectory(), "volume");
  EXPECT_OK(api().MakeFile(file));
  EXPECT_OK(api().Bind(node, file, {}, call()));
  const auto dev = api().FileSystemOfNode(node, number);
  ASSERT_TRUE(dev.has_value() && dev->has_value());
  EXPECT_EQ(At(file)->device, **dev);
  EXPECT_EQ(*api().FileSystemOfNode(node, {number.major, number.minor + 1}), std::nullopt);
  EXPECT_EQ(*api().FileSystemOfNode(file.str() + "-absent", number), std::nullopt);
  EXPECT_OK(api().Unmount(file, call()));
}

TEST_F(MountContract, MakesTheLastComponentOnlyAndOnce) {
  const AbsolutePath directory = world_->NewDirectory();
  EXPECT_OK(api().MakeDirectory(Below(directory, "a")));
  EXPECT_OK(api().MakeDirectory(Below(directory, "a")));
  EXPECT_OK(api().MakeFile(Below(directory, "f")));
  EXPECT_OK(api().MakeFile(Below(directory, "f")));
  EXPECT_EQ(*api().Inspect(Below(directory, "a")), PathKind::kDirectory);
  EXPECT_EQ(*api().Inspect(Below(directory, "f")), PathKind::kFile);
  EXPECT_CODE(Code::kNotFound, api().MakeDirectory(Below(Below(directory, "absent"), "b")));
  EXPECT_CODE(Code::kNotFound, api().MakeFile(Below(Below(directory, "absent"), "b")));
}

TEST_F(MountContract, DoesNotReplaceAPathOfAnotherKind) {
  const AbsolutePath directory = world_->NewDirectory();
  world_->PutFile(directory.str() + "/file", true);
  world_->PutSymlink(directory.str() + "/link");
  EXPECT_CODE(Code::kPrecondition, api().MakeDirectory(Below(directory, "file")));
  EXPECT_CODE(Code::kPrecondition, api().MakeDirectory(Below(directory, "link")));
  EXPECT_CODE(Code::kPrecondition, api().MakeFile(Below(directory, "link")));
  EXPECT_OK(api().MakeDirectory(Below(directory, "d")));
  EXPECT_CODE(Code::kPrecondition, api().MakeFile(Below(directory, "d")));
}

TEST_F(MountContract, ExchangesAnEmptyDirectoryForAFile) {
  const AbsolutePath directory = world_->NewDirectory();
  const AbsolutePath place = Below(directory, "place");
  EXPECT_OK(api().MakeFileFromDirectory(place));  // the path is absent: as MakeFile
  EXPECT_EQ(*api().Inspect(place), PathKind::kFile);
  EXPECT_OK(api().MakeFileFromDirectory(place));
  const AbsolutePath empty = Below(directory, "empty");
  EXPECT_OK(api().MakeDirectory(empty));
  EXPECT_OK(api().MakeFileFromDirectory(empty));
  EXPECT_EQ(*api().Inspect(empty), PathKind::kFile);
  EXPECT_OK(api().RemovePath(empty));
  EXPECT_OK(api().RemovePath(place));
  EXPECT_OK(api().RemovePath(directory));  // and nothing else is left in it
}

TEST_F(MountContract, LeavesADirectoryThatIsNotEmptyWhereAFileIsWanted) {
  const AbsolutePath directory = world_->NewDirectory();
  const AbsolutePath full = Below(directory, "full");
  EXPECT_OK(api().MakeDirectory(full));
  world_->PutFile(full.str() + "/kept", false);
  EXPECT_CODE(Code::kPrecondition, api().MakeFileFromDirectory(full));
  EXPECT_EQ(*api().Inspect(full), PathKind::kDirectory);
  EXPECT_EQ(*api().Inspect(Below(full, "kept")), PathKind::kFile);
  world_->PutSymlink(directory.str() + "/link");
  EXPECT_CODE(Code::kPrecondition, api().MakeFileFromDirectory(Below(directory, "link")));
  EXPECT_CODE(Code::kNotFound, api().MakeFileFromDirectory(Below(Below(directory, "absent"), "b")));
}

TEST_F(MountContract, RemovesOnlyEmptyPlainPaths) {
  const AbsolutePath directory = world_->NewDirectory();
  EXPECT_OK(api().RemovePath(Below(directory, "absent")));
  EXPECT_OK(api().RemovePath(Below(Below(directory, "absent"), "absent")));
  world_->PutFile(directory.str() + "/empty", true);
  world_->PutFile(directory.str() + "/full", false);
  world_->PutSymlink(directory.str() + "/link");
  EXPECT_CODE(Code::kPrecondition, api().RemovePath(directory));
  EXPECT_CODE(Code::kPrecondition, api().RemovePath(Below(directory, "full")));
  EXPECT_CODE(Code::kPrecondition, api().RemovePath(Below(directory, "link")));
  EXPECT_OK(api().RemovePath(Below(directory, "empty")));
  EXPECT_EQ(*api().Inspect(Below(directory, "empty")), PathKind::kAbsent);
  EXPECT_EQ(*api().Inspect(Below(directory, "full")), PathKind::kFile);
  EXPECT_EQ(*api().Inspect(Below(directory, "link")), PathKind::kOther);

  const AbsolutePath target = Mounted(Formatted("ext4"), "ext4");
  EXPECT_CODE(Code::kPrecondition, api().RemovePath(target));
  EXPECT_OK(api().Unmount(target, call()));
  EXPECT_OK(api().RemovePath(target));
  EXPECT_EQ(*api().Inspect(target), PathKind::kAbsent);
}

// --- Who uses a device

TEST_F(MountContract, NamesEveryMountOfADevice) {
  for (const std::string_view type : mount::SupportedFilesystems()) {
    const std::string node = Formatted(std::string(type));
    EXPECT_THAT(*api().Users(world_->NumberOf(node)), IsEmpty());
    const AbsolutePath staged = Mounted(node, std::string(type));
    const AbsolutePath target = world_->NewDirectory();
    EXPECT_OK(api().Bind(staged.str(), target, {}, call()));
    const auto users = *api().Users(world_->NumberOf(node));
    EXPECT_THAT(users, Contains("mounted at " + staged.str()));
    EXPECT_THAT(users, Contains("mounted at " + target.str()));
    EXPECT_OK(api().Unmount(target, call()));
    EXPECT_OK(api().Unmount(staged, call()));
    EXPECT_THAT(*api().Users(world_->NumberOf(node)), IsEmpty());
  }
}

TEST_F(MountContract, NamesTheBindOfADeviceNode) {
  const std::string node = world_->NewDevice(kSize);
  const AbsolutePath file = Below(world_->NewDirectory(), "volume");
  EXPECT_OK(api().MakeFile(file));
  EXPECT_OK(api().Bind(node, file, {}, call()));
  EXPECT_THAT(*api().Users(world_->NumberOf(node)), Contains("its node is mounted at " + file.str()));
  // A bind is not an open. udev may probe the new device for a moment, more than once.
  bool seen_free = false;
  for (int i = 0; i < 600 && !seen_free; ++i) {
    seen_free = api().Openers(world_->NumberOf(node))->empty();
    std::this_thread::sleep_for(std::chrono::milliseconds(seen_free ? 0 : 50));
  }
  EXPECT_TRUE(seen_free);
  EXPECT_OK(api().Unmount(file, call()));
}

}  // namespace
}  // namespace quarry::contract
