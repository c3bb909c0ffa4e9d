// Adoption on fakes with behaviour: what may be adopted, which errors a refusal has, what an interruption
// leaves, and what callers see of unmanaged logical volumes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fmt/format.h>

#include "engine/engine.h"
#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {
namespace {

using mount::Content;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Bytes kExtent{4 * 1024 * 1024};
const Content kExt4{Content::Kind::kFilesystem, "ext4", "u"};

AbsolutePath Path(const std::string& text) {
  return *AbsolutePath::Parse(text);
}

class AdoptionTest : public testing::Test {
 protected:
  AdoptionTest() {
    lvm_.AddGroup("vg0", kExtent,
                  {{"/dev/a", Extents{100}}, {"/dev/b", Extents{100}}, {"/dev/c", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory("/stage");
    mount_.AddDirectory("/pods");
    Restart();
  }

  // The state after kill -9.
  void Restart() {
    engine_.reset();
    EngineConfig config;
    config.pools = {
        {.name = "p", .group = "vg0", .reserve = {}, .devices = {}, .shares = {}, .list_foreign = list_}};
    engine_ = std::make_unique<Engine>(config, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }

  static Call Soon() { return CallWithin(milliseconds(20000)); }

  // A logical volume that an administrator makes by hand.
  void Make(const std::string& name, const lvm::GeometryRequest& request = {}, uint64_t extents = 16,
            std::vector<std::string> tags = {}) {
    const auto group = *lvm_.Read("vg0", Soon());
    const auto geometry = *lvm::Geometry::Make(request);
    const auto placement = lvm::Place(lvm::FreeSpaceOf(*group), geometry, Extents{extents}, *group);
    ASSERT_TRUE(placement.has_value()) << placement.error().message();
    const auto made = lvm_.Apply(lvm::CreateLv{.group = "vg0",
                                               .name = name,
                                               .geometry = geometry,
                                               .step = placement->steps.front(),
                                               .tags = std::move(tags)},
                                 Soon());
    ASSERT_TRUE(made.has_value()) << made.error().message();
  }
  void Change(const std::string& name, const std::function<void(lvm::LogicalVolume&)>& change) {
    lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
      for (lvm::LogicalVolume& lv : group.lvs) {
        if (lv.name == name) {
          change(lv);
        }
      }
    });
  }
  lvm::LogicalVolume Lv(const std::string& name) {
    const auto group = *lvm_.Read("vg0", Soon());
    const auto* lv = group->FindLv(name);
    return lv == nullptr ? lvm::LogicalVolume{} : *lv;
  }
  std::string Uuid(const std::string& name) {
    const auto group = *lvm_.Read("vg0", Soon());
    return lvm::DmUuid(group->uuid, group->FindLv(name)->uuid);
  }
  std::string IdOf(const std::string& name) { return lvm::ForeignVolumeId("p", Lv(name).uuid).value(); }

  Result<AdoptResult> Adopt(const std::string& name, AdoptRequest request = {}) {
    request.group = "vg0";
    request.lv_name = name;
    return engine_->adoption().Adopt(request, Soon());
  }
  void ExpectRefused(const Result<AdoptResult>& result, Code code, const std::string& words) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code(), code) << result.error().message();
    EXPECT_THAT(result.error().message(), HasSubstr(words));
  }
  Status Stage(const std::string& id) { return engine_->volumes().Stage({id, Path("/stage/v"), {}}, Soon()); }
  std::vector<std::string> Listed() {
    std::vector<std::string> ids;
    const ListResult listed = *engine_->volumes().List(0, "", Soon());
    for (const Volume& volume : listed.volumes) {
      ids.push_back(volume.id);
    }
    return ids;
  }

  bool list_ = false;
  fakes::FakeDm dm_;
  fakes::FakeLvm lvm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText, STDERR_FILENO};
  std::unique_ptr<Engine> engine_;
};

