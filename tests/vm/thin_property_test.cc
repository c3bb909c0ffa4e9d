// Thin stores of random shape, and random lives in them: volumes, snapshots, clones, writes, trims, growth
// and deletions. What is admitted can be written to its last byte; one extent more is refused; every volume
// and snapshot has exactly its bytes; nothing leaks. Needs four disks.
//
// QUARRY_THIN_STORES: "FIRST-LAST", the numbers of the stores; each decides everything about its store.
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/vm/thin_stores_fixture.h"

namespace quarry::vm {
namespace {

constexpr int64_t kExtent = 4 * kMi;
constexpr int64_t kUnit = 256 << 10;  // what is written or trimmed at once; not a chunk

// What a volume or snapshot must read as: the seed of each unit's pattern, 0 for zeroes.
using Units = std::vector<uint64_t>;

struct Thing {
  std::string name;
  std::string id;
  int64_t size = 0;
  Units units;
};

class ThinPropertyTest : public ThinStoresTest {
 protected:
  static std::vector<uint32_t> Numbers() {
    const char* const asked = std::getenv("QUARRY_THIN_STORES");
    const std::string range = asked == nullptr ? "1-3" : asked;
    std::vector<uint32_t> out;
    const auto first = std::strtoul(range.c_str(), nullptr, 10);
    const size_t dash = range.find('-');
    const auto last = dash == std::string::npos ? first : std::strtoul(range.c_str() + dash + 1, nullptr, 10);
    for (auto n = first; n <= last; ++n) {
      out.push_back(static_cast<uint32_t>(n));
    }
    return out;
  }
  void Live(uint32_t number);
  // Ends the store, so that the next has the disks for itself.
  void EndStore() {
    if (!HasFailure()) {
      ASSERT_EQ(quarryd().Stop(), 0);
      ASSERT_TRUE(Eventually([&] { return Tool({"lvremove", "-ff", "-y", "vg/" + Pool()}).ok(); }));
      Tool({"dmsetup", "mknodes"});
      Tool({"vgmknodes", kGroup});
      volumes_.clear();
      snapshots_.clear();
    }
  }

  uint64_t Pick(uint64_t below) { return random_() % below; }
  Thing& Any(std::vector<Thing>& things) { return things[Pick(things.size())]; }
  std::string NewName() { return "n" + std::to_string(++names_); }
  int64_t Free() { return Left(); }

