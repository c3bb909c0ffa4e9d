// The benchmarks of scripts/bench. The file of each says what it measures, with which peer it compares,
// and why that is fair. docs/benchmarks.md has the figures.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "tests/bench/calibration.h"
#include "tests/bench/site.h"

namespace quarry::bench {

// The chunks of Bench::Stores(), in KiB. The second is the default of a store.
inline constexpr int kChunks[] = {64, 128, 512};

// What all benchmarks of a run share. Used by one thread.
class Bench {
 public:
  Bench(size_t samples, Slowdown slowdown) : samples_(samples), slowdown_(slowdown) {}

  size_t samples() const { return samples_; }
  // The factor by which this machine is slower than the host; 1 if that was not measured.
  const Slowdown& slowdown() const { return slowdown_; }

  // The group "vg" on disks 1 to 4, and "few" on disks 5 and 6. Each is made at its first use.
  Result<Site*> Main() { return Get(main_, "vg", 1, 4); }
  Result<Site*> Few() { return Get(few_, "few", 5, 6); }
  // The group "thin" on disks 9 and 10, with a linear thin store for each of kChunks, named "chunk64" after
  // its KiB.
  Result<Site*> Stores();
  // A group that only LVM's own commands use, on disks 7 and 8: as large as Few(), with as much metadata.
  Result<std::string> Peers();

 private:
  static Result<Site*> Get(std::unique_ptr<Site>& site, const std::string& group, int first, int last,
                           const std::map<std::string, std::string>& stores = {});

  size_t samples_;
  Slowdown slowdown_;
  std::unique_ptr<Site> main_;
  std::unique_ptr<Site> few_;
  std::unique_ptr<Site> thin_;
  bool has_peers_ = false;
};

// Each reports its findings, with at least Bench::samples() samples. An error means that a measurement failed
// or an answer was wrong.
Status CreateBesideLvcreate(Bench& bench);      // P1
Status CapacityBesideProbe(Bench& bench);       // P2
Status ListBesideLvs(Bench& bench);             // P3
Status DeleteBesideLvremove(Bench& bench);      // P4
Status PublishBesideMount(Bench& bench);        // P5
Status CapacityWhileCreating(Bench& bench);     // P6
Status MemoryAndStart(Bench& bench);            // P7
Status CreateAmongMany(Bench& bench);           // P8
Status ManyAtOnce(Bench& bench);                // P9
Status DataPathBesideBareDevice(Bench& bench);  // P10
Status AllBesideOtherDrivers(Bench& bench);     // P11
Status CopiesBesideDd(Bench& bench);            // P12
Status CutsBesideLvm(Bench& bench);             // P14
Status ClonesBesideLvm(Bench& bench);           // P15
Status ThinWritesBesideLinear(Bench& bench);    // P16

}  // namespace quarry::bench
