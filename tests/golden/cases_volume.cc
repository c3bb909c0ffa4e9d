// Plans that make, grow, delete and erase volumes.
#include <set>

#include "engine/plan/zeroed_extents.h"
#include "tests/golden/plan_world.h"

namespace quarry::engine {
namespace {

constexpr const char* kEmpty = "four empty disks";

PoolConfig ThePool() {
  return {.name = "default", .group = "vg0"};
}

void Creates(PlanWorld& world, const CreateWish& wish, const PoolConfig& pool = ThePool()) {
  world.Plans(PlanCreate(world.Now(), wish, pool));
}

void CreatesOnce(PlanWorld& world, const CreateWish& wish) {
  const Catalog catalog = world.Now();
  auto plan = PlanCreate(catalog, wish, ThePool());
  if (plan.has_value()) {
    EXPECT_TRUE(CommitOnce(plan->actions, catalog.group->seqno));
  }
  world.Plans(plan);
}

void CreatesType(PlanWorld& world, const std::string& type, uint64_t extents) {
  Creates(world, PlanWorld::Wish('a', {{"type", type}}, extents));
}

void Deletes(PlanWorld& world, ErasePolicy policy) {
  world.Make('a', {{"erase", std::string(EraseName(policy))}}, 10);
  const Catalog catalog = world.Now();
  world.Plans(Result<Plan>(PlanDelete(catalog.records.front(), PolicyOf(catalog.records.front()))));
}

void Erases(PlanWorld& world, const std::set<std::string>& given_up = {}) {
  const Catalog catalog = world.Now();
  world.Plans(PlanErase(catalog.records.front(), PolicyOf(catalog.records.front()), given_up));
}

std::vector<PlanCase> CreateCases() {
  return {
      {"create_linear", "create a linear volume of 10 extents for ext4", kEmpty,
       [](PlanWorld& w) { CreatesType(w, "linear", 10); }},
      {"create_linear_on_two_disks", "create a linear volume that no single disk can hold", kEmpty,
       [](PlanWorld& w) { CreatesType(w, "linear", 150); }},
      {"create_striped", "create a striped volume with the default number of stripes", kEmpty,
       [](PlanWorld& w) { CreatesType(w, "striped", 24); }},
      {"create_raid0", "create a raid0 volume with the default number of stripes", kEmpty,
       [](PlanWorld& w) { CreatesType(w, "raid0", 24); }},
      {"create_raid1", "create a raid1 volume of 10 extents", kEmpty,
       [](PlanWorld& w) { CreatesType(w, "raid1", 10); }},
      {"create_raid1_with_two_mirrors", "create a raid1 volume of three legs", kEmpty,
       [](PlanWorld& w) { Creates(w, PlanWorld::Wish('a', {{"type", "raid1"}, {"mirrors", "2"}}, 10)); }},
      {"create_raid4", "create a raid4 volume with the default number of stripes", kEmpty,
       [](PlanWorld& w) { CreatesType(w, "raid4", 24); }},
      {"create_raid5", "create a raid5 volume with the default number of stripes", kEmpty,
       [](PlanWorld& w) { CreatesType(w, "raid5", 24); }},
      {"create_raid6", "create a raid6 volume with the default number of stripes", "five empty disks",
       [](PlanWorld& w) {
         w.SetDisks(5, 100);
         CreatesType(w, "raid6", 24);
       }},
      {"create_raid10", "create a raid10 volume with the default number of stripes", kEmpty,
       [](PlanWorld& w) { CreatesType(w, "raid10", 24); }},
      {"create_in_pieces", "create a raid1 volume of 60 extents",
       "two disks whose free space is in two runs, because a volume between two others was removed",
       [](PlanWorld& w) {
         w.SetDisks(2, 100);
         w.Make('b', {{"type", "raid1"}}, 20);
         w.Make('c', {{"type", "raid1"}}, 30);
         w.Make('d', {{"type", "raid1"}}, 10);
         w.Remove('c');
         CreatesType(w, "raid1", 60);
       }},
      {"create_without_sync", "create a raid1 volume with sync=skip (its extents are zeroed before)", kEmpty,
       [](PlanWorld& w) { Creates(w, PlanWorld::Wish('a', {{"type", "raid1"}, {"sync", "skip"}}, 10)); }},
      {"create_in_one_commit", "create a raw striped volume whose extents are known to be zero", kEmpty,
       [](PlanWorld& w) { CreatesOnce(w, PlanWorld::Wish('a', {{"type", "striped"}}, 24, Access::kBlock)); }},
      {"create_with_every_parameter", "create a raid5 volume with every parameter set, for ext4", kEmpty,
       [](PlanWorld& w) {
         Creates(w, PlanWorld::Wish('a',
                                    {{"type", "raid5"},
                                     {"stripes", "3"},
                                     {"stripesize", "128"},
                                     {"regionsize", "4096"},
                                     {"erase", "discard"},
                                     {"mkfsoptions", "-m 0"}},
                                    12));
       }},
      {"create_raw", "create a linear volume for raw use (its extents are zeroed before)", kEmpty,
       [](PlanWorld& w) { Creates(w, PlanWorld::Wish('a', {}, 10, Access::kBlock)); }},
      {"create_inline", "create an inline volume of a pod, on a node whose ids are part of volume ids",
       kEmpty,
       [](PlanWorld& w) {
         CreateWish wish = PlanWorld::Wish('a', {}, 10);
         wish.name = "csi-0123456789abcdef";
         wish.ephemeral = true;
         wish.node_hash = "0a1b2c3d";
         Creates(w, wish);
       }},
      {"create_too_few_disks", "create a raid6 volume, which needs five disks", kEmpty,
       [](PlanWorld& w) { CreatesType(w, "raid6", 24); }},
      {"create_too_large", "create a linear volume of 401 extents", kEmpty,
       [](PlanWorld& w) { CreatesType(w, "linear", 401); }},
      {"create_without_space", "create a linear volume of 150 extents", "a volume has 300 of the 400 extents",
       [](PlanWorld& w) {
         w.Make('b', {}, 300);
         CreatesType(w, "linear", 150);
       }},
      {"create_beyond_share", "create a raid1 volume of 30 extents",
       "raid1 volumes may take 10 percent of the pool",
       [](PlanWorld& w) {
         PoolConfig pool = ThePool();
         pool.shares = {{lvm::VolumeType::kRaid1, 10}};
         Creates(w, PlanWorld::Wish('a', {{"type", "raid1"}}, 30), pool);
       }},
      {"create_inline_beyond_limit", "create an inline volume of 10 extents (40 MiB)",
       "inline volumes may take 20 MiB of the pool together",
       [](PlanWorld& w) {
         PoolConfig pool = ThePool();
         pool.ephemeral.total = Bytes{20 * kMiB.value};
         CreateWish wish = PlanWorld::Wish('a', {}, 10);
         wish.ephemeral = true;
         Creates(w, wish, pool);
       }},
  };
}

std::vector<PlanCase> GrowthCases() {
  return {
      {"expand_linear", "grow the volume to 20 extents", "a linear volume, and one behind it",
       [](PlanWorld& w) {
         const std::string id = w.Make('a', {}, 10);
         w.Make('b', {}, 10);
         w.Does([&] { return w.Expand(id, 20); });
       }},
      {"expand_raid5", "grow the volume to 40 extents", "a raid5 volume",
       [](PlanWorld& w) {
         const std::string id = w.Make('a', {{"type", "raid5"}}, 20);
         w.Does([&] { return w.Expand(id, 40); });
       }},
      {"expand_half_grown", "grow the volume to 20 extents, again",
       "quarryd was killed after LVM had grown the volume, and before the tag had the new size",
       [](PlanWorld& w) {
         const std::string id = w.Make('a', {}, 10);
         const Catalog catalog = w.Now();
         Plan plan = *PlanExpand(catalog, catalog.records.front(), *catalog.records.front().profile,
                                 Extents{20}, {}, ThePool());
         plan.pop_back();
         w.Run(plan);
         w.Does([&] { return w.Expand(id, 20); });
       }},
      {"expand_raw_read_only", "grow the volume to 20 extents",
       "a raw volume with erase=none is published read-only",
       [](PlanWorld& w) {
         const std::string id = w.Make('a', {{"erase", "none"}}, 10, Access::kBlock);
         PlanWorld::Must(w.Publish(id, "/pods/a", {.access = AccessType::kBlock}, true));
         w.Does([&] { return w.Expand(id, 20); });
       }},
      {"expand_to_present_size", "grow the volume to 10 extents", "the volume has 10 extents",
       [](PlanWorld& w) {
         const std::string id = w.Make('a', {}, 10);
         w.Does([&] { return w.Expand(id, 10); });
       }},
      {"expand_without_space", "grow the volume by 100 extents", "a raid1 volume on two disks that are full",
       [](PlanWorld& w) {
         w.SetDisks(2, 100);
         const std::string id = w.Make('a', {{"type", "raid1"}}, 90);
         w.Does([&] { return w.Expand(id, 190); });
       }},
  };
}

std::vector<PlanCase> EndCases() {
  return {
      {"delete_zero", "delete the volume", "a linear volume with erase=zero",
       [](PlanWorld& w) { Deletes(w, ErasePolicy::kZero); }},
      {"delete_discard", "delete the volume", "a linear volume with erase=discard",
       [](PlanWorld& w) { Deletes(w, ErasePolicy::kDiscard); }},
      {"delete_none", "delete the volume", "a linear volume with erase=none",
       [](PlanWorld& w) { Deletes(w, ErasePolicy::kNone); }},
      {"erase_zero", "erase the deleted volume with zeroes", "a linear volume of 300 extents (1.2 GiB)",
       [](PlanWorld& w) {
         w.SetDisks(1, 400);
         w.Make('a', {}, 300);
         Erases(w);
       }},
      {"erase_discard", "erase the deleted volume by discarding", "a raid1 volume",
       [](PlanWorld& w) {
         w.Make('a', {{"type", "raid1"}, {"erase", "discard"}}, 10);
         Erases(w);
       }},
      {"erase_missing_disk", "erase the deleted volume", "a raid1 volume; the disk of a leg is missing",
       [](PlanWorld& w) {
         const std::string id = w.Make('a', {{"type", "raid1"}}, 10);
         w.SetMissing(w.Legs(id)[1]);
         Erases(w);
       }},
      {"erase_given_up_disk", "erase the deleted volume",
       "a raid1 volume; the disk of a leg is missing and was given up",
       [](PlanWorld& w) {
         const std::string id = w.Make('a', {{"type", "raid1"}}, 10);
         const std::string lost = w.Legs(id)[1];
         w.SetMissing(lost);
         Erases(w, {lost});
       }},
      {"zero_before_use", "zero the extents of a new raw raid1 volume of 300 extents (1.2 GiB)",
       "two empty disks, nothing is known about their content",
       [](PlanWorld& w) {
         w.SetDisks(2, 400);
         const CreateWish wish = PlanWorld::Wish('a', {{"type", "raid1"}}, 300, Access::kBlock);
         const auto create = PlanCreate(w.Now(), wish, ThePool());
         ASSERT_TRUE(create.has_value()) << create.error().message();
         w.Plans(PlanEraseRanges(*w.Group(), ExtentsOf(create->actions, false), dm::EraseMethod::kZero));
       }},
  };
}

}  // namespace

std::vector<PlanCase> VolumeCases() {
  std::vector<PlanCase> out = CreateCases();
  for (const auto& cases : {GrowthCases(), EndCases()}) {
    out.insert(out.end(), cases.begin(), cases.end());
  }
  return out;
}

}  // namespace quarry::engine
