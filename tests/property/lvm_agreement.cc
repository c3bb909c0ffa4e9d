#include "tests/property/lvm_agreement.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/property/layout_generators.h"
#include "tests/unit/lvm/layout_groups.h"

namespace quarry::lvm::testing {
namespace {

using Random = std::mt19937_64;

uint64_t Between(Random& random, uint64_t least, uint64_t most) {
  return least + random() % (most - least + 1);
}
bool OneIn(Random& random, uint64_t n) {
  return random() % n == 0;
}

std::string PlanText(const Placement& plan) {
  std::string text;
  for (const PlacementStep& step : plan.steps) {
    text += fmt::format("  -l {} --alloc {}", step.logical_extents.value, step.alloc);
    for (const std::string& argument : step.pv_arguments) {
      text += " " + argument;
    }
    text += "\n";
  }
  return text;
}

// Uses extents all over the PVs: one volume takes random ranges, so that the free extents are fragmented, and
// everything beyond a random size, so that the PVs are uneven.
PlacementStep Clutter(Random& random, const VolumeGroup& group, uint64_t most_extents) {
  PlacementStep step;
  step.alloc = "normal";
  for (const PhysicalVolume& pv : group.pvs) {
    const uint64_t size = std::min(Between(random, 3, most_extents), pv.extent_count.value);
    std::vector<ExtentRange> used;
    uint64_t at = Between(random, 0, 8);
    while (!OneIn(random, 4) && at < size) {
      const uint64_t count = std::min(Between(random, 1, 12), size - at);
      used.push_back({{at}, {count}});
      at += count + Between(random, 1, 15);
    }
    if (size < pv.extent_count.value) {
      used.push_back({{size}, pv.extent_count - Extents{size}});
    }
    if (used.empty()) {
      continue;
    }
    std::string argument = pv.device;
    for (const ExtentRange& range : used) {
      step.logical_extents += range.count;
      argument += fmt::format(":{}-{}", range.first.value, range.end().value - 1);
    }
    step.pv_arguments.push_back(argument);
  }
  return step;
}

class Group {
 public:
  Group(LvmLab& lab, const AgreementOptions& options, uint64_t round, std::map<VolumeType, Tally>& tallies)
      : lab_(lab), options_(options), random_(options.seed * 1'000'003 + round), tallies_(tallies) {
    where_ = fmt::format("seed {} round {}", options.seed, round);
  }

  void Try() {
    ASSERT_NO_FATAL_FAILURE(MakeGroup());
    for (size_t i = 0; i < options_.volumes_per_group; ++i) {
      ASSERT_NO_FATAL_FAILURE(TryVolume(AnyGeometry()));
    }
  }

 private:
  std::string Where() const { return where_ + "\n" + Picture(*snapshot_); }

  void Read() {
    auto read = lab_.Read();
    ASSERT_TRUE(read.has_value()) << where_ << ": " << read.error().message();
    snapshot_ = *read;
  }

  void MakeGroup() {
    const size_t pvs = Between(random_, 2, lab_.DeviceCount());
    const Bytes extent_size{(OneIn(random_, 2) ? 1 : 4) * kMiB.value};
    const Status made = lab_.MakeGroup(pvs, extent_size);
    ASSERT_TRUE(made.has_value()) << where_ << ": " << made.error().message();
    ASSERT_NO_FATAL_FAILURE(Read());
    ASSERT_EQ(snapshot_->pvs.size(), pvs);
    CreateLv clutter{.group = kLabGroup, .name = "clutter", .geometry = MakeGeometry(VolumeType::kLinear)};
    clutter.step = Clutter(random_, *snapshot_, options_.most_extents);
    clutter.wipe = Wipe::kNone;
    if (clutter.step.logical_extents.value != 0) {
      const Status created = lab_.Create(clutter);
      ASSERT_TRUE(created.has_value()) << where_ << ": " << created.error().message();
    }
    if (OneIn(random_, 6)) {
      ASSERT_TRUE(lab_.SetAllocatable(random_() % pvs, false).has_value());
    }
    ASSERT_NO_FATAL_FAILURE(Read());
    VolumeGroup counted = *snapshot_;
    ASSERT_EQ(FreeExtents(counted), snapshot_->free_count.value) << Where();
  }

