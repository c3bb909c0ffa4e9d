#include "tests/golden/plan_world.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "lvm/names.h"

namespace quarry::engine {
namespace {

constexpr Bytes kExtent{4 * kMiB.value};

AbsolutePath Path(const std::string& text) {
  return *AbsolutePath::Parse(text);
}

template <typename Value>
Status WithoutValue(Result<Value> result) {
  return result.has_value() ? Ok() : Status(std::move(result.error()));
}

std::string DiskOf(const lvm::VolumeGroup& group, const std::string& pv_uuid) {
  const lvm::PhysicalVolume* const pv = group.FindPv(pv_uuid);
  return pv == nullptr || pv->device.empty() ? fmt::format("missing disk {}", pv_uuid) : pv->device;
}

std::string StateOf(const lvm::VolumeGroup& group) {
  std::string out;
  for (const lvm::PhysicalVolume& pv : group.pvs) {
    Extents free;
    for (const lvm::ExtentRange& range : pv.free) {
      free += range.count;
    }
    out += fmt::format("disk:   {}, {} of {} extents free{}\n", DiskOf(group, pv.uuid), free.value,
                       pv.extent_count.value, pv.missing && !pv.device.empty() ? ", back" : "");
  }
  for (const lvm::LogicalVolume& lv : group.lvs) {
    if (lv.hidden) {
      continue;
    }
    std::vector<std::string> disks;
    for (const std::vector<std::string>& leg : lvm::LegPvs(group, lv)) {
      std::ranges::transform(leg, std::back_inserter(disks),
                             [&](const std::string& uuid) { return DiskOf(group, uuid); });
    }
    out += fmt::format("volume: {}/{}, {}, {} extents on {}, {}\n", group.name, lv.name, lv.segment_type,
                       lv.size.value / group.extent_size.value, fmt::join(disks, " "),
                       lv.active ? "active" : "inactive");
  }
  return out;
}

}  // namespace

void StepList::Before(const std::string& step) {
  const std::lock_guard lock(mutex_);
  texts_.push_back(step);
}

std::vector<std::string> StepList::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(texts_, {});
}

PlanWorld::PlanWorld() {
  steps_ = &list_;
  mount_.AddDirectory("/stage");
  mount_.AddDirectory("/pods");
  Begin({});
}

PlanWorld::~PlanWorld() {
  engine_.reset();  // it refers to list_
}

void PlanWorld::Must(const Status& done) {
  EXPECT_TRUE(done.has_value()) << (done.has_value() ? "" : done.error().message());
}

void PlanWorld::SetDisks(size_t count, uint64_t extents) {
  engine_.reset();
  std::vector<fakes::FakeDisk> disks;
  for (size_t i = 0; i < count; ++i) {
    disks.push_back({fmt::format("/dev/{}", static_cast<char>('a' + i)), Extents{extents}});
  }
  lvm_.AddGroup("vg0", kExtent, disks);
  Begin({});
}

// The last digit of a name carries three bits only, so it is the same for every letter.
std::string PlanWorld::LvName(char letter) {
  constexpr size_t kLetters = 25;
  return fmt::format("q{}a", std::string(kLetters, letter));
}

CreateWish PlanWorld::Wish(char letter, const Parameters& parameters, uint64_t extents, Access access) {
  return {.name = fmt::format("pvc-{}", letter),
          .profile = *Profile::Parse(parameters, "default"),
          .access = {access, access == Access::kBlock ? "" : "ext4"},
          .size = Extents{extents},
          .lv_name = LvName(letter)};
}

std::string PlanWorld::Make(char letter, const Parameters& parameters, uint64_t extents, Access access) {
  const CreateWish wish = Wish(letter, parameters, extents, access);
  const auto plan = PlanCreate(Now(), wish, {.name = "default", .group = "vg0"});
  EXPECT_TRUE(plan.has_value()) << (plan.has_value() ? "" : plan.error().message());
  if (!plan.has_value()) {
    return "";
  }
  // With its tags at once: the eraser removes a volume with the creating tag, unless a call is making it.
  Plan actions = plan->actions;
  Find<lvm::CreateLv>(actions.front())->tags = Find<lvm::ChangeTags>(actions.back())->add;
  actions.pop_back();
  Run(actions);
  if (wish.profile.geometry.has_metadata()) {
    SetLegs(plan->volume.id, std::string(wish.profile.geometry.legs(), 'A'));
  }
  return plan->volume.id;
}