TEST_F(AdoptionTest, AnAdoptedFileSystemIsNeverFormatted) {
  Make("data", {.type = lvm::VolumeType::kRaid1});
  mount_.SetContent(Uuid("data"), kExt4);
  const auto adopted = Adopt("data", {.name = "mine"});
  ASSERT_TRUE(adopted.has_value()) << adopted.error().message();
  EXPECT_TRUE(adopted->changed);
  EXPECT_EQ(adopted->holds, "ext4");
  EXPECT_EQ(adopted->access, "any");
  EXPECT_EQ(adopted->volume.id, IdOf("data"));
  EXPECT_EQ(adopted->volume.size, Bytes{16 * kExtent.value});
  EXPECT_EQ(adopted->volume.context.at("type"), "raid1");
  EXPECT_EQ(Lv("data").name, "data") << "it keeps its name";

  Restart();
  EXPECT_THAT(Listed(), ElementsAre(IdOf("data")));
  ASSERT_TRUE(Stage(IdOf("data")).has_value());
  EXPECT_THAT(mount_.Made(), IsEmpty());
  // The device reads blank now, but it was formatted once, so it is not formatted again.
  ASSERT_TRUE(engine_->volumes().Unstage(IdOf("data"), Path("/stage/v"), Soon()).has_value());
  mount_.SetContent(Uuid("data"), {});
  EXPECT_EQ(Stage(IdOf("data")).error().code(), Code::kCorrupt);
}

TEST_F(AdoptionTest, AnAdoptedBlankVolumeIsFormattedAtItsFirstMount) {
  Make("blank");
  const auto adopted = Adopt("blank", {.fs_type = "xfs", .erase = "none"});
  // 64 MiB are too few for xfs, so only raw use is possible.
  ASSERT_TRUE(adopted.has_value()) << adopted.error().message();
  EXPECT_EQ(adopted->access, "block");
  Make("blank2");
  const auto second = Adopt("blank2");
  ASSERT_TRUE(second.has_value()) << second.error().message();
  EXPECT_EQ(second->access, "any");
  EXPECT_EQ(second->holds, "nothing");
  EXPECT_EQ(second->volume.name, "vg0/blank2");
  ASSERT_TRUE(Stage(second->volume.id).has_value());
  EXPECT_EQ(mount_.Made().size(), 1U);
}

TEST_F(AdoptionTest, AdoptedRawDataIsNeverFormatted) {
  Make("raw");
  {
    const UniqueFd fd = *dm_.Open(Uuid("raw"), O_RDWR);
    ASSERT_EQ(pwrite(fd.get(), "x", 1, 70000), 1);
  }
  const auto adopted = Adopt("raw");
  ASSERT_TRUE(adopted.has_value()) << adopted.error().message();
  EXPECT_EQ(adopted->access, "block");
  EXPECT_EQ(adopted->holds, "raw data");
  EXPECT_EQ(Stage(adopted->volume.id).error().code(), Code::kPrecondition);
  Make("raw2");
  {
    const UniqueFd fd = *dm_.Open(Uuid("raw2"), O_RDWR);
    ASSERT_EQ(pwrite(fd.get(), "x", 1, 0), 1);
  }
  ExpectRefused(Adopt("raw2", {.fs_type = "ext4"}), Code::kPrecondition, "raw data, which making ext4");
}

// The volume may be used raw and be staged later. Content that libblkid does not know is data too.
TEST_F(AdoptionTest, AVolumeUsedRawFirstIsNotFormattedLater) {
  Make("both");
  const auto adopted = Adopt("both");
  ASSERT_TRUE(adopted.has_value()) << adopted.error().message();
  ASSERT_EQ(adopted->access, "any");
  {
    const UniqueFd fd = *dm_.Open(Uuid("both"), O_RDWR);
    ASSERT_EQ(pwrite(fd.get(), "x", 1, 70000), 1);
  }
  const auto refused = Stage(adopted->volume.id);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_THAT(refused.error().message(), HasSubstr("holds raw data"));
  EXPECT_TRUE(mount_.Made().empty());
}

