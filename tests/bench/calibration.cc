#include "tests/bench/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "csi/v1/csi.pb.h"
#include "tests/vm/kit/shell.h"

namespace quarry::bench {
namespace {

constexpr int kTries = 15;
constexpr int kVolumes = 1000;

template <typename What>
double Least(What&& what) {
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i < kTries; ++i) {
    const auto started = std::chrono::steady_clock::now();
    what();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - started;
    least = std::min(least, took.count());
  }
  return least;
}

// Returns false only if protobuf is broken. The check keeps the compiler from removing the work.
bool ListOnce() {
  std::map<std::string, int64_t> volumes;
  for (int i = 0; i < kVolumes; ++i) {
    volumes[fmt::format("main.q{:026}", i * 7919 % kVolumes)] = i;
  }
  csi::v1::ListVolumesResponse response;
  for (const auto& [id, size] : volumes) {
    auto* volume = response.add_entries()->mutable_volume();
    volume->set_volume_id(id);
    volume->set_capacity_bytes(size);
    (*volume->mutable_volume_context())["pool"] = "main";
    (*volume->mutable_volume_context())["type"] = "linear";
  }
  csi::v1::ListVolumesResponse copy;
  return copy.ParseFromString(response.SerializeAsString()) && copy.entries_size() == kVolumes;
}

}  // namespace

Costs MeasureCosts() {
  volatile bool good = true;
  return {.work = Least([&good] { good = ListOnce(); }), .process = Least([] { vm::Tool({"true"}); })};
}

std::string ToText(const Costs& costs) {
  return nlohmann::json({{"work", costs.work}, {"process", costs.process}}).dump();
}

Result<Costs> ParseCosts(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("work") || !json.contains("process") || !json["work"].is_number() ||
      !json["process"].is_number()) {
    return Error(Code::kInvalidArgument, fmt::format("'{}' is not what --calibrate printed", text));
  }
  return Costs{json["work"], json["process"]};
}

}  // namespace quarry::bench
