// Plans of the node service, and of adoption.
#include "lvm/names.h"
#include "tests/golden/plan_world.h"

namespace quarry::engine {
namespace {

using mount::Content;

const Capability kRaw{.access = AccessType::kBlock};

// A linear volume with a file system, staged nowhere.
std::string MakeFormatted(PlanWorld& world) {
  const std::string id = world.Make('a', {}, 10);
  world.Format(id);
  return id;
}

std::string MakeStaged(PlanWorld& world) {
  const std::string id = world.Make('a', {}, 10);
  PlanWorld::Must(world.Stage(id));
  return id;
}

std::string MakeRaw(PlanWorld& world) {
  return world.Make('a', {{"erase", "none"}}, 10, Access::kBlock);
}

std::vector<PlanCase> StageCases() {
  return {
      {"stage_new", "stage the volume", "a new volume that was never formatted, inactive",
       [](PlanWorld& w) {
         const std::string id = w.Make('a', {}, 10);
         w.Deactivate('a');
         w.Does([&] { return w.Stage(id); });
       }},
      {"stage_formatted", "stage the volume", "a formatted volume, staged nowhere",
       [](PlanWorld& w) {
         const std::string id = MakeFormatted(w);
         w.Does([&] { return w.Stage(id); });
       }},
      {"stage_read_only", "stage the volume with the mount flag ro", "a formatted volume, staged nowhere",
       [](PlanWorld& w) {
         const std::string id = MakeFormatted(w);
         w.Does([&] { return w.Stage(id, {.mount_flags = {"ro"}}); });
       }},
      {"stage_with_fsck", "stage the volume",
       "a formatted volume, staged nowhere; file systems are checked before they are mounted (fsck=preen)",
       [](PlanWorld& w) {
         const std::string id = MakeFormatted(w);
         w.Begin([](EngineConfig& config) { config.fsck = Fsck::kPreen; });
         w.Does([&] { return w.Stage(id); });
       }},
      {"stage_for_group", "stage the volume for group 5000", "a formatted volume, staged nowhere",
       [](PlanWorld& w) {
         const std::string id = MakeFormatted(w);
         w.Does([&] { return w.Stage(id, {.mount_flags = {}, .mount_group = 5000}); });
       }},
      {"stage_again", "stage the volume at the same path with the same options", "the volume is staged",
       [](PlanWorld& w) {
         const std::string id = MakeStaged(w);
         w.Does([&] { return w.Stage(id); });
       }},
      {"stage_after_interrupted_mkfs", "stage the volume", "quarryd was killed while mkfs ran",
       [](PlanWorld& w) {
         const std::string id = w.Make('a', {}, 10);
         w.Tag('a', lvm::FormattedTag("making-ext4"));
         w.Does([&] { return w.Stage(id); });
       }},
      {"stage_blank_again", "stage the volume", "the volume was formatted, and reads blank now",
       [](PlanWorld& w) {
         const std::string id = MakeFormatted(w);
         w.mount_.SetContent(w.DmUuidOf(id), {});
         w.Does([&] { return w.Stage(id); });
       }},
      {"stage_other_content", "stage the volume", "the volume was never formatted, and holds a LUKS header",
       [](PlanWorld& w) {
         const std::string id = w.Make('a', {}, 10);
         w.mount_.SetContent(w.DmUuidOf(id), {Content::Kind::kOther, "crypto_LUKS", ""});
         w.Does([&] { return w.Stage(id); });
       }},
      {"unstage", "unstage the volume", "the volume is staged",
       [](PlanWorld& w) {
         const std::string id = MakeStaged(w);
         w.Does([&] { return w.Unstage(id); });
       }},
  };
}

std::vector<PlanCase> PublishCases() {
  return {
      {"publish", "publish the volume at /pods/a", "the volume is staged",
       [](PlanWorld& w) {
         const std::string id = MakeStaged(w);
         w.Does([&] { return w.Publish(id, "/pods/a"); });
       }},
      {"publish_for_group", "publish the volume at /pods/a for group 5000", "the volume is staged",
       [](PlanWorld& w) {
         const std::string id = MakeStaged(w);
         w.Does([&] { return w.Publish(id, "/pods/a", {.mount_flags = {}, .mount_group = 5000}); });
       }},
      {"publish_second_single_writer", "publish the volume at /pods/b, for a single writer",
       "the volume is published at /pods/a",
       [](PlanWorld& w) {
         const std::string id = MakeStaged(w);
         PlanWorld::Must(w.Publish(id, "/pods/a"));
         w.Does([&] { return w.Publish(id, "/pods/b", {.mode = AccessMode::kSingleNodeSingleWriter}); });
       }},
      {"publish_unstaged_new", "publish the volume at /pods/a, for a caller that does not stage",
       "a new volume that was never formatted, inactive",
       [](PlanWorld& w) {
         const std::string id = w.Make('a', {}, 10);
         w.Deactivate('a');
         w.Does([&] { return w.Publish(id, "/pods/a", {}, false, false); });
       }},
      {"publish_unstaged_second", "publish the volume at /pods/b, for a caller that does not stage",
       "the volume is published at /pods/a in the same way",
       [](PlanWorld& w) {
         const std::string id = w.Make('a', {}, 10);
         PlanWorld::Must(w.Publish(id, "/pods/a", {}, false, false));
         w.Does([&] { return w.Publish(id, "/pods/b", {}, false, false); });
       }},
      {"unpublish", "unpublish the volume from /pods/a", "the volume is published there",
       [](PlanWorld& w) {
         const std::string id = MakeStaged(w);
         PlanWorld::Must(w.Publish(id, "/pods/a"));
         w.Does([&] { return w.Unpublish(id, "/pods/a"); });
       }},
      {"publish_raw", "publish the raw device at /pods/a", "a raw volume",
       [](PlanWorld& w) {
         const std::string id = MakeRaw(w);
         w.Does([&] { return w.Publish(id, "/pods/a", kRaw); });
       }},
      {"publish_raw_read_only", "publish the raw device at /pods/a, read-only", "a raw volume",
       [](PlanWorld& w) {
         const std::string id = MakeRaw(w);
         w.Does([&] { return w.Publish(id, "/pods/a", kRaw, true); });
       }},
      {"publish_raw_writable_again", "publish the raw device at /pods/b, writable",
       "the device is read-only, because it was published so at /pods/a before",
       [](PlanWorld& w) {
         const std::string id = MakeRaw(w);
         PlanWorld::Must(w.Publish(id, "/pods/a", kRaw, true));
         PlanWorld::Must(w.Unpublish(id, "/pods/a"));
         w.Does([&] { return w.Publish(id, "/pods/b", kRaw); });
       }},
      {"unpublish_raw", "unpublish the raw device from /pods/a", "the raw volume is published there",
       [](PlanWorld& w) {
         const std::string id = MakeRaw(w);
         PlanWorld::Must(w.Publish(id, "/pods/a", kRaw));
         w.Does([&] { return w.Unpublish(id, "/pods/a"); });
       }},
  };
}

std::vector<PlanCase> AdoptionCases() {
  return {
      {"adopt_file_system", "adopt vg0/data", "an unmanaged logical volume that holds ext4",
       [](PlanWorld& w) {
         w.MakeForeign("data");
         const lvm::Snapshot group = w.Group();
         w.mount_.SetContent(lvm::DmUuid(group->uuid, group->FindLv("data")->uuid),
                             {Content::Kind::kFilesystem, "ext4", "u"});
         w.Does([&] { return w.Adopt("data"); });
       }},
      {"adopt_blank", "adopt vg0/data",
       "an unmanaged logical volume that reads as zeroes, inactive: it is active only while it is read",
       [](PlanWorld& w) {
         w.MakeForeign("data");
         PlanWorld::Must(w.lvm_.Apply(lvm::DeactivateLv{"vg0", "data", 0}, PlanWorld::Soon()));
         w.Does([&] { return w.Adopt("data"); });
       }},
      {"adopt_other_content", "adopt vg0/data", "an unmanaged logical volume that holds a LUKS header",
       [](PlanWorld& w) {
         w.MakeForeign("data");
         const lvm::Snapshot group = w.Group();
         w.mount_.SetContent(lvm::DmUuid(group->uuid, group->FindLv("data")->uuid),
                             {Content::Kind::kOther, "crypto_LUKS", ""});
         w.Does([&] { return w.Adopt("data"); });
       }},
      {"release", "release the volume", "a volume that is not in use",
       [](PlanWorld& w) {
         const std::string id = w.Make('a', {}, 10);
         w.Does([&]() -> Status {
           QUARRY_TRY(w.engine_->adoption().Release(id, false, PlanWorld::Soon()));
           return Ok();
         });
       }},
  };
}

}  // namespace

std::vector<PlanCase> NodeCases() {
  std::vector<PlanCase> out = StageCases();
  for (const auto& cases : {PublishCases(), AdoptionCases()}) {
    out.insert(out.end(), cases.begin(), cases.end());
  }
  return out;
}

}  // namespace quarry::engine