TEST_F(AdoptionTest, ARefusalNamesTheContent) {
  Make("odd");
  const std::vector<std::pair<Content, std::string>> contents = {
      {{Content::Kind::kOther, "crypto_LUKS", ""}, "vg0/odd holds crypto_LUKS; it is left as it is"},
      {{Content::Kind::kOther, "gpt", ""}, "holds gpt"},
      {{Content::Kind::kFilesystem, "ext3", ""}, "holds ext3, which Quarry does not serve"},
      {{Content::Kind::kAmbiguous, "", ""}, "several contradicting signatures"},
  };
  for (const auto& [content, words] : contents) {
    mount_.SetContent(Uuid("odd"), content);
    ExpectRefused(Adopt("odd"), Code::kPrecondition, words);
  }
  mount_.SetContent(Uuid("odd"), kExt4);
  ExpectRefused(Adopt("odd", {.fs_type = "xfs"}), Code::kPrecondition, "holds ext4, not xfs");
  ExpectRefused(Adopt("odd", {.fs_type = "ntfs"}), Code::kInvalidArgument,
                "fs_type: 'ntfs' is not supported");
  ExpectRefused(Adopt("odd", {.erase = "shred"}), Code::kInvalidArgument, "erase");
  mount_.faults.FailNth("Probe", 1, Error(Code::kIo, "unreadable"));
  ExpectRefused(Adopt("odd"), Code::kIo, "unreadable");
  EXPECT_THAT(Lv("odd").tags, IsEmpty());
}

TEST_F(AdoptionTest, ALayoutIsAdoptedUnchangedOrRefused) {
  const std::vector<std::pair<lvm::GeometryRequest, std::string>> good = {
      {{.type = lvm::VolumeType::kLinear}, "type=linear"},
      {{.type = lvm::VolumeType::kStriped, .stripes = 3, .stripe_size = Bytes{16 * 1024}},
       "stripes=3\nstripesize=16\nsync=full\ntype=striped"},
      {{.type = lvm::VolumeType::kRaid1, .mirrors = 2}, "mirrors=2"},
      {{.type = lvm::VolumeType::kRaid5}, "type=raid5"},
  };
  int n = 0;
  for (const auto& [request, words] : good) {
    const std::string name = fmt::format("lv{}", ++n);
    Make(name, request, 6);
    const auto adopted = Adopt(name);
    ASSERT_TRUE(adopted.has_value()) << adopted.error().message();
    EXPECT_THAT(adopted->profile, HasSubstr(words));
  }
  Make("thin");
  Change("thin", [](lvm::LogicalVolume& lv) { lv.segments.front().type = lv.segment_type = "thin"; });
  ExpectRefused(Adopt("thin"), Code::kPrecondition, "vg0/thin is of type thin, which Quarry does not serve");
  Make("origin");
  Change("origin", [](lvm::LogicalVolume& lv) { lv.independent = false; });
  ExpectRefused(Adopt("origin"), Code::kPrecondition, "is a pool, or the origin or a snapshot");
  Make("backup");
  Change("backup", [](lvm::LogicalVolume& lv) { lv.origin = "origin"; });
  ExpectRefused(Adopt("origin"), Code::kPrecondition, "vg0/backup is a snapshot of it: remove that first");
  Make("half");
  Change("half", [](lvm::LogicalVolume& lv) { lv.tags = {"quarry.name=x"}; });
  ExpectRefused(Adopt("half"), Code::kPrecondition, "has Quarry tags that are damaged");
  ExpectRefused(Adopt("lv3_rimage_0"), Code::kNotFound, "has no logical volume 'lv3_rimage_0'");
  ExpectRefused(Adopt("none"), Code::kNotFound, "has no logical volume 'none'");
  ExpectRefused(engine_->adoption().Adopt({.group = "vg9", .lv_name = "x"}, Soon()), Code::kNotFound,
                "'vg9'");
}

TEST_F(AdoptionTest, ARefusalNamesTheUser) {
  Make("busy");
  const dm::Device device = **dm_.Find(Uuid("busy"));
  mount_.SetUsers({device.major, device.minor}, {"mounted at /srv"});
  const UniqueFd fd = *dm_.Open(Uuid("busy"), O_RDONLY);
  ExpectRefused(Adopt("busy"), Code::kPrecondition, "logical volume vg0/busy is in use: mounted at /srv");
  EXPECT_THAT(Lv("busy").tags, IsEmpty());
}