  Geometry AnyGeometry() {
    GeometryRequest request;
    request.type = options_.types[random_() % options_.types.size()];
    const uint32_t pvs = static_cast<uint32_t>(snapshot_->pvs.size());
    const Geometry least = MakeGeometry(request.type);
    // Sometimes one leg too many: then the capacity must be zero.
    if (request.type == VolumeType::kRaid1) {
      request.mirrors = static_cast<uint32_t>(Between(random_, 1, pvs));
    } else if (request.type == VolumeType::kRaid10) {
      request.stripes = static_cast<uint32_t>(Between(random_, 2, std::max(2U, pvs / 2)));
    } else if (request.type != VolumeType::kLinear) {
      const uint32_t parity = least.legs() - least.data_legs();
      request.stripes = static_cast<uint32_t>(
          Between(random_, least.data_legs(), std::max(least.data_legs(), pvs - std::min(pvs, parity) + 1)));
    }
    if (least.stripe_size().value != 0) {
      request.stripe_size = {(kKiB.value * 4)
                             << (random_() % 8)};  // up to 512 KiB, below every extent size here
    }
    return *Geometry::Make(request);
  }

  void TryVolume(const Geometry& geometry) {
    Tally& tally = tallies_[geometry.type()];
    FreeSpace space = FreeSpaceOf(*snapshot_);
    const Extents most = MaxExtents(space, geometry);
    const Extents granule{geometry.data_legs()};
    ASSERT_FALSE(Place(space, geometry, most + granule, *snapshot_).has_value()) << Where();
    if (most.value == 0) {
      return;
    }
    const Extents size =
        OneIn(random_, 3) ? Extents{Between(random_, 1, most.value / granule.value) * granule.value} : most;
    const Snapshot before = snapshot_;
    ASSERT_NO_FATAL_FAILURE(Create(geometry, size));
    ++tally.creates;
    tally.at_maximum += size == most ? 1 : 0;
    for (int i = 0; i < 2 && OneIn(random_, 2); ++i) {
      ASSERT_NO_FATAL_FAILURE(Grow(geometry));
    }
    if (OneIn(random_, 4)) {
      // The volume stays, so the next ones find less and more fragmented space.
      ASSERT_TRUE(lab_.Must({"lvrename", kLabGroup, "v", fmt::format("kept{}", kept_++)}).has_value());
      ASSERT_NO_FATAL_FAILURE(Read());
      return;
    }
    ASSERT_NO_FATAL_FAILURE(Remove("v"));
    if (geometry.type() != VolumeType::kLinear && OneIn(random_, options_.controls)) {
      ASSERT_NO_FATAL_FAILURE(Control(geometry, most));
    }
    ASSERT_NO_FATAL_FAILURE(Read());
    ASSERT_EQ(Picture(*snapshot_), Picture(*before))
        << where_ << ": removing did not free all that creating took";
  }

  void Create(const Geometry& geometry, Extents size) {
    const FreeSpace space = FreeSpaceOf(*snapshot_);
    const auto plan = Place(space, geometry, size, *snapshot_);
    ASSERT_TRUE(plan.has_value()) << Where() << plan.error().message();
    ExpectSound(space, geometry, *plan);
    CreateLv create{.group = kLabGroup, .name = "v", .geometry = geometry};
    create.step = plan->steps.front();
    create.wipe = Wipe::kNone;
    create.assume_in_sync =
        OneIn(random_, 2);  // otherwise the volume is extended while it is being synchronised
    const Status created = lab_.Create(create);
    ASSERT_TRUE(created.has_value()) << Where() << geometry.Describe() << "\n"
                                     << PlanText(*plan) << created.error().message();
    ASSERT_NO_FATAL_FAILURE(Extend(geometry, *plan, 1));
    ASSERT_NO_FATAL_FAILURE(Verify(geometry, *plan));
  }

  void Grow(const Geometry& geometry) {
    const FreeSpace space = FreeSpaceOf(*snapshot_);
    const LogicalVolume& lv = *snapshot_->FindLv("v");
    const Extents most = MaxGrowth(space, geometry, *snapshot_, lv);
    const Extents granule{geometry.data_legs()};
    ASSERT_FALSE(PlaceGrowth(space, geometry, *snapshot_, lv, most + granule).has_value()) << Where();
    if (most.value == 0) {
      return;
    }
    const Extents more =
        OneIn(random_, 2) ? most : Extents{Between(random_, 1, most.value / granule.value) * granule.value};
    const auto plan = PlaceGrowth(space, geometry, *snapshot_, lv, more);
    ASSERT_TRUE(plan.has_value()) << Where() << plan.error().message();
    ExpectSound(space, geometry, *plan);
    ASSERT_NO_FATAL_FAILURE(Extend(geometry, *plan, 0));
    ASSERT_NO_FATAL_FAILURE(Verify(geometry, *plan));
    ++tallies_[geometry.type()].growths;
  }

