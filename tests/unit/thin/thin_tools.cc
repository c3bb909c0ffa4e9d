#include "tests/unit/thin/thin_tools.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/subprocess.h"
#include "thin/exclusive.h"

namespace quarry::thin::testing {
namespace {

using Mappings = std::map<uint64_t, uint64_t>;

// One element in a line, as all versions print it.
class Element {
 public:
  explicit Element(std::string_view line) : line_(line.substr(std::min(line.find('<'), line.size()))) {}
  bool Is(std::string_view name) const { return line_.starts_with(fmt::format("<{}", name)); }
  std::string_view Text(std::string_view attribute) const {
    const std::string start = fmt::format(" {}=\"", attribute);
    const auto at = line_.find(start);
    const auto rest = at == std::string_view::npos ? std::string_view() : line_.substr(at + start.size());
    return rest.substr(0, std::min(rest.find('"'), rest.size()));
  }
  uint64_t Number(std::string_view attribute) const {
    uint64_t value = 0;
    const std::string_view text = Text(attribute);
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }

 private:
  std::string_view line_;
};

std::vector<Element> Elements(std::string_view text) {
  std::vector<Element> all;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    all.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

std::vector<std::string> WithRoot(std::vector<std::string> argv, Root root, const std::string& path) {
  if (root == Root::kHeld) {
    argv.emplace_back("-m");
  }
  argv.push_back(path);
  return argv;
}

Device FactsIn(const Element& element) {
  return {.id = static_cast<DeviceId>(element.Number("dev_id")),
          .mapped_blocks = element.Number("mapped_blocks"),
          .transaction_id = element.Number("transaction"),
          .creation_time = static_cast<uint32_t>(element.Number("creation_time")),
          .snapshotted_time = static_cast<uint32_t>(element.Number("snap_time"))};
}

class Comparison {
 public:
  Comparison(std::string path, Root root) : path_(std::move(path)), root_(root) {}

  std::vector<std::string> Run(size_t pairs, std::string* compared) {
    const auto status = Compare(pairs);
    if (!status.has_value()) {
      found_.push_back(status.error().message());
    }
    if (compared != nullptr) {
      *compared =
          fmt::format("{} devices, {} mappings, {} differences with {} blocks, {} exclusive blocks, {} reads",
                      dump_.devices.size(), mappings_, differences_, changed_, exclusive_, reads_);
    }
    return std::move(found_);
  }

 private:
  Status Compare(size_t pairs) {
    QUARRY_ASSIGN(dump_, DumpMetadata(path_, root_));
    QUARRY_ASSIGN(MetadataFile file, MetadataFile::Open(path_));
    QUARRY_ASSIGN(MetadataReader reader,
                  MetadataReader::Open(std::make_shared<MetadataFile>(std::move(file)), root_, Call{}));
    Expect(reader.superblock().transaction_id == dump_.transaction_id, "the transaction id differs");
    Expect(reader.superblock().data_block_size.value == dump_.data_block_sectors * 512,
           "the size of data blocks differs");
    QUARRY_TRY(CompareDevices(reader));
    for (const auto& [id, device] : dump_.devices) {
      QUARRY_TRY(CompareMappings(reader, id, device));
      QUARRY_TRY(CompareExclusive(reader, id));
    }
    for (const auto& [base, unused] : dump_.devices) {
      for (const auto& [target, unused_too] : dump_.devices) {
        if (base != target && differences_ < pairs) {
          QUARRY_TRY(CompareDifference(reader, base, target));
        }
      }
    }
    reads_ = reader.reads();
    return Ok();
  }

  Status CompareDevices(MetadataReader& reader) {
    QUARRY_ASSIGN(const auto devices, reader.Devices(Call{}));
    std::vector<Device> expected;
    for (const auto& [id, device] : dump_.devices) {
      expected.push_back(device.facts);
    }
    Expect(devices == expected, fmt::format("{} devices, or their details, differ", devices.size()));
    return Ok();
  }

  Status CompareMappings(MetadataReader& reader, DeviceId id, const DumpedDevice& device) {
    const uint64_t middle = device.mappings.empty() ? 0 : device.mappings.rbegin()->first / 2;
    for (const uint64_t from : {uint64_t{0}, middle}) {
      Mappings found;
      std::optional<MappingRun> last;
      const auto visit = [&](const MappingRun& run) {
        Expect(!last || last->thin_begin + last->length < run.thin_begin ||
                   (last->thin_begin + last->length == run.thin_begin &&
                    last->data_begin + last->length != run.data_begin),
               fmt::format("device {}: runs touch, or are out of order", id));
        for (uint64_t i = 0; i < run.length; ++i) {
          found[run.thin_begin + i] = run.data_begin + i;
        }
        last = run;
        return true;
      };
      QUARRY_TRY(reader.Walk(id, from, visit, Call{}));
      Expect(found == Mappings(device.mappings.lower_bound(from), device.mappings.end()),
             fmt::format("device {}: mappings from {} differ", id, from));
    }
    mappings_ += device.mappings.size();
    return Ok();
  }

  Status CompareExclusive(MetadataReader& reader, DeviceId id) {
    std::set<uint64_t> mine, others, only, found;
    for (const auto& [other, device] : dump_.devices) {
      for (const auto& [thin, data] : device.mappings) {
        (other == id ? mine : others).insert(data);
      }
    }
    std::ranges::set_difference(mine, others, std::inserter(only, only.end()));
    QUARRY_ASSIGN(const BlockSet blocks, FindExclusive(reader, std::array{id}, Call{}));
    for (auto run = blocks.NextRun(0); run; run = blocks.NextRun(run->begin + run->length)) {
      for (uint64_t i = 0; i < run->length; ++i) {
        found.insert(run->begin + i);
      }
    }
    Expect(found == only, fmt::format("device {}: exclusive blocks differ", id));
    exclusive_ += only.size();
    return Ok();
  }

  Status CompareDifference(MetadataReader& reader, DeviceId base, DeviceId target) {
    QUARRY_ASSIGN(const auto expected, DeltaOf(path_, root_, base, target));
    std::map<uint64_t, Change> found;
    const auto visit = [&](const ChangedRun& run) {
      for (uint64_t i = 0; i < run.length; ++i) {
        found[run.thin_begin + i] = run.change;
      }
      return true;
    };
    QUARRY_TRY(WalkDifference(reader, base, target, 0, visit, Call{}));
    Expect(found == expected, fmt::format("devices {} and {}: differences differ", base, target));
    ++differences_;
    changed_ += expected.size();
    return Ok();
  }

  void Expect(bool holds, std::string_view otherwise) {
    if (!holds) {
      found_.push_back(fmt::format("{}: {}", path_, otherwise));
    }
  }

  std::string path_;
  Root root_;
  Dump dump_;
  std::vector<std::string> found_;
  size_t mappings_ = 0, differences_ = 0, changed_ = 0, exclusive_ = 0;
  uint64_t reads_ = 0;
};

}  // namespace

Result<std::string> RunThinTool(std::vector<std::string> argv) {
  const std::string name = argv[0];
  argv[0] = "/usr/sbin/" + name;
  Command command{.argv = std::move(argv), .env = {{"PATH", "/usr/sbin:/usr/bin"}}};
  command.output_limit = size_t{1} << 30;
  QUARRY_ASSIGN(
      Finished finished,
      SpawnSubprocess().Run(command, CallWithin(std::chrono::minutes(5))).Context("thin-provisioning-tools"));
  if (!finished.ok()) {
    return Error(Code::kIo, fmt::format("{} failed: {}", name, ToolWords(finished.err + finished.out)));
  }
  return std::move(finished.out);
}

Result<Dump> DumpMetadata(const std::string& path, Root root) {
  QUARRY_ASSIGN(const std::string text, RunThinTool(WithRoot({"thin_dump"}, root, path)));
  Dump dump;
  std::map<std::string, Mappings, std::less<>> shared;
  Mappings* mappings = nullptr;
  for (const Element& element : Elements(text)) {
    if (element.Is("superblock")) {
      dump.transaction_id = element.Number("transaction");
      dump.data_block_sectors = element.Number("data_block_size");
    } else if (element.Is("device")) {
      DumpedDevice device{.facts = FactsIn(element)};
      mappings = &(dump.devices[device.facts.id] = std::move(device)).mappings;
    } else if (element.Is("def")) {
      mappings = &shared[std::string(element.Text("name"))];
    } else if (element.Is("ref") && mappings != nullptr) {
      const Mappings& named = shared[std::string(element.Text("name"))];
      mappings->insert(named.begin(), named.end());
    } else if (element.Is("range_mapping") && mappings != nullptr) {
      for (uint64_t i = 0; i < element.Number("length"); ++i) {
        (*mappings)[element.Number("origin_begin") + i] = element.Number("data_begin") + i;
      }
    } else if (element.Is("single_mapping") && mappings != nullptr) {
      (*mappings)[element.Number("origin_block")] = element.Number("data_block");
    }
  }
  return dump;
}

Result<std::map<uint64_t, Change>> DeltaOf(const std::string& path, Root root, DeviceId base,
                                           DeviceId target) {
  QUARRY_ASSIGN(
      const std::string text,
      RunThinTool(WithRoot({"thin_delta", "--thin1", std::to_string(base), "--thin2", std::to_string(target)},
                           root, path)));
  std::map<uint64_t, Change> changes;
  for (const Element& element : Elements(text)) {
    std::optional<Change> change;
    if (element.Is("different")) {
      change = Change::kChanged;
    } else if (element.Is("left_only")) {
      change = Change::kRemoved;
    } else if (element.Is("right_only")) {
      change = Change::kAdded;
    }
    for (uint64_t i = 0; change && i < element.Number("length"); ++i) {
      changes[element.Number("begin") + i] = *change;
    }
  }
  return changes;
}

std::vector<std::string> Disagreements(const std::string& path, Root root, size_t pairs,
                                       std::string* compared) {
  return Comparison(path, root).Run(pairs, compared);
}

}  // namespace quarry::thin::testing