TEST_F(AdoptionTest, AnInactiveVolumeIsInactiveAgainAfterwards) {
  Make("idle");
  ASSERT_TRUE(lvm_.Apply(lvm::DeactivateLv{"vg0", "idle", 0}, Soon()).has_value());
  mount_.SetContent(Uuid("idle"), {Content::Kind::kOther, "swap", ""});
  ExpectRefused(Adopt("idle"), Code::kPrecondition, "swap");
  EXPECT_FALSE(Lv("idle").active);
  mount_.SetContent(Uuid("idle"), kExt4);
  ASSERT_TRUE(Adopt("idle").has_value());
  EXPECT_FALSE(Lv("idle").active);
  EXPECT_TRUE(Stage(IdOf("idle")).has_value());
}

TEST_F(AdoptionTest, ADryRunReportsEverythingAndChangesNothing) {
  Make("data");
  mount_.SetContent(Uuid("data"), kExt4);
  const auto dry = Adopt("data", {.name = "n", .dry_run = true});
  ASSERT_TRUE(dry.has_value()) << dry.error().message();
  EXPECT_FALSE(dry->changed);
  EXPECT_EQ(dry->holds, "ext4");
  EXPECT_THAT(Lv("data").tags, IsEmpty());
  const auto wet = Adopt("data", {.name = "n"});
  ASSERT_TRUE(wet.has_value());
  EXPECT_EQ(wet->volume.id, dry->volume.id);
  EXPECT_EQ(wet->profile, dry->profile);
  const auto release = engine_->adoption().Release(wet->volume.id, true, Soon());
  ASSERT_TRUE(release.has_value());
  EXPECT_FALSE(release->changed);
  EXPECT_FALSE(Lv("data").tags.empty());
}

TEST_F(AdoptionTest, NamesAreUniqueAndARepeatedRequestSucceeds) {
  Make("a");
  Make("b");
  ASSERT_TRUE(Adopt("a", {.name = "x"}).has_value());
  ExpectRefused(Adopt("b", {.name = "x"}), Code::kAlreadyExists, "already has the name 'x'");
  ExpectRefused(Adopt("a", {.name = "y"}), Code::kAlreadyExists, "its name is 'x'");
  const auto again = Adopt("a", {.name = "x"});
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(again->changed);
  ExpectRefused(Adopt("b", {.name = std::string(129, 'n')}), Code::kInvalidArgument, "at most 128 bytes");
}

TEST_F(AdoptionTest, VolumesOfCsilvmKeepTheirNames) {
  Make("csilvabc", {}, 4, {"VN.pool-1", "other"});
  Make("csilvdef", {}, 4, {"VN+Y2Fmw6k"});
  Make("csilvghi", {}, 4);
  Make("plain", {}, 4);
  const auto foreign = engine_->adoption().Foreign("vg0", Soon());
  ASSERT_EQ(foreign->size(), 4U);
  EXPECT_TRUE((*foreign)[0].csilvm);
  EXPECT_FALSE((*foreign)[3].csilvm);
  EXPECT_EQ(Adopt("csilvabc", {.csilvm = true})->volume.name, "pool-1");
  EXPECT_EQ(Adopt("csilvdef", {.csilvm = true})->volume.name, "caf\xC3\xA9");
  ExpectRefused(Adopt("csilvghi", {.csilvm = true}), Code::kPrecondition, "none of csilvm's name tags");
  ExpectRefused(Adopt("plain", {.csilvm = true}), Code::kPrecondition,
                "no name of the form that csilvm gives");
  EXPECT_THAT(Lv("csilvabc").tags, testing::IsSupersetOf({"VN.pool-1", "other"}));
  EXPECT_EQ(engine_->adoption().Foreign("vg0", Soon())->size(), 2U);
}

