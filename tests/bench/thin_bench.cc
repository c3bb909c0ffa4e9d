// The reader of src/thin beside thin-provisioning-tools, on one image: a pool with a volume of a million
// mappings, and snapshots between which a thousand were changed. Prints lines of JSON (docs/benchmarks.md).
// Usage: thin_bench FOLDER
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "tests/bench/report.h"
#include "tests/bench/samples.h"
#include "tests/unit/thin/metadata_image.h"
#include "tests/unit/thin/thin_tools.h"
#include "thin/difference.h"
#include "thin/exclusive.h"
#include "thin/pool_reader.h"

namespace quarry::bench {
namespace {

using thin::testing::MetadataImage;

constexpr uint64_t kMappings = 1'000'000, kChanged = 1'000;
constexpr thin::DeviceId kBefore = 1, kScattered = 2, kTogether = 3;
constexpr int kSamples = 9;
// Blocks that are read to open the metadata. No more: what is measured has readers of its own.
constexpr uint64_t kOpening = 2;

[[noreturn]] void Fail(const std::string& why) {
  std::cerr << "thin_bench: " << why << "\n";
  std::exit(1);
}

// Mappings lie in runs of four, as a file system's writes do.
MetadataImage MakePool() {
  MetadataImage image;
  image.Create(kBefore);
  for (uint64_t i = 0; i < kMappings; ++i) {
    image.Map(kBefore, i, (i / 4) * 5 + i % 4);
  }
  image.Snapshot(kBefore, kScattered);
  image.Snapshot(kBefore, kTogether);
  for (uint64_t i = 0; i < kChanged; ++i) {
    image.Map(kScattered, i * (kMappings / kChanged));
    image.Map(kTogether, kMappings / 2 + i);
  }
  return image;
}

std::string Write(const MetadataImage& image, const std::string& folder) {
  const std::string path = folder + "/thin_bench.image";
  std::ofstream file(path, std::ios::binary);
  for (const auto& block : image.Blocks(true)) {
    file.write(reinterpret_cast<const char*>(block.data()), thin::kBlockSize);
  }
  file.close();
  // Both sides read past the page cache. The first reads would wait for what is not written back yet.
  const UniqueFd written(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || !written.valid() || fsync(written.get()) != 0) {
    Fail("cannot write " + path);
  }
  return path;
}

// Opens the image, runs `what` on it, and returns how many blocks `what` found; the blocks read are added to
// `reads`.
using Ours = std::function<Result<uint64_t>(thin::MetadataReader&)>;

uint64_t Run(const std::string& path, const Ours& what, uint64_t& reads) {
  auto file = thin::MetadataFile::Open(path);
  if (!file.has_value()) {
    Fail(file.error().message());
  }
  auto reader = thin::MetadataReader::Open(std::make_shared<thin::MetadataFile>(std::move(*file)),
                                           thin::Root::kHeld, Call{});
  if (!reader.has_value()) {
    Fail(reader.error().message());
  }
  const auto found = what(*reader);
  if (!found.has_value()) {
    Fail(found.error().message());
  }
  reads = reader->reads();
  return *found;
}

// Takes turns with the tool. `expected`: what ours must find.
void Compare(const std::string& name, const std::string& what, double goal, const std::string& path,
             const Ours& ours, uint64_t expected, const std::vector<std::string>& tool) {
  Finding finding{.name = name, .what = what, .peer = Samples{}};
  uint64_t reads = 0;
  for (int i = 0; i < kSamples; ++i) {
    const uint64_t found = Timed(finding.ours, [&] { return Run(path, ours, reads); });
    if (found != expected) {
      Fail(name + " found " + std::to_string(found) + " blocks instead of " + std::to_string(expected));
    }
    const auto output = Timed(*finding.peer, [&] { return thin::testing::RunThinTool(tool); });
    if (!output.has_value()) {
      Fail(output.error().message());
    }
  }
  finding.goal = "ratio <= " + std::to_string(goal).substr(0, 4);
  finding.met = finding.Ratio() <= goal;
  if (reads > kOpening) {
    finding.more = {{"blocks_read", static_cast<double>(reads)}};
  }
  Report(finding);
}

Ours DifferenceTo(thin::DeviceId target) {
  return [target](thin::MetadataReader& reader) -> Result<uint64_t> {
    uint64_t blocks = 0;
    const auto count = [&](const thin::ChangedRun& run) { return blocks += run.length, true; };
    QUARRY_TRY(thin::WalkDifference(reader, kBefore, target, 0, count, Call{}));
    return blocks;
  };
}

// As quarryd reads a list of changed blocks: in bounded steps, each of which opens the metadata again.
Result<uint64_t> InSteps(const std::string& path, thin::DeviceId target) {
  thin::PoolReader reader;
  uint64_t bytes = 0;
  Bytes at;
  while (true) {
    QUARRY_ASSIGN(const thin::WalkedRanges part,
                  reader.Different(path, kBefore, target, at, {.ranges = 4096, .reads = 4096}, Call{}));
    for (const thin::ByteRange& range : part.ranges) {
      bytes += range.length.value;
    }
    if (part.whole) {
      return bytes / 65536;
    }
    at = part.end;
  }
}

Result<uint64_t> Walk(thin::MetadataReader& reader) {
  uint64_t blocks = 0;
  const auto count = [&](const thin::MappingRun& run) { return blocks += run.length, true; };
  QUARRY_TRY(reader.Walk(kBefore, 0, count, Call{}));
  return blocks;
}

Result<uint64_t> Exclusive(thin::MetadataReader& reader) {
  QUARRY_ASSIGN(const thin::BlockSet blocks, thin::FindExclusive(reader, std::vector{kScattered}, Call{}));
  return blocks.size();
}

void CompareAll(const std::string& folder) {
  const std::string path = Write(MakePool(), folder);
  const auto delta = [&](thin::DeviceId target) {
    return std::vector<std::string>{"thin_delta",           "-m", "--thin1", "1", "--thin2",
                                    std::to_string(target), path};
  };
  Compare("thin.difference.scattered", "1,000 of 10^6 : thin_delta", 0.1, path, DifferenceTo(kScattered),
          kChanged, delta(kScattered));
  Compare("thin.difference.together", "1,000 of 10^6 : thin_delta", 0.1, path, DifferenceTo(kTogether),
          kChanged, delta(kTogether));
  const auto steps = [&](thin::DeviceId target) {
    return [&path, target](thin::MetadataReader&) { return InSteps(path, target); };
  };
  Compare("thin.steps.scattered", "1,000 of 10^6, as a list of changed blocks : thin_delta", 0.2, path,
          steps(kScattered), kChanged, delta(kScattered));
  Compare("thin.steps.together", "1,000 of 10^6, as a list of changed blocks : thin_delta", 0.1, path,
          steps(kTogether), kChanged, delta(kTogether));
  Compare("thin.walk", "10^6 mappings : thin_dump", 0.5, path, Walk, kMappings,
          {"thin_dump", "-m", "--dev-id", "1", path});
  Compare("thin.exclusive", "3 devices : thin_ls", 0.5, path, Exclusive, kChanged,
          {"thin_ls", "-m", "-o", "DEV,EXCLUSIVE_BLOCKS", path});
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace quarry::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: thin_bench FOLDER\n";
    return 2;
  }
  quarry::bench::CompareAll(argv[1]);
}
