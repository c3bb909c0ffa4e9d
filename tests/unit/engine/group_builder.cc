#include "tests/unit/engine/group_builder.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "engine/model/profile.h"

namespace quarry::engine {

GroupBuilder::GroupBuilder(std::vector<uint64_t> pv_extents) {
  group_.name = "vg0";
  group_.uuid = "AAAAAA-BBBB-CCCC-DDDD-EEEE-FFFF-GGGGGG";
  group_.extent_size = Bytes{4 * kMiB.value};
  for (size_t i = 0; i < pv_extents.size(); ++i) {
    lvm::PhysicalVolume pv;
    pv.uuid = fmt::format("pv{}", i);
    pv.device = fmt::format("/dev/pv{}", i);
    pv.pe_start = kMiB;
    pv.extent_count = Extents{pv_extents[i]};
    pv.free = {{Extents{0}, Extents{pv_extents[i]}}};
    group_.pvs.push_back(pv);
    group_.extent_count += pv.extent_count;
    group_.free_count += pv.extent_count;
  }
}

GroupBuilder& GroupBuilder::Linear(const std::string& name, size_t pv, lvm::ExtentRange range,
                                   std::vector<std::string> tags) {
  lvm::LogicalVolume lv;
  lv.name = name;
  lv.uuid = "uuid-" + name;
  lv.size = ToBytes(range.count, group_.extent_size);
  lv.segment_type = "linear";
  lv.tags = std::move(tags);
  lvm::Segment segment;
  segment.type = "linear";
  segment.logical = {Extents{0}, range.count};
  segment.areas = {{group_.pvs[pv].uuid, "", range}};
  lv.segments = {segment};
  group_.lvs.push_back(lv);
  std::vector<lvm::ExtentRange> left;
  for (const lvm::ExtentRange& free : group_.pvs[pv].free) {
    if (free.first < range.first) {
      left.push_back({free.first, std::min(free.end(), range.first) - free.first});
    }
    if (range.end() < free.end()) {
      const Extents first = std::max(free.first, range.end());
      left.push_back({first, free.end() - first});
    }
  }
  group_.pvs[pv].free = left;
  group_.free_count = group_.free_count - range.count;
  return *this;
}

Catalog GroupBuilder::Build() const {
  return ReadCatalog("default", std::make_shared<lvm::VolumeGroup>(group_));
}

lvm::VolumeTags ReadyTags(const std::string& lv_name, const std::string& co_name, uint64_t extents) {
  lvm::VolumeTags tags;
  tags.id = lvm::VolumeId("default", lv_name);
  tags.co_name = co_name;
  tags.size = Bytes{extents * 4 * kMiB.value};
  tags.profile = Profile::Parse({}, "default")->Canonical();
  tags.access = "mount";
  tags.fs_type = "ext4";
  tags.erase = "zero";
  return tags;
}

}  // namespace quarry::engine