  void Use(const v1::Volume& made, Thing thing) {
    thing.id = made.volume_id();
    thing.size = made.capacity_bytes();
    thing.units.resize(static_cast<size_t>(thing.size / kUnit), 0);
    ASSERT_OK(client().Stage(made, StagingPath(thing.name), BlockCapability()));
    ASSERT_OK(client().Publish(made, StagingPath(thing.name), TargetPath(thing.name), BlockCapability()));
    volumes_.push_back(std::move(thing));
  }
  // While something is being erased, the answer to what does not fit is to wait for its space.
  static void AwaitErased() {
    EXPECT_TRUE(
        Eventually([] { return !Sh("lvs --noheadings -o lv_tags vg | grep -q quarry.erasing").ok(); }, 60));
  }
  // Exactly what GetCapacity says can be created.
  void CreateVolume() {
    AwaitErased();
    const int64_t left = Free();
    EXPECT_TRUE(Fails(client().Create({NewName(), TypeParameters("thin"), BlockCapability(), left + kExtent}),
                      grpc::StatusCode::RESOURCE_EXHAUSTED));
    if (left == 0) {
      return;
    }
    const int64_t most = std::min<int64_t>(left / kExtent, 12);
    const int64_t size =
        Pick(4) == 0 ? left : kExtent * (1 + static_cast<int64_t>(Pick(static_cast<uint64_t>(most))));
    Thing thing{.name = NewName()};
    const auto made = client().Create({thing.name, TypeParameters("thin"), BlockCapability(), size});
    ASSERT_OK(made);
    ASSERT_NO_FATAL_FAILURE(Use(made.value.volume(), std::move(thing)));
  }
  static int64_t InExtents(int64_t bytes) { return (bytes + kExtent - 1) / kExtent * kExtent; }
  // Whether something in the store may share chunks, so that what is left counts the margin for copies
  // already.
  bool WasCut() const {
    return !volumes_.empty() &&
           Sh("lvs --noheadings -o lv_tags vg/" + Pool()).out.find("quarry.cuts") != std::string::npos;
  }
  // What the first snapshot or clone sets aside at most, with a new volume of `size`.
  int64_t Margin(int64_t size) const {
    for (const Thing& volume : volumes_) {
      size += volume.size;
    }
    return InExtents(std::min(size, int64_t{1024} * chunk_ * 1024));
  }
  static int64_t MappedOf(const Thing& volume) {
    const auto words = Words(Sh("dmsetup status vg-" + LvNameIn(volume.id)).out);
    return words.size() > 3 ? std::strtoll(words[3].c_str(), nullptr, 10) * 512 : -1;
  }
  // A refusal, which must have a reason: `need` and its `margin` are more than was `left`.
  template <typename Reply>
  void ExpectFull(const Reply& reply, int64_t left, int64_t need, int64_t margin) {
    EXPECT_EQ(reply.code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << reply.text();
    EXPECT_LT(left, need + margin) << "refused, although it fitted: " << need << ", " << reply.text();
    ++refused_;
  }
  void Snapshot() {
    const Thing& source = Any(volumes_);
    Thing thing{.name = NewName(), .size = source.size, .units = source.units};
    AwaitErased();
    const int64_t left = Free();
    const int64_t mapped = MappedOf(source);
    ASSERT_GE(mapped, 0);
    const int64_t margin = WasCut() ? 0 : Margin(0);
    const auto made = client().Snapshot(thing.name, source.id);
    if (!made.ok()) {
      ExpectFull(made, left, std::max(InExtents(mapped), kExtent), margin);
      return;
    }
    ++cut_;
    thing.id = made.value.snapshot().snapshot_id();
    snapshots_.push_back(std::move(thing));
  }
  void Clone() {
    const bool of_snapshot = !snapshots_.empty() && Pick(2) == 0;
    const Thing& source = of_snapshot ? Any(snapshots_) : Any(volumes_);
    Thing thing{.name = NewName(), .units = source.units};
    VolumeSpec spec{thing.name, TypeParameters("thin"), BlockCapability(),
                    source.size + kExtent * static_cast<int64_t>(Pick(2))};
    (of_snapshot ? spec.snapshot : spec.source) = source.id;
    AwaitErased();
    const int64_t left = Free();
    const int64_t margin = WasCut() ? 0 : Margin(spec.size);
    const auto made = client().Create(spec);
    if (!made.ok()) {
      ExpectFull(made, left, spec.size, margin);
      return;
    }
    EXPECT_LE(spec.size, left);
    ++cloned_;
    ASSERT_NO_FATAL_FAILURE(Use(made.value.volume(), std::move(thing)));
  }
  void Write(Thing& volume, size_t first, size_t count) {
    for (size_t i = first; i < std::min(first + count, volume.units.size()); ++i) {
      volume.units[i] = ++seeds_;
      ASSERT_OK(WritePattern(TargetPath(volume.name), volume.units[i], kUnit, i * kUnit));
    }
  }
  void WriteSome() {
    Thing& volume = Any(volumes_);
    Write(volume, Pick(volume.units.size()), 1 + Pick(24));
  }
  void Trim() {
    Thing& volume = Any(volumes_);
    const size_t first = Pick(volume.units.size());
    const size_t count = std::min<size_t>(1 + Pick(24), volume.units.size() - first);
    const Outcome trimmed = Tool({"blkdiscard", "-o", std::to_string(first * kUnit), "-l",
                                  std::to_string(count * kUnit), TargetPath(volume.name)});
    if (!trimmed.ok()) {
      EXPECT_NE(trimmed.err.find("not supported"), std::string::npos) << trimmed.err;
      return;
    }
    // Chunks that are trimmed in part keep the rest of their bytes; the trimmed part may read as either. So
    // it is written again, which also gives the chunk back to the volume.
    for (size_t i = first; i < first + count; ++i) {
      const bool whole = IsZero(volume, i);
      volume.units[i] = whole ? 0 : volume.units[i];
      if (!whole) {
        ASSERT_NO_FATAL_FAILURE(Write(volume, i, 1));
      }
    }
  }
  bool IsZero(const Thing& volume, size_t unit) {
    return CheckZero(TargetPath(volume.name), kUnit, unit * kUnit).has_value();
  }
  void Grow() {
    Thing& volume = Any(volumes_);
    const int64_t more = kExtent * (1 + static_cast<int64_t>(Pick(4)));
    const int64_t size = volume.size + more;
    AwaitErased();
    const int64_t left = Free();
    const auto grown = client().Expand(volume.id, size);
    EXPECT_EQ(grown.ok(), more <= left) << grown.text();
    if (!grown.ok()) {
      EXPECT_EQ(grown.code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << grown.text();
      ++refused_;
      return;
    }
    ++grown_;
    volume.size = size;
    volume.units.resize(static_cast<size_t>(size / kUnit), 0);
  }
  void Delete() {
    const bool snapshot = !snapshots_.empty() && (volumes_.size() < 2 || Pick(2) == 0);
    std::vector<Thing>& things = snapshot ? snapshots_ : volumes_;
    const size_t which = Pick(things.size());
    const Thing gone = things[which];
    things.erase(things.begin() + static_cast<std::ptrdiff_t>(which));
    End(gone, snapshot);
  }
  void End(const Thing& thing, bool snapshot) {
    if (snapshot) {
      EXPECT_OK(client().DeleteSnapshot(thing.id));
      return;
    }
    EXPECT_OK(client().Unpublish(thing.id, TargetPath(thing.name)));
    EXPECT_OK(client().Unstage(thing.id, StagingPath(thing.name)));
    EXPECT_OK(client().Delete(thing.id));
  }
  static Status CheckUnits(const std::string& path, const Units& units) {
    for (size_t i = 0; i < units.size(); ++i) {
      QUARRY_TRY(units[i] == 0 ? CheckZero(path, kUnit, i * kUnit)
                               : CheckPattern(path, units[i], kUnit, i * kUnit));
    }
    return Ok();
  }
  void CheckAll() {
    for (const Thing& volume : volumes_) {
      EXPECT_OK(CheckUnits(TargetPath(volume.name), volume.units)) << volume.name;
    }
    for (const Thing& snapshot : snapshots_) {
      // quarryd deactivates a snapshot that stays active and not open: so it is held open here.
      const std::string lv = LvNameIn(snapshot.id);
      UniqueFd held;
      EXPECT_TRUE(Eventually([&] {
        Tool({"lvchange", "-ay", "-K", "vg/" + lv});
        held = UniqueFd(open(("/dev/vg/" + lv).c_str(), O_RDONLY | O_CLOEXEC));
        return held.valid();
      })) << lv;
      EXPECT_OK(CheckUnits("/dev/vg/" + lv, snapshot.units)) << "snapshot " << snapshot.name;
      held.Reset();
      Tool({"lvchange", "-an", "vg/" + lv});
    }
  }

  std::mt19937_64 random_;
  std::vector<Thing> volumes_, snapshots_;
  int chunk_ = 0;  // KiB
  int cut_ = 0, cloned_ = 0, grown_ = 0, refused_ = 0;
  int names_ = 0;
  uint64_t seeds_ = 0;
};

void ThinPropertyTest::Live(uint32_t number) {
  random_.seed(number);
  struct Shape {
    const char* type;
    int64_t least;  // extents that its data grow by
  };
  const std::vector<Shape> shapes = {
      {"linear", 1}, {"striped stripes=2", 2}, {"raid1", 1}, {"raid10 stripes=2", 2}, {"raid5 stripes=2", 2}};
  const Shape& shape = shapes[Pick(shapes.size())];
  const int64_t extents = (16 + static_cast<int64_t>(Pick(24))) / shape.least * shape.least;
  chunk_ = 64 << Pick(5);
  // Some grow by themselves: what can be made counts what the store can grow by.
  const bool grows = Pick(3) == 0;
  const int64_t most = (grows ? extents * 5 / 4 : extents) / shape.least * shape.least;
  QuarrydOptions options;
  options.pools = {"main=vg,store.fast=" + std::to_string(extents * 4) + "MiB type=" + shape.type +
                   " chunk=" + std::to_string(chunk_) + "KiB" +
                   (grows ? " max=" + std::to_string(most * 4) + "MiB" : "")};
  options.arguments = {"--repair-delay=600"};
  printf("  store %u: %s\n", number, options.pools.front().c_str());
  fflush(stdout);
  StartQuarryd(options);
  ASSERT_FALSE(Pool().empty()) << quarryd().Log();
  ASSERT_EQ(Free(), most * kExtent);
  ASSERT_NO_FATAL_FAILURE(CreateVolume());
  for (int step = 0; step < 24 && !HasFailure(); ++step) {
    switch (volumes_.empty() ? 0 : Pick(10)) {
      case 0:
        CreateVolume();
        break;
      case 1:
      case 2:
        Snapshot();
        break;
      case 3:
        Clone();
        break;
      case 4:
        Trim();
        break;
      case 5:
        Grow();
        break;
      case 6:
        Delete();
        break;
      default:
        WriteSome();
    }
  }
  ASSERT_FALSE(HasFailure()) << quarryd().Log();
  CheckAll();
  // Everything that was admitted is written, to the last byte.
  for (Thing& volume : volumes_) {
    ASSERT_NO_FATAL_FAILURE(Write(volume, 0, volume.units.size()));
  }
  CheckAll();
  const std::string status = Sh("dmsetup status --target thin-pool").out;
  EXPECT_NE(status.find(" rw "), std::string::npos) << status;
  EXPECT_EQ(status.find("needs_check"), std::string::npos) << status;
  while (!volumes_.empty() || !snapshots_.empty()) {
    Delete();
  }
  EXPECT_TRUE(Eventually([&] { return Free() == most * kExtent; }, 120))
      << Free() << "\n"
      << Lvs("lv_name,lv_tags") << quarryd().Log();
  // LVM's text is without the last volume a moment before the pool is.
  const auto status_now = [] { return Sh("dmsetup status --target thin-pool").out; };
  EXPECT_TRUE(Eventually([&] { return status_now().find(" 0/") != std::string::npos; }, 30))
      << "chunks are in use: " << status_now();
  EXPECT_EQ(Sh("dmesg | grep -c 'out-of-data-space'").out.substr(0, 1), "0");
}

TEST_F(ThinPropertyTest, WhatIsAdmittedCanBeWrittenAndNothingLeaks) {
  for (const uint32_t number : Numbers()) {
    ASSERT_NO_FATAL_FAILURE(Live(number)) << "store " << number;
    ASSERT_FALSE(HasFailure()) << "store " << number;
    ASSERT_NO_FATAL_FAILURE(EndStore());
  }
  printf("  %d snapshots, %d clones, %d growths; %d refused\n", cut_, cloned_, grown_, refused_);
  if (Numbers().size() >= 10) {
    EXPECT_GT(cut_, 0);
    EXPECT_GT(cloned_, 0);
    EXPECT_GT(grown_, 0);
  }
}

}  // namespace
}  // namespace quarry::vm
