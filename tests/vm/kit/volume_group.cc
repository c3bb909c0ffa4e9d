#include "tests/vm/kit/volume_group.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/vm/kit/shell.h"

namespace quarry::vm {
namespace {

namespace fs = std::filesystem;

std::string FirstWord(const fs::path& file) {
  std::ifstream stream(file);
  std::string word;
  stream >> word;
  return word;
}

// NVMe and virtio have the serial number as text, SCSI has it in a page with a header of four bytes.
std::string SerialOf(const fs::path& block) {
  constexpr size_t kPageHeader = 4;
  std::ifstream page(block / "device/vpd_pg80", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  return text.size() > kPageHeader ? Trim(text.substr(kPageHeader))
                                   : FirstWord(block / "device/serial") + FirstWord(block / "serial");
}

Status Checked(const std::vector<std::string>& argv) {
  const Outcome done = Tool(argv);
  if (!done.ok()) {
    return Error(Code::kInternal,
                 argv[0] + " ended with " + std::to_string(done.status) + ": " + Trim(done.err));
  }
  return Ok();
}

// Rows of one section of an LVM report, all values as text.
Result<std::vector<std::map<std::string, std::string>>> Report(const std::string& section,
                                                               std::vector<std::string> argv) {
  argv.insert(argv.begin() + 1, {"--reportformat", "json", "--units", "b", "--nosuffix"});
  const Outcome done = Tool(argv);
  if (!done.ok()) {
    return Error(Code::kInternal, argv[0] + ": " + Trim(done.err));
  }
  const auto document = nlohmann::json::parse(done.out, nullptr, false);
  if (document.is_discarded()) {
    return Error(Code::kCorrupt, argv[0] + " printed no JSON: " + done.out);
  }
  std::vector<std::map<std::string, std::string>> rows;
  for (const auto& row : document["report"][0][section]) {
    rows.push_back(row.get<std::map<std::string, std::string>>());
  }
  return rows;
}

// "/dev/a(0),/dev/b(12)" without the extents.
std::vector<std::string> Split(const std::string& list, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(list);
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part.substr(0, part.find('(')));
  }
  return parts;
}

}  // namespace

std::string DiskNode(int number) {
  const std::string serial = "quarry" + std::to_string(number);
  std::error_code ignored;
  for (const auto& block : fs::directory_iterator("/sys/block", ignored)) {
    const std::string node = "/dev/" + block.path().filename().string();
    if (SerialOf(block.path()) == serial && ::access(node.c_str(), F_OK) == 0) {
      return node;
    }
  }
  return {};
}

std::vector<std::string> DiskNodes() {
  std::vector<std::string> nodes;
  for (std::string node = DiskNode(1); !node.empty(); node = DiskNode(static_cast<int>(nodes.size()) + 1)) {
    nodes.push_back(node);
  }
  return nodes;
}

Status VolumeGroup::Make(const std::vector<std::string>& how) {
  // udev removes the links of the last group of this name a moment after the group. vgcreate refuses a name
  // that exists in /dev.
  Tool({"udevadm", "settle"});
  std::vector<std::string> argv = {"vgcreate", "-q", "-y"};
  argv.insert(argv.end(), how.begin(), how.end());
  argv.push_back(name_);
  argv.insert(argv.end(), devices_.begin(), devices_.end());
  QUARRY_TRY(Checked(argv));
  made_ = !kept_;
  return Ok();
}

void VolumeGroup::Remove() {
  made_ = false;
  if (!Tool({"vgs", name_}).ok()) {
    return;
  }
  (void)Empty();
  Tool({"vgremove", "-q", "-y", "-f", name_});
  std::vector<std::string> argv = {"pvremove", "-q", "-y"};
  argv.insert(argv.end(), devices_.begin(), devices_.end());
  Tool(argv);
}

std::string LvNameIn(const std::string& id) {
  return id.substr(id.rfind('.') + 1);
}

Status VolumeGroup::Empty() {
  // udev briefly opens a device that was just closed, so an attempt or two may fail.
  Status last;
  for (int attempt = 0; attempt < 5; ++attempt) {
    last = Checked({"lvremove", "-q", "-y", "-f", name_});
    if (last.has_value()) {
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return last;
}

Result<int64_t> VolumeGroup::FreeExtents() const {
  QUARRY_ASSIGN(auto rows, Report("vg", {"vgs", "-o", "vg_free_count", name_}));
  return std::stoll(rows.at(0).at("vg_free_count"));
}

Result<std::map<std::string, Lv>> VolumeGroup::Lvs() const {
  QUARRY_ASSIGN(auto rows, Report("lv", {"lvs", "-o", "lv_name,lv_size,segtype,lv_tags,lv_active", name_}));
  std::map<std::string, Lv> lvs;
  for (const auto& row : rows) {
    Lv lv;
    lv.name = row.at("lv_name");
    lv.size = std::stoll(row.at("lv_size"));
    lv.type = row.at("segtype");
    lv.tags = Split(row.at("lv_tags"), ',');
    lv.active = row.at("lv_active") == "active";
    lvs[lv.name] = lv;
  }
  return lvs;
}

Result<std::vector<std::set<std::string>>> VolumeGroup::LegDevices(const std::string& lv) const {
  QUARRY_ASSIGN(auto rows, Report("lv", {"lvs", "-a", "-o", "lv_name,segtype,devices", name_}));
  std::map<std::string, std::set<std::string>> by_leg;
  for (const auto& row : rows) {
    std::string name = row.at("lv_name");
    std::erase_if(name, [](char c) { return c == '[' || c == ']'; });
    const std::vector<std::string> devices = Split(row.at("devices"), ',');
    const size_t suffix = name.rfind('_');
    if (name == lv && devices.at(0).starts_with("/dev/")) {
      // No sub-volumes: every stripe of a segment is a leg. A linear volume is one leg.
      for (size_t i = 0; i < devices.size(); ++i) {
        by_leg[std::to_string(i)].insert(devices[i]);
      }
    } else if (name.starts_with(lv + "_r") && suffix != std::string::npos) {
      by_leg[name.substr(suffix + 1)].insert(devices.begin(), devices.end());
    }
  }
  std::vector<std::set<std::string>> legs;
  for (auto& [number, devices] : by_leg) {
    legs.push_back(std::move(devices));
  }
  return legs;
}

bool Disjoint(const std::vector<std::set<std::string>>& legs) {
  std::set<std::string> seen;
  for (const auto& leg : legs) {
    for (const std::string& device : leg) {
      if (!seen.insert(device).second) {
        return false;
      }
    }
  }
  return !legs.empty();
}

}  // namespace quarry::vm
