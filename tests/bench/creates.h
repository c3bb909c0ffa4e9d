// What P1 and P8 share: CreateVolume beside a bare lvcreate with the distribution's configuration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "tests/bench/bench.h"

namespace quarry::bench {

// The command for a volume of type linear or raid1.
std::vector<std::string> Lvcreate(const std::string& type, const std::string& name, int64_t size,
                                  const std::string& group);

struct CreateRow {
  std::string name;    // "P1.create.linear.clear"
  std::string type;    // linear or raid1
  std::string erase;   // of the raw volumes: as in Site::Create
  double most = 0;     // goal: the highest ratio
  size_t volumes = 0;  // that both groups have; 0: not reported
};
// Measures and reports creates in the groups of Bench::Few() and Bench::Peers() in turns. All volumes stay,
// so both groups grow alike.
Status MeasureCreates(Bench& bench, const CreateRow& row);
// The bytes of each disk that quarryd needs to know as zero for the creates of MeasureCreates.
int64_t BytesOfCreates(const Bench& bench);

}  // namespace quarry::bench