// A failure at each step, before and after its effect: no volume is half adopted, and a repeated request
// finishes.
TEST_F(AdoptionTest, EveryInterruptionIsHarmless) {
  int n = 0;
  for (const bool after : {false, true}) {
    for (const char* const step : {"Activate", "ChangeTags", "Deactivate"}) {
      const std::string name = fmt::format("lv{}", ++n);
      Make(name, {}, 4);
      ASSERT_TRUE(lvm_.Apply(lvm::DeactivateLv{"vg0", name, 0}, Soon()).has_value());
      mount_.SetContent(Uuid(name), kExt4);
      (after ? lvm_.after : lvm_.before).FailNth(step, 1, Error(Code::kTimeout, "killed"));
      const auto first = Adopt(name);
      const auto tags = lvm::ParseTags(Lv(name).tags);
      ASSERT_TRUE(tags.has_value()) << name << " after " << step;
      EXPECT_EQ(first.has_value(), step == std::string("Deactivate")) << step;
      Restart();
      const auto second = Adopt(name);
      ASSERT_TRUE(second.has_value()) << step << ": " << second.error().message();
      EXPECT_EQ(second->changed, !tags->has_value());
      EXPECT_TRUE(engine_->volumes().Get(IdOf(name), Soon()).has_value());
    }
    for (const char* const step : {"Deactivate", "ChangeTags"}) {
      const std::string name = fmt::format("lv{}", n);
      (after ? lvm_.after : lvm_.before).FailNth(step, 1, Error(Code::kTimeout, "killed"));
      EXPECT_FALSE(engine_->adoption().Release(IdOf(name), false, Soon()).has_value());
      ASSERT_TRUE(lvm::ParseTags(Lv(name).tags).has_value());
      Restart();
      EXPECT_TRUE(engine_->adoption().Release(IdOf(name), false, Soon()).has_value());
      EXPECT_THAT(Lv(name).tags, IsEmpty());
      ASSERT_TRUE(Adopt(name).has_value());
    }
  }
}

TEST_F(AdoptionTest, AReleasedVolumeIsUnmanagedAndUnchanged) {
  Make("data", {}, 16, {"theirs"});
  mount_.SetContent(Uuid("data"), kExt4);
  const std::string id = Adopt("data")->volume.id;
  ASSERT_TRUE(Stage(id).has_value());
  const auto busy = engine_->adoption().Release(id, false, Soon());
  ASSERT_FALSE(busy.has_value());
  EXPECT_EQ(busy.error().code(), Code::kPrecondition);
  EXPECT_THAT(busy.error().message(), HasSubstr("/stage/v"));
  ASSERT_TRUE(engine_->volumes().Unstage(id, Path("/stage/v"), Soon()).has_value());
  const auto released = engine_->adoption().Release(id, false, Soon());
  ASSERT_TRUE(released.has_value()) << released.error().message();
  EXPECT_TRUE(released->changed);
  EXPECT_EQ(released->lv_name, "data");
  EXPECT_THAT(Lv("data").tags, ElementsAre("theirs"));
  EXPECT_FALSE(Lv("data").active);
  EXPECT_EQ(mount_.ContentOf(Uuid("data")).type, "ext4");
  EXPECT_THAT(Listed(), IsEmpty());
  EXPECT_FALSE(engine_->adoption().Release(id, false, Soon())->changed);
  EXPECT_EQ(Adopt("data")->volume.id, id) << "the id is the same again";
  EXPECT_EQ(engine_->adoption().Release("p.qaaaaaaaaaaaaaaaaaaaaaaaaaa", false, Soon()).error().code(),
            Code::kNotFound);
}

TEST_F(AdoptionTest, AVolumeMadeByQuarryCanBeReleasedAndAdopted) {
  const auto made =
      engine_->volumes().Create({.name = "c", .range = {}, .capabilities = {{}}, .parameters = {}}, Soon());
  ASSERT_TRUE(made.has_value()) << made.error().message();
  const auto released = engine_->adoption().Release(made->volume.id, false, Soon());
  ASSERT_TRUE(released.has_value()) << released.error().message();
  EXPECT_FALSE(engine_->adoption().Release(made->volume.id, false, Soon())->changed);
  Restart();
  EXPECT_FALSE(Lv(released->lv_name).name.empty()) << "a start must not take it for a left-over";
  EXPECT_EQ(Adopt(released->lv_name)->volume.id, IdOf(released->lv_name));
}