void PlanWorld::MakeForeign(const std::string& name) {
  const lvm::Snapshot group = Group();
  const lvm::Geometry geometry = *lvm::Geometry::Make({});
  const auto placement = lvm::Place(lvm::FreeSpaceOf(*group), geometry, Extents{16}, *group);
  Must(lvm_.Apply(
      lvm::CreateLv{
          .group = "vg0", .name = name, .geometry = geometry, .step = placement->steps.front(), .tags = {}},
      Soon()));
}

void PlanWorld::Format(const std::string& id) {
  Must(Stage(id));
  Must(Unstage(id));
}

void PlanWorld::Deactivate(char letter) {
  Must(lvm_.Apply(lvm::DeactivateLv{"vg0", LvName(letter), 0}, Soon()));
}

void PlanWorld::Remove(char letter) {
  Deactivate(letter);
  Must(lvm_.Apply(lvm::RemoveLvs{"vg0", {LvName(letter)}, 0}, Soon()));
}

void PlanWorld::Tag(char letter, const std::string& tag) {
  Must(lvm_.Apply(lvm::ChangeTags{"vg0", LvName(letter), {tag}, {}}, Soon()));
}

void PlanWorld::Run(const Plan& plan) {
  const fakes::FakeWorld world{.lvm = lvm_, .dm = dm_, .erase = erase_, .mount = mount_, .clock = clock_};
  Must(Execute(plan, world, Soon()));
}

Catalog PlanWorld::Now() {
  return ReadCatalog("default", Group());
}

Status PlanWorld::Stage(const std::string& id, const Capability& capability) {
  return engine_->volumes().Stage({id, Path("/stage/v"), capability}, Soon());
}

Status PlanWorld::Unstage(const std::string& id) {
  return engine_->volumes().Unstage(id, Path("/stage/v"), Soon());
}

Status PlanWorld::Publish(const std::string& id, const std::string& target, const Capability& capability,
                          bool read_only, bool staged) {
  PublishRequest request{.id = id,
                         .staging_path = std::nullopt,
                         .target_path = Path(target),
                         .capability = capability,
                         .read_only = read_only};
  if (staged) {
    request.staging_path = Path("/stage/v");
  }
  return engine_->volumes().Publish(request, Soon());
}

Status PlanWorld::Unpublish(const std::string& id, const std::string& target) {
  return engine_->volumes().Unpublish(id, Path(target), Soon());
}

Status PlanWorld::Expand(const std::string& id, uint64_t extents) {
  return WithoutValue(
      engine_->volumes().Expand(id, {ToBytes(Extents{extents}, kExtent), {}}, std::nullopt, Soon()));
}

Status PlanWorld::Adopt(const std::string& lv_name) {
  AdoptRequest request;
  request.group = "vg0";
  request.lv_name = lv_name;
  return WithoutValue(engine_->adoption().Adopt(request, Soon()));
}

Status PlanWorld::Repair(RepairCause cause) {
  auto report = engine_->upkeep().Repair(cause, Soon(), {});
  if (!report.has_value()) {
    return std::move(report.error());
  }
  for (const std::string& obstacle : report->obstacles) {
    remarks_.push_back(fmt::format("obstacle: {}", obstacle));
  }
  return Ok();
}

void PlanWorld::Plans(const Result<Plan>& plan) {
  before_ = StateOf(*Group());
  if (!plan.has_value()) {
    remarks_.push_back(fmt::format("refused: {}: {}", CodeName(plan.error().code()), plan.error().message()));
    return;
  }
  std::ranges::transform(*plan, std::back_inserter(texts_), Text);
}

void PlanWorld::Plans(const Result<CreatePlan>& plan) {
  Plans(plan.has_value() ? Result<Plan>(plan->actions) : Result<Plan>(plan.error()));
}

void PlanWorld::Does(const std::function<Status()>& ask) {
  before_ = StateOf(*Group());
  (void)list_.Take();
  const Status done = ask();
  texts_ = list_.Take();
  if (!done.has_value()) {
    remarks_.push_back(fmt::format("refused: {}: {}", CodeName(done.error().code()), done.error().message()));
  }
}

std::string PlanWorld::Page(const PlanCase& one) const {
  std::string page = fmt::format("asked:  {}\nstate:  {}\n{}\n", one.asked, one.state, before_);
  for (size_t i = 0; i < texts_.size(); ++i) {
    page += fmt::format("{}. {}\n", i + 1, texts_[i]);
  }
  if (texts_.empty() && remarks_.empty()) {
    page += "no steps\n";
  }
  for (const std::string& remark : remarks_) {
    page += remark + "\n";
  }
  return page;
}

}  // namespace quarry::engine