  void Extend(const Geometry& geometry, const Placement& plan, size_t from) {
    tallies_[geometry.type()].commands += plan.steps.size();
    for (size_t i = from; i < plan.steps.size(); ++i) {
      const Status extended = lab_.Extend({kLabGroup, "v", geometry, plan.steps[i]});
      ASSERT_TRUE(extended.has_value()) << Where() << geometry.Describe() << " step " << i << "\n"
                                        << PlanText(plan) << extended.error().message();
    }
  }

  void Verify(const Geometry& geometry, const Placement& plan) {
    const Snapshot before = snapshot_;
    ASSERT_NO_FATAL_FAILURE(Read());
    const LogicalVolume* lv = snapshot_->FindLv("v");
    ASSERT_NE(lv, nullptr);
    const Status verified = VerifyPlacement(*snapshot_, *lv, plan);
    ASSERT_TRUE(verified.has_value()) << where_ << "\n"
                                      << Picture(*before) << geometry.Describe() << "\n"
                                      << PlanText(plan) << verified.error().message();
    ASSERT_EQ(lv->size, ToBytes(plan.logical_extents, snapshot_->extent_size));
    ASSERT_FALSE(geometry.legs() > 1 && SharedPv(*snapshot_, *lv).has_value());
  }

  void Remove(const std::string& name) {
    const Status removed = lab_.Remove(name);
    ASSERT_TRUE(removed.has_value()) << where_ << ": " << removed.error().message();
  }

  // LVM's own choice with the same free space, given only the shape.
  void Control(const Geometry& geometry, Extents most) {
    std::vector<std::string> arguments = {
        "lvcreate", "-y",      "-Wn",    "-Zn",
        "-n",       "control", "--type", std::string(TypeName(geometry.type())),
        "-l",       "100%FREE"};
    if (geometry.stripe_size().value != 0) {
      arguments.insert(arguments.end(), {"-i", fmt::format("{}", geometry.data_legs()), "-I",
                                         fmt::format("{}k", geometry.stripe_size().value / kKiB.value)});
    }
    if (geometry.mirrors() != 0) {
      arguments.insert(arguments.end(), {"-m", fmt::format("{}", geometry.mirrors())});
    }
    if (geometry.has_metadata() && geometry.type() != VolumeType::kRaid6) {
      arguments.emplace_back("--nosync");
    }
    arguments.emplace_back(kLabGroup);
    const auto finished = lab_.Run(arguments);
    ASSERT_TRUE(finished.has_value()) << finished.error().message();
    Tally& tally = tallies_[geometry.type()];
    ++tally.controls;
    ASSERT_NO_FATAL_FAILURE(Read());
    const LogicalVolume* lv = snapshot_->FindLv("control");
    if (lv == nullptr) {
      ++tally.control_refused;
      return;
    }
    const bool shared = SharedPv(*snapshot_, *lv).has_value();
    tally.control_shared += shared ? 1 : 0;
    tally.control_smaller += lv->size < ToBytes(most, snapshot_->extent_size) ? 1 : 0;
    tally.control_larger += !shared && lv->size > ToBytes(most, snapshot_->extent_size) ? 1 : 0;
    ASSERT_NO_FATAL_FAILURE(Remove("control"));
  }

  LvmLab& lab_;
  const AgreementOptions& options_;
  Random random_;
  std::map<VolumeType, Tally>& tallies_;
  std::string where_;
  Snapshot snapshot_;
  int kept_ = 0;
};

}  // namespace

void TryOneGroup(LvmLab& lab, const AgreementOptions& options, uint64_t round,
                 std::map<VolumeType, Tally>& tallies) {
  for (const VolumeType type : options.types) {
    ++tallies[type].groups;
  }
  Group(lab, options, round, tallies).Try();
}

std::string Report(const std::map<VolumeType, Tally>& tallies) {
  std::string text = fmt::format(
      "{:8} {:>7} {:>7} {:>8} {:>8} {:>7} | bare lvcreate -l 100%FREE\n{:8} {:>7} {:>7} {:>8} "
      "{:>8} {:>7} | {:>7} {:>8} {:>9} {:>8} {:>7}\n",
      "", "", "", "", "", "", "type", "groups", "created", "at max", "commands", "grown", "tried", "refused",
      "collocated", "smaller", "larger");
  for (const auto& [type, t] : tallies) {
    text += fmt::format("{:8} {:7} {:7} {:8} {:8} {:7} | {:7} {:8} {:10} {:8} {:7}\n", TypeName(type),
                        t.groups, t.creates, t.at_maximum, t.commands, t.growths, t.controls,
                        t.control_refused, t.control_shared, t.control_smaller, t.control_larger);
  }
  return text;
}

}  // namespace quarry::lvm::testing