TEST_F(AdoptionTest, UnmanagedVolumesAreListedOnRequestAndNeverTouched) {
  Make("data", {.type = lvm::VolumeType::kRaid1});
  mount_.SetContent(Uuid("data"), kExt4);
  const std::string id = IdOf("data");
  EXPECT_THAT(Listed(), IsEmpty());
  list_ = true;
  Restart();
  EXPECT_THAT(Listed(), ElementsAre(id));
  const Volume shown = *engine_->volumes().Get(id, Soon());
  const auto tags_before = Lv("data").tags;
  const auto refused = [&](const Error& error) {
    EXPECT_EQ(error.code(), Code::kPrecondition) << error.message();
    EXPECT_THAT(error.message(), HasSubstr("quarryctl adopt vg0/data"));
  };
  refused(engine_->volumes().Delete(id, Soon()).error());
  refused(engine_->volumes().Expand(id, {Bytes{1 << 30}, {}}, {}, Soon()).error());
  refused(Stage(id).error());
  refused(engine_->volumes().Publish({id, std::nullopt, Path("/pods/x"), {}}, Soon()).error());
  EXPECT_TRUE(engine_->volumes().Unpublish(id, Path("/pods/x"), Soon()).has_value()) << "it never was there";
  const auto valid = engine_->volumes().Validate({id, {{}}, {}, {}}, Soon());
  ASSERT_TRUE(valid.has_value());
  EXPECT_FALSE(valid->confirmed);
  EXPECT_THAT(valid->message, HasSubstr("quarryctl adopt vg0/data"));
  EXPECT_EQ(Lv("data").tags, tags_before);
  EXPECT_TRUE(engine_->volumes().List(0, "after:" + id, Soon()).has_value()) << "a token may name one";

  const Volume adopted = Adopt("data")->volume;
  EXPECT_EQ(adopted.id, shown.id);
  EXPECT_EQ(adopted.size, shown.size);
  EXPECT_EQ(adopted.context, shown.context) << "the same volume to a CO, before and after";
  EXPECT_THAT(Listed(), ElementsAre(id));
  const auto fits = engine_->volumes().Validate({id, {{}}, {{"type", "raid1"}}, adopted.context}, Soon());
  EXPECT_TRUE(fits->confirmed) << fits->message;
}

TEST_F(AdoptionTest, AHiddenUnmanagedVolumeIsNotDeleted) {
  Make("data");
  EXPECT_EQ(engine_->volumes().Delete(IdOf("data"), Soon()).error().code(), Code::kPrecondition);
  EXPECT_EQ(Lv("data").name, "data");
}

TEST_F(AdoptionTest, AStartResumesOnlySuspendedManagedVolumes) {
  Make("data");
  Make("theirs");
  mount_.SetContent(Uuid("data"), kExt4);
  ASSERT_TRUE(Adopt("data").has_value());
  dm_.SetSuspended(Uuid("data"), true);
  dm_.SetSuspended(Uuid("theirs"), true);
  Restart();
  EXPECT_FALSE((*dm_.Find(Uuid("data")))->suspended);
  EXPECT_TRUE((*dm_.Find(Uuid("theirs")))->suspended);
}

TEST_F(AdoptionTest, AnAdoptedVolumeIsDeletedAndErasedLikeAnyOther) {
  Make("data");
  mount_.SetContent(Uuid("data"), kExt4);
  const std::string id = Adopt("data")->volume.id;
  EXPECT_TRUE(engine_->volumes().Delete(id, Soon())->deleted);
  for (int i = 0; i < 2000 && !Lv("data").name.empty(); ++i) {
    usleep(10000);
  }
  EXPECT_EQ(Lv("data").name, "");
  EXPECT_FALSE(engine_->volumes().Delete(id, Soon())->deleted);
}

}  // namespace
}  // namespace quarry::engine
