// P16: writes to a thin volume beside the same writes to a linear volume of the same group, in turns: to
// chunks that the volume has, to a blank volume (the first write to a chunk takes it from the store and
// zeroes the rest of it), and after a snapshot (the first write to a chunk copies it). In order, and 4 KiB in
// each half MiB in random order, so that each small write is the first one to its chunk whatever the size of
// the chunks. No goals: the difference is the kernel's, and shows what a store costs.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <random>

#include "base/direct_io.h"
#include "base/unique_fd.h"
#include "tests/bench/bench.h"
#include "tests/bench/report.h"

namespace quarry::bench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSize = 128 * vm::kMi;
constexpr size_t kPiece = 1 << 20;
constexpr size_t kSmallPiece = 4 << 10;
constexpr size_t kDistance = 512 << 10;  // between small pieces: the largest chunk

enum class Order { kStream, kSmall };

// All of the volume, or a small piece in each half MiB; then a flush.
Status Write(const std::string& device, Order order) {
  const UniqueFd fd(open(device.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoError("opening " + device);
  }
  const bool small = order == Order::kSmall;
  const size_t piece = small ? kSmallPiece : kPiece;
  const size_t distance = small ? kDistance : kPiece;
  std::vector<size_t> places(kSize / distance);
  std::iota(places.begin(), places.end(), 0);
  std::minstd_rand random(1);
  if (small) {
    std::ranges::shuffle(places, random);
  }
  const DirectBuffer buffer = MakeDirectBuffer(piece);
  std::fill_n(buffer.get(), piece, std::byte{'q'});
  for (const size_t place : places) {
    const size_t within = small ? random() % (distance / piece) * piece : 0;
    QUARRY_TRY(WriteWhole(fd.get(), {buffer.get(), piece}, place * distance + within));
  }
  return fdatasync(fd.get()) == 0 ? Ok() : Status(ErrnoError("flushing " + device));
}

struct Devices {
  std::string thin, linear;
};

// `prepare` brings the thin volume into the state that is measured.
template <typename Prepare>
Status Measure(Bench& bench, const Devices& devices, int chunk, const char* state, Prepare&& prepare) {
  for (const Order order : {Order::kStream, Order::kSmall}) {
    const char* const name = order == Order::kSmall ? "small" : "stream";
    Finding found{.name = fmt::format("P16.chunk{}.{}.{}", chunk, state, name),
                  .what = fmt::format("writes, thin : linear, {}, {} KiB chunks", state, chunk)};
    found.peer.emplace();
    for (size_t i = 0; i < bench.samples(); ++i) {
      QUARRY_TRY(prepare(fmt::format("p16-{}-{}-{}-{}", chunk, state, name, i)));
      Settle();
      for (const bool ours : {i % 2 == 0, i % 2 != 0}) {
        QUARRY_TRY(Timed(ours ? found.ours : *found.peer,
                         [&] { return Write(ours ? devices.thin : devices.linear, order); }));
      }
    }
    Report(found);
  }
  return Ok();
}

// Every chunk is written, and no snapshot of before then counts.
Status Filled(const Devices& devices) {
  return Write(devices.thin, Order::kStream);
}

Status OfChunk(Bench& bench, Site& site, int chunk) {
  Progress(fmt::format("P16 chunks of {} KiB", chunk));
  const std::string store = fmt::format("chunk{}", chunk);
  const auto made =
      site.client().Create({.name = "p16-" + store,
                            .parameters = vm::TypeParameters("thin", {{"store", store}, {"erase", "none"}}),
                            .capability = vm::BlockCapability(),
                            .size = kSize});
  QUARRY_TRY(Must("CreateVolume", made));
  const std::string id = made.value.volume().volume_id();
  const std::string folder = "/run/quarry-bench/p16";
  fs::create_directories(folder);
  const Devices both = {folder + "-device", fmt::format("/dev/{}/peer", site.group())};
  QUARRY_TRY(
      Must("NodeStageVolume", site.client().Stage(made.value.volume(), folder, vm::BlockCapability())));
  QUARRY_TRY(Must("NodePublishVolume",
                  site.client().Publish(made.value.volume(), folder, both.thin, vm::BlockCapability())));
  QUARRY_TRY(Measure(bench, both, chunk, "blank",
                     [&](const std::string&) { return Run({"blkdiscard", both.thin}); }));
  QUARRY_TRY(Measure(bench, both, chunk, "filled", [&](const std::string&) { return Filled(both); }));
  // Its snapshot is deleted before the next one is made, so one at a time is there.
  std::string last;
  const auto snapshot = [&](const std::string& name) -> Status {
    if (!last.empty()) {
      QUARRY_TRY(Must("DeleteSnapshot", site.client().DeleteSnapshot(last)));
      QUARRY_TRY(site.WaitErased());
    }
    QUARRY_TRY(Filled(both));
    const auto cut = site.client().Snapshot(name, id);
    last = cut.value.snapshot().snapshot_id();
    return Must("CreateSnapshot", cut);
  };
  QUARRY_TRY(Measure(bench, both, chunk, "snapshot", snapshot));
  QUARRY_TRY(Must("DeleteSnapshot", site.client().DeleteSnapshot(last)));
  QUARRY_TRY(Must("NodeUnpublishVolume", site.client().Unpublish(id, both.thin)));
  QUARRY_TRY(Must("NodeUnstageVolume", site.client().Unstage(id, folder)));
  QUARRY_TRY(site.Delete(id));
  return site.WaitErased();
}

}  // namespace

Status ThinWritesBesideLinear(Bench& bench) {
  QUARRY_ASSIGN(Site* const site, bench.Stores());
  QUARRY_TRY(
      Run({"lvcreate", "-y", "-Wn", "-Zn", "-n", "peer", "-L", fmt::format("{}b", kSize), site->group()}));
  for (const int chunk : kChunks) {
    QUARRY_TRY(OfChunk(bench, *site, chunk));
  }
  return Run({"lvremove", "-y", site->group() + "/peer"});
}

}  // namespace quarry::bench
